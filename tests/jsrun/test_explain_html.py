"""The page that explains a run: everything is on it, and nothing that a program wrote becomes markup."""

import base64
import hashlib
import json
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jsrun import explain_html as pages
from jsrun.called_lines import CalledLines, called_lines
from jsrun.cli import call as command
from jsrun.explain_html import explain_html, policy
from jsrun.files import write_whole
from jsrun.journal import EntryRow, RunRecord
from jsrun.result import LogEntry, RunResult, Truncation
from jsrun.spend import Spend
from jsrun.testing import bundle
from jsrun.timeline import timeline
from tests.jsrun.journal_rows import entry_row, run_row

EVIL = "</script></style></pre></title>--><img src=x onerror=alert(1)>\"'`&lt;{{calls}}"
HARMLESS = "harmless, but as long as a sentence"


class Seen(HTMLParser):
    """What a parser makes of a page: its tags with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def names(self) -> set[str]:
        """The names of all tags."""
        return {tag for tag, _ in self.tags}

    def ids(self) -> list[str]:
        """The ids of all elements."""
        return [value for _, attributes in self.tags if (value := attributes.get("id")) is not None]


def row(seq: int, **fields: object) -> EntryRow:
    """An answered call."""
    made = replace(entry_row("R", seq, state="ok"), elapsed_ms=5.0)
    return replace(made, **fields)  # type: ignore[arg-type]


def page_of(*rows: EntryRow, program: CalledLines | None = None, notice: str = "", **run: object) -> str:
    """The page of a run with these rows."""
    made = replace(run_row("R"), **run)  # type: ignore[arg-type]
    return explain_html(timeline(RunRecord(made, rows)), program, notice=notice)


def hostile_page(text: str) -> str:
    """A page with `text` in every place that a program, a model or an edited journal reaches."""
    result = RunResult(
        status="incomplete",
        reason="wall",
        incomplete=text,
        report=text,
        output={text: text},
        logs=(LogEntry(text),),
        truncated=(Truncation(text, 1),),
    )
    encoded = json.dumps({text: [text]})
    rows = [
        row(1, ref=text, input=encoded, output=encoded, err=text, note=text, spend=Spend(text, 1, 1)),
        row(2, call=text, state=text, at=text),
        row(2, attempt=2, ref=text),
    ]
    run = replace(
        run_row(text),
        name=text,
        bundle_hash=text,
        program_hash=text,
        engine=text,
        form=text,
        input=encoded,
        started_at=text,
        seed=text,
        owner=text,
        parent_run_id=text,
        status=text,
        reason=text,
        ended_at=text,
        result=json.dumps(result.to_json()),
        attempt=2,
    )
    line = timeline(RunRecord(run, tuple(rows)))
    key = rows[0].key
    program = CalledLines(text, (text, text), {1: line.calls}, {key: (1,)}, 2)
    return explain_html(line, program, notice=text, made_by=text)


class TestHostile:
    def test_markup_in_every_field_stays_text(self) -> None:
        plain, hostile = Seen(hostile_page(HARMLESS)), Seen(hostile_page(EVIL))
        assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
        assert hostile.text.count("<img src=x onerror=alert(1)>") > 20
        for (_, attributes), (_, harmless) in zip(hostile.tags, plain.tags, strict=True):
            assert attributes.keys() == harmless.keys()
            assert not any(name.startswith("on") for name in attributes)

    def test_attributes_hold_no_data_but_the_state(self) -> None:
        """`class` names a state; everything else in an attribute is a number or ours."""
        plain, hostile = Seen(hostile_page(HARMLESS)), Seen(hostile_page(EVIL))
        for (_, left), (_, right) in zip(hostile.tags, plain.tags, strict=True):
            assert {k: v for k, v in left.items() if k != "class"} == {k: v for k, v in right.items() if k != "class"}

    def test_what_cannot_be_seen_or_deceives_is_shown(self) -> None:
        page = hostile_page("a\x00b\x1b[2J\u202ec\ud800\u2066")
        assert "a\\u0000b\\u001b[2J\\u202ec\ufffd\\u2066" in page
        page.encode("utf-8")

    def test_braces_in_data_are_no_placeholders(self) -> None:
        page = page_of(row(1, ref="{{program}} {{nonsense}}"))
        assert "{{program}} {{nonsense}}" in page

    def test_a_line_end_at_the_beginning_is_kept(self) -> None:
        assert '<pre tabindex="0">\n\nafter' in page_of(row(1, output=json.dumps("\nafter")))


class TestPolicy:
    def test_nothing_is_loaded_and_only_the_own_script_runs(self) -> None:
        page = page_of(row(1))
        assert f'content="{policy()}"' in page
        assert policy().startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy()
        seen = Seen(page)
        assert seen.names().isdisjoint({"link", "img", "iframe", "object", "embed", "base", "form"})
        for tag, attributes in seen.tags:
            assert "style" not in attributes
            assert "src" not in attributes
            if "href" in attributes:
                assert tag == "a"
                assert re.fullmatch(r"#(call|line)-[0-9-]+", attributes["href"] or "")
        assert not re.search(r"https?:|url\(|@import", page)

    def test_the_hashes_are_those_of_the_page(self) -> None:
        page = hostile_page(EVIL)
        for tag in ("style", "script"):
            inside = page.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy()


class TestContent:
    def test_calls_lead_to_lines_and_back(self) -> None:
        made = bundle("function run() {\n  tool('read');\n  return tool('list');\n}\n", whitelist=["read", "list"])
        rows = (row(1, ref="read"), row(2, ref="list"), row(3, ref="read"))
        line = timeline(RunRecord(run_row("R"), rows))
        page = explain_html(line, called_lines(made, line.calls, "program.js:3:10: TypeError"))
        assert 'id="line-2"' in page
        assert '<a href="#call-1-1">#1</a> <a href="#call-1-3">#3</a>' in page
        assert '<dt>line</dt><dd><a href="#line-3">3</a></dd>' in page
        assert '<div class="row called ended" id="line-3">' in page
        assert "does not record positions" in page
        ids = Seen(page).ids()
        assert len(ids) == len(set(ids))

    def test_values_are_indented_and_texts_are_themselves(self) -> None:
        page = page_of(row(1, input='{"a":[1]}', output=json.dumps("one\ntwo é")))
        assert "{\n  &quot;a&quot;: [\n    1\n  ]\n}" in page
        assert "one\ntwo é" in page

    def test_deep_values_and_broken_ones_are_shown(self) -> None:
        deep = "[" * 500 + "]" * 500
        assert deep in page_of(row(1, output=deep))
        assert "[[[[" in page_of(row(1, output="[" * 100_000))

    def test_large_values_are_cut_and_say_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "VALUE_CHARACTERS", 1000)
        monkeypatch.setattr(pages, "PAGE_CHARACTERS", 3000)
        rows = [row(n, output=json.dumps("x" * 1500)) for n in range(1, 11)]
        page = page_of(*rows)
        assert page.count("500 more characters") == 2
        assert page.count("1,000 more characters") == 7
        assert page.count("x" * 500) < 20

    def test_every_state_and_the_ending_are_there(self) -> None:
        page = page_of(
            row(1, state="err", err="it broke"),
            row(2, state="abandoned", elapsed_ms=None),
            status="incomplete",
            reason="wall",
            result=json.dumps(RunResult(status="incomplete", reason="wall", incomplete="Out of time.").to_json()),
        )
        text = Seen(page).text
        for part in ("incomplete: wall", "Out of time.", "raise the fuel wall", "it broke", "abandoned", "2 of 500"):
            assert part in text
        assert "There is no output." in text

    def test_a_notice_stands_where_the_program_would(self) -> None:
        assert "name its bundle with --bundle" in page_of(row(1), notice="name its bundle with --bundle")


class TestWriteWhole:
    def test_it_is_private_and_leaves_nothing_beside_it(self, tmp_path: Path) -> None:
        write_whole(tmp_path / "a.html", b"one")
        assert (tmp_path / "a.html").read_bytes() == b"one"
        assert stat.S_IMODE((tmp_path / "a.html").stat().st_mode) == 0o600
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.html"]

    def test_it_replaces_only_when_told(self, tmp_path: Path) -> None:
        target = tmp_path / "a.html"
        target.write_bytes(b"old")
        with pytest.raises(FileExistsError):
            write_whole(target, b"new")
        assert target.read_bytes() == b"old"
        write_whole(target, b"new", replace=True)
        assert target.read_bytes() == b"new"
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.html"]

    def test_where_files_cannot_be_linked_it_looks_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(source: object, target: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr("os.link", refuse)
        write_whole(tmp_path / "a", b"one")
        with pytest.raises(FileExistsError):
            write_whole(tmp_path / "a", b"two")
        assert (tmp_path / "a").read_bytes() == b"one"

    def test_a_failed_write_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space"):
            write_whole(tmp_path / "a", b"one")
        assert list(tmp_path.iterdir()) == []


class TestCommand:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """A folder with a bundle that ran once."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
        made = tmp_path / "one"
        made.mkdir()
        (made / "manifest.json").write_text('{"name": "one", "purpose": "A test."}')
        (made / "program.js").write_text("function run() {\n  log('hello');\n  return 1;\n}\n")
        assert command(["run", "one", "--quiet"]) == 0
        yield tmp_path

    def test_the_program_is_found_by_the_name_of_the_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command(["journal", "html", "last", "-o", "out.html"]) == 0
        page = Path("out.html").read_text()
        assert "log(&#x27;hello&#x27;);" in page
        assert 'href="#line-2"' in page
        assert "wrote out.html" in capsys.readouterr().err

    def test_another_program_is_not_taken_for_the_one_that_ran(self) -> None:
        (Path("one") / "program.js").write_text("function run() { return 'changed'; }")
        assert command(["journal", "html", "last", "-o", "out.html"]) == 0
        page = Path("out.html").read_text()
        assert "changed" not in page
        assert "--bundle" in page
        assert command(["journal", "html", "last", "-o", "out.html", "--bundle", "one", "--force"]) == 0
        page = Path("out.html").read_text()
        assert "changed" in page
        assert "not the program that ran" in page

    def test_an_existing_file_is_replaced_only_by_force(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("out.html").write_text("mine")
        assert command(["journal", "html", "last", "-o", "out.html"]) == 1
        assert "there already" in capsys.readouterr().err
        assert Path("out.html").read_text() == "mine"
        assert command(["journal", "html", "last", "-o", "out.html", "--force"]) == 0
        assert Path("out.html").read_text() != "mine"

    def test_one_json_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert command(["journal", "html", "last", "-o", "out.html", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["path"], told["program"]) == ("out.html", True)
        assert command(["journal", "html", "last", "-o", "out.html", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "exists"

    def test_show_prints_the_timeline_and_the_fuel(self, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert command(["journal", "show"]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"^1  log +ok .*█ .*hello$", shown, re.MULTILINE)
        assert "1 of 500" in shown
        assert command(["journal", "show", "--json"]) == 0
        fuel = json.loads(capsys.readouterr().out)["fuel"]
        assert fuel["steps"] == {"used": 1.0, "limit": 500.0}
        assert fuel["tokens"] == {"used": 0.0, "limit": None}

    @pytest.mark.parametrize("path", ["no/such/folder.html", "one"])
    def test_a_place_that_cannot_be_written_is_named(self, path: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert command(["journal", "html", "last", "-o", path, "--force"]) == 1
        err = capsys.readouterr().err
        assert f'"{path}" cannot be written' in err
        assert "Traceback" not in err

    def test_a_bundle_that_is_not_there_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command(["journal", "html", "last", "-o", "out.html", "--bundle", "absent"]) == 1
        assert 'no bundle "absent"' in capsys.readouterr().err
        assert not Path("out.html").exists()
