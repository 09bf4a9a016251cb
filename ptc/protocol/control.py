"""The control messages that root, images and spawned runs send to the host, as frozen strict models.

An image holds program text, so what it says is checked like any other untrusted input.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
_Text = Annotated[str, Field(max_length=65_536)]


class _Control(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class EngineName(_Control):
    """An engine by name and version."""

    name: Annotated[str, Field(max_length=64)]
    version: Annotated[str, Field(max_length=64)]


class SeccompReport(_Control):
    """How far system calls are confined, what a process under the filter was seen to die of, why there is no filter."""

    level: Literal["filter", "no-new-privs", "off"]
    denied: Annotated[list[Annotated[str, Field(max_length=32)]], Field(max_length=32)]
    problem: Annotated[str, Field(max_length=1024)]


class RootReady(_Control):
    """Root's first message: what this machine has."""

    type: Literal["root"]
    engine: EngineName
    rejections: Literal["all", "calls"]
    rlimits: Annotated[list[Annotated[str, Field(max_length=16)]], Field(max_length=16)]
    seccomp: SeccompReport


class ImageStarted(_Control):
    """Root forked an image."""

    type: Literal["started"]
    image: _Count
    pid: _Count


class ImageExited(_Control):
    """Root reaped an image."""

    type: Literal["exited"]
    image: _Count
    code: _Count | None
    signal: _Count | None


class IsolationReport(_Control):
    """The measures an image says its runs will have."""

    process: Literal["fork", "spawn"]
    rlimits: Annotated[list[Annotated[str, Field(max_length=16)]], Field(max_length=16)]
    seccomp: Literal["filter", "no-new-privs", "off"]


class Loaded(_Control):
    """The program is compiled."""

    type: Literal["loaded"]
    isolation: IsolationReport
    engine: EngineName
    loadMs: Annotated[float, Field(ge=0)]


class Place(_Control):
    """A line and column of the program, from 1."""

    line: Annotated[int, Field(ge=1, le=2**31)]
    column: Annotated[int, Field(ge=1, le=2**31)]


class Refused(_Control):
    """The program was not accepted: it does not compile, or its setup failed (`misuse`)."""

    type: Literal["refused"]
    kind: Literal["exception", "misuse"]
    message: _Text
    at: Place | None = None


class RunStarted(_Control):
    """The image forked a run, or the spawned process becomes one."""

    type: Literal["started"]
    run: _Count
    pid: _Count
    cpuMs: Annotated[float, Field(ge=0)] = 0.0
    """CPU time the process had used before: to start and to load, if it is a spawned one."""


class RunExited(_Control):
    """The image reaped a run."""

    type: Literal["exited"]
    run: _Count
    code: _Count | None
    signal: _Count | None
    cpuMs: Annotated[float, Field(ge=0)]
    maxRssKb: _Count


RootMessage = RootReady | ImageStarted | ImageExited
ImageMessage = Loaded | Refused | RunStarted | RunExited
SpawnedMessage = RootReady | Loaded | Refused | RunStarted

_root: TypeAdapter[RootMessage] = TypeAdapter(Annotated[RootMessage, Field(discriminator="type")])
_image: TypeAdapter[ImageMessage] = TypeAdapter(Annotated[ImageMessage, Field(discriminator="type")])
_spawned: TypeAdapter[SpawnedMessage] = TypeAdapter(Annotated[SpawnedMessage, Field(discriminator="type")])


def root_message(value: object) -> RootMessage:
    """Check one parsed frame from root. ValueError (pydantic's) if it is not one of its messages."""
    return _root.validate_python(value)


def image_message(value: object) -> ImageMessage:
    """Check one parsed frame from an image. ValueError (pydantic's) if it is not one of its messages."""
    return _image.validate_python(value)


def spawned_message(value: object) -> SpawnedMessage:
    """Check one parsed frame from a spawned process. ValueError (pydantic's) if it is not one of its messages."""
    return _spawned.validate_python(value)
