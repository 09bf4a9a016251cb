"""LocalEnv and its models, offline."""

import importlib.util
import io
import json
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import jsrun.models
from jsrun.env import AIOptions, Answer, AskAnswer, AskOptions, Note, ToolResult
from jsrun.errors import DoorFailure, JsrunError, NotWired
from jsrun.guards import is_yes
from jsrun.local_env import LocalEnv
from jsrun.models import EchoModel, ScriptModel, resolve_model
from jsrun.prompts import Prompt
from jsrun.testing import FakeMemory
from ptc.outcome import UNSET
from ptc.wire import Json

PROMPT = Prompt("tag", "Tag the text.")


class KeepingModel:
    """Answers "ok" and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, str, AIOptions]] = []

    async def answer(self, system: str, user: str, options: AIOptions) -> Answer:
        self.given.append((system, user, options))
        return Answer("ok")


@pytest.mark.parametrize(
    ("input", "user"),
    [
        ("plain text", "plain text"),
        ("", ""),
        (None, "null"),
        ({"a": [1.0, "ü"]}, '{"a":[1,"ü"]}'),
        (True, "true"),
    ],
)
async def test_the_prompt_is_the_system_message_and_the_input_the_user_message(input: Json, user: str) -> None:
    """JSR-118"""
    model = KeepingModel()
    options = AIOptions(effort="high")
    assert await LocalEnv(model).ai(PROMPT, input, options) == Answer("ok")
    assert model.given == [("Tag the text.", user, options)]


async def test_echo_answers_with_the_input() -> None:
    """JSR-117"""
    answer = await LocalEnv("echo:").ai(PROMPT, {"a": 1}, AIOptions())
    assert (answer.text, answer.json) == ('{"a":1}', UNSET)
    assert answer.spend.calls == 1 and not answer.spend.reported()


async def test_a_script_answers_in_order_and_says_when_it_is_used_up(tmp_path: Path) -> None:
    """JSR-117"""
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["Yes.", {"tags": ["a"]}, None, 3]))
    env = LocalEnv(f"script:{script}")
    answers = [await env.ai(PROMPT, None, AIOptions()) for _ in range(4)]
    assert [(answer.text, answer.json) for answer in answers] == [
        ("Yes.", UNSET),
        ("", {"tags": ["a"]}),
        ("", None),
        ("", 3),
    ]
    with pytest.raises(DoorFailure, match="no answer after number 4"):
        await env.ai(PROMPT, None, AIOptions())


async def test_a_judgement_is_answered_like_a_prompt(tmp_path: Path) -> None:
    """JSR-076"""
    script = tmp_path / "answers.json"
    script.write_text('["Yes.", "no", true]')
    env = LocalEnv(f"script:{script}")
    said = [is_yes(await env.ai(Prompt(None, "Is it?"), {}, AIOptions())) for _ in range(3)]
    assert said == [True, False, True]


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ('"a"\n{"b": 1}\n', ["a", {"b": 1}]),
        ('\ufeff["a"]', ["a"]),
        ("[[1]]", [[1]]),
        ('{"a": 1}', [{"a": 1}]),
        ("[1] [2]", [[1], [2]]),
        (" \n", []),
    ],
)
async def test_a_script_may_be_an_array_or_one_value_after_another(
    tmp_path: Path, text: str, answers: list[Json]
) -> None:
    """JSR-117"""
    path = tmp_path / "answers"
    path.write_text(text)
    model = ScriptModel.load(path)
    got = [await model.answer("", "", AIOptions()) for _ in answers]
    assert [item.text if item.json is UNSET else item.json for item in got] == answers


@pytest.mark.parametrize(
    ("text", "place"),
    [('["a",\n "b"', "2:5"), ("[NaN]", "1:1"), ("nope", "1:1"), ('"a"\n,', "2:1"), ("[" * 100_000, "1:1")],
)
def test_a_script_that_is_not_json_is_refused_at_its_position(tmp_path: Path, text: str, place: str) -> None:
    """JSR-117"""
    path = tmp_path / "answers"
    path.write_text(text)
    with pytest.raises(JsrunError, match=f":{place}: the script is not JSON"):
        ScriptModel.load(path)


def test_a_script_that_cannot_be_read_is_refused_in_words(tmp_path: Path) -> None:
    """JSR-117"""
    with pytest.raises(JsrunError, match="No such file"):
        LocalEnv(f"script:{tmp_path / 'none.json'}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(JsrunError, match="not UTF-8"):
        LocalEnv(f"script:{tmp_path / 'bytes'}")


@pytest.mark.parametrize("spec", ["", "gpt", ":", "openai:", ":gpt", "script:", "echo:x"])
def test_a_string_that_names_no_model_is_refused_with_the_forms_there_are(spec: str) -> None:
    """JSR-117"""
    with pytest.raises(JsrunError, match=r"PROVIDER:NAME, script:FILE, echo:"):
        resolve_model(spec)


def test_a_model_of_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-117"""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JsrunError, match=r'pip install "subharness\[ai\]"'):
        LocalEnv("openai:gpt-5")


def test_the_extra_is_not_imported_before_it_is_used() -> None:
    """JSR-117"""
    assert "pydantic_ai" not in sys.modules or "jsrun._pydantic_ai" in sys.modules
    resolve_model("echo:")
    assert "jsrun._pydantic_ai" not in sys.modules or "pydantic_ai" in sys.modules


asked_for: list[str] = []


def house_model(name: str) -> EchoModel:
    """The factory an entry point of the test names."""
    asked_for.append(name)
    return EchoModel()


def test_other_packages_can_announce_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-117"""
    asked: list[tuple[str, str]] = []

    def installed(group: str, name: str) -> Sequence[EntryPoint]:
        asked.append((group, name))
        entries = {"house": f"{__name__}:house_model", "broken": "json:dumps"}
        return [EntryPoint(name, entries[name], group)] if name in entries else []

    monkeypatch.setattr(jsrun.models, "entry_points", installed)
    assert isinstance(resolve_model("house:small"), EchoModel)
    assert isinstance(resolve_model("house"), EchoModel)
    with pytest.raises(JsrunError, match='gives nothing with an "answer" method'):
        resolve_model("broken:x")
    assert asked[0] == ("jsrun.models", "house")
    assert asked_for == ["small", ""]


class OneToolBelt:
    def names(self) -> list[str]:
        return ["t"]

    async def call(self, name: str, args: dict[str, Json]) -> ToolResult:
        return ToolResult(json={name: dict(args)})


async def test_belt_and_memory_serve_their_doors() -> None:
    """JSR-117"""
    belt = OneToolBelt()
    env = LocalEnv(belt=belt, memory=FakeMemory(["first"]))
    assert env.belt is belt
    assert await env.tool("t", {"x": 1}) == ToolResult(json={"t": {"x": 1}})
    await env.remember("second")
    assert [note.text for note in await env.recall("")] == ["second", "first"]


async def test_what_is_not_given_is_not_wired() -> None:
    """JSR-116"""
    env = LocalEnv()
    for door in (env.ai(PROMPT, None, AIOptions()), env.tool("t", {}), env.remember("n"), env.recall("")):
        with pytest.raises(NotWired):
            await door


async def test_ask_may_be_a_function_or_nobody() -> None:
    """JSR-063"""
    assert await LocalEnv(ask=lambda question, options: "blue").ask("q", AskOptions()) == AskAnswer("blue")
    assert await LocalEnv(ask=None).ask("q", AskOptions()) == AskAnswer(unanswered=True)


async def test_a_status_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-064"""
    await LocalEnv().log("reading\nnotes \ud800\x1b[2J")
    shown = capsys.readouterr()
    assert shown.err == "reading notes \ufffd\\u001b[2J\n" and shown.out == ""


async def test_a_status_may_go_elsewhere_or_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-064"""
    stream, told = io.StringIO(), list[str]()
    await LocalEnv(log=stream).log("one")
    await LocalEnv(log=told.append).log("two\n")
    await LocalEnv(log=None).log("three")
    assert stream.getvalue() == "one\n" and told == ["two\n"]
    assert capsys.readouterr().err == ""


async def test_notes_come_back_as_notes() -> None:
    """JSR-065"""
    env = LocalEnv(memory=FakeMemory([Note("kept", "2020-01-01T00:00:00Z")]))
    assert await env.recall("KEPT") == [Note("kept", "2020-01-01T00:00:00Z")]
