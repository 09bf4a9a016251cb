"""The first code of every process of ours: `python -I -S bootstrap.py ENGINE LIBRARY SECCOMP CONTROL_FD HOST_PID`.

Started without site packages and without the environment, so the package `ptc` is not importable and must not be:
its `__init__` would pull in half the host. A bare stand-in whose path leads to the same directory makes
`ptc.guest` importable on its own, under its real name.
"""

import sys
import types
from pathlib import Path


def main() -> None:
    """Make `ptc.guest` importable and hand over to root. Never returns."""
    package = types.ModuleType("ptc")
    package.__path__ = [str(Path(__file__).resolve().parent.parent)]
    sys.modules["ptc"] = package
    from ptc.guest import root

    engine, library, seccomp, control, host = sys.argv[1:6]
    root.main(engine, library, seccomp, int(control), int(host))


if __name__ == "__main__":
    main()
