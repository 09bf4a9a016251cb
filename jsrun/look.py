"""Look: the two questions free guards ask about the world a run would start in."""

import os
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Protocol

from jsrun.whitelist import matches


class Look(Protocol):
    """What guards may look at; each method may be a plain function or an async one."""

    def file_exists(self, path: str) -> bool | Awaitable[bool]:
        """Is there a file or directory at `path`?"""

    def tool_on_belt(self, name: str) -> bool | Awaitable[bool]:
        """Does the host have a tool of this name, whitelisted or not?"""


class Named(Protocol):
    """What `WorkspaceLook` needs of a belt."""

    def names(self) -> Iterable[str]:
        """The names of the tools."""


class WorkspaceLook:
    """Looks at the files under one directory and at one belt.

    A relative path counts from `root`, an absolute one as given; a directory is there too. Without a root, or for a
    blank path, or one that cannot be looked at, the answer is no; so it is for every tool without a belt.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None, belt: Named | None = None) -> None:
        self._root = None if root is None else Path(root)
        self._belt = belt

    def file_exists(self, path: str) -> bool:
        wanted = path.strip()
        if self._root is None or not wanted:
            return False
        try:
            return (self._root / wanted).exists()
        except (OSError, ValueError):  # no permission, a NUL or a lone surrogate in the path
            return False

    def tool_on_belt(self, name: str) -> bool:
        return self._belt is not None and matches(name, self._belt.names())
