"""The wire: any bytes in, messages and errors out."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs.errors import LineTooLong, RequestError, WireError
from jsrun.plugs.wire import LINE_BYTES, MIN_LINE_BYTES, Answer, Call, Cancel, Invalid, Item, Wire

LINES = [
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1,2.5]}}',
    b'{"jsonrpc":"2.0","id":"1","method":"b"}',
    b'{"jsonrpc":"2.0","id":null,"method":"b"}',
    b'{"jsonrpc":"2.0","method":"c","params":null}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":9}}',
    b'{"jsonrpc":"2.0","id":0,"result":{}}',
    b'{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"m","data":[]}}',
    b'{"jsonrpc":"2.0","id":7,"result":1}',
    b"",
    b"\xff",
    b"[]",
    b'{"jsonrpc":"2.0","id":1.5,"method":"a"}',
    b'{"jsonrpc":"2.0","id":true,"method":"a"}',
    b'{"jsonrpc":"2.0","id":{},"method":"a"}',
    b'{"jsonrpc":"2.0","method":"a","params":NaN}',
    b'{"jsonrpc":"2.0","method":"a","params":3}',
    b'{"jsonrpc":"2.0","id":0,"error":{"code":"x"}}',
    '{"jsonrpc":"2.0","method":"ü\\ud800"}\r'.encode(),
    b"[" * 3000,
]


def items(wire: Wire, *chunks: bytes) -> list[Item | str]:
    """All that comes out; the last may be the name of an error."""
    found: list[Item | str] = []
    for chunk in chunks:
        wire.receive(chunk)
        found += _ready(wire)
        if found[-1:] == ["too long"]:
            return found
    wire.end()
    return found + _ready(wire)


def _ready(wire: Wire) -> list[Item | str]:
    found: list[Item | str] = []
    while True:
        try:
            item = wire.next_item()
        except LineTooLong:
            return [*found, "too long"]
        if item is None:
            return found
        found.append(item)


def shown(found: list[Item | str]) -> list[Any]:
    """Items as comparable values; errors have an identity of their own."""
    return [
        (item.number, item.result, None if item.error is None else item.error.args, item.size)
        if isinstance(item, Answer)
        else item
        for item in found
    ]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data in pieces."""
    places = sorted({min(cut, len(data)) for cut in cuts})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


some_bytes = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from(LINES), max_size=8).map(lambda lines: b"\n".join(lines)),
    st.lists(st.one_of(st.sampled_from(LINES), st.binary(max_size=20)), max_size=8).map(
        lambda lines: b"\n".join(lines) + b"\n"
    ),
)


def asking(limit: int = LINE_BYTES) -> Wire:
    """A wire with one request of ours open."""
    wire = Wire("agent", limit)
    wire.request("ours", None)
    return wire


@pytest.mark.plg("PLG-061")
@settings(max_examples=300, deadline=None)
@given(some_bytes, st.lists(st.integers(0, 1000), max_size=12))
def test_any_bytes_in_any_split_give_the_same(data: bytes, cuts: list[int]) -> None:
    """PLG-061 Fed any bytes in any split, it raises only WireError and gives the same messages for every split."""
    assert shown(items(asking(), *split(data, cuts))) == shown(items(asking(), data))


@pytest.mark.plg("PLG-061")
@settings(max_examples=60, deadline=None)
@given(st.integers(-3, 3), st.lists(st.integers(0, MIN_LINE_BYTES + 200), max_size=6), st.booleans())
def test_a_line_around_the_limit_gives_the_same_for_every_split(more: int, cuts: list[int], last: bool) -> None:
    """PLG-061 Also a line too long is found in every split, after the messages before it."""
    first = LINES[0]
    long = b'{"jsonrpc":"2.0","method":"%s"}'
    long = long % (b"x" * (MIN_LINE_BYTES + more - len(long) + 2))
    assert len(long) == MIN_LINE_BYTES + more
    data = first + b"\n" + long + (b"" if last else b"\n" + first.replace(b"1", b"2"))
    found = shown(items(asking(MIN_LINE_BYTES), *split(data, cuts)))
    assert found == shown(items(asking(MIN_LINE_BYTES), data))
    assert isinstance(found[0], Call) and (found[1] == "too long") is (more > 0)


@pytest.mark.plg("PLG-055")
def test_a_line_of_exactly_the_limit_passes_and_one_byte_more_fails() -> None:
    """PLG-055 A line of exactly the limit passes, one byte more fails with `LineTooLong`; 1 MiB passes by default."""

    def line(size: int) -> bytes:
        frame = b'{"jsonrpc":"2.0","method":""}'
        return b'{"jsonrpc":"2.0","method":"%s"}' % (b"m" * (size - len(frame)))

    wire = Wire("agent", MIN_LINE_BYTES)
    wire.receive(line(MIN_LINE_BYTES) + b"\n")
    assert isinstance(wire.next_item(), Call)
    wire.receive(line(MIN_LINE_BYTES + 1))
    with pytest.raises(LineTooLong) as caught:
        wire.next_item()
    assert (caught.value.side, caught.value.limit) == ("agent", MIN_LINE_BYTES)
    assert isinstance(caught.value, WireError)
    wire.receive(b"\n" + line(100) + b"\n")
    with pytest.raises(LineTooLong):
        wire.next_item()

    whole = Wire("client")
    whole.receive(line(1 << 20) + b"\n")
    assert isinstance(whole.next_item(), Call)


@pytest.mark.plg("PLG-055")
def test_a_line_that_goes_out_has_the_same_limit() -> None:
    """PLG-055 One byte more fails on the way out, too, and names the side the message came from."""
    wire = Wire("agent", MIN_LINE_BYTES)
    room = MIN_LINE_BYTES - len(wire.notification("m", [""])) + 1
    assert len(wire.notification("m", ["x" * room])) == MIN_LINE_BYTES + 1  # with its end
    with pytest.raises(LineTooLong) as caught:
        wire.notification("m", ["x" * (room + 1)])
    assert caught.value.side == "client"
    with pytest.raises(LineTooLong):
        wire.request("m", ["x" * MIN_LINE_BYTES])
    assert wire.asked == 0


def test_a_limit_under_64_kib_is_refused() -> None:
    """A smaller limit would refuse ordinary prompts."""
    with pytest.raises(ValueError, match="65,536"):
        Wire("agent", MIN_LINE_BYTES - 1)


@pytest.mark.plg("PLG-056")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"Starting agent...", -32700),
        (b"", -32700),
        (b"\xff\xfe", -32700),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"a"}', -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","method":"a","params":' + b"[" * 200 + b"]" * 200 + b"}", -32700),
        (b'{"jsonrpc":"2.0","method":"a","params":[1e999]}', -32700),
        (b'{"jsonrpc":"2.0","method":"a","params":[-Infinity]}', -32700),
        (b'{"jsonrpc":"2.0","method":"a","params":[' + b"9" * 4001 + b"]}", -32700),
        (b'{"jsonrpc":"2.0","method":"a","params":[0.' + b"9" * 4001 + b"]}", -32700),
        (b'[{"jsonrpc":"2.0","method":"a"}]', -32600),
        (b'{"method":"a"}', -32600),
        (b'{"jsonrpc":"2.0","method":1}', -32600),
        (b'{"jsonrpc":"2.0","method":"a","params":"b"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"a"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"$/cancel_request"}', -32600),
        (b'{"jsonrpc":"2.0","method":"$/cancel_request"}', -32600),
    ],
)
def test_what_is_no_message_is_told(line: bytes, code: int) -> None:
    """PLG-056 Text, batches, deep nesting and out-of-range numbers are invalid, and the next line is read."""
    wire = Wire("agent")
    wire.receive(line + b'\n{"jsonrpc":"2.0","method":"next"}\n')
    bad, good = wire.next_item(), wire.next_item()
    assert isinstance(bad, Invalid) and bad.code == code and bad.size == len(line) and bad.reason.endswith(".")
    assert isinstance(good, Call) and good.method == "next"


def test_numbers_and_depth_at_the_limit_pass() -> None:
    """4,000 digits and 128 levels are taken."""
    wire = Wire("agent")
    wire.receive(b'{"jsonrpc":"2.0","method":"a","params":[%s]}\n' % (b"9" * 4000))
    wire.receive(b'{"jsonrpc":"2.0","method":"a","params":%s%s}\n' % (b"[" * 127, b"]" * 127))
    first, second = wire.next_item(), wire.next_item()
    assert isinstance(first, Call) and first.params == [int("9" * 4000)]
    assert isinstance(second, Call)
    wire.notification("b", second.params)


def test_an_id_in_flight_is_not_taken_twice() -> None:
    """A repeated id is invalid until the first request is answered; 1 and "1" are two ids."""
    wire = Wire("client")
    for id in (b"1", b'"1"', b"1"):
        wire.receive(b'{"jsonrpc":"2.0","id":%s,"method":"a"}\n' % id)
    first, second, third = wire.next_item(), wire.next_item(), wire.next_item()
    assert isinstance(first, Call) and isinstance(second, Call) and isinstance(third, Invalid)
    assert third.code == -32600 and wire.open == 2
    assert first.number is not None
    assert json.loads(wire.result(first.number, {"r": 1})) == {"jsonrpc": "2.0", "id": 1, "result": {"r": 1}}
    wire.receive(b'{"jsonrpc":"2.0","id":1,"method":"a"}\n')
    assert isinstance(wire.next_item(), Call)


def test_answers_are_matched_to_what_was_asked_once() -> None:
    """An answer with an unknown id, or a second one, answers nothing."""
    wire = Wire("agent")
    number, line = wire.request("a", {"x": 1})
    assert json.loads(line) == {"jsonrpc": "2.0", "id": number, "method": "a", "params": {"x": 1}}
    for id in (number, number, "0", 99):
        wire.receive(json.dumps({"jsonrpc": "2.0", "id": id, "result": "r", "error": None}).encode() + b"\n")
    found = [wire.next_item() for _ in range(4)]
    assert [item.number for item in found if isinstance(item, Answer)] == [number, None, None, None]


def test_a_cancel_names_our_number_of_the_request() -> None:
    """The far side's id of a cancelled request is turned into ours; one that is not open is None."""
    wire = Wire("client")
    wire.receive(b'{"jsonrpc":"2.0","id":"x","method":"a"}\n')
    wire.receive(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"x"}}\n')
    wire.receive(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"y"}}\n')
    call, cancel, unknown = wire.next_item(), wire.next_item(), wire.next_item()
    assert isinstance(call, Call) and isinstance(cancel, Cancel) and isinstance(unknown, Cancel)
    assert cancel.number == call.number and unknown.number is None


def test_an_error_answer_keeps_code_message_and_data() -> None:
    """What the far side says is wrong arrives whole."""
    wire = Wire("agent")
    wire.request("a", None)
    wire.receive(b'{"jsonrpc":"2.0","id":0,"error":{"code":-32001,"message":"no","data":{"x":[1]}}}\n')
    item = wire.next_item()
    assert isinstance(item, Answer) and item.error is not None
    assert item.error.args == RequestError(-32001, "no", {"x": [1]}).args
