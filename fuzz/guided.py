"""A session that coverage guides, in a process of its own: `python -m fuzz.guided TARGET SECONDS SEED FINDINGS FIRST`.

libFuzzer, through the package `atheris`, makes the bytes that Hypothesis turns into inputs. stderr is libFuzzer's. The
last line on stdout is one JSON object if there is a finding. FIRST is a folder with inputs to
begin with; beside it libFuzzer leaves the bytes that crashed the process, if any did. https://github.com/google/atheris
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

# Bytes of the largest input, which is what the largest values of the strategies are made of.
MAX_LEN: Final = 4096


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    name, seconds, seed, folder, first = sys.argv[1:]
    with atheris.instrument_imports(include=["ptc", "jsrun"], enable_loader_override=False):
        from fuzz.driver import Finding, keep, told
        from fuzz.inputs import to_text
        from fuzz.patience import patience
        from fuzz.targets import target, try_input

        chosen = target(name)
    from hypothesis import given, settings

    opened = chosen.open()  # never closed: libFuzzer ends the process, and what it started ends with it
    place = opened.__enter__()
    failed: list[Any] = []
    assert chosen.inputs is not None
    assert chosen.check is not None
    check = chosen.check

    @settings(database=None, deadline=None)
    @given(chosen.inputs)
    def attempt(value: Any) -> None:
        try:
            with patience():
                try_input(check, value, place)
        except Exception:
            failed.append(value)
            raise

    one_input = attempt.hypothesis.fuzz_one_input  # type: ignore[attr-defined]

    def once(data: bytes) -> None:
        try:
            one_input(data)
        except Exception as error:
            if not failed:
                raise  # a mistake of the target's own, for libFuzzer to report
            finding = Finding(name, to_text(failed[-1]), told(error))
            print(json.dumps({"file": str(keep(finding, Path(folder))), "error": finding.error}), flush=True)
            os._exit(1)

    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        "-rss_limit_mb=4096",
        "-timeout=0",  # the alarm is ours: libFuzzer's ends the process and tells no input
        f"-max_len={MAX_LEN}",
        "-len_control=0",  # an input of few bytes is none: Hypothesis needs so many for each choice
        f"-artifact_prefix={Path(first).parent}{os.sep}",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, first], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
