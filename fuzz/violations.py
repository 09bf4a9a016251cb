"""Frames, sound ones and one for each rule of the channel that bytes, messages or values can break."""

from typing import Final

from ptc.frames import encode, frame

__all__ = ["DONE", "FRAMES", "MESSAGES", "READY", "WIRES", "call", "done", "log"]

READY: Final = encode({"type": "ready", "wire": 1})
DONE: Final = encode({"type": "done"})


def call(number: object = 1, name: object = "f", args: object = (1,), global_name: object = "t") -> bytes:
    """A frame that asks for a host function."""
    return encode({"type": "call", "id": number, "global": global_name, "name": name, "args": args})


def done(**members: object) -> bytes:
    """A frame that ends the run."""
    return encode({"type": "done", **members})


def log(**members: object) -> bytes:
    """A frame with a console entry."""
    return encode({"type": "log", **members})


FRAMES: Final[dict[str, bytes]] = {
    "length 0": b"\0\0\0\0",
    "length above the cap": b"\x01\x00\x00\x01",
    "length 2**32-1": b"\xff\xff\xff\xff",
    "truncated JSON": frame(b'{"type":"done"'),
    "invalid UTF-8": frame(b'{"type":"done","x":"\xff"}'),
    "overlong UTF-8": frame(b'{"type":"done","x":"\xc0\xaf"}'),
    "encoded surrogate": frame(b'{"type":"done","x":"\xed\xa0\x80"}'),
    "byte-order mark": frame(b"\xef\xbb\xbf" + b'{"type":"done"}'),
    "text after the value": frame(b'{"type":"done"}x'),
    "two values": frame(b'{"type":"done"}{"type":"done"}'),
    "comment": frame(b'{"type":"done"/**/}'),
    "NaN": frame(b'{"type":"done","x":NaN}'),
    "Infinity": frame(b'{"type":"done","x":-Infinity}'),
    "key twice": frame(b'{"type":"done","type":"done"}'),
    "key twice inside": frame(b'{"type":"done","x":[{"a":1,"a":2}]}'),
    "key twice, escaped": frame(b'{"type":"done","x":{"a":1,"\\u0061":2}}'),
    "a hundred thousand brackets": frame(b"[" * 100_000 + b"]" * 100_000),
    "a hundred thousand objects": frame(b'{"a":' * 100_000),
    "a literal of 200,000 digits": frame(b'{"type":"done","x":' + b"9" * 200_000 + b"}"),
    "NUL bytes": frame(b"\0" * 20),
    "line ends only": frame(b"\r\n"),
}

MESSAGES: Final[dict[str, bytes]] = {
    "null": frame(b"null"),
    "array": frame(b"[]"),
    "number": frame(b"1"),
    "text": frame(b'"done"'),
    "no type": frame(b"{}"),
    "type null": encode({"type": None}),
    "type as list": encode({"type": ["done"]}),
    "unknown type": encode({"type": "exec"}),
    "ready again": READY,
    "boot": encode({"type": "boot", "data": {}, "limits": {}}),
    "reply": encode({"type": "reply", "id": 1, "ok": True, "value": [1]}),
    "control message": encode({"type": "exited", "run": 1, "code": 0, "signal": None, "cpuMs": 0.0, "maxRssKb": 1}),
    "id 0": call(0),
    "id -1": call(-1),
    "id 2 first": call(2),
    "id 1.0": frame(b'{"type":"call","id":1.0,"global":"t","name":"f","args":[1]}'),
    "id 1e0": frame(b'{"type":"call","id":1e0,"global":"t","name":"f","args":[1]}'),
    "id true": call(True),
    "id as text": call("1"),
    "id null": call(None),
    "id 2**53+1": call(2**53 + 1),
    "id 2**32+1": call(2**32 + 1),
    "no id": encode({"type": "call", "global": "t", "name": "f", "args": [1]}),
    "undeclared function": call(1, "g"),
    "undeclared namespace": call(1, global_name="u"),
    "inherited constructor": call(1, "constructor"),
    "inherited toString": call(1, "toString"),
    "name __proto__": call(1, "__proto__"),
    "name __class__": call(1, "__class__"),
    "namespace __proto__": call(1, global_name="__proto__"),
    "name as list": call(1, ["f"]),
    "name as number": call(1, 1),
    "namespace null": call(1, global_name=None),
    "name with NUL": call(1, "f\0"),
    "no args": encode({"type": "call", "id": 1, "global": "t", "name": "f"}),
    "log without text": log(),
    "log text as number": log(text=1),
    "log text null": log(text=None),
    "log of an unknown level": log(text="x", level="fatal"),
    "log level null": log(text="x", level=None),
    "log cut negative": log(text="x", cut=-1),
    "log cut true": log(text="x", cut=True),
    "log cut 1.5": log(text="x", cut=1.5),
    "error null": done(error=None),
    "error as text": done(error="x"),
    "error without message": done(error={"kind": "exception"}),
    "error without kind": done(error={"message": "x"}),
    "error message as number": done(error={"kind": "exception", "message": 1}),
    "error stack as number": done(error={"kind": "exception", "message": "x", "stack": 1}),
    "error at line 0": done(error={"kind": "exception", "message": "x", "at": {"line": 0, "column": 1}}),
    "error at null": done(error={"kind": "exception", "message": "x", "at": None}),
    "error at line 1.0": frame(
        b'{"type":"done","error":{"kind":"exception","message":"x","at":{"line":1.0,"column":1}}}'
    ),
    "cpuMs negative": done(cpuMs=-1),
    "cpuMs as text": done(cpuMs="1"),
    "cpuMs true": done(cpuMs=True),
    **{
        f"error claims {kind}": done(error={"kind": kind, "message": "x"})
        for kind in (
            "timeout",
            "abort",
            "worker-exit",
            "protocol",
            "sandbox-unavailable",
            "memory-limit",
            "compute-limit",
            "call-limit",
        )
    },
}

_ARRAY1: Final = {"kind": "array", "length": 1}
WIRES: Final[dict[str, object]] = {
    "no array": {"a": 1},
    "null itself": None,
    "empty": [],
    "two values": [1, 2],
    "bare array inside": [[1]],
    "unknown kind": [{"kind": "map", "length": 0}],
    "kind missing": [{"length": 0}],
    "plain object": [{}],
    "kind as number": [{"kind": 1}],
    "array without length": [{"kind": "array"}],
    "array with more members": [{"kind": "array", "length": 0, "x": 1}],
    "array of negative length": [{"kind": "array", "length": -1}],
    "array length true": [{"kind": "array", "length": True}, 1],
    "array length 1.0": [{"kind": "array", "length": 1.0}, 1],
    "array length as text": [{"kind": "array", "length": "1"}, 1],
    "array too few": [{"kind": "array", "length": 2}, 1],
    "array length 2**53": [{"kind": "array", "length": 2**53}],
    "array left over": [_ARRAY1, 1, 2],
    "object without keys": [{"kind": "object"}],
    "object keys as object": [{"kind": "object", "keys": {}}],
    "object key as number": [{"kind": "object", "keys": [1]}, 1],
    "object key null": [{"kind": "object", "keys": [None]}, 1],
    "object key twice": [{"kind": "object", "keys": ["a", "a"]}, 1, 2],
    "object with more members": [{"kind": "object", "keys": [], "length": 0}],
    "object too few": [{"kind": "object", "keys": ["a", "b"]}, 1],
    "object left over": [{"kind": "object", "keys": ["a"]}, 1, 2],
    "bigint without digits": [{"kind": "bigint"}],
    "bigint digits as number": [{"kind": "bigint", "digits": 5}],
    "bigint empty": [{"kind": "bigint", "digits": ""}],
    "bigint 01": [{"kind": "bigint", "digits": "01"}],
    "bigint -0": [{"kind": "bigint", "digits": "-0"}],
    "bigint +1": [{"kind": "bigint", "digits": "+1"}],
    "bigint 1e3": [{"kind": "bigint", "digits": "1e3"}],
    "bigint with a blank": [{"kind": "bigint", "digits": "1 "}],
    "bigint in other digits": [{"kind": "bigint", "digits": "\u0661"}],
    "bigint of 4301 digits": [{"kind": "bigint", "digits": "1" * 4301}],
    "bigint with more members": [{"kind": "bigint", "digits": "1", "x": 1}],
    "minus zero": [-0.0],
    "integer that is no double": [9007199254740993],
    "too many tokens": [{"kind": "array", "length": 1000}, *[1] * 1000],
}
