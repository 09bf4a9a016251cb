"""The first code of every process of ours: `python -I -S bootstrap.py ROLE ENGINE LIBRARY SECCOMP FDS… HOST_PID`.

ROLE is `root`, with its control end among FDS, or `spawned`, with the control end and the channel end of a run.

Started without site packages and without the environment, so the package `ptc` is not importable and must not be:
its `__init__` would pull in half the host. A bare stand-in whose path leads to the same directory makes
`ptc.guest` importable on its own, under its real name.
"""

import sys
import types
from pathlib import Path


def main() -> None:
    """Make `ptc.guest` importable and become what the arguments say. Never returns."""
    package = types.ModuleType("ptc")
    package.__path__ = [str(Path(__file__).resolve().parent.parent)]
    sys.modules["ptc"] = package
    role, engine, library, seccomp, *numbers = sys.argv[1:]
    if role == "spawned":
        from ptc.guest import spawned

        control, channel, host = map(int, numbers)
        spawned.main(engine, library, seccomp, control, channel, host)
    else:
        from ptc.guest import root

        control, host = map(int, numbers)
        root.main(engine, library, seccomp, control, host)


if __name__ == "__main__":
    main()
