"""control: what root, images and spawned processes say to the host, and what the host makes of it."""

import asyncio
import contextlib
import json
import socket
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fuzz.family import Family
from fuzz.strategies import NUMBERS, TEXT, frames, json_values, messages
from fuzz.targets import Target
from ptc._control import ControlStream
from ptc.frames import frame
from ptc.protocol import control


def _mostly(usual: Any, else_: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.sampled_from([usual] * 9 + [None]).flatmap(lambda value: else_ if value is None else st.just(value))


_ENGINE = _mostly({"name": "quickjs", "version": "1"}, st.fixed_dictionaries({"name": TEXT, "version": TEXT}))
_ISOLATION = _mostly(
    {"process": "fork", "rlimits": ["cpu"], "seccomp": "filter"},
    st.fixed_dictionaries({"process": TEXT, "rlimits": st.lists(TEXT, max_size=2), "seccomp": TEXT}),
)
_SECCOMP = _mostly(
    {"level": "filter", "denied": ["open"], "problem": ""},
    st.fixed_dictionaries({"level": TEXT, "denied": st.lists(TEXT, max_size=2), "problem": TEXT}),
)
_NUMBER = st.sampled_from([1, 1, 2, 2, 0, 3])
_KINDS: dict[str, dict[str, SearchStrategy[Any]]] = {
    "root": {"engine": _ENGINE, "rejections": st.just("all"), "rlimits": st.lists(TEXT, max_size=2),
             "seccomp": _SECCOMP},
    "started": {"run": _NUMBER, "image": _NUMBER, "pid": _mostly(2**30, NUMBERS)},
    "exited": {"run": _NUMBER, "image": _NUMBER, "code": _mostly(0, NUMBERS), "signal": _mostly(9, NUMBERS),
               "cpuMs": _mostly(1.5, NUMBERS), "maxRssKb": _mostly(4000, NUMBERS)},
    "loaded": {"engine": _ENGINE, "isolation": _ISOLATION, "loadMs": _mostly(1.5, NUMBERS)},
    "refused": {"kind": st.sampled_from(["misuse", "exception"]), "message": TEXT},
}  # fmt: skip
"""The parts of each kind. `exited` and `started` of a run have no `image`, of an image no `run`."""

_READERS = {
    "root": control.root_message,
    "image": control.image_message,
    "spawned": control.spawned_message,
}


@st.composite
def _message(draw: DrawFn) -> Any:
    """A control message: most of them sound, the others with a part of another kind or without one."""
    kind = draw(st.sampled_from(["started", "exited", *_KINDS]))
    parts = dict(_KINDS[kind])
    if kind in ("started", "exited"):
        del parts[draw(st.sampled_from(["run", "image"]))]
    if kind == "exited" and "image" in parts:
        del parts["cpuMs"], parts["maxRssKb"]
    message = {name: draw(part) for name, part in parts.items()}
    if kind == "exited":
        message[draw(st.sampled_from(["code", "signal"]))] = None
    if draw(st.integers(0, 3)) == 3:
        broken = draw(st.sampled_from([*message]))
        message[broken] = draw(json_values(2))
        if draw(st.booleans()):
            del message[broken]
    return {"type": kind, **message}


def _sound(message: Any) -> bytes:
    return frame(json.dumps(message))


_WORDS = st.lists(_message().map(_sound), max_size=8).map(b"".join) | frames()
_PLACE = st.integers(0, 2)
_STEP = (
    st.tuples(st.sampled_from(["root says", "image says"]), _PLACE, _message().map(_sound) | _WORDS)
    | st.tuples(st.just("run says"), _PLACE, messages().map(_sound) | _WORDS)
    | st.tuples(st.sampled_from(["root closes", "image closes", "run closes"]), _PLACE, st.just(b""))
    | st.tuples(st.sampled_from(["fork", "attach", "release", "kill", "kill image", "unload"]), _PLACE, st.just(b""))
)


def check(given: Any, _place: None) -> None:
    """Of a stream: known messages, then its end, once. Of the family: see `Family.end`."""
    what, *rest = given
    asyncio.run(_live(*rest) if what == "family" else _converse(what, *rest))


async def _live(steps: list[tuple[str, int, bytes]]) -> None:
    family = Family()
    try:
        await family.begin()
        for action, number, data in steps:
            await family.act(action, number, data)
    finally:
        await family.end()


async def _converse(peer: str, data: bytes, cuts: list[int]) -> None:
    host, child = socket.socketpair()
    heard: list[object] = []
    lost: list[bool] = []
    stream = ControlStream(
        asyncio.get_running_loop(),
        host,
        lambda value: heard.append(_READERS[peer](value)),
        lambda: lost.append(True),
    )
    try:
        start = 0
        for end in [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]:
            child.setblocking(False)
            with contextlib.suppress(BrokenPipeError):  # the host has heard enough
                child.send(data[start:end])
            start = end
            for _ in range(3):
                await asyncio.sleep(0)
        child.close()
        async with asyncio.timeout(5):
            while not lost:  # noqa: ASYNC110  # the stream has no event for it
                await asyncio.sleep(0)
        assert lost == [True]
        assert stream.send({"type": "late"}) is False
    finally:
        stream.close()
        child.close()
    assert all(type(one).__name__ in {"RootReady", "ImageStarted", "ImageExited", "Loaded", "Refused", "RunStarted",
                                      "RunExited"} for one in heard)  # fmt: skip


TARGET = Target(
    about="control frames of root, images and spawned processes, in any order with what the host does",
    guided=True,
    inputs=(
        st.tuples(st.sampled_from([*_READERS]), _WORDS, st.lists(st.integers(0, 2000), max_size=5))
        | st.tuples(st.just("family"), st.lists(_STEP, max_size=14).map(lambda steps: [list(step) for step in steps]))
    ).map(list),
    check=check,
)
