"""The ways to run programs, and which tests are repeated for which of them.

A test that asks for the fixture `engine` is run for every variant, or for those that PTC_VARIANTS names, as in
`PTC_VARIANTS=quickjs,v8`. While a variant is in use, a runtime that leaves the choice open makes its processes that
way, and a program that leaves its form open gets one the engine has. What a test needs and not every variant has, it
says with `@pytest.mark.needs("fork")`.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from ptc import _strategy, typescript


@dataclass(frozen=True, slots=True)
class Variant:
    """An engine, how its processes are made, and what it has that others have not."""

    engine: str
    process: _strategy.ProcessChoice
    has: frozenset[str]


VARIANTS = {
    "quickjs": Variant("quickjs", "auto", frozenset({"fork", "sync", "filter", "address limit", "all rejections"})),
    "quickjs-spawned": Variant("quickjs", "spawn", frozenset({"sync", "filter", "address limit", "all rejections"})),
    "v8": Variant("v8", "spawn", frozenset()),
}


def wanted_variants() -> list[str]:
    """The variants that tests are run for."""
    wanted = os.environ.get("PTC_VARIANTS", "")
    return list(VARIANTS) if wanted in ("", "all") else wanted.split(",")


def variant_of(item: pytest.Item) -> str | None:
    """The variant a test is run for; None if it asks for no engine."""
    callspec = getattr(item, "callspec", None)
    name = callspec.params.get("engine") if callspec is not None else None
    return name if name in VARIANTS else None


def skip_unmet_needs(items: list[pytest.Item]) -> None:
    """Mark as skipped the tests that need what their variant has not."""
    for item in items:
        if (name := variant_of(item)) is None:
            continue
        for marker in item.iter_markers("needs"):
            missing = sorted(set(marker.args) - VARIANTS[name].has)
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"{name} has no {', '.join(missing)}"))


@contextlib.contextmanager
def using(name: str) -> Iterator[None]:
    """Put a variant in use."""
    variant = VARIANTS[name]
    choose, prepare = _strategy.choose, typescript.prepare

    def choose_variant(engine: str, process: str) -> Any:
        return choose(engine, variant.process if process == "auto" and engine == variant.engine else process)

    def prepare_variant(code: str, *, form: Any, **options: Any) -> Any:
        return prepare(code, form="async" if form == "auto" else form, **options)

    def check_variant(engine: str, form: str) -> None:
        if engine == variant.engine and form == "sync":
            pytest.skip(f"{engine} has no sync")

    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch("ptc._strategy.choose", choose_variant))
        if "sync" not in variant.has:
            patches.enter_context(mock.patch("ptc.runtime.prepare", prepare_variant))
            patches.enter_context(mock.patch("ptc._strategy.check_wanted_form", check_variant))
        yield
