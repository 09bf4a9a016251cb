"""What an engine adapter offers to image and run. Only ASCII JSON text crosses it, both ways."""

from collections.abc import Callable
from typing import Literal, Protocol

Rejections = Literal["all", "calls"]


class EngineFault(Exception):
    """The engine failed where trusted code alone was running. `out_of_memory` tells the one ordinary cause."""

    def __init__(self, message: str, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.out_of_memory = out_of_memory


class Engine(Protocol):
    """One engine, holding one realm after `open`."""

    name: str
    version: str
    forms: frozenset[str]
    """Which of `sync` and `async` programs it can run."""
    rejections: Rejections
    """`all` if every rejected promise is reported, `calls` if only those of host functions."""

    def open(self, memory: int, stack: int) -> None:
        """Make the realm, with bounds on the engine's heap and stack in bytes."""

    def bind(self, name: str, function: Callable[[str], str]) -> None:
        """Make a host function a global. It must not raise."""

    def evaluate(self, source: str) -> None:
        """Run the prelude and keep the object of entry functions it ends with. EngineFault if it fails."""

    def call(self, entry: str, text: str) -> str:
        """Call an entry function. EngineFault if it throws."""

    def jobs(self) -> bool:
        """Run one pending job; False if there was none."""
