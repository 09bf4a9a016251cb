"""The class of a plug, its inputs, and the names of the package."""

import asyncio
import dataclasses
import os
import subprocess
import sys
from typing import Annotated, Any

import pydantic
import pytest
import typing_extensions

import jsrun.plugs
from jsrun.plugs import PLUG_API_VERSION, Issue, Plug, PlugApi, PlugContext, PlugLogger, Schema, SchemaError
from jsrun.plugs._level import PlugEntry
from jsrun.plugs._started import started
from jsrun.plugs.schema import Validator, check_inputs
from tests.plugs.rig import Rig


@pytest.mark.plg("PLG-001")
def test_a_subclass_is_stamped_with_its_version_of_the_api() -> None:
    """PLG-001"""

    class Default(Plug):
        pass

    class Older(Plug, name="acme/older", description="does a thing", api=(1, 7)):
        pass

    class Newest(Older, api=(2, 0)):
        pass

    assert PLUG_API_VERSION == (1, 0) == (PLUG_API_VERSION.major, PLUG_API_VERSION.minor)
    assert isinstance(Default.plug_api, PlugApi) and Default.plug_api == (1, 0)
    assert (Older.plug_api, Older.name, Older.description) == ((1, 7), "acme/older", "does a thing")
    assert Newest.plug_api == (2, 0)
    assert Default.name.endswith(":test_a_subclass_is_stamped_with_its_version_of_the_api.<locals>.Default")
    assert not hasattr(Plug, "plug_api")


@pytest.mark.plg("PLG-002")
@pytest.mark.parametrize("method", ["session", "teardown"])
def test_a_session_or_teardown_that_is_not_async_is_refused_when_the_class_is_made(method: str) -> None:
    """PLG-002"""

    async def generator(self: Plug, next: Any) -> Any:
        yield

    for handler in (lambda self, next: None, generator):
        with pytest.raises(TypeError, match=rf"Wrong\.{method} must be declared with `async def`"):
            type("Wrong", (Plug,), {method: handler})
    assert type("Right", (Plug,), {"load": lambda self: None, "message": lambda self, message, next: None})


@pytest.mark.plg("PLG-002")
def test_a_class_knows_which_handlers_it_has() -> None:
    """PLG-002"""

    class Base(Plug):
        async def session(self, next: Any) -> None:
            await next()

    class Derived(Base):
        def load(self) -> None:
            pass

    assert Base.handlers == {"session"} and Derived.handlers == {"session", "load"}


class Model(pydantic.BaseModel):
    """No policy of its own."""

    image: str
    cpus: int = 2


class Lenient(pydantic.BaseModel):
    """Says what is to happen with unknown keys."""

    model_config = pydantic.ConfigDict(extra="allow")
    image: str


class Nested(pydantic.BaseModel):
    """Has one of each inside."""

    strict: Model
    lenient: Lenient


@dataclasses.dataclass
class Data:
    """A dataclass."""

    image: str
    cpus: int = 2


class Typed(typing_extensions.TypedDict):
    """A TypedDict."""

    image: str
    cpus: typing_extensions.NotRequired[int]


class Upper:
    """A schema object."""

    def validate(self, value: Any) -> str:
        """Text, in capitals."""
        if not isinstance(value, dict) or not isinstance(value.get("image"), str):
            raise SchemaError([Issue("must have an image", ("image",))])
        return str(value["image"]).upper()


@pytest.mark.plg("PLG-006")
def test_with_for_a_plug_without_inputs_is_refused() -> None:
    """PLG-006"""

    class Bare(Plug, name="acme/bare"):
        pass

    assert check_inputs(Bare, None) is None and check_inputs(Bare, {}) is None
    with pytest.raises(SchemaError, match="acme/bare: takes no inputs"):
        check_inputs(Bare, {"a": 1})


@pytest.mark.plg("PLG-006")
@pytest.mark.parametrize("kind", [Model, Data, Typed, Nested])
def test_unknown_keys_are_refused_where_no_policy_allows_them(kind: Any) -> None:
    """PLG-006"""

    class Strict(Plug, name="acme/strict"):
        Inputs = kind

    good: dict[str, Any] = {"image": "a"}
    if kind is Nested:
        good = {"strict": {"image": "a"}, "lenient": {"image": "a", "more": 1}}
    check_inputs(Strict, good)
    with pytest.raises(SchemaError) as info:
        check_inputs(Strict, {**good, "imgae": "b"})
    assert [issue.path for issue in info.value.issues] == [("imgae",)]
    assert str(info.value).startswith("acme/strict: imgae: ")


@pytest.mark.plg("PLG-006")
def test_an_unknown_key_inside_is_refused_too() -> None:
    """PLG-006"""

    class Outer(pydantic.BaseModel):
        inner: Model

    class Strict(Plug):
        Inputs = Outer

    with pytest.raises(SchemaError, match=r"inner\.x"):
        check_inputs(Strict, {"inner": {"image": "a", "x": 1}})


@pytest.mark.plg("PLG-006")
def test_a_policy_of_the_model_itself_counts() -> None:
    """PLG-006"""

    class Open(Plug):
        Inputs = Lenient

    assert check_inputs(Open, {"image": "a", "more": 1}).more == 1


@pytest.mark.plg("PLG-007")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Model, Model(image="a", cpus=4)),
        (Data, Data("a", 4)),
        (Typed, {"image": "a", "cpus": 4}),
        (Upper(), "A"),
        (dict[str, str], {"image": "a", "cpus": "4"}),
        (Model | None, Model(image="a", cpus=4)),
        (Annotated[Model, pydantic.Field(description="what to run")], Model(image="a", cpus=4)),
    ],
)
async def test_inputs_may_be_of_many_kinds_and_conversions_show(kind: Any, expected: Any) -> None:
    """PLG-007"""
    got: list[Any] = []

    class Taking(Plug):
        Inputs = kind

        def load(self) -> None:
            got.append((self.inputs, self.ctx.inputs))

    end = await Rig([PlugEntry(Taking, "a", lambda names: {"image": "a", "cpus": "4"})]).perform()
    assert end.error is None
    assert got == [(expected, expected)]


@pytest.mark.plg("PLG-007")
def test_defaults_show_and_what_does_not_fit_is_told_with_its_path() -> None:
    """PLG-007"""

    class Taking(Plug, name="acme/taking"):
        Inputs = Model

    assert check_inputs(Taking, {"image": "a"}).cpus == 2
    with pytest.raises(SchemaError) as info:
        check_inputs(Taking, {"cpus": "many"})
    assert [issue.path for issue in info.value.issues] == [("image",), ("cpus",)]
    assert "many" not in str(info.value)  # a value may be secret
    assert str(Issue("is wrong", ("a", 0, "b"))) == "a[0].b: is wrong"

    class Object(Plug, name="acme/object"):
        Inputs = Upper()

    with pytest.raises(SchemaError, match="acme/object: image: must have an image"):
        check_inputs(Object, {})
    assert isinstance(Upper(), Schema)


@pytest.mark.plg("PLG-007")
def test_what_is_no_schema_is_named() -> None:
    """PLG-007"""
    with pytest.raises(TypeError, match="acme/x: Inputs"):
        Validator(object(), "acme/x: Inputs")


@pytest.mark.plg("PLG-008")
def test_importing_the_package_loads_no_extra_and_no_other_part() -> None:
    """PLG-008"""
    code = (
        "import sys\n"
        "import jsrun.plugs\n"
        "for name in jsrun.plugs.__all__:\n"
        "    getattr(jsrun.plugs, name)\n"
        "import jsrun.plugs.runner\n"
        "bad = {'yaml', 'acp', 'asyncssh', 'cryptography', 'quickjs', 'py_mini_racer', 'esprima', 'jsrun.agent',\n"
        "       'jsrun.runner', 'jsrun.bundle', 'jsrun.env', 'ptc.host', 'ptc.runtime'}\n"
        "print(sorted(bad & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.plg("PLG-001")
@pytest.mark.parametrize("api", [1, "10", (1,), (1, 0, 0), (1.0, 0), (True, 0), None])
def test_a_version_that_is_not_two_numbers_is_refused(api: Any) -> None:
    """PLG-001 When the class is made, naming it."""
    with pytest.raises(TypeError, match=r"Odd: api= is two numbers"):

        class Odd(Plug, name="acme/odd", api=api):
            pass


@pytest.mark.plg("PLG-009")
def test_the_names_of_the_plug_api_have_their_python_form() -> None:
    """PLG-009"""
    members = {
        "Plug": "Inputs Persisted resumable load migrate session teardown message inputs persisted log",
        "PlugContext": "inputs persisted session run plug setup agent runner_env log host runner set_output stopping "
        "send",
        "PauseInfo": "reason may_resume error also",
        "TeardownInfo": "reason error cleanup_failed also",
        "PersistedState": "value set clear",
        "Host": "info fs exec spawn forward path supports_forward aclose",
        "HostFs": "read_bytes write_bytes append_bytes stat listdir mkdir rename unlink rmdir chmod symlink readlink",
        "HostInfo": "kind os home tmpdir workspace persistent",
        "HostProcess": "stdin stdout stderr kill wait",
        "ExecResult": "exit_code stdout stderr stdout_bytes stderr_bytes truncated",
        "ForwardSpec": "direction remote_port local_host local_port",
        "AgentSpawnSpec": "command args env cwd",
        "AgentDraft": "command args env cwd",
        "PlugLogger": "debug info warning error",
        "RunInfo": "kind number",
        "SessionInfo": "id execution_id agent",
        "AgentName": "name",
        "PlugPlace": "id index name",
        "SetupPlace": "outputs",
        "SessionController": "start resume pause end sweep records",
        "Session": "wait",
        "Policy": "idle_after expire_after timeout on_disconnect",
        "Schema": "validate",
        "Issue": "message path",
        "Stopping": "is_set wait reason",
        "PlugApi": "major minor",
        "Message": "direction method params kind replace copy view",
    }
    for name, wanted in members.items():
        kind = getattr(jsrun.plugs, name)
        has = {*dir(kind), *getattr(kind, "__annotations__", ()), *getattr(kind, "model_fields", ())}
        assert set(wanted.split()) <= has, name
    for name in ("METHODS", "GONE", "EndReason", "HostPath"):
        assert hasattr(jsrun.plugs, name), name


async def test_log_lines_carry_session_run_plug_and_phase(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-009"""
    contexts: list[PlugContext] = []

    class Talking(Plug, name="acme/talking"):
        def load(self) -> None:
            contexts.append(self.ctx)
            self.log.warning("loading", size=3)

        async def session(self, next: Any) -> None:
            assert self.ctx is contexts[0]
            self.log.error("going on", error=OSError("no disk"))
            await next()
            self.ctx.log.warning("done")

    await Rig([PlugEntry(Talking, "t")]).perform(stop="idle")
    fields = [(record.msg % record.args, record.__dict__["plug"]) for record in caplog.records]
    assert [each[1]["phase"] for each in fields] == ["prepare", "session", "pause"]
    assert all(
        (each[1]["session"], each[1]["run"], each[1]["plug"]) == ("s1", 1, "acme/talking (t)") for each in fields
    )
    assert fields[0][0].startswith("loading [") and "size=3" in fields[0][0]
    assert "error=OSError: no disk" in fields[1][0]
    PlugLogger({}).debug("not shown")


async def test_the_start_of_a_process_tells_it_from_another() -> None:
    """PLG-087 What the journal keeps beside a process id."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
    assert started(process.pid) is not None
    assert started(process.pid) == started(process.pid) != started(os.getpid())
    process.kill()
    await process.wait()
    assert started(process.pid) is None
