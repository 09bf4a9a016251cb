"""The file of a map: one line for each input that ended, in the order in which they ended."""

import contextlib
import fcntl
import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from jsrun._text import quoted
from jsrun.errors import JsrunError
from jsrun.result import RunResult
from ptc.wire import Json

# How every line of ours begins: what a killed process left of one is told from a file that is somebody else's.
_BEGINNING = b'{"index":'
_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MapError:
    """Why an input has no result. `line` is where it stands in the file it came from, if it came from one.

    `code` is `input-json` (not JSON), `input` (not what the manifest accepts) or `env` (its Env could not be made).
    """

    code: str
    message: str
    line: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Every field under its name."""
        return {"code": self.code, "message": self.message, "line": self.line}


@dataclass(frozen=True, slots=True)
class MapLine:
    """What came of one input: a result or an error. `kept`: it was in the output already, and nothing was run.

    `input_hash` is that of the value as the journal has it; of text that is not JSON, of its bytes; None if a value is
    not JSON.
    """

    index: int
    input_hash: str | None
    result: RunResult | None = None
    error: MapError | None = None
    kept: bool = False

    @property
    def finished(self) -> bool:
        """Did the run give a valid output?"""
        return self.result is not None and self.result.status == "finished"

    def to_json(self) -> dict[str, Json]:
        """The line as it is written."""
        data: dict[str, Json] = {"index": self.index, "input_hash": self.input_hash}
        if self.result is not None:
            return data | {"result": self.result.to_json()}
        return data | {"error": None if self.error is None else self.error.to_json()}

    @classmethod
    def read(cls, text: bytes) -> "MapLine":
        """The inverse of `to_json`, of a line as it was written, with `kept`. ValueError for any other line."""
        try:
            data = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deep") from None
        if not isinstance(data, dict) or type(data.get("index")) is not int:
            raise ValueError("not a line of a map")
        digest, result, error = data.get("input_hash"), data.get("result"), data.get("error")
        if not isinstance(digest, str | None) or isinstance(result, dict) == isinstance(error, dict):
            raise ValueError("not a line of a map")
        try:
            return cls(
                data["index"],
                digest,
                RunResult.from_json(result) if isinstance(result, dict) else None,
                MapError(**error) if isinstance(error, dict) else None,
                kept=True,
            )
        except TypeError:
            raise ValueError("not a line of a map") from None


@dataclass(frozen=True, slots=True)
class _Spot:
    """A line in the file."""

    start: int
    length: int
    input_hash: str | None
    finished: bool


class MapFile:
    """The output of a map, locked while it is open. A context manager.

    Opening drops a torn last line. The last line of an index counts; `close` removes those before it. JsrunError if the
    file cannot be used, is in use, or holds anything that no map wrote; such a file is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).resolve()
        self._spots: dict[int, _Spot] = {}
        self._superseded = False
        self._end = 0
        try:
            self._file = _open_locked(self._path)
        except BlockingIOError:
            raise JsrunError(f"Another map is writing {quoted(self._path.name)}. Wait for it, or stop it.") from None
        except OSError as error:
            raise self._unusable(error) from None
        try:
            self._read()
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, OSError):
                raise self._unusable(error) from None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, index: int, input_hash: str | None, *, retry: bool) -> MapLine | None:
        """The line of this input, if there is one of equal hash; with `retry`, only if it is finished."""
        spot = self._spots.get(index)
        if spot is None or input_hash is None or spot.input_hash != input_hash or (retry and not spot.finished):
            return None
        return MapLine.read(os.pread(self._file, spot.length, spot.start))

    def append(self, line: MapLine) -> None:
        """Write a line at the end, whole or, if that fails, not at all. It is the system's when this returns."""
        data = json.dumps(line.to_json(), separators=(",", ":")).encode("ascii") + b"\n"
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except BaseException as error:
            os.ftruncate(self._file, self._end)
            if isinstance(error, OSError):
                raise self._unusable(error) from None
            raise
        self._note(line, len(data))

    def close(self) -> None:
        """Remove lines that were superseded, and let go of the file."""
        try:
            if self._superseded:
                self._compact()
        except OSError as error:
            raise self._unusable(error) from None
        finally:
            os.close(self._file)

    def _note(self, line: MapLine, length: int) -> None:
        self._superseded = self._superseded or line.index in self._spots
        self._spots[line.index] = _Spot(self._end, length, line.input_hash, line.finished)
        self._end += length

    def _read(self) -> None:
        with os.fdopen(os.dup(self._file), "rb") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    self._end += len(text)
                    continue
                try:
                    line = MapLine.read(text)
                except ValueError:
                    torn = not text.endswith(b"\n") and text[: len(_BEGINNING)] == _BEGINNING[: len(text)]
                    if not torn:
                        raise JsrunError(
                            f"{self._path.name}:{number}: this is not a line of a map. Give the output another name, "
                            "or remove the line."
                        ) from None
                    os.ftruncate(self._file, self._end)
                    return
                self._note(line, len(text))
        if self._end and os.pread(self._file, 1, self._end - 1) != b"\n":
            os.write(self._file, b"\n")  # killed between a line and its end, or saved by an editor
            self._end += 1

    def _compact(self) -> None:
        """Put a file in its place that has each index once, in one step."""
        mode = stat.S_IMODE(os.fstat(self._file).st_mode)
        descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name[:64]}.", suffix=".tmp", dir=self._path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb", buffering=_COPY_BYTES) as file:
                for spot in sorted(self._spots.values(), key=lambda spot: spot.start):
                    file.write(os.pread(self._file, spot.length, spot.start).rstrip(b"\n") + b"\n")
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            temporary.replace(self._path)
        finally:
            temporary.unlink(missing_ok=True)

    def _unusable(self, error: OSError) -> JsrunError:
        return JsrunError(f"The output {quoted(str(self._path))} cannot be used: {error.strerror}.")


def _open_locked(path: Path) -> int:
    """Open a regular file, made if absent, and lock it. BlockingIOError if somebody else has the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "it is not a regular file")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(status, path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was replaced before we had the lock
