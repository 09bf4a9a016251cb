"""control: what root, images and spawned processes say to the host, and what the host makes of it."""

import asyncio
import contextlib
import json
import socket
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fuzz.strategies import NUMBERS, TEXT, frames, json_values
from fuzz.targets import Target
from ptc._control import ControlStream
from ptc.frames import frame
from ptc.protocol import control

_READERS = {
    "root": control.root_message,
    "image": control.image_message,
    "spawned": control.spawned_message,
}


def _messages() -> SearchStrategy[Any]:
    """Control messages: sound ones with a part of any kind now and then."""
    engine = st.fixed_dictionaries({"name": st.just("quickjs") | TEXT, "version": st.just("1") | TEXT})
    isolation = st.fixed_dictionaries(
        {"process": st.just("fork") | TEXT, "rlimits": st.lists(TEXT, max_size=2), "seccomp": st.just("filter") | TEXT}
    )
    kinds: dict[str, dict[str, SearchStrategy[Any]]] = {
        "root": {"engine": engine, "rejections": st.just("all"), "rlimits": st.lists(TEXT, max_size=2)},
        "started": {"run": st.integers(0, 3), "image": st.integers(0, 3), "pid": st.integers(-1, 2**40)},
        "exited": {"run": st.integers(0, 3), "image": st.integers(0, 3), "code": NUMBERS | st.none(),
                   "signal": NUMBERS | st.none(), "cpuMs": NUMBERS, "maxRssKb": NUMBERS},
        "loaded": {"engine": engine, "isolation": isolation, "loadMs": NUMBERS},
        "refused": {"problem": json_values(4)},
    }  # fmt: skip

    @st.composite
    def made(draw: DrawFn) -> Any:
        kind = draw(st.sampled_from([*kinds]))
        message: dict[str, Any] = {"type": kind}
        for name, part in kinds[kind].items():
            if draw(st.integers(0, 6)):
                message[name] = draw(part if draw(st.integers(0, 4)) else json_values(2))
        return message

    return made()


def check(given: Any, _place: None) -> None:
    """Every frame is a message the host knows or the end of the stream, told once; nothing else comes of it."""
    peer, data, cuts = given
    asyncio.run(_converse(peer, data, cuts))


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


_SOUND = st.lists(_messages().map(lambda message: frame(json.dumps(message))), max_size=6).map(b"".join)

TARGET = Target(
    about="arbitrary control frames of root, images and spawned processes to the host",
    guided=True,
    inputs=st.tuples(st.sampled_from([*_READERS]), _SOUND | frames(), st.lists(st.integers(0, 2000), max_size=5)).map(
        list
    ),
    check=check,
)
