"""Framing and strict JSON."""

import itertools
import json
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import frames
from ptc.errors import FrameError

CAP = 1 << 20


def bodies(data: bytes, cuts: list[int], cap: int = CAP) -> list[bytes]:
    """What a reader gives when `data` arrives cut at the given places."""
    reader = frames.FrameReader(cap)
    found: list[bytes] = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        reader.feed(data[start:end])
        found.extend(reader)
    return found


class TestReader:
    @settings(max_examples=100)
    @given(st.lists(st.text(min_size=0, max_size=30), max_size=8), st.lists(st.integers(0, 10_000), max_size=12))
    def test_any_split_gives_the_same_frames(self, texts: list[str], cuts: list[int]) -> None:
        """PTC-019 generated splits."""
        sent = [json.dumps(text, ensure_ascii=False).encode() for text in texts]
        assert bodies(b"".join(frames.frame(body) for body in sent), cuts) == sent

    def test_single_bytes_give_the_same_frames(self) -> None:
        """PTC-019 cut at every byte, inside headers and characters too."""
        sent = ['"é😀"'.encode(), b"{}", b'{"a":[1,2,3]}']
        data = b"".join(frames.frame(body) for body in sent)
        assert bodies(data, list(range(len(data)))) == sent

    @pytest.mark.parametrize("length", [0, CAP + 1, 2**32 - 1])
    def test_a_bad_length_is_refused_on_the_header(self, length: int) -> None:
        """PTC-020 before any byte of the body, and after the frames before it."""
        reader = frames.FrameReader(CAP)
        reader.feed(frames.frame("1") + length.to_bytes(4, "big")[:3])
        assert list(reader) == [b"1"]
        reader.feed(length.to_bytes(4, "big")[3:])
        with pytest.raises(FrameError, match=f"frame of {length} bytes; 1 to {CAP} are allowed"):
            reader.next_frame()
        with pytest.raises(FrameError):
            reader.next_frame()

    def test_a_frame_of_exactly_the_cap_passes(self) -> None:
        """PTC-020 the cap itself."""
        body = b'"' + b"x" * (CAP - 2) + b'"'
        assert bodies(frames.frame(body), [CAP // 2]) == [body]

    def test_a_header_alone_costs_no_memory(self) -> None:
        """PTC-021 a header that announces 4 GiB, then silence."""
        tracemalloc.start()
        try:
            reader = frames.FrameReader(2**32 - 1)
            reader.feed(b"\xff\xff\xff\xff")
            assert reader.next_frame() is None
            reader.feed(b"x")
            assert reader.next_frame() is None
            assert tracemalloc.get_traced_memory()[1] < 10_000
        finally:
            tracemalloc.stop()

    def test_a_million_small_frames_take_linear_time_and_constant_memory(self) -> None:
        """PTC-025 fed in chunks that end inside a frame; memory is watched during the last of them."""
        unit = frames.frame("[1]")
        reader, count = frames.FrameReader(CAP), 0
        reader.feed(unit[:3])
        chunk = unit[3:] + unit * 9_362 + unit[:3]

        def drain() -> int:
            reader.feed(chunk)
            return sum(1 for _ in reader)

        started = time.perf_counter()
        while count < 1_000_000:
            count += drain()
        assert time.perf_counter() - started < 30
        tracemalloc.start()
        try:
            for _ in range(5):
                assert drain() == 9_363
            assert tracemalloc.get_traced_memory()[1] < 500_000
        finally:
            tracemalloc.stop()

    def test_one_large_chunk_of_small_frames_is_linear(self) -> None:
        """PTC-025 all in one chunk."""
        started = time.perf_counter()
        assert len(bodies(frames.frame("[1]") * 300_000, [])) == 300_000
        assert time.perf_counter() - started < 20


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            b'"\xff"',
            b'"\xc0\xaf"',
            b'"\xe0\x80\xaf"',
            b'"\xf0\x80\x80\xaf"',
            b'"\xed\xa0\x80"',
            b'"\xf4\x90\x80\x80"',
            b'"\xc3"',
            b"\xef\xbb\xbf{}",
            b"\xff\xfe{}",
            b"",
            b" ",
            b"{",
            b'{"a":1',
            b'{"a":1,}',
            b"[1,]",
            b"{}{}",
            b"{} x",
            b"1 2",
            b"// c\n{}",
            b"{}/* c */",
            b"NaN",
            b"[Infinity]",
            b'{"a":-Infinity}',
            b"[+1]",
            b"[01]",
            b"[.5]",
            b"[1.]",
            b"[0x10]",
            b"{a:1}",
            b"{'a':1}",
            b'"\x01"',
            b'"\\x41"',
            b'"\\ud8"',
            b"True",
            b"None",
            b"\x0b{}",
            b"\xc2\xa0{}",
            b"[" + b"1" * 401 + b"]",
        ],
        ids=repr,
    )
    def test_what_is_not_strict_json_is_refused(self, body: bytes) -> None:
        """PTC-022 each departure once."""
        with pytest.raises(FrameError):
            frames.loads(body)

    def test_white_space_around_the_value_is_fine(self) -> None:
        """PTC-022 the four characters JSON allows."""
        assert frames.loads(b' \t\r\n{"a" : [ 1 , 2 ] }\n') == {"a": [1, 2]}

    @pytest.mark.parametrize(
        "body",
        [
            b'{"type":"log","type":"log"}',
            b'{"args":[{"kind":"array","kind":"object","length":0}]}',
            b'[{"a":{"b":1,"c":2,"b":1}}]',
            b'{"a":1,"\\u0061":2}',
            b'{"__proto__":1,"__proto__":2}',
        ],
        ids=repr,
    )
    def test_a_repeated_key_is_refused_anywhere(self, body: bytes) -> None:
        """PTC-023 envelope, marker, elsewhere, and in another spelling."""
        with pytest.raises(FrameError, match="occurs twice"):
            frames.loads(body)

    @pytest.mark.parametrize("unit", [b"[", b'{"a":', b'[{"a":'])
    def test_deep_nesting_is_refused_without_a_crash(self, unit: bytes) -> None:
        """PTC-024 100,000 levels, open and closed."""
        with pytest.raises(FrameError):
            frames.loads(unit * 100_000)
        with pytest.raises(FrameError, match="nested"):
            frames.loads(b"[" * 100_000 + b"]" * 100_000)

    @pytest.mark.parametrize(
        ("literal", "value"),
        [
            (b"0", 0),
            (b"9007199254740991", 2**53 - 1),
            (b"-9007199254740991", -(2**53 - 1)),
            (b"9007199254740992", 2.0**53),
            (b"9223372036854776000", 2.0**63),
            (b"100000000000000000000", 1e20),
            (b"1e300", 1e300),
            (b"1E2", 100.0),
            (b"0.0", 0.0),
            (b"1e-400", 0.0),
        ],
    )
    def test_numbers_have_the_type_of_their_spelling(self, literal: bytes, value: float) -> None:
        """PTC-011 int in the safe range, float with fraction, exponent or size."""
        found = frames.loads(literal)
        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize(
        "literal",
        [
            b"-0",
            b"-0.0",
            b"-0e5",
            b"-1e-400",
            b"1e400",
            b"-1e400",
            b"9007199254740993",
            b"9223372036854775808",
            b"1000000000000000000000",
            b"1" + b"0" * 309,
        ],
    )
    def test_numbers_javascript_does_not_print_are_marked(self, literal: bytes) -> None:
        """PTC-012 left to the reader of the value, so that a completion is invalid output and no broken frame."""
        assert frames.loads(literal) is frames.BAD_NUMBER

    @given(st.binary(max_size=60))
    def test_arbitrary_bytes_give_a_value_or_a_frame_error(self, body: bytes) -> None:
        """PTC-043 nothing else escapes."""
        try:
            frames.loads(body)
        except FrameError as error:
            assert len(str(error)) < 300

    def test_a_message_is_written_in_ascii(self) -> None:
        """PTC-019 what we write is what we read."""
        message = {"type": "log", "text": "é\ud800😀", "n": 1.5}
        data = frames.encode(message)
        data[4:].decode("ascii")
        assert frames.loads(bodies(data, [])[0]) == message
