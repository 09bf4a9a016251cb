"""Fuzzing the bridge between host and programs: see README.md beside this file.

`fuzz.strategies` has what to make inputs of, `fuzz.targets` what is fuzzed, `python -m fuzz --list` shows it.
"""
