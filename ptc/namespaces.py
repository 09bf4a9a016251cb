"""What a program may call: named tables of host functions, and the checks of their declaration.

Everything is checked before a process exists, and a refusal (`UsageError`) names the place.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ptc.errors import UsageError
from ptc.wire import joined

__all__ = ["GLOBALS", "Blocking", "ErrorClass", "HostFunction", "Namespace", "blocking", "normalize"]

HostFunction: TypeAlias = Callable[[Any], Any]
"""Takes the one argument of a call, gives JSON data or an awaitable of it. What it raises is the call's failure."""

_GLOBAL_WORDS: Final = """
    Object Function Array String Number Boolean Symbol BigInt Math JSON Reflect Proxy Promise RegExp Date
    Map Set WeakMap WeakSet Iterator ArrayBuffer DataView
    Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array
    Float32Array Float64Array BigInt64Array BigUint64Array
    Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError
    globalThis undefined NaN Infinity eval isFinite isNaN parseFloat parseInt
    decodeURI decodeURIComponent encodeURI encodeURIComponent queueMicrotask performance console
"""

GLOBALS: Final = frozenset(_GLOBAL_WORDS.split())
"""Everything a program finds on its global object."""

_RESERVED_WORDS: Final = """
    break case catch class const continue debugger default delete do else enum export extends false finally for
    function if import in instanceof new null return super switch this throw true try typeof var void while with
    implements interface let package private protected public static yield await arguments eval
"""

_RESERVED: Final = frozenset(_RESERVED_WORDS.split())
"""What cannot name a variable in strict JavaScript, or in an async function."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN_MEMBERS: Final = frozenset({"name", "message", "stack"})


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """The class of a namespace's failed calls in the program.

    Its instances carry the name of the function that failed under `member_name_property`.
    """

    name: str
    member_name_property: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """A global of the program whose members are host functions.

    Without an error class, failed calls are plain `Error`s.
    """

    global_name: str
    functions: Mapping[str, HostFunction]
    error_class: ErrorClass | None = None


@dataclass(frozen=True, slots=True)
class Blocking:
    """A sync host function to be called in a thread. Called directly, it is just that function."""

    function: HostFunction

    def __call__(self, argument: Any) -> Any:
        return self.function(argument)


def blocking(function: HostFunction) -> Blocking:
    """Mark a sync host function that waits (for a disk, a socket, a lock), so that it does not hold the event loop."""
    if not callable(function):
        raise UsageError("blocking: a function is needed")
    if inspect.iscoroutinefunction(function):
        raise UsageError("blocking: an async function runs on the event loop and needs no thread")
    return function if isinstance(function, Blocking) else Blocking(function)


def normalize(
    namespaces: Mapping[str, Mapping[str, HostFunction]] | Iterable[Namespace], *, input_name: str | None = None
) -> tuple[Namespace, ...]:
    """The declared namespaces in order, checked together with the name of the input. Raises `UsageError`.

    Takes `{"tools": {"search": fn}}` or `Namespace`s. The functions are copied, so later changes do not show.
    """
    if isinstance(namespaces, Mapping):
        declared = [Namespace(name, functions) for name, functions in namespaces.items()]
    elif isinstance(namespaces, Iterable):
        declared = list(namespaces)
    else:
        raise UsageError("namespaces: a mapping from name to functions, or Namespace objects, are needed")
    taken: set[str] = set()
    result: list[Namespace] = []
    for number, namespace in enumerate(declared, 1):
        if not isinstance(namespace, Namespace):
            raise UsageError(f"namespaces: entry {number} is no Namespace")
        _check_variable("namespace", namespace.global_name, taken)
        where = f'namespace "{namespace.global_name}"'
        if namespace.error_class is not None:
            _check_error_class(where, namespace.error_class, taken)
        result.append(Namespace(namespace.global_name, _functions(where, namespace.functions), namespace.error_class))
    if input_name is not None:
        _check_variable("input name", input_name, taken)
    return tuple(result)


def _check_variable(what: str, name: object, taken: set[str]) -> None:
    """Refuse what cannot be a parameter of the program beside the `taken` ones; then it is taken too."""
    if not isinstance(name, str):
        raise UsageError(f"{what}: a name is needed, as text")
    shown = f'{what} "{name:.100}"'
    if not _NAME.fullmatch(name):
        raise UsageError(f"{shown}: use ASCII letters, digits and _, not beginning with a digit")
    if name in _RESERVED:
        raise UsageError(f"{shown}: this word is reserved in JavaScript")
    if name in GLOBALS:
        raise UsageError(f"{shown}: every program has a global of this name")
    if name in taken:
        raise UsageError(f"{shown}: this name is used twice")
    taken.add(name)


def _check_error_class(where: str, error_class: object, taken: set[str]) -> None:
    if not isinstance(error_class, ErrorClass):
        raise UsageError(f"{where}: error_class is no ErrorClass")
    _check_variable("error class", error_class.name, taken)
    member = error_class.member_name_property
    if not isinstance(member, str) or not member:
        raise UsageError(f'error class "{error_class.name}": the member-name property is empty')
    if member in _TAKEN_MEMBERS or (member.startswith("__") and member.endswith("__")):
        shown = f'error class "{error_class.name}"'
        raise UsageError(f'{shown}: the member-name property cannot be "{member:.100}", which has a meaning of its own')


def _functions(where: str, functions: object) -> dict[str, HostFunction]:
    if not isinstance(functions, Mapping):
        raise UsageError(f"{where}: its functions are needed as a mapping from name to function")
    result: dict[str, HostFunction] = {}
    for name, function in functions.items():
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where}: the name of a function is a text that is not empty")
        # A program sends the name as JavaScript holds it, so it is kept in that form.
        key = joined(name)
        if key in result:
            raise UsageError(f'{where}: the function "{ascii(key)[1:-1]:.100}" is declared twice')
        if not callable(function):
            raise UsageError(f'{where}: the function "{ascii(key)[1:-1]:.100}" cannot be called')
        result[key] = function
    return result
