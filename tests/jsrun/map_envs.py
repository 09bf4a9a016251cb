"""Env factories for workers of `map`: they are imported there by name, and work in the current directory."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from jsrun import CallbackEnv
from jsrun._images import Images
from ptc.image import Image
from ptc.limits import Limits
from ptc.wire import Json


async def double(args: dict[str, Json]) -> Json:
    """Twice `n`."""
    n = args["n"]
    assert isinstance(n, int)
    return 2 * n


def _may(n: int) -> bool:
    with Path("calls").open("a") as file:
        file.write(f"{n}\n")
    return n < 25 or Path("go").exists()


async def gated(args: dict[str, Json]) -> Json:
    """The same, noted in the file `calls`; from 25 on it waits for ever, unless there is a file `go`."""
    n = args["n"]
    assert isinstance(n, int)
    if not _may(n):
        await asyncio.Event().wait()
    return 2 * n


def die(_args: dict[str, Json]) -> Json:
    """Ends the worker without a word."""
    os._exit(3)


async def leave(_args: dict[str, Json]) -> Json:
    """Means to end the whole program."""
    raise SystemExit(5)


def doubling() -> CallbackEnv:
    """An Env with the tool `double`."""
    return CallbackEnv(tools={"double": double})


def gating() -> CallbackEnv:
    """An Env whose tool `double` is `gated`."""
    return CallbackEnv(tools={"double": gated})


def dying() -> CallbackEnv:
    """An Env whose tool `double` kills its worker."""
    return CallbackEnv(tools={"double": die})


def exiting() -> CallbackEnv:
    """An Env whose tool `double` raises SystemExit."""
    return CallbackEnv(tools={"double": leave})


def failing() -> CallbackEnv:
    """Cannot make an Env."""
    raise ValueError("there is no key for the model")


def nothing() -> object:
    """Makes something that is no Env."""
    return object()


def compiling() -> CallbackEnv:
    """Like `doubling`; each program compiled from now on in this process is noted in the file `compiled`."""
    if not hasattr(Images, "watched"):
        load = Images._load

        def watched(images: Images, limits: Limits) -> Coroutine[Any, Any, Image]:
            with Path("compiled").open("a") as file:
                file.write(f"{os.getpid()}\n")
            return load(images, limits)

        setattr(Images, "_load", watched)  # noqa: B010  # mypy would have it no other way
        setattr(Images, "watched", True)  # noqa: B010
    return doubling()
