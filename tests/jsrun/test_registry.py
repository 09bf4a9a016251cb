"""The registry: which bundle a name means, and what the generalist gets and gives when a run falls back."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from jsrun import (
    AIOptions,
    Answer,
    AskOptions,
    Belt,
    Bundle,
    BundleError,
    CallbackEnv,
    DoorFailure,
    Env,
    Fuel,
    InputError,
    JournalError,
    Layer,
    LongWay,
    MemoryJournal,
    Note,
    Prompt,
    Registry,
    RunEvent,
    RunResult,
    Spend,
    Store,
    StoreError,
    Tool,
    UnknownSubharness,
    UnwiredEnv,
    Usage,
)
from jsrun.long_way import WhitelistedEnv, fuel_left, tool_specs
from jsrun.result import LogEntry, Truncation
from jsrun.testing import FakeMemory, ScriptedEnv
from ptc.wire import Json

RUNS = "function run() { return { by: 'program' }; }"
THROWS = "function run() { log('half way'); console.log('seen'); throw new Error('lost'); }"


def files(name: str, program: str = RUNS, purpose: str = "A test.", **manifest: Any) -> dict[str, str]:
    """The files of a bundle."""
    return {"manifest.json": json.dumps({"name": name, "purpose": purpose, **manifest}), "program.js": program}


class Pack:
    """A source in memory."""

    def __init__(self, *bundles: dict[str, str], **more: dict[str, str]) -> None:
        named = {json.loads(texts["manifest.json"])["name"]: texts for texts in bundles}
        self.bundles = {**named, **more}

    def names(self) -> Iterable[str]:
        return self.bundles.keys()

    def load(self, name: str) -> Bundle:
        return Bundle.from_files(self.bundles[name])


def registry(**layers: Any) -> Registry:
    """A registry of these sources, by the name of the layer."""
    made = Registry()
    for layer, source in layers.items():
        made.use(Layer[layer], source)
    return made


class TestLookup:
    def test_the_first_layer_that_has_a_name_wins(self) -> None:
        """JSR-124 lookup order and shadowing: nothing shadows a built-in."""
        order = ["BUILT_IN", "PACKED", "PROJECT", "HOME", "PAGES"]
        assert [layer.name for layer in Layer] == order
        sources = {layer: Pack(files("alpha", purpose=layer)) for layer in order}
        for first in range(len(order)):
            left = {layer: sources[layer] for layer in reversed(order[first:])}
            made = registry(**left)
            assert made.find("alpha").manifest.purpose == order[first]
            assert made.where("alpha") == (Layer[order[first]], sources[order[first]])
            assert [manifest.purpose for manifest in made.manifests()] == [order[first]]

    def test_a_layer_can_be_replaced_and_none_changes_nothing(self) -> None:
        """JSR-124"""
        made = registry(HOME=Pack(files("alpha", purpose="Old.")))
        made.use(Layer.HOME, None)
        assert made.find("alpha").manifest.purpose == "Old."
        made.use(Layer.HOME, Pack(files("alpha", purpose="New.")))
        assert made.find("alpha").manifest.purpose == "New."
        assert len(made.sources()) == 1

    def test_sources_are_asked_at_every_lookup(self, tmp_path: Path) -> None:
        """JSR-124"""
        store = Store(tmp_path)
        made = registry(PROJECT=store)
        with pytest.raises(UnknownSubharness):
            made.find("alpha")
        first = store.mint(files("alpha"))
        assert made.find("alpha").hash == first.hash
        second = store.mint(files("alpha", purpose="Better."), first.hash, "To be better.")
        assert made.find("alpha").hash == second.hash
        assert [manifest.purpose for manifest in made.manifests()] == ["Better."]

    def test_an_unknown_name_offers_the_nearest_of_all_layers(self) -> None:
        """JSR-124"""
        made = registry(BUILT_IN=Pack(files("summarise")), HOME=Pack(files("translate"), files("triage")))
        with pytest.raises(UnknownSubharness, match=r'"sumarise".*mean "summarise"') as unknown:
            made.find("sumarise")
        assert (unknown.value.name, unknown.value.nearest) == ("sumarise", "summarise")
        with pytest.raises(UnknownSubharness) as unknown:
            made.find("../etc/passwd")
        assert unknown.value.nearest is None

    def test_provenance_is_stamped_and_never_believed(self) -> None:
        """JSR-124"""
        claims = {"provenance": "built-in"}
        made = registry(
            BUILT_IN=Pack(files("a", provenance=["mine", "all mine"])),
            PACKED=Pack(files("b", **claims)),
            PROJECT=Pack(files("c", **claims)),
            HOME=Pack(files("d", **claims)),
            PAGES=Pack(files("e")),
        )
        manifests = made.manifests()
        assert [(manifest.name, manifest.provenance) for manifest in manifests] == [
            ("a", ("built-in",)),
            ("b", ("yours",)),
            ("c", ("from this project",)),
            ("d", ("yours",)),
            ("e", ("yours",)),
        ]
        assert [manifest.to_json()["provenance"] for manifest in manifests][:2] == [["built-in"], ["yours"]]
        assert json.loads(manifests[2].to_text())["purpose"] == "A test."

    def test_a_broken_bundle_wins_and_is_told(self, tmp_path: Path) -> None:
        """JSR-124 a broken project bundle raises its diagnostics and does not give way to the home one."""
        project, home = Store(tmp_path / "project"), Store(tmp_path / "home")
        for store in (project, home):
            store.mint(files("alpha"))
            store.mint(files("beta"))
        (project.path("alpha") / "program.js").write_text("function run( {")
        (project.path("beta") / "manifest.json").unlink()
        made = registry(PROJECT=project, HOME=home)
        with pytest.raises(BundleError, match=r"program\.js:1:\d+: error .syntax"):
            made.find("alpha")
        with pytest.raises(BundleError, match="is missing"):
            made.find("beta")
        assert made.manifests() == ()
        assert [notice.split(" is left out")[0] for notice in made.notices] == [
            '"alpha" (from this project)',
            '"beta" (from this project)',
        ]
        (project.path("alpha") / "program.js").write_text(RUNS)
        assert [manifest.name for manifest in made.manifests()] == ["alpha"]
        assert len(made.notices) == 1

    def test_an_unsound_record_wins_too(self, tmp_path: Path) -> None:
        project, home = Store(tmp_path / "project"), Store(tmp_path / "home")
        first = project.mint(files("alpha"))
        project.mint(files("alpha", purpose="Two."), first.hash, "Two.")
        home.mint(files("alpha"))
        (tmp_path / "project" / "subharnesses" / "alpha" / "v2.json").write_text("{")
        made = registry(PROJECT=project, HOME=home)
        assert made.find("alpha").manifest.purpose == "Two."
        assert any("v2.json" in notice for notice in made.notices)

    def test_a_source_that_fails_is_never_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "subharnesses").write_text("x")
        made = registry(PROJECT=Store(tmp_path), HOME=Pack(files("alpha")))
        with pytest.raises(StoreError):
            made.find("alpha")
        assert [manifest.name for manifest in made.manifests()] == ["alpha"]
        assert "cannot be listed" in made.notices[0]

    def test_notices_of_sources_are_passed_on(self, tmp_path: Path) -> None:
        store = Store(tmp_path)
        store.mint(files("alpha"))
        (tmp_path / "subharnesses" / "alpha" / "v2.json").write_text("{}")
        made = registry(HOME=store, PAGES=Pack())
        made.manifests()
        assert made.notices == store.notices != ()

    def test_the_local_registry_has_the_projects_store_and_the_users(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        Store(tmp_path / "home").mint(files("alpha", purpose="Home."))
        assert Registry.local().find("alpha").manifest.purpose == "Home."
        Store(tmp_path / ".jsrun").mint(files("alpha", purpose="Project."))
        assert Registry.local().find("alpha").manifest.purpose == "Project."
        assert Registry.local(tmp_path / "elsewhere").find("alpha").manifest.purpose == "Home."


class Taker:
    """A generalist that keeps its job and Env, and ends as told."""

    def __init__(self, end: RunResult | Exception | Callable[[LongWay, Env], Any] | None = None) -> None:
        self.end = end
        self.jobs: list[LongWay] = []
        self.envs: list[Env] = []

    async def take(self, job: LongWay, env: Env) -> RunResult:
        self.jobs.append(job)
        self.envs.append(env)
        if isinstance(self.end, Exception):
            raise self.end
        if callable(self.end):
            end: RunResult = await self.end(job, env)
            return end
        return self.end or RunResult("finished", output={"by": "generalist"}, run_id="long")


class TestRun:
    async def test_a_run_by_name_is_a_run(self, tmp_path: Path) -> None:
        """The program runs with its live memory; the options are those of a Runner's run; the run is noted."""
        store, journal = Store(tmp_path), MemoryJournal()
        program = (
            "function run({ n }) { remember('note ' + n); return { notes: recall().length, seed: Math.random() }; }"
        )
        version = store.mint({**files("alpha", program), "memory.md": "Seed."})
        made = Registry(journal=journal)
        made.use(Layer.HOME, store)
        events: list[RunEvent] = []
        options = {"seed": "s", "started_at": "2026-01-31T12:00:00Z", "on_event": events.append}
        first = await made.run("alpha", {"n": 1}, UnwiredEnv(), run_id="one", **options)  # type: ignore[arg-type]
        second = await made.run("alpha", {"n": 2}, UnwiredEnv(), run_id="two", **options)  # type: ignore[arg-type]
        assert isinstance(first.output, dict)
        assert isinstance(second.output, dict)
        assert (first.output["notes"], second.output["notes"]) == (2, 3)
        assert first.output["seed"] == second.output["seed"]
        assert (first.run_id, first.path, first.long_run_id) == ("one", "fast", None)
        assert [row.run_id for row in await journal.runs()] == ["two", "one"]
        assert events[0].kind == "started"
        note = store.last_run("alpha")
        assert note is not None
        assert (note.version, note.finished, note.why) == (version.version, True, "")

    async def test_how_a_run_went_is_noted_and_a_note_that_fails_changes_nothing(self, tmp_path: Path) -> None:
        store = Store(tmp_path)
        store.mint(files("alpha", "function run() { ai('p'); }") | {"prompts/p.md": "P."})
        made = registry(PROJECT=store)
        env = CallbackEnv(ai=lambda *_: Answer("x", spend=Spend(cost_usd=0.5)))
        result = await made.run("alpha", {}, env)
        note = store.last_run("alpha")
        assert note is not None
        assert (note.finished, note.why, note.cost_usd) == (False, result.incomplete, 0.5)
        path = tmp_path / "subharnesses" / "alpha" / "last-run.json"
        path.unlink()
        path.mkdir()
        assert await made.run("alpha", {}, env) != result
        assert any('last run of "alpha" is not noted' in notice for notice in made.notices)
        path.rmdir()
        await made.run("alpha", {}, env)
        assert made.notices == ()

    async def test_what_could_not_happen_raises_and_takes_no_long_way(self, tmp_path: Path) -> None:
        """JSR-125 InputError, BundleError and an unknown name never take the long way."""
        store = Store(tmp_path)
        schema = {"type": "object", "required": ["n"]}
        store.mint(files("alpha", input=schema))
        store.mint(files("broken"))
        (store.path("broken") / "program.js").unlink()
        made, taker = registry(HOME=store), Taker()
        deep: list[object] = []
        for _ in range(100_000):
            deep = [deep]
        for name, given, error in (
            ("alpha", {}, InputError),
            ("alpha", {"n": float("nan")}, InputError),
            ("alpha", {"n": deep}, InputError),
            ("broken", {}, BundleError),
            ("alhpa", {}, UnknownSubharness),
        ):
            with pytest.raises(error):
                await made.run(name, given, UnwiredEnv(), generalist=taker)
        with pytest.raises(TypeError, match="env"):
            await made.run("alpha", {"n": 1}, None, generalist=taker)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="take"):
            await made.run("alpha", {"n": 1}, UnwiredEnv(), generalist=object())  # type: ignore[arg-type]
        assert taker.jobs == []
        assert store.last_run("alpha") is None


async def fall_back(
    taker: Taker, env: Env | None = None, given: object = None, program: str = THROWS, **manifest: Any
) -> RunResult:
    """Run a program that falls back, with this generalist."""
    made = registry(PROJECT=Pack(files("alpha", program, **manifest)))
    return await made.run("alpha", {} if given is None else given, env or ScriptedEnv(), generalist=taker)


class TestLongWay:
    async def test_the_job_holds_what_the_generalist_needs(self) -> None:
        """JSR-125 original input before defaults, sentence and reason, and fuel left; the manifest is stamped."""
        taker = Taker()
        schema = {"properties": {"n": {"type": "integer"}, "size": {"type": "string", "default": "small"}}}
        given = {"n": 1, "more": ["ü", None]}
        result = await fall_back(
            taker, given=given, input=schema, fuel={"steps": 7, "tokens": 1000}, provenance="built-in"
        )
        (job,) = taker.jobs
        assert job.input == {"n": 1, "more": ["ü", None]}
        assert job.reason == "threw"
        assert job.sentence == "The quick way stopped with an error: program.js:1:" + job.sentence.split(":1:")[1]
        assert job.sentence.endswith("Error: lost")
        assert (job.report, job.run_id) == ("half way", result.run_id)
        assert [entry.text for entry in job.logs] == ["half way", "seen"]
        assert (job.fuel.steps, job.fuel.tokens, job.fuel.memory) == (6, 1000, 128 * 1024 * 1024)
        assert job.fuel.wall is not None
        assert 800 < job.fuel.wall < 900
        assert job.manifest.name == "alpha"
        assert job.manifest.provenance == ("from this project",)

    async def test_a_check_that_does_not_pass_takes_it_too(self) -> None:
        """JSR-125"""
        taker = Taker()
        guard = {"kind": "field", "field": "topic", "pattern": "sql", "because": "this is about databases"}
        result = await fall_back(taker, program=RUNS, given={"topic": "cats"}, guards=[guard])
        assert taker.jobs[0].reason == "guard"
        assert result.fell_back == taker.jobs[0].sentence == "Not taking the quick way: this is about databases"
        assert (result.status, result.output, result.sandbox) == ("finished", {"by": "generalist"}, None)

    async def test_the_input_is_nobody_elses(self) -> None:
        """What a tool or the caller does to the input meanwhile, and what the generalist does to it, stays apart."""
        given = {"items": [1]}

        def spoil(_args: object) -> str:
            given["items"].append(2)
            return ""

        async def take(job: LongWay, _env: Env) -> RunResult:
            assert job.input == {"items": [1]}
            assert isinstance(job.input, dict)
            job.input["items"] = None
            return RunResult("finished", output=1)

        program = "function run() { tool('spoil'); throw new Error('lost'); }"
        env = CallbackEnv(tools={"spoil": spoil})
        result = await fall_back(Taker(take), env, given, program, whitelist=["spoil"])
        assert result.status == "finished", result.incomplete
        assert given == {"items": [1, 2]}

    async def test_the_result_is_the_generalists_with_what_the_run_gathered(self) -> None:
        """JSR-125 `path` long, `fell_back` set, both spends, both run ids."""
        long = RunResult(
            "finished",
            output={"by": "generalist"},
            spend=Spend(model="big", calls=2, input=30, output=5, cost_usd=0.25),
            logs=(LogEntry("thinking"),),
            calls=3,
            run_id="long",
            usage=Usage(steps=3, wall_s=2.0),
            truncated=(Truncation("console", 1, 2),),
        )
        env = CallbackEnv(ai=lambda *_: Answer("x", spend=Spend(model="small", calls=1, input=7, cost_usd=0.5)))
        program = "function run() { console.log('seen'); ai('p'); throw new Error('lost'); }"
        bundle = files("alpha", program) | {"prompts/p.md": "P."}
        made = registry(HOME=Pack(bundle))
        result = await made.run("alpha", {}, env, generalist=Taker(long), run_id="fast")
        assert (result.status, result.reason, result.output) == ("finished", None, {"by": "generalist"})
        assert result.finished()
        assert (result.path, result.run_id, result.long_run_id) == ("long", "fast", "long")
        assert result.fell_back.endswith("Error: lost")
        assert result.spend == Spend(calls=3, input=37, output=5, cost_usd=0.75, mixed=True)
        assert [entry.text for entry in result.logs] == ["seen", "thinking"]
        assert (result.calls, result.usage.steps) == (4, 4)
        assert result.usage.wall_s > 2
        assert result.truncated == long.truncated
        assert result.sandbox is not None
        assert RunResult.from_json(result.to_json()) == result

    async def test_the_report_is_the_last_one_there_is(self) -> None:
        assert (await fall_back(Taker())).report == "half way"
        assert (await fall_back(Taker(RunResult("finished", output=1, report="done")))).report == "done"

    @pytest.mark.parametrize(
        ("end", "reason", "sentence"),
        [
            (RunResult("finished"), "no_output", "without an output"),
            (RunResult("finished", output={"n": "x"}), "invalid_output", "output.n: must be a whole number"),
            (RunResult("finished", output={}), "invalid_output", "misses `n`"),
            (RunResult("finished", output=[1]), "invalid_output", "must be an object"),
            (RunResult("finished", output={"n": {1, 2}}), "invalid_output", "output.n"),  # type: ignore[dict-item]
            (RunResult("finished", output={"n": float("nan")}), "invalid_output", "output.n"),
            (RunResult("finished", output={"n": 1, "s": "aab"}), "invalid_output", "output.s"),
            (RunResult("incomplete", "steps", incomplete="It took too long."), "steps", "It took too long."),
            (RunResult("incomplete", "wall", output={"n": 1}), "wall", "did not finish"),
            (RunResult("fell_back", "threw", fell_back="No way."), "crashed", "No way."),
            (RuntimeError("out of\nideas"), "crashed", "The long way stopped with an error: out of ideas"),
            (RuntimeError(), "crashed", "The long way stopped with an error."),
            (DoorFailure("denied"), "crashed", "denied"),
        ],
        ids=lambda value: str(value)[:40] if isinstance(value, Exception | str) else value.status,
    )
    async def test_what_is_no_valid_output_is_incomplete(
        self, end: RunResult | Exception, reason: str, sentence: str
    ) -> None:
        """JSR-125 the output is checked as a program's; a generalist that raises is `crashed`."""
        schema = {
            "required": ["n"],
            "properties": {"n": {"type": "integer"}, "s": {"type": "string", "pattern": "^(?:ab)+$"}},
        }
        result = await fall_back(Taker(end), output=schema)
        assert (result.status, result.reason, result.output, result.path) == ("incomplete", reason, None, "long")
        assert sentence in result.incomplete
        assert "RuntimeError" not in result.incomplete
        assert result.fell_back.endswith("Error: lost")
        assert result.report == "half way"
        assert [entry.text for entry in result.logs] == ["half way", "seen"]
        assert not result.finished()

    async def test_without_a_schema_any_value_is_an_output_within_the_bounds_of_a_program(self) -> None:
        """JSR-110 (long way)"""
        deep: Any = 1
        for _ in range(600):
            deep = [deep]
        assert "512 levels" in (await fall_back(Taker(RunResult("finished", output=deep)))).incomplete
        outputs: list[Json] = [0, "", False, [None]]
        for output in outputs:
            assert (await fall_back(Taker(RunResult("finished", output=output)))).output == output

    async def test_what_is_no_result_is_crashed(self) -> None:
        async def take(_job: LongWay, _env: Env) -> object:
            return {"output": 1}

        result = await fall_back(Taker(take))
        assert (result.reason, result.incomplete) == ("crashed", "The long way ended without a result.")

    async def test_incomplete_and_finished_runs_do_not_take_it(self) -> None:
        """JSR-125"""
        taker = Taker()
        for program in (RUNS, "function run() { }", "function run() { for (let i = 0; i < 9; i++) log('x'); }"):
            made = registry(HOME=Pack(files("alpha", program)))
            result = await made.run("alpha", {}, ScriptedEnv(), generalist=taker, fuel=Fuel(steps=5))
            assert (result.path, result.long_run_id) == ("fast", None)
        assert taker.jobs == []

    async def test_without_a_generalist_the_fast_result_stands(self) -> None:
        """JSR-125"""
        made = registry(HOME=Pack(files("alpha", THROWS)))
        result = await made.run("alpha", {}, ScriptedEnv())
        assert (result.status, result.reason, result.path) == ("fell_back", "threw", "fast")

    async def test_a_cancelled_caller_cancels_the_generalist(self) -> None:
        taken, cancelled = asyncio.Event(), asyncio.Event()

        async def take(_job: LongWay, _env: Env) -> RunResult:
            taken.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise AssertionError

        task = asyncio.create_task(fall_back(Taker(take)))
        await asyncio.wait_for(taken.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled.is_set()

    async def test_a_cancellation_of_its_own_is_crashed(self) -> None:
        async def take(_job: LongWay, _env: Env) -> RunResult:
            raise asyncio.CancelledError

        result = await fall_back(Taker(take))
        assert (result.reason, result.incomplete) == ("crashed", "The long way was cancelled.")

    @pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
    def test_the_end_of_the_process_goes_through(self, error: type[BaseException]) -> None:
        async def take(_job: LongWay, _env: Env) -> RunResult:
            raise error

        with pytest.raises(error):
            asyncio.run(fall_back(Taker(take)))


def belt(*names: str) -> Belt:
    return Belt(Tool(name, f"Does {name}.", {"type": "object"}, lambda args: {"done": True}) for name in names)


class TestConfinement:
    async def test_a_tool_off_the_whitelist_is_never_reached(self) -> None:
        """JSR-125 (and JSR-049) the Env refuses it in whatever spelling; one on it is found with blanks around it."""
        called: list[str] = []

        def tool(name: str, _args: object) -> str:
            called.append(name)
            return "done"

        async def take(_job: LongWay, env: Env) -> RunResult:
            for name in ("rm", "Read", "read x", "", "read\0", "list\n,read"):
                with pytest.raises(DoorFailure, match=r"not on the whitelist\. Allowed: read, list"):
                    await env.tool(name, {})
            with pytest.raises(DoorFailure):
                await env.tool(None, {})  # type: ignore[arg-type]
            assert (await env.tool(" read\t", {})).text == "done"
            return RunResult("finished", output=1)

        env = CallbackEnv(tool=tool)
        result = await fall_back(Taker(take), env, whitelist=[" read", "list "])
        assert result.status == "finished", result.incomplete
        assert called == ["read"]

    async def test_an_empty_whitelist_allows_no_tool(self) -> None:
        """JSR-125"""

        async def take(job: LongWay, env: Env) -> RunResult:
            assert job.tools == ()
            with pytest.raises(DoorFailure, match="no tools, it spends only on the model"):
                await env.tool("read", {})
            return RunResult("finished", output=1)

        result = await fall_back(Taker(take), CallbackEnv(tools=belt("read")))
        assert result.status == "finished", result.incomplete

    async def test_the_belt_it_sees_is_cut_to_the_whitelist(self) -> None:
        """JSR-125 specs are those of the Env's belt; there is no other way to its other tools."""

        async def take(job: LongWay, env: Env) -> RunResult:
            assert [(spec.name, spec.description) for spec in job.tools] == [("read", "Does read.")]
            seen = getattr(env, "belt", None)
            assert isinstance(seen, Belt)
            assert seen.names() == ("read",)
            return RunResult("finished", output=1)

        result = await fall_back(Taker(take), CallbackEnv(tools=belt("rm", "read")), whitelist=["read", "absent"])
        assert result.status == "finished", result.incomplete

    def test_tools_without_a_belt_are_open(self) -> None:
        """JSR-125 open specs where the Env has no belt, or one that says no more than names."""
        specs = tool_specs(UnwiredEnv(), [" read", "list", "read"])
        assert [(spec.name, spec.description, spec.input_schema) for spec in specs] == [
            ("read", "", {"type": "object"}),
            ("list", "", {"type": "object"}),
        ]

        class Names:
            def names(self) -> list[str]:
                return ["rm", " list "]

            async def call(self, name: str, args: object) -> Any:
                raise AssertionError

        env = CallbackEnv(tools=Names())
        assert [spec.name for spec in tool_specs(env, ["list", "read"])] == ["list"]
        assert WhitelistedEnv(env, ["list"]).belt is None

    async def test_the_other_doors_lead_where_those_of_the_program_lead(self) -> None:
        asked: list[object] = []
        env = CallbackEnv(
            ai=lambda prompt, value, options: Answer("yes", spend=Spend(input=3)),
            ask=lambda question, options: question,
            remember=asked.append,
            recall=lambda query: [Note("host's")],
            log=asked.append,
        )
        confined = WhitelistedEnv(env, [])
        assert (await confined.ai(Prompt(None, "?"), None, AIOptions())).text == "yes"
        assert (await confined.ask("which", AskOptions())).text == "which"
        await confined.remember("a note")
        await confined.log("a status")
        assert asked == ["a note", "a status"]
        assert await confined.recall("") == (Note("host's"),)
        own = WhitelistedEnv(env, [], FakeMemory(["its own"]))
        await own.remember("more")
        assert [note.text for note in await own.recall("")] == ["more", "its own"]
        assert asked == ["a note", "a status"]

    async def test_what_its_calls_cost_is_not_lost_when_it_fails(self) -> None:
        """Spend of answers and of failures that went through the Env stays in the ledger."""

        def tool(_name: str, _args: object) -> str:
            raise DoorFailure("no", spend=Spend(output=4))

        async def take(_job: LongWay, env: Env) -> RunResult:
            await env.ai(Prompt(None, "?"), None, AIOptions())
            await env.tool("read", {})
            raise AssertionError

        env = CallbackEnv(ai=lambda *_: Answer("x", spend=Spend(calls=1, input=3)), tool=tool, log=lambda _: None)
        result = await fall_back(Taker(take), env, whitelist=["read"])
        assert (result.reason, result.spend) == ("crashed", Spend(calls=1, input=3, output=4))


def test_fuel_left_is_never_more_and_never_nothing() -> None:
    """JSR-125"""
    result = RunResult("fell_back", "threw", usage=Usage(5, 2.5, 0.5), spend=Spend(input=60, output=40, cache_read=9))
    assert fuel_left(Fuel(10, 300, 10.0, 1.0, 1000, 100), result) == Fuel(5, 200, 7.5, 0.5, 1000, 100)
    assert fuel_left(Fuel(5, 100, 1.0, 0.5), result) == Fuel(1, 1, 0.001, 0.001)
    assert fuel_left(Fuel(), result) == Fuel()


async def test_a_journal_that_fails_crashes_the_run_and_takes_no_long_way() -> None:
    """JSR-125 `incomplete` does not take it, whatever the reason."""

    class Broken(MemoryJournal):
        async def open(self, row: Any) -> None:
            raise JournalError("disk full")

    taker = Taker()
    made = Registry(journal=Broken())
    made.use(Layer.HOME, Pack(files("alpha", THROWS)))
    result = await made.run("alpha", {}, ScriptedEnv(), generalist=taker)
    assert (result.reason, taker.jobs) == ("crashed", [])
