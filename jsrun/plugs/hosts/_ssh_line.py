"""How a process is started over SSH: a fixed shell line, told by the first line of its input what to do.

The line in the process list of the far side is always the same. Folder, variables and arguments come in the header,
which the shell reads byte by byte up to its end, so that what follows reaches the program untouched. The arguments of a
program started without a shell then show as those of the program itself, as everywhere.
"""

import re
import shlex

from jsrun.plugs.errors import HostError
from jsrun.plugs.host_api import Command, Env

# `exec` replaces the login shell, so the process has the number of the session's leader, and that of its group.
LINE = "exec /bin/sh -c 'IFS= read -r _jsrun_h && eval \"$_jsrun_h\"'"

# What stands behind the marker when the program cannot be started.
NO_FOLDER = "folder"
NO_COMMAND = "command"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Everything else goes as octal numbers: a header is one line of ASCII.
_PLAIN = re.compile(r"[\x20-\x7e]*")


def header(command: Command, cwd: str, env: Env, marker: str) -> bytes:
    """The first line of input. The process prints `marker` and its number, or why it does not start, and goes on.

    HostError for a variable that no POSIX shell can set.
    """
    parts = ["unset _jsrun_h"]
    for name, value in env.items():
        if _NAME.fullmatch(name) is None:
            raise HostError(f"The variable {name!r} cannot be set over SSH.")
        parts += [f"unset {name}"] if value is None else _assigned(value, f"export {name}=")
    parts += _assigned(cwd, "cd ", f" 2>/dev/null || {{ printf '%s\\n' '{marker} {NO_FOLDER}'; exit 127; }}")
    ready = f"printf '%s %s\\n' {marker} \"$$\""
    if isinstance(command, str):
        # Not a second `sh -c`, whose text would show in the process list.
        parts += [ready, *_assigned(command, "eval ")]
    else:
        parts.append("set --")
        for argument in command:
            parts += _assigned(argument, 'set -- "$@" ')
        found = 'case $1 in */*) [ -x "$1" ] && [ ! -d "$1" ];; *) command -v "$1" >/dev/null 2>&1;; esac'
        parts.append(f"{found} || {{ printf '%s\\n' '{marker} {NO_COMMAND}'; exit 127; }}")
        parts += ["unset _jsrun_v", ready, 'exec "$@"']
    return "; ".join(parts).encode("ascii") + b"\n"


# `kill -s 0`, since not every shell takes `--` after `kill -0`.
def group_signal(group: int, signal: str) -> str:
    """A shell line that sends a signal to a group."""
    return f"exec /bin/sh -c 'kill -s {signal} -- -{group} 2>/dev/null'"


def group_end(group: int) -> str:
    """A shell line that sends TERM to a group, after 2 s KILL to what is left of it, and waits until that is gone."""
    return (
        "exec /bin/sh -c '"
        f"gone() {{ i=0; while kill -s 0 -- -{group} 2>/dev/null && [ $i -lt $1 ]; do sleep 0.1; i=$((i+1)); done; }};"
        f" kill -s TERM -- -{group} 2>/dev/null; gone 20; kill -s KILL -- -{group} 2>/dev/null; gone 10'"
    )


def groups_left(groups: list[int]) -> str:
    """A shell line that prints those groups that still live although their leaders are gone."""
    # While a group lives no process gets its number, so a process with that number means that the group is gone.
    numbers = " ".join(map(str, groups))
    return (
        f"exec /bin/sh -c 'for p in {numbers}; do"
        " kill -s 0 $p 2>/dev/null || { kill -s 0 -- -$p 2>/dev/null && echo $p; }; done'"
    )


def _assigned(value: str, before: str, after: str = "") -> list[str]:
    """Shell commands that use `value` as one word between `before` and `after`."""
    if _PLAIN.fullmatch(value):
        return [f"{before}{shlex.quote(value)}{after}"]
    octal = "".join(f"\\{byte:03o}" for byte in value.encode("utf-8", "surrogateescape"))
    # The shell cuts line ends off what a command prints; the dot keeps them.
    use = '"${_jsrun_v%.}"' if before != "eval " else '"unset _jsrun_v; ${_jsrun_v%.}"'
    return [f"_jsrun_v=$(printf '{octal}.')", f"{before}{use}{after}"]
