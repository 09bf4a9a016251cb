"""The draft of the agent: each level has a copy of the one outside it, to be edited until `next()` is called."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any, overload

from jsrun.plugs.api import AgentSpawnSpec
from jsrun.plugs.errors import AgentFrozen, AgentSpecError

# What no name of an environment variable may hold.
_BAD_NAME = re.compile("[=\0]|^$")


class AgentDraft:
    """The agent to be started. `args` and `env` are edited in place; a variable set to None is removed.

    `cwd` reads as the workspace of the level's host until someone sets it. After `freeze()` every change raises
    AgentFrozen, also one through a reference to `args` or `env` taken before. AgentSpecError for a value that no
    process can be started with.
    """

    __slots__ = ("_args", "_command", "_cwd", "_env", "_frozen", "_workspace")

    def __init__(
        self,
        command: str | None,
        args: Iterable[str],
        env: Mapping[str, str | None],
        cwd: str | None,
        workspace: Callable[[], str],
    ) -> None:
        self._frozen = False
        self._workspace = workspace
        self._command = _text(command, "command") if command is not None else None
        self._args = _Args(self, args)
        self._env = _Env(self, env)
        self._cwd = _folder(cwd) if cwd is not None else None

    @property
    def command(self) -> str | None:
        """The program, a path or a name to be looked up; None if nobody said one."""
        return self._command

    @command.setter
    def command(self, value: str | None) -> None:
        self._check()
        self._command = _text(value, "command") if value is not None else None

    @property
    def args(self) -> "_Args":
        """What follows the command."""
        return self._args

    @args.setter
    def args(self, value: Iterable[str]) -> None:
        self._check()
        self._args = _Args(self, value)

    @property
    def env(self) -> "_Env":
        """Variables over the host's base environment."""
        return self._env

    @env.setter
    def env(self, value: Mapping[str, str | None]) -> None:
        self._check()
        self._env = _Env(self, value)

    @property
    def cwd(self) -> str:
        """Where the agent is started, an absolute path."""
        return self._cwd if self._cwd is not None else self._workspace()

    @cwd.setter
    def cwd(self, value: str | None) -> None:
        self._check()
        self._cwd = _folder(value) if value is not None else None

    @property
    def frozen(self) -> bool:
        """Whether it may no longer be changed."""
        return self._frozen

    def freeze(self) -> None:
        """Refuse changes from now on."""
        self._frozen = True

    def inner(self, workspace: Callable[[], str]) -> "AgentDraft":
        """A copy for the next level, whose host has this workspace."""
        return AgentDraft(self._command, self._args, self._env, self._cwd, workspace)

    def spec(self) -> AgentSpawnSpec:
        """What to start; AgentSpecError without a command."""
        if not self._command:
            raise AgentSpecError(
                "There is no agent to start. Give its command after `--`, or as `agent: {command: …}`."
            )
        return AgentSpawnSpec(self._command, tuple(self._args), dict(self._env), self.cwd)

    def _check(self) -> None:
        if self._frozen:
            raise AgentFrozen("The agent can be changed only before `next()`.")

    def __repr__(self) -> str:
        # Without values of the environment, which may be secret.
        return f"AgentDraft(command={self._command!r}, args={list(self._args)!r}, env={sorted(self._env)!r})"


class _Args(MutableSequence[str]):
    """The arguments of a draft."""

    def __init__(self, draft: AgentDraft, values: Iterable[str]) -> None:
        if isinstance(values, str):
            raise AgentSpecError("The agent's `args` are a list of texts, not one text.")
        self._draft = draft
        self._values = [_text(value, "argument") for value in values]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._values[index]

    @overload
    def __setitem__(self, index: int, value: str) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[str]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._draft._check()
        if isinstance(index, slice):
            self._values[index] = [_text(item, "argument") for item in value]
        else:
            self._values[index] = _text(value, "argument")

    def __delitem__(self, index: int | slice) -> None:
        self._draft._check()
        del self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def insert(self, index: int, value: str) -> None:
        """Put `value` before `index`."""
        self._draft._check()
        self._values.insert(index, _text(value, "argument"))

    def __add__(self, other: Iterable[str]) -> list[str]:
        return [*self._values, *other]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Args | list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it can change, as a list

    def __repr__(self) -> str:
        return repr(self._values)


class _Env(MutableMapping[str, str | None]):
    """The variables of a draft."""

    def __init__(self, draft: AgentDraft, values: Mapping[str, str | None]) -> None:
        self._draft = draft
        self._values = {_variable(name): _value(name, value) for name, value in values.items()}

    def __getitem__(self, name: str) -> str | None:
        return self._values[name]

    def __setitem__(self, name: str, value: str | None) -> None:
        self._draft._check()
        self._values[_variable(name)] = _value(name, value)

    def __delitem__(self, name: str) -> None:
        self._draft._check()
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<variables {', '.join(self._values)}>"


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise AgentSpecError(f"The agent's {what} is a text, not {type(value).__name__}.")
    if "\0" in value:
        raise AgentSpecError(f"The agent's {what} holds a NUL character.")
    return value


def _folder(value: object) -> str:
    path = _text(value, "cwd")
    if not path.startswith("/"):
        raise AgentSpecError(f"The agent's cwd must be an absolute path: {path!r}.")
    return path


def _variable(name: object) -> str:
    if not isinstance(name, str) or _BAD_NAME.search(name):
        raise AgentSpecError(f"This is no name of an environment variable: {name!r}.")
    return name


def _value(name: str, value: object) -> str | None:
    return None if value is None else _text(value, f"variable {name}")
