"""map: one bundle over many inputs, in whatever runs Python functions: processes, threads, a cluster."""

import contextlib
import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from jsrun import strictjson
from jsrun._map_file import MapError, MapFile, MapLine
from jsrun._map_workers import EnvFactory, Job, Package, Processes, Reply, run_one
from jsrun.bundle import Bundle
from jsrun.canonical import input_hash, json_text
from jsrun.diagnostics import Diagnostic
from jsrun.errors import JsrunError
from jsrun.result import RunResult

__all__ = ["AHEAD", "BadInput", "EnvFactory", "MapError", "MapLine", "Processes", "map_runs", "read_inputs"]

AHEAD: Final = 64
"""Inputs given to an executor before the first of them has ended: enough for every core of a large machine, and few
enough that a file of any length needs little memory."""

# What a run takes as input at most; nothing longer is read.
_MAX_INPUT_BYTES: Final = 8 * 1024 * 1024
_MAX_LEVELS: Final = 512


@dataclass(frozen=True, slots=True)
class BadInput:
    """Stands among the inputs for one that could not be read, with the hash of what stood there."""

    error: MapError
    input_hash: str


@dataclass(frozen=True, slots=True)
class _Work:
    """An input that is to be run: its place, hash and JSON text."""

    index: int
    input_hash: str
    text: str


def map_runs(
    bundle: Bundle,
    inputs: Iterable[object],
    env_factory: EnvFactory,
    executor: Executor,
    *,
    output: str | os.PathLike[str] | None = None,
    retry: bool = False,
    workspace: str | os.PathLike[str] | None = None,
    ahead: int = AHEAD,
) -> Generator[MapLine, None, None]:
    """Run the bundle once for each input and give a line for each, as they end. Nothing happens before it is iterated.

    - inputs: JSON values, or `BadInput`; taken one by one, never more than `ahead` before one has ended.
    - env_factory: makes the Env of a run: a function that can be pickled, or MODULE:FUNCTION. Called for every run.
    - executor: any; `Processes(n)` is a pool that leaves no process behind. It is not shut down.
    - output: a file to which each line is appended as it ends. Inputs whose line is there already, with equal hash,
      are not run again; with `retry` those are that did not finish.
    - workspace: the directory that guards look at, if the bundle has no Look.

    Each worker compiles the program once. An input that cannot be run is an `error` line. Closing the generator stops:
    what has ended by then is written, what has not begun never will; runs in threads are cancelled.
    Raises JsrunError if nothing can go on: the bundle, the factory, the output, or a worker that died.
    """
    if ahead < 1:
        raise ValueError(f"ahead must be a whole number from 1, got {ahead!r}")
    package = Package(Job(bundle, env_factory, None if workspace is None else str(Path(workspace).absolute())))
    return _mapped(package, inputs, executor, output, retry, ahead)


def _mapped(
    package: Package,
    inputs: Iterable[object],
    executor: Executor,
    output: str | os.PathLike[str] | None,
    retry: bool,
    ahead: int,
) -> Generator[MapLine, None, None]:
    waiting = enumerate(inputs)
    pending: dict[Future[Reply], _Work] = {}
    with contextlib.nullcontext() if output is None else MapFile(output) as file:
        try:
            more = True
            while more or pending:
                while more and len(pending) < ahead:
                    index, value = next(waiting, (-1, None))
                    if index < 0:
                        more = False
                        break
                    known = _prepare(index, value, file, retry)
                    if isinstance(known, MapLine):
                        _write(file, known)
                        yield known
                    else:
                        pending[_submit(executor, package, known)] = known
                if pending:
                    ended, _others = wait(pending, return_when=FIRST_COMPLETED)
                    # What went well is written before anything that went wrong stops us.
                    for future in sorted(ended, key=_failed):
                        line = _line(future, pending[future])
                        _write(file, line)
                        del pending[future]
                        yield line
        finally:
            _stop(pending, package, file)


def _prepare(index: int, value: object, file: MapFile | None, retry: bool) -> MapLine | _Work:
    """A line that needs no run, or what is to be run."""
    if isinstance(value, BadInput):
        known = None if file is None else file.find(index, value.input_hash, retry=retry)
        return known or MapLine(index, value.input_hash, error=value.error)
    try:
        digest, text = input_hash(value), json_text(value)
    except ValueError as error:
        return MapLine(index, None, error=MapError("input", f"The input is not JSON: {error}."))
    known = None if file is None else file.find(index, digest, retry=retry)
    return known or _Work(index, digest, text)


def _submit(executor: Executor, package: Package, work: _Work) -> Future[Reply]:
    try:
        return executor.submit(run_one, package, work.text)
    except BrokenExecutor as error:
        raise _died() from error


def _write(file: MapFile | None, line: MapLine) -> None:
    if file is not None and not line.kept:
        file.append(line)


def _failed(future: Future[Reply]) -> bool:
    return future.cancelled() or future.exception() is not None


def _line(future: Future[Reply], work: _Work) -> MapLine:
    try:
        reply = future.result()
    except JsrunError:
        raise
    except BrokenExecutor as error:
        raise _died() from error
    except Exception as error:  # of the executor itself, such as a cluster that lost its workers
        raise JsrunError(f"A worker failed: {error or type(error).__name__}") from error
    if reply.result is None:
        return MapLine(work.index, work.input_hash, error=MapError(reply.code, reply.message))
    return MapLine(work.index, work.input_hash, result=RunResult.from_json(json.loads(reply.result)))


def _died() -> JsrunError:
    return JsrunError("A worker process died. What had ended is kept; start again to go on.")


def _stop(pending: dict[Future[Reply], _Work], package: Package, file: MapFile | None) -> None:
    """Keep what has ended, drop what has not begun, cancel what runs in this process."""
    ended = [(future, work) for future, work in pending.items() if future.done() and not _failed(future)]
    try:
        for future, work in ended:
            _write(file, _line(future, work))
    finally:
        for future in pending:
            future.cancel()
        package.end()


def read_inputs(path: str | os.PathLike[str]) -> Iterator[object]:
    """The inputs in a file of JSON lines: values, and a `BadInput` for each line that is none.

    Blank lines are passed over and not counted. OSError if it cannot be read.
    """
    name = str(path)
    with Path(path).open("rb") as file:
        number = 0
        while data := file.readline(_MAX_INPUT_BYTES + 2):  # with the end of the line, which may be two bytes
            number += 1
            if number == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
            text = data.rstrip(b"\r\n")
            if len(text) > _MAX_INPUT_BYTES:
                yield _too_long(name, number, data, file)
            elif text.strip():
                yield _parse(name, number, text)


def _parse(name: str, number: int, data: bytes) -> object:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = len(data[: error.start].decode("utf-8")) + 1
        found = Diagnostic("input-json", "error", name, number, at, "The text is not UTF-8.", "Save it as UTF-8.")
        return _bad(found, hashlib.sha256(data))
    document, problems = strictjson.read(text, name, "input-json", max_depth=_MAX_LEVELS)
    if document is None or problems:
        return _bad(replace(problems[0], line=number), hashlib.sha256(data))
    return document.value


def _too_long(name: str, number: int, data: bytes, file: BinaryIO) -> BadInput:
    digest = hashlib.sha256(data)
    while not data.endswith(b"\n") and (data := file.readline(_MAX_INPUT_BYTES)):
        digest.update(data)
    message = f"The input is longer than {_MAX_INPUT_BYTES} bytes."
    found = Diagnostic("input-json", "error", name, number, 1, message, "Give the program a path to it, or less of it.")
    return _bad(found, digest)


def _bad(found: Diagnostic, digest: "hashlib._Hash") -> BadInput:
    return BadInput(MapError(found.code, str(found), found.line), digest.hexdigest())
