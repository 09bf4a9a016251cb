"""A real HTTP server on loopback that speaks the chat-completions protocol of OpenAI, from a list of replies."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

MODEL: Final = "test-model"


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer: `body` as JSON, or, if there are `chunks`, a stream of events; `hang` sends nothing at all."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[Mapping[str, Any]] | None = None
    hang: bool = False


def says(content: str | None = None, *calls: Mapping[str, Any], finish: str = "stop", **message: Any) -> Reply:
    """A whole answer, with what it cost."""
    said = {"role": "assistant", "content": content, **message}
    if calls:
        said["tool_calls"] = list(calls)
    return Reply(
        {
            "id": "resp-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": MODEL,
            "choices": [{"index": 0, "finish_reason": finish, "message": said}],
            "usage": {
                "prompt_tokens": 30,
                "completion_tokens": 7,
                "total_tokens": 37,
                "prompt_tokens_details": {"cached_tokens": 10},
            },
        }
    )


def streams(*deltas: Mapping[str, Any], finish: str = "stop") -> Reply:
    """An answer that comes in pieces, what it cost at its end."""
    shared = {"id": "resp-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": MODEL}
    chunks = [{**shared, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": None}]} for delta in deltas]
    chunks.append({**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37}
    chunks.append({**shared, "choices": [], "usage": usage})
    return Reply(chunks=chunks)


def tool_call(id: str, name: str, arguments: str, **more: Any) -> dict[str, Any]:
    """A call as the protocol writes it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def fails(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    """An error."""
    body = {"error": {"message": message, "type": "some_error", "code": code, "param": None}}
    return Reply(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


class ChatServer:
    """Answers with the replies, in order. `requests` holds the JSON bodies it got."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            self.requests.append(json.loads(await reader.readexactly(length)))
            self.arrived.set()
            reply = self._replies.pop(0)
            if reply.hang:
                await reader.read()  # until the client gives up
                return
            writer.write(_bytes(reply))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


def _bytes(reply: Reply) -> bytes:
    if reply.chunks is None:
        kind, body = "application/json", json.dumps(reply.body).encode()
    else:
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in reply.chunks]
        kind, body = "text/event-stream", "".join([*events, "data: [DONE]\n\n"]).encode()
    headers = {"content-type": kind, "content-length": str(len(body)), "connection": "close", **reply.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode("latin-1") + body


@asynccontextmanager
async def chat_server(*replies: Reply) -> AsyncIterator[ChatServer]:
    """A server while the block lasts."""
    chat = ChatServer(replies)
    server = await asyncio.start_server(chat.serve, "127.0.0.1", 0)
    chat.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield chat
