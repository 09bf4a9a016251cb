"""Persisted state: the value, its limits, migration, the stores, encryption, and what survives a kill."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

from jsrun.plugs import (
    EncryptedStore,
    Issue,
    MemoryStore,
    MissingExtra,
    Plug,
    PlugLogger,
    SchemaError,
    SqliteStore,
    StateClosed,
    StateCorrupt,
    StateInvalid,
    StateTooLarge,
    StateUnavailable,
)
from jsrun.plugs._level import PlugEntry
from jsrun.plugs.persist import PersistedState, StateStore
from jsrun.plugs.schema import Validator
from jsrun.plugs.sealed import decode_key, key_from_file
from tests.plugs.rig import Rig, entries, settle
from tests.plugs.test_lifecycle import seen

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))


class Vm(pydantic.BaseModel):
    """What a provider assigned."""

    vm_id: str
    size: int = 1


class SetOnce(Plug, name="test/set-once"):
    """Sets its state in a start run and notes what it sees."""

    Persisted = Vm
    values: list[Any]

    async def session(self, next: Any) -> None:
        self.values.append(self.persisted.value)
        if self.persisted.value is None:
            await self.persisted.set(Vm(vm_id="v-1"))
            self.values.append(self.persisted.value)
        else:
            await self.persisted.clear()
            self.values.append(self.persisted.value)
        await next()


def plug(**members: Any) -> type[Plug]:
    """A plug with `Persisted = Vm` and these handlers."""
    return type("Made", (Plug,), {"Persisted": Vm, **members})


async def acting(store: StateStore, act: Any) -> list[BaseException | None]:
    """Perform a run whose plug does `act(persisted)` in `session`; the error of that."""
    errors: list[BaseException | None] = []

    async def session(self: Plug, next: Any) -> None:
        try:
            await act(self.persisted)
            errors.append(None)
        except Exception as error:
            errors.append(error)
        await next()

    await Rig(entries(plug(session=session)), store=store).perform(stop="idle")
    return errors


@pytest.mark.plg("PLG-062")
async def test_the_value_is_none_first_then_what_was_stored_then_none_again() -> None:
    """PLG-062"""

    class Here(SetOnce, name="test/set-once"):
        values: list[Any] = []  # noqa: RUF012  # one per class made here

    rig = Rig(entries(Here))
    for kind in ("start", "resume", "resume"):
        await rig.perform(kind, stop="idle")
    stored = Vm(vm_id="v-1")
    assert Here.values == [None, stored, stored, None, None, stored]


@pytest.mark.plg("PLG-063")
async def test_too_large_or_invalid_values_are_refused_and_nothing_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PLG-063"""
    overhead = len(json.dumps({"vm_id": "", "size": 1}, separators=(",", ":")))
    for value, error in (
        (Vm(vm_id="x" * (16 * 1024 - overhead + 1)), StateTooLarge),
        (Vm.model_construct(vm_id=3), StateInvalid),
        ({"vm_id": "v", "unknown": 1}, StateInvalid),
        (Vm.model_construct(vm_id="\ud800"), StateInvalid),
        (Vm.model_construct(vm_id=object()), StateInvalid),
        (None, StateInvalid),
    ):
        store = MemoryStore()
        assert [type(each) for each in await acting(store, lambda state, value=value: state.set(value))] == [error]
        assert not store.values
    store = MemoryStore()
    with caplog.at_level(logging.WARNING, "jsrun.plugs"):
        exact = Vm(vm_id="x" * (16 * 1024 - overhead))
        assert await acting(store, lambda state: state.set(exact)) == [None]
    assert len(store.values["s1", "p0"]) == 16 * 1024
    assert "large" in caplog.text


@pytest.mark.plg("PLG-063")
async def test_a_plug_without_persisted_has_no_state() -> None:
    """PLG-063"""
    errors: list[BaseException] = []

    class Bare(Plug):
        async def session(self, next: Any) -> None:
            assert self.persisted.value is None
            with pytest.raises(StateInvalid) as info:
                await self.persisted.set(1)
            errors.append(info.value)
            await next()

    await Rig([PlugEntry(Bare), PlugEntry(type("Kept", (Bare,), {"Persisted": int}))]).perform()
    assert "Persisted" in str(errors[0]) and "no `id`" in str(errors[1])


_CHILD = """
import asyncio, os, sys
from jsrun.plugs import EncryptedStore, PlugLogger, SqliteStore
from jsrun.plugs._level import PlugEntry
from jsrun.plugs.persist import PersistedState
from jsrun.plugs.schema import Validator

async def main():
    store = SqliteStore(sys.argv[1])
    if sys.argv[2] == "encrypted":
        store = EncryptedStore(store, [bytes(range(32))])
    state = PersistedState(store, "s1", "vm", Validator(dict[str, int], "Persisted"), PlugLogger({}))
    await state.load(None)
    number = 0
    while True:
        number += 1
        await state.set({"n": number})
        os.write(1, b"%d\\n" % number)

asyncio.run(main())
"""


def kill_while_writing(path: Path, kind: str) -> int:
    """Let a child store numbers at `path` until it is killed; the last one it said to be stored."""
    with subprocess.Popen([sys.executable, "-c", _CHILD, str(path), kind], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = 0
        try:
            for line in process.stdout:
                said = int(line)
                if said == 5:
                    process.send_signal(signal.SIGKILL)
        finally:
            process.kill()
    return said


@pytest.mark.plg("PLG-064")
@pytest.mark.parametrize("kind", ["plain", "encrypted"])
async def test_a_set_that_returned_survives_a_kill_right_after(tmp_path: Path, kind: str) -> None:
    """PLG-064"""
    path = tmp_path / "state.db"
    said = await asyncio.to_thread(kill_while_writing, path, kind)
    assert said >= 5
    inner = SqliteStore(path)
    store: StateStore = EncryptedStore(inner, [KEY]) if kind == "encrypted" else inner
    try:
        stored = await store.get("s1", "vm")
    finally:
        inner.close()
    assert stored is not None and json.loads(stored)["n"] in (said, said + 1)  # one more may have landed untold


class Slow(MemoryStore):
    """A store whose first write takes longer than the second, and where some fail."""

    def __init__(self, fail: set[int] | None = None) -> None:
        super().__init__()
        self.turn = 0
        self.gate = asyncio.Event()
        self.fail = fail or set()

    async def put(self, session: str, plug: str, value: bytes) -> None:
        self.turn += 1
        turn = self.turn
        if turn == 1:
            await self.gate.wait()
        if turn in self.fail:
            raise StateUnavailable("the disk is full")
        await super().put(session, plug, value)


@pytest.mark.plg("PLG-065")
async def test_writes_in_flight_land_in_call_order() -> None:
    """PLG-065"""
    store = Slow()

    async def act(state: Any) -> None:
        first = asyncio.create_task(state.set(Vm(vm_id="first")))
        second = asyncio.create_task(state.set(Vm(vm_id="second")))
        await settle()
        assert state.value is None
        store.gate.set()
        await asyncio.gather(first, second)
        assert state.value == Vm(vm_id="second")

    assert await acting(store, act) == [None]
    assert json.loads(store.values["s1", "p0"])["vm_id"] == "second"


@pytest.mark.plg("PLG-065", "PLG-069")
async def test_closing_a_state_waits_for_the_writes_that_were_begun() -> None:
    """PLG-065, PLG-069"""
    store = Slow()
    state: PersistedState[Vm] = PersistedState(store, "s1", "p0", Validator(Vm, "Persisted"), PlugLogger({}))
    await state.load(None)
    writing = asyncio.create_task(state.set(Vm(vm_id="first")))
    await settle()
    closing = asyncio.create_task(state.close())
    await settle()
    assert not closing.done()
    store.gate.set()
    await closing
    assert json.loads(store.values["s1", "p0"])["vm_id"] == "first"
    await writing


@pytest.mark.plg("PLG-065")
async def test_a_failed_write_raises_and_leaves_the_value() -> None:
    """PLG-065"""
    store = Slow(fail={2})
    store.gate.set()

    async def act(state: Any) -> None:
        await state.set(Vm(vm_id="first"))
        with pytest.raises(StateUnavailable):
            await state.set(Vm(vm_id="second"))
        assert state.value == Vm(vm_id="first")

    assert await acting(store, act) == [None]


@pytest.mark.plg("PLG-065")
async def test_a_write_once_begun_is_not_undone_by_cancellation() -> None:
    """PLG-065"""
    store = Slow()

    async def act(state: Any) -> None:
        writing = asyncio.create_task(state.set(Vm(vm_id="first")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        store.gate.set()

    assert await acting(store, act) == [None]
    assert json.loads(store.values["s1", "p0"])["vm_id"] == "first"


@pytest.mark.plg("PLG-066")
async def test_an_invalid_stored_value_goes_to_migrate_and_is_written_back_before_load() -> None:
    """PLG-066"""
    for is_async in (False, True):
        store = MemoryStore()
        store.values["s1", "p0"] = b'{"id":"v-9"}'
        at_load: list[Any] = []

        def load(self: Plug, store: MemoryStore = store, at_load: list[Any] = at_load) -> None:
            at_load.append((self.persisted.value, store.values["s1", "p0"]))

        def migrate(self: Plug, stored: Any) -> Any:
            return Vm(vm_id=stored["id"])

        async def migrate_async(self: Plug, stored: Any) -> Any:
            return {"vm_id": stored["id"]}

        made = plug(load=load, migrate=migrate_async if is_async else migrate)
        await Rig(entries(made), store=store).perform(stop="idle")
        written = b'{"vm_id":"v-9"}' if is_async else b'{"vm_id":"v-9","size":1}'
        assert at_load == [(Vm(vm_id="v-9"), written)]


@pytest.mark.plg("PLG-066")
async def test_a_valid_value_never_reaches_migrate_and_none_deletes() -> None:
    """PLG-066"""
    asked: list[Any] = []

    def migrate(self: Plug, stored: Any) -> None:
        asked.append(stored)

    store = MemoryStore()
    store.values["s1", "p0"] = b'{"vm_id":"v"}'
    await Rig(entries(plug(migrate=migrate)), store=store).perform(stop="idle")
    assert not asked and store.values["s1", "p0"] == b'{"vm_id":"v"}'
    store.values["s1", "p0"] = b"null"
    await Rig(entries(plug(migrate=migrate)), store=store).perform(stop="idle")
    assert asked == [None] and not store.values


@pytest.mark.plg("PLG-067")
async def test_without_a_valid_migration_the_run_fails_and_the_value_stays() -> None:
    """PLG-067"""

    def raising(self: Plug, stored: Any) -> Any:
        raise LookupError("no such version")

    def still_bad(self: Plug, stored: Any) -> Any:
        return {"vm_id": 4}

    for members, text in (({}, "vm_id"), ({"migrate": raising}, "no such version"), ({"migrate": still_bad}, "vm_id")):
        store = MemoryStore()
        store.values["s1", "p1"] = b'{"id":1}'
        outer = seen()
        end = await Rig(entries(outer, plug(**members)), store=store).perform()
        assert text in str(outer.infos[0].error)
        assert outer.torn[0].cleanup_failed and end.state == "leftover"
        assert store.values["s1", "p1"] == b'{"id":1}'


@pytest.mark.plg("PLG-068")
@pytest.mark.parametrize("blob", [b"{", b"\xff", b"", b"NaN", b"[" * 100_000])
async def test_what_is_not_json_never_reaches_migrate(blob: bytes) -> None:
    """PLG-068"""
    asked: list[Any] = []

    def migrate(self: Plug, stored: Any) -> None:
        asked.append(stored)

    store = MemoryStore()
    store.values["s1", "p1"] = blob
    outer = seen()
    await Rig(entries(outer, plug(migrate=migrate)), store=store).perform()
    assert isinstance(outer.infos[0].error, StateCorrupt) and not asked


@pytest.mark.plg("PLG-069")
async def test_writes_inside_migrate_and_after_the_last_handler_are_refused() -> None:
    """PLG-069"""
    kept: list[Any] = []

    async def migrate(self: Plug, stored: Any) -> Any:
        assert self.persisted.value is None
        with pytest.raises(StateClosed):
            await self.persisted.set(Vm(vm_id="x"))
        with pytest.raises(StateClosed):
            await self.persisted.clear()
        kept.append(self.persisted)
        return Vm(vm_id="migrated")

    for stop in ("idle", "closed"):
        store = MemoryStore()
        store.values["s1", "p0"] = b"1"
        await Rig(entries(plug(migrate=migrate)), store=store).perform(stop=stop)
        with pytest.raises(StateClosed):
            await kept[-1].set(Vm(vm_id="late"))
        with pytest.raises(StateClosed):
            await kept[-1].clear()
        assert b"late" not in b"".join(store.values.values())
    assert len(kept) == 2


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StateStore]:
    """Every store."""
    if request.param == "memory":
        yield MemoryStore()
        return
    file = SqliteStore(tmp_path / "deep" / "state.db")
    yield EncryptedStore(file, [KEY]) if request.param == "encrypted" else file
    file.close()


@pytest.mark.plg("PLG-070")
async def test_every_store_keeps_bytes_by_session_and_plug(store: StateStore) -> None:
    """PLG-070"""
    assert await store.get("s1", "a") is None
    values = {("s1", "a"): b"", ("s1", "b"): bytes(range(256)), ("s2", "a"): b"x" * 16_384, ("s1x", "a"): b"1"}
    for (session, name), value in values.items():
        await store.put(session, name, value)
    for (session, name), value in values.items():
        assert await store.get(session, name) == value
    await store.put("s1", "a", b"new")
    assert await store.get("s1", "a") == b"new"
    await store.delete("s1", "a")
    await store.delete("s1", "a")
    assert await store.get("s1", "a") is None
    assert await store.get("s1", "b") == bytes(range(256))
    await store.delete_session("s1")
    await store.delete_session("s1")
    assert await store.get("s1", "b") is None
    assert await store.get("s2", "a") == b"x" * 16_384
    assert await store.get("s1x", "a") == b"1"


@pytest.mark.plg("PLG-070")
async def test_many_calls_at_once_are_all_done(store: StateStore) -> None:
    """PLG-070"""
    await asyncio.gather(*(store.put("s", f"p{number}", b"%d" % number) for number in range(50)))
    found = await asyncio.gather(*(store.get("s", f"p{number}") for number in range(50)))
    assert found == [b"%d" % number for number in range(50)]


@pytest.mark.plg("PLG-070")
async def test_the_sqlite_file_is_private_durable_and_shared(tmp_path: Path) -> None:
    """PLG-070"""
    path = tmp_path / "state.db"
    one, two = SqliteStore(path), SqliteStore(path)
    try:
        await one.put("s", "p", b"1")
        assert await two.get("s", "p") == b"1"
        await two.put("s", "p", b"2")
        assert await one.get("s", "p") == b"2"
        assert path.stat().st_mode & 0o777 == 0o600
        assert one._connection is not None
        assert one._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert one._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    finally:
        one.close()
        two.close()


@pytest.mark.plg("PLG-070")
async def test_a_file_that_cannot_be_used_is_unavailable_and_named(tmp_path: Path) -> None:
    """PLG-070"""
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"no database at all" * 100)
    other = tmp_path / "other.db"
    blocked = tmp_path / "file" / "state.db"
    blocked.parent.write_text("not a folder")
    import sqlite3

    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t(x)")
    connection.close()
    for path in (garbage, other, blocked):
        broken = SqliteStore(path)
        try:
            with pytest.raises(StateUnavailable, match=path.name):
                await broken.get("s", "p")
        finally:
            broken.close()


@pytest.mark.plg("PLG-071")
async def test_a_blob_moved_altered_or_read_with_a_wrong_key_is_corrupt() -> None:
    """PLG-071"""
    inner = MemoryStore()
    sealed = EncryptedStore(inner, [KEY])
    await sealed.put("s1", "vm", b"secret")
    blob = inner.values["s1", "vm"]
    for place in (("s1", "vm2"), ("s2", "vm"), ("s1v", "m")):
        inner.values[place] = blob
        with pytest.raises(StateCorrupt):
            await sealed.get(*place)
    for index in range(len(blob)):
        inner.values["s1", "vm"] = blob[:index] + bytes([blob[index] ^ 1]) + blob[index + 1 :]
        with pytest.raises(StateCorrupt):
            await sealed.get("s1", "vm")
    for cut in (blob[:-1], blob[:20], b""):
        inner.values["s1", "vm"] = cut
        with pytest.raises(StateCorrupt):
            await sealed.get("s1", "vm")
    inner.values["s1", "vm"] = blob
    with pytest.raises(StateCorrupt):
        await EncryptedStore(inner, [OTHER_KEY]).get("s1", "vm")


@pytest.mark.plg("PLG-071")
async def test_with_a_new_first_key_old_blobs_still_read() -> None:
    """PLG-071"""
    inner = MemoryStore()
    await EncryptedStore(inner, [KEY]).put("s1", "vm", b"old")
    both = EncryptedStore(inner, [OTHER_KEY, KEY])
    assert await both.get("s1", "vm") == b"old"
    await both.put("s1", "vm", b"new")
    assert await EncryptedStore(inner, [OTHER_KEY]).get("s1", "vm") == b"new"
    with pytest.raises(StateCorrupt):
        await EncryptedStore(inner, [KEY]).get("s1", "vm")
    await both.put("s1", "vm", b"new")
    first = inner.values["s1", "vm"]
    await both.put("s1", "vm", b"new")
    assert inner.values["s1", "vm"] != first  # a new nonce each time


def contents(folder: Path) -> str:
    """All that the files of a folder hold."""
    return b"".join(path.read_bytes() for path in folder.iterdir()).decode("latin-1")


@pytest.mark.plg("PLG-072")
async def test_with_encryption_a_plaintext_blob_raises_and_no_plaintext_is_in_the_file(tmp_path: Path) -> None:
    """PLG-072"""
    file = SqliteStore(tmp_path / "state.db")
    try:
        sealed = EncryptedStore(file, [KEY])
        await file.put("s1", "vm", b'{"vm_id":"v-1"}')
        with pytest.raises(StateCorrupt, match="not encrypted"):
            await sealed.get("s1", "vm")
        outer = seen()
        rig = Rig(entries(outer, plug()), store=sealed)
        await file.put("s1", "p1", b'{"vm_id":"v-1"}')
        await rig.perform()
        assert isinstance(outer.infos[0].error, StateCorrupt)
        await sealed.put("s2", "vm", b"very-secret-value")
    finally:
        file.close()
    assert "very-secret-value" not in contents(tmp_path)


@pytest.mark.plg("PLG-072", "PLG-008")
async def test_without_the_library_encryption_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """PLG-072, PLG-008"""
    for name in list(sys.modules):
        if name.partition(".")[0] == "cryptography":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"pip install 'subharness\[state\]'"):
        EncryptedStore(MemoryStore(), [KEY])


@pytest.mark.plg("PLG-071")
def test_a_key_is_32_bytes_in_base64_and_its_file_is_made_once(tmp_path: Path) -> None:
    """PLG-071"""
    path = tmp_path / "made" / "state.key"
    key = key_from_file(path, create=True)
    assert len(key) == 32 and key_from_file(path, create=True) == key == key_from_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(StateUnavailable, match="missing"):
        key_from_file(tmp_path / "missing")
    path.write_text("short")
    with pytest.raises(ValueError, match=r"state\.key.*32 bytes in base64"):
        key_from_file(path)
    for text in ("", "!", "A" * 43):
        with pytest.raises(ValueError, match="JSRUN_STATE_KEY"):
            decode_key(text, "JSRUN_STATE_KEY")
    for keys in ([], [b"short"], [KEY, KEY + b"x"]):
        with pytest.raises(ValueError):
            EncryptedStore(MemoryStore(), keys)


@pytest.mark.plg("PLG-063")
async def test_a_schema_object_validates_state_too() -> None:
    """PLG-063, PLG-007"""

    class Short:
        def validate(self, value: Any) -> str:
            if not isinstance(value, str) or len(value) > 3:
                raise SchemaError([Issue("is no short text", ("x", 0))])
            return value.upper()

    store = MemoryStore()
    values: list[Any] = []

    async def session(self: Plug, next: Any) -> None:
        await self.persisted.set("abc")
        values.append(self.persisted.value)
        for wrong in ("abcd", b"abc", float("nan")):
            with pytest.raises(StateInvalid):
                await self.persisted.set(wrong)
        await next()

    made = type("Made", (Plug,), {"Persisted": Short(), "session": session})
    end = await Rig(entries(made), store=store).perform(stop="idle")
    assert end.reason == "idle" and values == ["ABC"]
    assert store.values["s1", "p0"] == b'"abc"'


@pytest.mark.plg("PLG-070")
async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """PLG-070 With the error of a store, also after a second close."""
    store = SqliteStore(tmp_path / "state.db")
    await store.put("s1", "vm", b"1")
    store.close()
    store.close()
    with pytest.raises(StateUnavailable, match="closed"):
        await store.get("s1", "vm")
