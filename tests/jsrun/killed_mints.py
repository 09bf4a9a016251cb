"""A program that mints and is killed, at every step there is. `python -m tests.jsrun.killed_mints FOLDER SCENARIO`

Each attempt is a process of its own on a copy of the same store. It counts what it asks of the file system below that
store, by Python's audit events and by wrapping `fsync`, and kills itself with SIGKILL right before the n-th. The last
attempt lives. What each did last is printed, one line an attempt; its store is FOLDER/N.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from jsrun.store import Store

# What changes a file system or reaches into it. Opening by descriptor is Python's way to write to what was just made.
_EVENTS = frozenset({
    "open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "os.chmod",
    "fcntl.flock",
})  # fmt: skip

PROGRAM = "function run() { return ai('ask'); }\n"


def files(purpose: str) -> dict[str, str]:
    """A bundle of which one text can be chosen."""
    return {
        "manifest.json": json.dumps({"name": "killed", "purpose": purpose}),
        "program.js": PROGRAM,
        "prompts/ask.md": "Ask.",
        "memory.md": f"A seed: {purpose}",
        "evals/one.json": "{}",
    }


def prepare(root: Path, scenario: str) -> None:
    """The store an attempt begins with: `new` is empty, `change` has a version, `dead` also what a killed mint left."""
    if scenario == "new":
        return
    Store(root).mint(files("First."))
    if scenario == "dead":
        folder = root / "subharnesses" / "killed"
        record = json.loads((folder / "v1.json").read_text())
        (folder / "v2.json").write_text(json.dumps({**record, "version": 2}))
        (folder / ".mint-left").mkdir()
        (folder / ".mint-left" / "program.js").write_text("half")
        (folder / ".mint-left.json").write_text("{")


def mint(root: Path, scenario: str) -> None:
    """The mint that is killed, and made again afterwards: then, if it was done, it changes nothing."""
    store = Store(root)
    if scenario == "new":
        store.mint(files("First."))
    else:
        store.mint(files("Second."), store.head("killed").hash, "To be better.")


def die_before(step: int, root: Path) -> None:
    """Have this process kill itself before its `step`-th step in the file system."""
    done = 0
    below = os.fsencode(root.absolute())

    def count(event: str) -> None:
        nonlocal done
        done += 1
        if done == step:
            os.write(1, f"{event}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        paths = [os.fsencode(arg) for arg in args if isinstance(arg, str | bytes | os.PathLike)]
        by_descriptor = bool(args) and isinstance(args[0], int)
        if any(path.startswith(below) for path in paths) or (done and by_descriptor):
            count("write" if by_descriptor and event == "open" else event)

    sync = os.fsync

    def fsync(fd: Any) -> None:
        count("fsync")
        sync(fd)

    os.fsync = fsync
    sys.addaudithook(audit)


def main(base: Path, scenario: str) -> None:
    """Attempts with one step more each, until one lives."""
    warm = base / "warm"
    Store(warm).mint(files("Warm."))  # so that no attempt has to compile the program
    shutil.rmtree(warm)
    start = base / "start"
    start.mkdir()
    prepare(start, scenario)
    for step in range(1, 1000):
        root = base / str(step)
        shutil.copytree(start, root, symlinks=True)
        child = os.fork()
        if child == 0:
            die_before(step, root)
            mint(root, scenario)
            os._exit(0)
        _pid, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status) != 0:
                sys.exit(f"attempt {step} ended by itself with {os.WEXITSTATUS(status)}")
            os.write(1, b"lived\n")
            return
    sys.exit("no attempt lived")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
