"""Type stripping and the form of a program. What stripping leaves is run in a real engine."""

import asyncio
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import Runtime, typescript
from ptc.errors import LoadError, UsageError
from ptc.outcome import Position
from ptc.typescript import Form, FormChoice, Language, is_quick, prepare
from tests.ptc import body
from tests.ptc.stripping_cases import ASYNC, ERASED, HOSTILE, JOINS, REFUSED, SYNC

LANGUAGES: tuple[Language, ...] = ("javascript", "typescript")

LARGE = 20_000
"""Characters that send a program to the helper process."""


def strip(code: str) -> str:
    stripped = prepare(code, language="typescript", form="async").code
    assert len(stripped) == len(code)
    assert body.lines(stripped) == body.lines(code)
    return stripped


def refusal(code: str, language: Language = "typescript") -> LoadError:
    with pytest.raises(LoadError) as caught:
        prepare(code, language=language)
    assert caught.value.failure.kind == "exception"
    return caught.value


# -- the form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("code", "form"), [(c, "async") for c in ASYNC] + [(c, "sync") for c in SYNC])
def test_the_form_comes_from_the_syntax_tree(code: str, form: Form, language: Language) -> None:
    """PTC-079 only an `await` of the body itself makes a program async, in either language."""
    assert prepare(code, language=language).form == form


def test_a_large_program_has_the_form_of_a_small_one() -> None:
    """PTC-079 what is read in the helper process is read alike."""
    padding = "\nlet x = 1;" + "f(x);" * 2_000
    for language in LANGUAGES:
        for code, form in (*((c, "async") for c in ASYNC), *((c, "sync") for c in SYNC)):
            assert prepare(code + padding, language=language).form == form


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_form_that_is_given_is_kept(form: FormChoice, language: Language) -> None:
    """PTC-079 only `auto` asks."""
    assert prepare("await 1", language=language, form=form).form == form
    assert prepare("return 1", language=language, form=form).form == form


def test_types_do_not_hide_the_form() -> None:
    """PTC-079 in a typed program as well."""
    assert prepare("const x: number = (await f<T>(1))! as any", language="typescript").form == "async"
    assert prepare("const f = async <T>(x: T): Promise<T> => await x", language="typescript").form == "sync"
    assert (
        prepare("declare const x: number\nabstract class A { abstract m(): void }", language="typescript").form
        == "sync"
    )


# -- what is erased ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ERASED)
def test_types_are_blanked_in_place_and_the_rest_runs(name: str) -> None:
    """PTC-132 every line keeps its length and its break; what is left computes what was written."""
    code, value = ERASED[name]
    assert body.run(strip(code)) == value


def test_the_exact_text_that_stays() -> None:
    """PTC-132 one space for each code point removed, nothing else moved."""
    assert strip("const f = <T,>(x?: T): T[] => x! as any") == "const f =     (x    )      => x        "
    assert strip("let s: 'é𝒳', n = 1") == "let s      , n = 1"
    assert strip("class A { private x?: number = 1 }") == "class A {         x          = 1 }"


def test_no_type_no_change() -> None:
    """PTC-132 a program without types is its own JavaScript, `<` and all."""
    for code in (
        "for (let i = 0; i < a.length && b > (c); i++) { x = a < b; y = c > d }",
        "return a < b || c > (d)",
        "return [a < { b: 1 }.b, a < ({ b }).b, a < (({ x: 1 }).x)]",
        "let x = y\nas(foo)\nlet z = a\n!(b)",
        "label: for (;;) { break label }",
        "x = a ? (b) : c => d",
        "class A { static async = 1; get; set; static }",
    ):
        assert strip(code) == code


def test_an_error_is_positioned_in_the_source() -> None:
    """PTC-132 the engine names the line and column of the author's own text."""
    code = (
        "interface A {\n  x: number\n}\nconst f = <T>(x: T): T => {\n  throw Error(`bad ${<any>x}`)\n}\nf<string>('v')"
    )
    with pytest.raises(RuntimeError) as caught:
        body.run(strip(code))
    places = [(int(line), int(column)) for line, column in re.findall(r"<input>:(\d+):(\d+)", str(caught.value))]
    assert str(caught.value).startswith("Error: bad v")
    assert [line for line, _ in places[:2]] == [5, 7]
    assert 3 <= places[0][1] <= len("  throw Error(`bad ${<any>x}`)")


@settings(max_examples=150, deadline=None)
@given(body.programs())
def test_the_stripped_program_computes_what_its_twin_does(twin: body.Twin) -> None:
    """PTC-132 for generated programs, each beside the same program written without types."""
    typed, plain = twin
    assert body.run(strip(typed)) == body.run(plain)


_PIECES = (
    "let x : number = 1 as any ( ) < > T { } [ ] ; ! ? => async return class A interface type ` ${ 'é' / // /* */ "
    "declare enum abstract private , . && | await function 𝒳 import"
)
_BREAKS_AND_ODDITIES = ("\n", "\r\n", "\u2028", "\0", "\ud800")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from((*_PIECES.split(), *_BREAKS_AND_ODDITIES)), max_size=25).map(" ".join))
def test_any_text_keeps_its_shape_or_is_refused_in_place(code: str) -> None:
    """PTC-132 PTC-135 whatever comes in, the answer has the same lines, or a position inside the text."""
    try:
        stripped = prepare(code, language="typescript")
    except LoadError as error:
        position = error.failure.position
        assert position is not None
        lines = body.lines(code)
        assert 1 <= position.line <= len(lines)
        assert 1 <= position.column <= lines[position.line - 1][0]
        return
    assert body.lines(stripped.code) == body.lines(code)
    kept = [(old, new) for old, new in zip(code, stripped.code, strict=True) if old != new]
    assert all(new in " ;" for _, new in kept)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "line", "column", "advice"), REFUSED)
def test_what_cannot_be_erased_is_refused_with_advice(code: str, line: int, column: int, advice: str) -> None:
    """PTC-133 PTC-134 the position is that of the construct, the message says what to write instead."""
    failure = refusal(code).failure
    assert failure.position == Position(line, column)
    assert failure.message.startswith("SyntaxError: ")
    assert advice in failure.message


def test_erased_code_is_not_refused() -> None:
    """PTC-133 what is in a declaration that goes anyway does not count."""
    assert (
        strip(
            "declare namespace N { enum E {} }\ndeclare enum E {}\ndeclare class C { constructor(private x) }"
        ).split()
        == [";"] * 3
    )


async def test_a_refusal_starts_no_process() -> None:
    """PTC-133 it comes from the host alone."""
    before = _children()
    async with Runtime() as runtime:
        with pytest.raises(LoadError) as caught:
            await runtime.load("enum E {}", language="typescript")
        outcome = await runtime.run("let x = 1;\nnamespace N {}", language="typescript")
        assert _children() == before
    assert caught.value.failure.position == Position(1, 1)
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.position) == ("exception", Position(2, 1))
    assert outcome.isolation is None


def _children() -> set[str]:
    """The processes this one has started. Linux only, elsewhere empty."""
    return {pid for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()}


# -- neighbours --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "stripped"), JOINS)
def test_what_goes_does_not_join_its_neighbours(code: str, stripped: str) -> None:
    """PTC-134 a `;` is left where the parts would join, and only there."""
    assert strip(code) == stripped


def test_separated_lines_run_one_by_one() -> None:
    """PTC-134 in the engine."""
    code = """const seen: any[] = [], y = (x: any) => seen.push(['called', x])
let a = y as any
(seen as any[]).push(1)
let b = seen as any
[2].forEach((n: number) => seen.push(n))
let c: any
`3`.split('').forEach((n: string) => seen.push(n))
seen.push(4)
type T = 1
(seen).push(5)
class K { m = 1 as any
['n'] = 6 }
seen.push(new K().n)
return seen"""
    assert body.run(strip(code)) == [1, 2, "3", 4, 5, 6]


def test_advice_about_operators_is_only_given_where_they_matter() -> None:
    """PTC-134 the same strength, or a weaker operator, changes nothing."""
    for code in (
        "1 * 1 as any / 2",
        "1 + 1 as any < 2",
        "a == b + c as any + 1",
        "a as any ** 2",
        "(a + b) as any * 2",
        "a && b as any * 2",
    ):
        strip(f"return {code}")
    assert body.run(strip("const a = 7; return 2 * a as number - 1 as number")) == 13


# -- what passes through -----------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.text(), st.sampled_from(["auto", "sync", "async"]))
def test_javascript_is_never_changed(code: str, form: FormChoice) -> None:
    """PTC-135 byte for byte, surrogates and all."""
    assert prepare(code, form=form).code == code
    assert prepare(code + " await x", form=form).code == code + " await x"


def test_typed_text_declared_as_javascript_is_not_changed_either() -> None:
    """PTC-135 the language is what the caller says."""
    code = "let x: number = await f<T>(1)"
    assert prepare(code).code == code
    with pytest.raises(RuntimeError, match="SyntaxError"):
        body.run(code)


UNREADABLE = ["let x: number = ;", "const f = (", "type = = 1", "let x: number\n}\nlet y: string", "`${", "class {"]


@pytest.mark.parametrize("code", UNREADABLE)
def test_unreadable_text_goes_to_the_engine(code: str) -> None:
    """PTC-135 unchanged, so that the engine's message is about the author's text."""
    assert prepare(code, language="typescript").code == code
    with pytest.raises(RuntimeError, match="SyntaxError"):
        body.run(code)


def test_a_large_unreadable_text_goes_to_the_engine_too() -> None:
    """PTC-135 from the helper process."""
    code = "let x: number = 1;\n" * 1000 + "let y: = ;"
    assert prepare(code, language="typescript").code == code


def test_the_size_is_counted_in_bytes_before_anything_else() -> None:
    """PTC-136 a text above the limit is not parsed, whatever the language and form."""
    for language in LANGUAGES:
        assert prepare("é" * 50, language=language, max_source_bytes=100).code == "é" * 50
        for code, size in (("é" * 51, "102"), ("x" * 101, "101"), ("\ud800" * 34, "102")):
            with pytest.raises(LoadError, match=f"too large: {size} bytes of at most 100"):
                prepare(code, language=language, max_source_bytes=100)


def test_unknown_choices_are_misuse() -> None:
    """PTC-117 a language or form that does not exist is named."""
    with pytest.raises(UsageError, match=r"language: .*'coffeescript'"):
        prepare("", language="coffeescript")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"form: .*'both'"):
        prepare("", form="both")  # type: ignore[arg-type]


# -- hostile source ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_source_is_read_or_refused_in_time(name: str) -> None:
    """PTC-136 within 2 s (more is allowed here, for a busy machine), and the next program is read as ever."""
    for language in LANGUAGES:
        started = time.monotonic()
        try:
            prepare(HOSTILE[name], language=language, max_source_bytes=1 << 22)
        except LoadError as error:
            assert error.failure.kind == "exception"
            assert re.search(r"more than 2 s|too much memory|tagged|`=>`", error.failure.message)
        assert time.monotonic() - started < 4
    assert prepare("let x: number", language="typescript").code == "let x        "


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([*"a<>(){,:?`-;\n", "=>", "as T", "yield "]), min_size=1, max_size=5),
    st.sampled_from(["", "f(", "x = [", "class A {"]),
    st.sampled_from([2_000, 30_000]),
)
def test_any_repeated_pattern_is_read_or_refused_in_time(pattern: list[str], start: str, size: int) -> None:
    """PTC-136 in this process and in the helper."""
    text = "".join(pattern)
    started = time.monotonic()
    try:
        prepare(start + text * (size // len(text)), language="typescript")
    except LoadError as error:
        assert error.failure.kind == "exception"
    assert time.monotonic() - started < 4


async def test_the_event_loop_goes_on_while_a_large_program_is_read() -> None:
    """PTC-119 PTC-136 the loop is not held while the parser works."""
    longest, stopped = 0.0, asyncio.Event()

    async def tick() -> None:
        nonlocal longest
        while not stopped.is_set():
            started = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - started)

    async with Runtime() as runtime:
        await runtime.run("return 1")
        ticking = asyncio.create_task(tick())
        outcome = await runtime.run(HOSTILE["f(<"], language="typescript")
        stopped.set()
        await ticking
    assert outcome.failure is not None
    assert "more than 2 s" in outcome.failure.message
    assert longest < 1


# -- the helper process ------------------------------------------------------------------------------------------------


def _large(code: str) -> str:
    return "let filler: number = 1;\n" * (LARGE // 20) + code


def test_large_programs_are_stripped_and_refused_alike() -> None:
    """PTC-132 PTC-133 with text beyond ASCII, lone surrogates and positions."""
    assert strip(_large("let s: T = 'é𝒳\ud800'")).endswith("let s    = 'é𝒳\ud800'")
    assert refusal(_large("'é𝒳'; enum E {}")).failure.position == Position(1001, 7)


def test_the_helper_serves_several_threads() -> None:
    """PTC-132 answers do not get mixed up."""
    codes = [_large(f"return {i} as number") for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(strip, codes))
    assert [answer.splitlines()[-1].split() for answer in answers] == [["return", str(i)] for i in range(12)]


def test_an_interrupt_from_the_terminal_is_not_for_the_helper() -> None:
    """PTC-136 it is in no process group of its host."""
    strip(_large("return 1"))
    process = typescript._helper._process
    assert process is not None
    assert os.getpgid(process.pid) == process.pid


def test_a_killed_helper_is_replaced() -> None:
    """PTC-136 its death is nobody's failure."""
    before = _children()
    strip(_large("return 1"))
    for pid in _children() - before:
        os.kill(int(pid), 9)
    assert strip(_large("return 2 as any")).endswith("return 2       ")


def test_an_interrupted_question_is_not_answered_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-132 after an interrupt the answer to one program is never taken for that to another."""
    strip(_large("return 1"))

    class Interrupted:
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

        def read(self, _size: int) -> bytes:
            raise KeyboardInterrupt

    process = typescript._helper._process
    assert process is not None
    monkeypatch.setattr(process, "stdout", Interrupted(process.stdout))
    with pytest.raises(KeyboardInterrupt):
        strip(_large("return 2"))
    assert strip(_large("return 3")).endswith("return 3")


def test_the_helper_leaves_when_it_is_not_needed() -> None:
    """PTC-070 nothing is left behind: no process, no zombie, no thread."""
    before = _children()
    strip(_large("return 1"))
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (_children() - before or _parser_threads()):
        time.sleep(0.05)
    assert not _children() - before
    assert not _parser_threads()


def _parser_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "ptc parser"]


def test_which_programs_may_block_for_long() -> None:
    """PTC-119 an event loop asks before it hands a program to a thread."""
    assert is_quick("x" * 100_000)
    assert is_quick("await x;" * 100_000, form="async")
    assert is_quick("let x: number", language="typescript")
    assert not is_quick("await x;" * 100_000)
    assert not is_quick("x" * 100_000, language="typescript")
