"""Values on the wire, as far as Python is concerned. The golden vectors serve the prelude's tests too."""

import json
import math
import subprocess
import sys
import time
import tracemalloc
from collections import OrderedDict
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
import quickjs  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import frames, wire
from ptc.errors import NotJson, WireError

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden_wire.json").read_text("utf-8"))

CONTEXT = quickjs.Context()


def cyclic_list() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def cyclic_dict() -> dict[str, Any]:
    value: dict[str, Any] = {"a": {}}
    value["a"]["b"] = value
    return value


NAMES = {
    "datetime": datetime,
    "Decimal": Decimal,
    "OrderedDict": OrderedDict,
    "IntEnum": IntEnum,
    "cyclic_list": cyclic_list,
    "cyclic_dict": cyclic_dict,
}


def python(expression: str) -> Any:
    return eval(expression, dict(NAMES))


def same(one: Any, other: Any) -> bool:
    """Equal in value, type and key order, at any depth."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if list(left) != list(right):
                return False
            pairs.extend(zip(left.values(), right.values(), strict=True))
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif left != right:
            return False
    return True


def decoded(text: str, **options: int) -> wire.Json:
    return wire.decode(frames.loads(text.encode()), **options)


def nested(depth: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "array" else {"k": value}
    return value


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not (x == 0 and math.copysign(1, x) < 0))
    | st.text(st.characters(codec=None), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(st.characters(codec=None), max_size=6), inner, max_size=5)
    ),
    max_leaves=20,
)


def normal(value: Any) -> Any:
    """A value as it comes back from the wire: joined surrogates, and integral floats as what JavaScript holds."""
    if isinstance(value, str):
        return wire.joined(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= wire.MAX_SAFE_INTEGER:
        return int(value)
    if isinstance(value, dict):
        return {wire.joined(key): normal(item) for key, item in value.items()}
    return [normal(item) for item in value] if isinstance(value, list) else value


class TestGolden:
    @pytest.mark.parametrize("row", GOLDEN["values"], ids=lambda row: row["js"])
    def test_a_wire_text_decodes_to_its_python_value_and_encodes_again(self, row: dict[str, Any]) -> None:
        """PTC-001, PTC-002, PTC-010, PTC-011, PTC-013 golden values, the way from JavaScript."""
        value = decoded(row["wire"])
        assert same(value, python(row["python"]))
        assert wire.encode(value) == row.get("again", row["wire"])

    @pytest.mark.parametrize("row", GOLDEN["values"], ids=lambda row: row["js"])
    def test_a_value_has_the_size_javascript_gives_it(self, row: dict[str, Any]) -> None:
        """PTC-112 sizes of the golden values."""
        assert wire.json_size(decoded(row["wire"])) == row["size"]

    @pytest.mark.parametrize("row", GOLDEN["python"], ids=lambda row: row["python"])
    def test_a_python_value_encodes_to_its_wire_text(self, row: dict[str, Any]) -> None:
        """PTC-001, PTC-010, PTC-013 golden values, the way from Python."""
        assert wire.encode(python(row["python"])) == row["wire"]
        assert same(decoded(row["wire"]), normal(python(row["again"])))

    @pytest.mark.parametrize("row", GOLDEN["refused_python"], ids=lambda row: row["text"][:60])
    def test_what_is_not_json_is_refused_with_its_path(self, row: dict[str, Any]) -> None:
        """PTC-014, PTC-015 refusals from Python."""
        with pytest.raises(NotJson) as caught:
            wire.encode(python(row["python"]), root=row["root"])
        assert str(caught.value) == row["text"]

    @pytest.mark.parametrize("row", GOLDEN["malformed"], ids=lambda row: f"{row['why']}: {row['wire'][:50]}")
    def test_a_malformed_wire_is_refused_as_a_whole(self, row: dict[str, Any]) -> None:
        """PTC-012, PTC-016, PTC-018 every rule broken once."""
        with pytest.raises((WireError, frames.FrameError)):
            decoded(row["wire"])


class TestStructure:
    @settings(max_examples=150)
    @given(JSON_VALUES)
    def test_any_value_survives_a_round_trip(self, value: Any) -> None:
        """PTC-001, PTC-002, PTC-013 generated values, types and key order included."""
        try:
            text = wire.encode(value)
        except NotJson as refusal:
            assert "two keys equal" in str(refusal)
            return
        text.encode("ascii")
        back = decoded(text)
        assert same(back, normal(value))
        assert wire.encode(back) == text

    @pytest.mark.parametrize("kind", ["array", "object"])
    def test_depth_is_no_limit(self, kind: str) -> None:
        """PTC-003 100,000 levels are encoded, decoded and measured."""
        depth = 100_000
        value = nested(depth, kind)
        text = wire.encode(value)
        back = decoded(text)
        assert same(back, value)
        assert wire.json_size(back) == depth * (2 if kind == "array" else 6) + 1

    def test_tokens_are_counted_one_per_slot(self) -> None:
        """PTC-003 5,000 arrays around 1 are 5,001 tokens."""
        value = nested(5_000, "array")
        tokens = json.loads(wire.encode(value, max_tokens=5_001))
        assert len(tokens) == 5_001
        with pytest.raises(NotJson, match="more than 5000 tokens"):
            wire.encode(value, max_tokens=5_000)
        assert same(wire.decode(tokens, 5_001), value)
        with pytest.raises(WireError, match="5001 tokens, more than 5000"):
            wire.decode(tokens, 5_000)

    def test_shared_parts_become_copies(self) -> None:
        """PTC-007 a shared list is copied at each place."""
        shared = [1]
        back: Any = decoded(wire.encode({"a": shared, "b": shared}))
        back["a"].append(2)
        assert back["b"] == [1]

    def test_a_structure_that_doubles_ends_at_the_token_budget(self) -> None:
        """PTC-007 2**64 slots are refused soon and with little memory."""
        value: list[Any] = []
        for _ in range(64):
            value = [value, value]
        started = time.perf_counter()
        with pytest.raises(NotJson, match="more than 1000000 tokens"):
            wire.encode(value)
        assert time.perf_counter() - started < 10

    @pytest.mark.parametrize("marker", ['{"kind":"array","length":4294967295}', '{"kind":"array","length":999999}'])
    def test_an_announced_length_allocates_nothing(self, marker: str) -> None:
        """PTC-017 a length above the tokens left is refused first."""
        tokens = frames.loads(f"[{marker},1]".encode())
        tracemalloc.start()
        try:
            with pytest.raises(WireError, match="announces"):
                wire.decode(tokens)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()

    def test_the_first_offending_slot_in_reading_order_is_reported(self) -> None:
        """PTC-015 an earlier slot wins, however deep, and a key comes before the values."""
        with pytest.raises(NotJson, match=r"^value\.a\[0\]\.b: set is not JSON$"):
            wire.encode({"a": [{"b": set()}], "c": float("nan")})
        with pytest.raises(NotJson, match=r"^value: key of type int is not a string$"):
            wire.encode({"a": set(), 1: 2})
        with pytest.raises(NotJson, match=r"^value\[2\]: more than 3 tokens$"):
            wire.encode([1, 2, 3, set()], max_tokens=3)

    def test_a_path_is_cut_in_its_middle(self) -> None:
        """PTC-015 200 characters stay whole, above them the first 80 and the last 119 stay."""
        whole: dict[str, Any] = {"k" * 194: set()}
        with pytest.raises(NotJson) as caught:
            wire.encode(whole)
        assert str(caught.value) == f"value.{'k' * 194}: set is not JSON"
        with pytest.raises(NotJson) as caught:
            wire.encode({"a" * 100: {"b" * 100: set()}})
        path = str(caught.value).removesuffix(": set is not JSON")
        full = f"value.{'a' * 100}.{'b' * 100}"
        assert path == full[:80] + "…" + full[-119:]
        assert len(path) == 200

    def test_subclasses_are_not_json(self) -> None:
        """PTC-014 exact types only, for values and for keys, also of a shape seen before."""

        class Text(str):
            pass

        for value in (Text("x"), [Text("x")], type("D", (dict,), {})(), type("L", (list,), {})()):
            with pytest.raises(NotJson, match="is not JSON"):
                wire.encode(value)
        with pytest.raises(NotJson, match=r"^value\[1\]: key of type Text is not a string$"):
            wire.encode([{"a": 1}, {Text("a"): 1}])


class TestNumbers:
    @given(st.integers(-(10**400), 10**400))
    def test_every_integer_arrives_exactly(self, value: int) -> None:
        """PTC-010 integers of any size."""
        assert same(decoded(wire.encode(value)), value)

    def test_4300_digits_are_the_most(self) -> None:
        """PTC-010, PTC-018 both signs at the bound, in both directions."""
        for value in (10**4300 - 1, -(10**4300 - 1)):
            assert decoded(wire.encode(value)) == value
            assert wire.json_size(value) == 4300 + (value < 0)
        for digits in ("1" * 4301, "-" + "1" * 4301):
            with pytest.raises(WireError):
                wire.decode([{"kind": "bigint", "digits": digits}])

    def test_pythons_own_digit_limit_does_not_matter(self) -> None:
        """PTC-012 with Python's limit at its lowest, big integers still cross and long literals are still refused."""
        script = (
            "from ptc import frames, wire\n"
            "for n in (10**4300 - 1, -(10**4300 - 1), 10**4299, 10**1200, 10**600):\n"
            "    text = wire.encode(n)\n"
            "    assert wire.decode(frames.loads(text.encode())) == n\n"
            '    assert wire.json_size(n) == len(text) - len(\'[{"kind":"bigint","digits":""}]\')\n'
            "try:\n"
            "    frames.loads(b'[' + b'9' * 10**6 + b']')\n"
            "except frames.FrameError as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-X", "int_max_str_digits=640", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "number literal of 1000000 characters; 400 are allowed", done.stderr

    @pytest.mark.parametrize("literal", ["1" * 1_000_000, "0." + "1" * 1_000_000, "1e" + "1" * 1_000_000])
    def test_a_million_digit_literal_is_refused_cheaply(self, literal: str) -> None:
        """PTC-012 linear time: quadratic would take minutes."""
        started = time.perf_counter()
        with pytest.raises(frames.FrameError):
            frames.loads(f"[{literal}]".encode())
        assert time.perf_counter() - started < 1

    def test_a_literal_of_400_characters_is_read(self) -> None:
        """PTC-012 the bound itself is allowed."""
        assert decoded("[0." + "1" * 398 + "]") == pytest.approx(1 / 9)
        with pytest.raises(frames.FrameError):
            decoded("[0." + "1" * 399 + "]")

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_a_float_is_bit_equal_after_a_round_trip(self, value: float) -> None:
        """PTC-011 doubles of every size; an integral one in the safe range is the same number as an int."""
        if value == 0 and math.copysign(1, value) < 0:
            with pytest.raises(NotJson, match="-0 is not JSON"):
                wire.encode(value)
            return
        back = decoded(wire.encode(value))
        assert isinstance(back, (int, float))
        assert float(back).hex() == value.hex()
        assert isinstance(back, int) == (value.is_integer() and abs(value) <= wire.MAX_SAFE_INTEGER)

    @settings(max_examples=300)
    @given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(1e15, 1e22) | st.floats(1e-8, 1e-4))
    def test_a_float_is_written_as_javascript_prints_it(self, value: float) -> None:
        """PTC-011 PTC-012 against the engine, where the two languages place digits differently."""
        if value == 0:
            return
        printed: str = CONTEXT.eval(f"String({value!r})")
        found = frames.loads(printed.encode())
        assert isinstance(found, (int, float))
        assert float(found) == value
        # QuickJS prints 54 powers of two below 1 with a digit more than the language asks for.
        if math.frexp(abs(value))[0] != 0.5 or abs(value) > 1:
            assert wire.number_text(value) == printed

    @pytest.mark.parametrize(
        "token",
        [float("nan"), float("inf"), -float("inf"), -0.0, 2**53, -(2**53), frames.BAD_NUMBER, (), object()],
        ids=lambda token: repr(token) if type(token) is not object else "object",
    )
    def test_a_token_no_parser_gave_is_refused_too(self, token: object) -> None:
        """PTC-016 the decoder does not rely on who parsed."""
        with pytest.raises(WireError):
            wire.decode([token])


class TestSizes:
    @given(st.text(st.characters(codec=None)))
    def test_a_string_has_the_size_json_stringify_gives_it(self, text: str) -> None:
        """PTC-112 against Python's own JSON writer, with lone surrogates as six characters."""
        whole = wire.joined(text)
        lone = [c for c in whole if "\ud800" <= c <= "\udfff"]
        plain = "".join(c for c in whole if not "\ud800" <= c <= "\udfff")
        assert wire.string_size(text) == len(json.dumps(plain, ensure_ascii=False).encode()) + 6 * len(lone)

    @given(JSON_VALUES)
    def test_a_value_has_the_size_of_its_compact_json(self, value: Any) -> None:
        """PTC-112 generated values."""
        try:
            back: Any = decoded(wire.encode(value))
        except NotJson:
            return
        total, stack = 0, [back]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                total += 2 + max(len(item) - 1, 0) + sum(wire.string_size(key) + 1 for key in item)
                stack.extend(item.values())
            elif isinstance(item, list):
                total += 2 + max(len(item) - 1, 0)
                stack.extend(item)
            elif isinstance(item, str):
                total += wire.string_size(item)
            elif isinstance(item, float):
                total += len(wire.number_text(item))
            else:
                total += len(json.dumps(item))
        assert wire.json_size(back) == total

    @given(st.text(st.characters(codec=None), max_size=40), st.integers(2, 120))
    def test_a_prefix_is_the_longest_that_fits(self, text: str, budget: int) -> None:
        """PTC-111 cut on the exact byte, between code points."""
        start = wire.prefix_within(text, budget)
        whole = wire.joined(text)
        assert whole.startswith(start)
        assert wire.string_size(start) <= budget
        if start != whole:
            assert wire.string_size(whole[: len(start) + 1]) > budget

    def test_long_texts_are_measured_without_an_escaped_copy(self) -> None:
        """PTC-112 measuring 4 MB that escape to 24 MB takes little memory, and so does finding a prefix."""
        text = "\x01" * 4_000_000
        tracemalloc.start()
        try:
            assert wire.string_size(text) == 24_000_002
            assert wire.string_size("é" * 100_000 + '"') == 200_004
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()
        assert len(wire.prefix_within(text, 6_000_001)) == 999_999
        assert len(wire.prefix_within("é" * 200_000, 300_002)) == 150_000

    def test_pieces_do_not_split_a_pair(self) -> None:
        """PTC-112 two halves that meet at the border of a piece are one character of four bytes."""
        text = "a" * 65_535 + "\ud83d\ude00" + "b" * 65_536
        assert wire.string_size(text) == 65_535 + 4 + 65_536 + 2
