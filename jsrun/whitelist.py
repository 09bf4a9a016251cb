"""The whitelist matcher: the one place where a tool's name is compared with the names a bundle allows."""

from collections.abc import Iterable


def matches(name: str, whitelist: Iterable[str]) -> bool:
    """Does the whitelist allow the tool? Names are equal after trimming both sides, exactly: case counts."""
    return name.strip() in trimmed(whitelist)


def trimmed(names: Iterable[str]) -> tuple[str, ...]:
    """The names without surrounding blanks, each once, in order; blank ones are left out."""
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
