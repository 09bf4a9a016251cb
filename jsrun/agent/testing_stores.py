"""The suite every session store must pass: subclass it, say how to make a catalog, and let pytest collect it.

class TestMine(SessionStoreContract):
    @asynccontextmanager
    async def catalog(self):
        yield MyCatalog(...)
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from jsrun.agent.errors import Corrupt, InvalidCommit, ParentConflict, SessionError
from jsrun.agent.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from jsrun.agent.session import (
    MAX_ID_CHARS,
    TITLE_CHARS,
    CommitAck,
    Session,
    SessionCatalog,
    SessionCommit,
    SessionStore,
)

_Check: TypeAlias = Callable[[SessionCatalog], Awaitable[None]]

# Every field of every kind of message, with text that is not ASCII.
_ALL_KINDS: tuple[Message, ...] = (
    SystemMessage("sys\u2028tem"),
    UserMessage("grüße \U0001f600 \x00 \x7f"),
    AssistantMessage(
        content="",
        tool_calls=(ToolCall("a", "look", '{"x": 1, "x": '), ToolCall("b", "look", "")),
        thinking="hm",
        stop_reason="tool_use",
        provider_data={"parts": [1, 2.5, None, True, {"k": "\u00e9"}]},
    ),
    ToolMessage("a", "seen"),
    ToolMessage("b", "Tool error: no", is_error=True),
    AssistantMessage("done", stop_reason="stop"),
)


class SessionStoreContract:
    """One test per promise of `SessionStore` and `SessionCatalog`. The tests are plain functions with a loop each."""

    def catalog(self) -> AbstractAsyncContextManager[SessionCatalog]:
        """A fresh, empty catalog for one test."""
        raise NotImplementedError("override catalog() to make the catalog under test")

    def test_a_session_never_written_is_empty(self) -> None:
        """AGT-050 Opening an unknown id is no error, and does not make a session."""

        async def check(catalog: SessionCatalog) -> None:
            store = catalog.open("new")
            assert store.session_id == "new"
            assert await store.load() == Session(None, ())
            assert await catalog.list() == ()

        self._run(check)

    def test_messages_come_back_as_they_were(self) -> None:
        """AGT-047 Every field of every kind of message survives, over several commits."""

        async def check(catalog: SessionCatalog) -> None:
            store = catalog.open("s")
            assert await store.commit(SessionCommit("c1", None, _ALL_KINDS[:2])) == CommitAck("c1")
            assert await store.commit(SessionCommit("c2", "c1", _ALL_KINDS[2:])) == CommitAck("c2")
            assert await catalog.open("s").load() == Session("c2", _ALL_KINDS)

        self._run(check)

    def test_an_empty_commit_and_a_bad_id_are_invalid(self) -> None:
        """AGT-047 InvalidCommit comes before every other check, and nothing changes."""

        async def check(catalog: SessionCatalog) -> None:
            store = catalog.open("s")
            await store.commit(_commit("c1", None))
            for id in ("", "x" * (MAX_ID_CHARS + 1), "a\nb", "é", "\x7f"):
                await _refused(store, SessionCommit(id, "wrong", (UserMessage("x"),)), InvalidCommit)
            await _refused(store, SessionCommit("c1", "wrong", ()), InvalidCommit)
            await store.commit(_commit("x" * MAX_ID_CHARS, "c1"))
            await store.commit(_commit(" ~", "x" * MAX_ID_CHARS))

        self._run(check)

    def test_the_same_commit_twice_appends_once(self) -> None:
        """AGT-048 The second answer is the current head, also when the session has moved on."""

        async def check(catalog: SessionCatalog) -> None:
            store = catalog.open("s")
            first = SessionCommit("c1", None, _ALL_KINDS)
            await store.commit(first)
            assert await store.commit(first) == CommitAck("c1")
            await store.commit(_commit("c2", "c1"))
            assert await store.commit(first) == CommitAck("c2")
            assert await store.load() == Session("c2", (*_ALL_KINDS, UserMessage("c2")))

        self._run(check)

    def test_a_known_id_with_other_content_is_corrupt(self) -> None:
        """AGT-048 Another parent or other messages under a known id are refused as Corrupt, not as a conflict."""

        async def check(catalog: SessionCatalog) -> None:
            store = catalog.open("s")
            await store.commit(_commit("c1", None))
            await store.commit(_commit("c2", "c1"))
            await _refused(store, _commit("c2", "elsewhere"), Corrupt)
            await _refused(store, SessionCommit("c2", "c1", (UserMessage("other"),)), Corrupt)
            await _refused(store, SessionCommit("c1", "c2", (UserMessage("c1"),)), Corrupt)

        self._run(check)

    def test_a_parent_that_is_not_the_head_conflicts(self) -> None:
        """AGT-047 The error names the commit's parent and the head."""

        async def check(catalog: SessionCatalog) -> None:
            store = catalog.open("s")
            error = await _refused(store, _commit("c1", "ghost"), ParentConflict)
            assert error == ParentConflict("ghost", None)
            assert await catalog.list() == ()
            await store.commit(_commit("c1", None))
            await store.commit(_commit("c2", "c1"))
            assert await _refused(store, _commit("c3", "c1"), ParentConflict) == ParentConflict("c1", "c2")
            assert await _refused(store, _commit("c3", None), ParentConflict) == ParentConflict(None, "c2")

        self._run(check)

    def test_of_concurrent_commits_on_one_parent_one_lands(self) -> None:
        """AGT-049 The others are told of the conflict."""

        async def check(catalog: SessionCatalog) -> None:
            stores = [catalog.open("s") for _ in range(8)]
            tries = (store.commit(_commit(f"c{number}", None)) for number, store in enumerate(stores))
            answers = await asyncio.gather(*tries, return_exceptions=True)
            (landed,) = [answer for answer in answers if isinstance(answer, CommitAck)]
            lost = [answer for answer in answers if not isinstance(answer, CommitAck)]
            assert lost == [ParentConflict(None, landed.head)] * 7
            assert (await stores[0].load()).head == landed.head

        self._run(check)

    def test_sessions_do_not_mix(self) -> None:
        """AGT-050 The same commit id may stand in two sessions, each with its own content."""

        async def check(catalog: SessionCatalog) -> None:
            await catalog.open("a").commit(SessionCommit("c", None, (UserMessage("in a"),)))
            await catalog.open("b").commit(SessionCommit("c", None, (UserMessage("in b"),)))
            assert await catalog.open("a").load() == Session("c", (UserMessage("in a"),))
            assert await catalog.open("b").load() == Session("c", (UserMessage("in b"),))

        self._run(check)

    def test_the_list_is_newest_first(self) -> None:
        """AGT-050 Head, number of messages, times and title are those of the session."""

        async def check(catalog: SessionCatalog) -> None:
            await catalog.open("old").commit(SessionCommit("o1", None, (AssistantMessage("hi"),)))
            await catalog.open("new").commit(SessionCommit("n1", None, (UserMessage(" a\nb " + "x" * 100),)))
            assert [info.id for info in await catalog.list()] == ["new", "old"]
            await catalog.open("old").commit(SessionCommit("o2", "o1", (UserMessage("first words"),)))
            await catalog.open("old").commit(SessionCommit("o3", "o2", (UserMessage("second words"),)))
            old, new = await catalog.list()
            assert (old.id, old.head, old.messages, old.title) == ("old", "o3", 3, "first words")
            assert (new.id, new.head, new.messages) == ("new", "n1", 1)
            assert new.title == ("a b " + "x" * 100)[:TITLE_CHARS]
            assert old.created_at <= old.updated_at
            assert new.created_at == new.updated_at
            assert old.updated_at.tzinfo is not None

        self._run(check)

    def test_a_deleted_session_is_gone(self) -> None:
        """AGT-050 Its id can begin anew; deleting what is not there is fine; other sessions stay."""

        async def check(catalog: SessionCatalog) -> None:
            for name in ("a", "b"):
                await catalog.open(name).commit(_commit("c1", None))
            await catalog.delete("a")
            await catalog.delete("a")
            await catalog.delete("never")
            assert [info.id for info in await catalog.list()] == ["b"]
            assert await catalog.open("a").load() == Session(None, ())
            await catalog.open("a").commit(_commit("c1", None))
            assert len(await catalog.list()) == 2

        self._run(check)

    def test_a_bad_session_id_is_a_value_error(self) -> None:
        """AGT-050 Ids begin with a letter or digit and hold letters, digits, dots, dashes and underscores."""

        async def check(catalog: SessionCatalog) -> None:
            for id in ("", ".a", "-a", "a/b", "a b", "ä", "a\n", "x" * 129):
                try:
                    catalog.open(id)
                except ValueError:
                    continue
                raise AssertionError(f"{id!r} was accepted")
            for id in ("a", "0", "A.b_c-d", "x" * 128):
                assert catalog.open(id).session_id == id

        self._run(check)

    def _run(self, check: _Check) -> None:
        async def main() -> None:
            async with self.catalog() as catalog:
                await check(catalog)

        asyncio.run(main())


def _commit(id: str, parent: str | None) -> SessionCommit:
    return SessionCommit(id, parent, (UserMessage(id),))


async def _refused(store: SessionStore, commit: SessionCommit, kind: type[SessionError]) -> SessionError:
    """The error with which the commit is refused, having changed nothing."""
    before = await store.load()
    try:
        await store.commit(commit)
    except SessionError as error:
        assert type(error) is kind, f"expected {kind.__name__}, got {error!r}"
        assert await store.load() == before
        return error
    raise AssertionError(f"commit {commit.id!r} was accepted")
