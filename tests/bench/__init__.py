"""Benchmarks: `python -m tests.bench`. Ours and the peers in one session, rounds interleaved, medians and ratios."""
