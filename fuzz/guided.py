"""A session that coverage guides, in a process of its own: `python -m fuzz.guided TARGET SECONDS SEED FOLDER`.

libFuzzer, through the package `atheris`, makes the bytes that Hypothesis turns into inputs. The last line on stdout is
one JSON object: what was done, and the finding if there is one. https://github.com/google/atheris
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    name, seconds, seed, folder = sys.argv[1:]
    with atheris.instrument_imports(include=["ptc", "jsrun"], enable_loader_override=False):
        from fuzz.driver import Finding, keep, told
        from fuzz.inputs import to_text
        from fuzz.targets import target

        chosen = target(name)
    from hypothesis import given, settings

    place = chosen.open().__enter__()
    failed: list[Any] = []
    assert chosen.inputs is not None
    assert chosen.check is not None
    check = chosen.check

    @settings(database=None, deadline=None)
    @given(chosen.inputs)
    def attempt(value: Any) -> None:
        try:
            check(value, place)
        except Exception:
            failed.append(value)
            raise

    one_input = attempt.hypothesis.fuzz_one_input  # type: ignore[attr-defined]

    def once(data: bytes) -> None:
        try:
            one_input(data)
        except Exception as error:
            finding = Finding(name, to_text(failed[-1]), told(error))
            print(json.dumps({"file": str(keep(finding, Path(folder))), "error": finding.error}), flush=True)
            os._exit(1)

    options = [f"-max_total_time={seconds}", f"-seed={seed}", "-rss_limit_mb=4096", "-timeout=60", "-max_len=4096"]
    atheris.Setup([sys.argv[0], *options, "-print_final_stats=1"], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
