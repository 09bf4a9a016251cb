"""The engines as everything here names them: QuickJS forked and spawned, and V8."""

from typing import Final, Literal

from ptc._strategy import ProcessChoice

EngineName = Literal["quickjs", "quickjs-spawned", "v8"]
ENGINES: Final[tuple[EngineName, ...]] = ("quickjs", "quickjs-spawned", "v8")

WAYS: Final[dict[str, tuple[str, ProcessChoice]]] = {
    "quickjs": ("quickjs", "auto"),
    "quickjs-spawned": ("quickjs", "spawn"),
    "v8": ("v8", "spawn"),
}
"""What a runtime is told for each: its engine, and how its processes come about."""
