"""Print what `confine` says with some names missing from the runs' list: `python -I -S confine.py LIBRARY NAME…`."""

import json
import sys
import types
from pathlib import Path


def main() -> None:
    """Print one JSON object: level, denied, problem."""
    package = types.ModuleType("ptc")
    package.__path__ = [str(Path(__file__).resolve().parents[3] / "ptc")]
    sys.modules["ptc"] = package
    from ptc.guest import confinement

    library, *missing = sys.argv[1:]
    for every in ("RUN", "IMAGE"):
        rules = getattr(confinement, every)
        setattr(confinement, every, tuple(rule for rule in rules if f"{every}.{rule.name}" not in missing))
    found = confinement.confine(library)
    print(json.dumps({"level": found.level, "denied": found.denied, "problem": found.problem}))


if __name__ == "__main__":
    main()
