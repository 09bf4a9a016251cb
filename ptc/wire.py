"""Values as flat tokens: the only form in which data crosses between Python and a program.

A wire value is a JSON array of tokens in pre-order: scalars stand for themselves, `{"kind":"array","length":N}` and
`{"kind":"object","keys":[…]}` announce the N values that follow, `{"kind":"bigint","digits":"…"}` is an integer that no
JavaScript number holds. However deep a value is, its JSON text nests three levels, so no parser's limit applies to it.

`encode` goes from a Python value to the text, `decode` from the parsed tokens (`ptc.frames.loads`) to a Python value,
`json_size` and `string_size` measure for the ledger. All of them keep their own stack: depth costs memory and
nothing else.
"""

import re
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring_ascii
from typing import Final, NoReturn, TypeAlias

from ptc.errors import NotJson, WireError
from ptc.limits import BIGINT_DIGITS, PATH_CHARS

__all__ = [
    "BAD_NUMBER",
    "MAX_SAFE_INTEGER",
    "MAX_VALUE_TOKENS",
    "WIRE_VERSION",
    "BadNumber",
    "Json",
    "NotJson",
    "WireError",
    "decode",
    "encode",
    "joined",
    "json_size",
    "number_text",
    "path_text",
    "prefix_within",
    "string_size",
]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What `decode` gives: the value of a program's argument or result."""

WIRE_VERSION: Final = 1
MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_VALUE_TOKENS: Final = 1_000_000

_BIGINT_END: Final = 10**BIGINT_DIGITS
_DIGITS: Final = re.compile(r"0|-?[1-9][0-9]*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LARGEST: Final = 1.7976931348623157e308  # every finite double lies within this and its negative

# A piece of text that is measured in one go: large enough for C speed, small enough that a copy of it does not matter.
_PIECE: Final = 65_536
# Digits converted in one go: below 640, the smallest limit Python lets anyone set for such conversions.
_DIGIT_PIECE: Final = 600

_SHORT_ESCAPES: Final = ("\b", "\t", "\n", "\f", "\r")
_LONG_ESCAPES: Final = tuple(chr(code) for code in range(0x20) if chr(code) not in _SHORT_ESCAPES)

_Key: TypeAlias = "str | int | None"


class BadNumber:
    """Stands for a number literal that no JavaScript program can have written (`-0`, `1e400`, `2**53 + 1`)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "BAD_NUMBER"


BAD_NUMBER: Final = BadNumber()


# --- Python value -> text ---------------------------------------------------------------------------------------------


def encode(value: object, root: str = "value", max_tokens: int = MAX_VALUE_TOKENS) -> str:
    """The wire text (ASCII JSON) of `value`, which may hold exactly None, bool, int, float, str, list, tuple and dict.

    Raises `NotJson` with `PATH: REASON` for the first slot in pre-order that cannot cross; PATH starts with `root`.
    """
    kind = type(value)
    if kind is str:
        return f"[{encode_basestring_ascii(value)}]"  # type: ignore[arg-type]  # mypy does not narrow `type(x) is`
    if value is None:
        return "[null]"
    if kind is bool:
        return "[true]" if value else "[false]"
    if type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return f"[{value}]"
    return _encode(value, root, max_tokens)


def _encode(value: object, root: str, max_tokens: int) -> str:
    parts: list[str] = []
    add = parts.append
    # `items` runs over the slots of the container we are in; the containers around it wait on `outer`, and `trail`
    # names the slots that lead to it. The value itself sits in a slot without a name.
    items: Iterator[tuple[_Key, object]] = iter(((None, value),))
    outer: list[tuple[Iterator[tuple[_Key, object]], int]] = []
    trail: list[_Key] = []
    active: set[int] = set()
    markers: dict[tuple[str, ...], str] = {}  # objects of one shape share their marker

    def refuse(key: _Key, reason: str) -> NoReturn:
        raise NotJson(f"{path_text(root, [*trail, key])}: {reason}")

    while True:
        for key, item in items:
            if len(parts) >= max_tokens:
                refuse(key, f"more than {max_tokens} tokens")
            kind = type(item)
            if kind is str:
                add(encode_basestring_ascii(item))  # type: ignore[arg-type]
            elif kind is int:
                if -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:  # type: ignore[operator]
                    add(str(item))
                elif -_BIGINT_END < item < _BIGINT_END:
                    add(f'{{"kind":"bigint","digits":"{_digits(item)}"}}')  # type: ignore[arg-type]
                else:
                    refuse(key, f"integer of more than {BIGINT_DIGITS} digits")
            elif item is None:
                add("null")
            elif item is True:
                add("true")
            elif item is False:
                add("false")
            elif kind is float:
                text = number_text(item)  # type: ignore[arg-type]
                if text in ("nan", "inf", "-inf", "-0"):
                    refuse(key, f"{_NO_NUMBER[text]} is not JSON")
                add(text)
            elif kind is dict and isinstance(item, dict):
                if id(item) in active:
                    refuse(key, "cycle")
                entries = item.copy()  # a thread that changes the value meanwhile cannot make the tokens disagree
                keys = tuple(entries)
                if list(map(type, keys)).count(str) != len(keys):
                    stranger = next(type(name) for name in keys if type(name) is not str)
                    refuse(key, f"key of type {stranger.__name__} is not a string")
                marker = markers.get(keys)
                if marker is None:
                    names = [encode_basestring_ascii(name) for name in keys]
                    if len(set(names)) != len(names):
                        refuse(key, "two keys equal in UTF-16")
                    marker = markers[keys] = f'{{"kind":"object","keys":[{",".join(names)}]}}'
                add(marker)
                outer.append((items, id(item)))
                active.add(id(item))
                trail.append(key)
                items = iter(entries.items())
                break
            elif (kind is list or kind is tuple) and isinstance(item, (list, tuple)):
                if id(item) in active:
                    refuse(key, "cycle")
                elements = tuple(item)
                add(f'{{"kind":"array","length":{len(elements)}}}')
                outer.append((items, id(item)))
                active.add(id(item))
                trail.append(key)
                items = enumerate(elements)
                break
            else:
                refuse(key, f"{kind.__name__} is not JSON")
        else:
            if not outer:
                return f"[{','.join(parts)}]"
            items, ended = outer.pop()
            active.remove(ended)
            trail.pop()


_NO_NUMBER: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "-0": "-0"}


def _digits(value: int) -> str:
    """`str(value)`, also where Python has been told to refuse conversions of that length."""
    try:
        return str(value)
    except ValueError:
        pieces: list[str] = []
        rest, step = abs(value), 10**_DIGIT_PIECE
        while rest >= step:
            rest, piece = divmod(rest, step)
            pieces.append(str(piece).rjust(_DIGIT_PIECE, "0"))
        return ("-" if value < 0 else "") + str(rest) + "".join(reversed(pieces))


def number_text(value: float) -> str:
    """A double as JavaScript prints it. Both languages choose the same shortest digits, but place them differently."""
    text = repr(value)
    if "e" not in text:
        return text[:-2] if text.endswith(".0") else text
    mantissa, _, power = text.partition("e")
    exponent = int(power)
    if exponent >= 21 or exponent < -6:
        return f"{mantissa}e{exponent:+d}"
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.removeprefix("-").replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return sign + digits.ljust(exponent + 1, "0")


def path_text(root: str, keys: Sequence[str | int | None]) -> str:
    """A way into a value as people write it, `args.items[2]["a b"]`; above 200 characters its middle is left out."""
    parts = [root]
    for key in keys:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif key is not None:
            parts.append(f".{key}" if _IDENTIFIER.fullmatch(key) else f"[{_quoted(key)}]")
    path = "".join(parts)
    if len(path) <= PATH_CHARS:
        return path
    return f"{path[:80]}…{path[len(path) - (PATH_CHARS - 81) :]}"


def _quoted(key: str) -> str:
    """`JSON.stringify(key)`: only quotes, backslashes, control characters and lone surrogates are escaped."""
    escaped = encode_basestring_ascii(key)
    if escaped[1:-1] == key:
        return escaped
    parts = ['"']
    for character in joined(key):
        plain = character > "~" and not _SURROGATE.match(character)
        parts.append(character if plain else encode_basestring_ascii(character)[1:-1])
    return "".join([*parts, '"'])


def joined(text: str) -> str:
    """`text` as it arrives in JavaScript: two halves of a surrogate pair side by side are one character."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# --- parsed tokens -> Python value ------------------------------------------------------------------------------------


def decode(tokens: object, max_tokens: int = MAX_VALUE_TOKENS) -> Json:
    """The value of parsed tokens, as `ptc.frames.loads` gives them. Raises `WireError` if any rule is broken.

    Read from its end, a pre-order list needs no bookkeeping: when a marker comes up, its values are the last ones seen.
    A marker that asks for more values than there are is refused before anything of that size is made.
    """
    if not isinstance(tokens, list):
        raise WireError("not an array of tokens")
    if not tokens:
        raise WireError("no tokens")
    if len(tokens) > max_tokens:
        raise WireError(f"{len(tokens)} tokens, more than {max_tokens}")
    seen: list[Json] = []  # the next value in reading order is the last of the list
    push = seen.append
    for token in reversed(tokens):
        kind = type(token)
        if kind is str or token is None or kind is bool:
            push(token)
        elif kind is int:
            if not -MAX_SAFE_INTEGER <= token <= MAX_SAFE_INTEGER:
                raise WireError("a number is an integer that JavaScript cannot hold")
            push(token)
        elif kind is float:
            if not -_LARGEST <= token <= _LARGEST:
                raise WireError("a number is not finite")
            if token == 0.0 and repr(token) == "-0.0":
                raise WireError("a number is -0")
            push(token)
        elif kind is dict:
            form = token.get("kind")
            if len(token) != 2:
                raise WireError("a marker has missing or extra members")
            if form == "object":
                keys = token.get("keys")
                if type(keys) is not list:
                    raise WireError("an object marker needs keys, an array of strings")
                values = _take(seen, len(keys))
                try:
                    "".join(keys)  # the quickest way to know that all are strings
                except TypeError:
                    raise WireError("an object marker needs keys, an array of strings") from None
                members = dict(zip(keys, values, strict=True))
                if len(members) != len(keys):
                    raise WireError("an object has a repeated key")
                push(members)
            elif form == "array":
                length = token.get("length")
                if type(length) is not int or length < 0:
                    raise WireError("an array marker needs a length, an integer of at least 0")
                push(_take(seen, length))
            elif form == "bigint":
                push(_bigint(token.get("digits")))
            else:
                raise WireError("a marker has an unknown kind")
        elif kind is BadNumber:
            raise WireError("a number is -0, too large or inexact")
        else:
            raise WireError(f"a token is {'a bare array' if kind is list else 'no scalar and no marker'}")
    if len(seen) != 1:
        raise WireError(f"{len(seen)} values instead of one")
    return seen[0]


def _take(seen: list[Json], count: int) -> list[Json]:
    if count > len(seen):
        raise WireError(f"a marker announces {count} values, {len(seen)} are left")
    if count == 0:
        return []
    values = seen[: -count - 1 : -1]
    del seen[-count:]
    return values


def _bigint(digits: object) -> int:
    if not isinstance(digits, str) or len(digits) > BIGINT_DIGITS + 1 or not _DIGITS.fullmatch(digits):
        raise WireError("a bigint marker needs digits, a decimal integer without leading zeros")
    size = len(digits) - digits.startswith("-")
    if size > BIGINT_DIGITS:
        raise WireError(f"a bigint has more than {BIGINT_DIGITS} digits")
    try:
        return int(digits)
    except ValueError:  # Python has been told to refuse conversions of that length
        value = 0
        for start in range(len(digits) - size, len(digits), _DIGIT_PIECE):
            piece = digits[start : start + _DIGIT_PIECE]
            value = value * 10 ** len(piece) + int(piece)
        return -value if digits.startswith("-") else value


# --- sizes ------------------------------------------------------------------------------------------------------------


def string_size(text: str) -> int:
    """Bytes of `text` as a JSON string in UTF-8, as JavaScript's `JSON.stringify` writes it, quotes included."""
    if text.isascii() and text.isprintable():  # nearly every text: nothing to escape but quotes and backslashes
        return len(text) + 2 + text.count('"') + text.count("\\")
    if len(text) > _PIECE:
        text = joined(text)
        return 2 + sum(_size_within(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE))
    return 2 + _size_within(text)


def _size_within(text: str) -> int:
    """The size without the quotes: every character's own bytes, plus what escaping adds."""
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            # A lone surrogate becomes six characters; as bytes that UTF-8 does not have it would be three.
            text = joined(text)
            size = len(text.encode("utf-8", "surrogatepass")) + 3 * len(_SURROGATE.findall(text))
    size += text.count('"') + text.count("\\")
    if not text.isprintable():  # so an ordinary text is not searched for each of the control characters
        size += sum(map(text.count, _SHORT_ESCAPES)) + 5 * sum(map(text.count, _LONG_ESCAPES))
    return size


def prefix_within(text: str, budget: int) -> str:
    """The longest start of `text`, cut between code points, whose `string_size` is at most `budget`."""
    text = joined(text)
    left = budget - 2
    end = 0
    while end < len(text):
        size = _size_within(text[end : end + _PIECE])
        if size > left:
            break
        left -= size
        end += _PIECE
    low, high = min(end, len(text)), min(end + _PIECE, len(text))
    while low < high:  # `low` characters fit, more than `high` do not
        middle = (low + high + 1) // 2
        if _size_within(text[end:middle]) <= left:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def json_size(value: Json) -> int:
    """Bytes of a decoded value as compact JSON in UTF-8, as JavaScript would write it (a BigInt as its digits)."""
    size = 0
    names: dict[str, int] = {}
    stack: list[Json] = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str:
            size += string_size(item)  # type: ignore[arg-type]
        elif item is None or item is True:
            size += 4
        elif item is False:
            size += 5
        elif kind is int:
            size += len(_digits(item))  # type: ignore[arg-type]
        elif kind is float:
            size += len(number_text(item))  # type: ignore[arg-type]
        elif isinstance(item, dict):
            # Braces, and for each member a colon and all but once a comma.
            size += 2 * len(item) + 1 if item else 2
            for name in item:
                length = names.get(name)
                if length is None:
                    length = names[name] = string_size(name)
                size += length
            stack.extend(item.values())
        elif isinstance(item, list):
            size += len(item) + 1 if item else 2
            stack.extend(item)
        else:
            raise TypeError(f"no decoded value: {kind.__name__}")
    return size
