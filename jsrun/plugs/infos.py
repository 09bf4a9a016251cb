"""Why a run stops, and what a plug is told about it."""

import asyncio
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

EndReason: TypeAlias = Literal["idle", "completed", "closed", "cancelled", "timeout", "expired", "failed"]
RunKind: TypeAlias = Literal["start", "resume", "teardown"]

END_REASONS: tuple[str, ...] = get_args(EndReason)


@dataclass(frozen=True, slots=True)
class PauseInfo:
    """What `next()` returns in `session`: how the inside ended, as seen at this level.

    `error` is the first failure, set exactly for the reason "failed"; `also` are later ones in order of occurrence.
    ValueError for "expired", which no pause can have, and for an error that does not go with the reason.
    """

    reason: EndReason
    error: BaseException | None = None
    also: tuple[BaseException, ...] = ()

    def __post_init__(self) -> None:
        _check_reason(self.reason, "expired", "a pause")
        if (self.error is not None) != (self.reason == "failed"):
            raise ValueError("A pause has an error exactly if its reason is 'failed'.")

    @property
    def may_resume(self) -> bool:
        """Whether the session can go on later; what a resume needs must be kept then."""
        return self.reason == "idle"


@dataclass(frozen=True, slots=True)
class TeardownInfo:
    """What `next()` returns in `teardown`: why the session ends and whether something inside was left over.

    `error` is the session's failure or, with `cleanup_failed`, the first failed clean-up; `also` are the others.
    ValueError for "idle", which ends no session, and for an error that does not go with the rest.
    """

    reason: EndReason
    error: BaseException | None = None
    cleanup_failed: bool = False
    also: tuple[BaseException, ...] = ()

    def __post_init__(self) -> None:
        _check_reason(self.reason, "idle", "a teardown")
        if (self.error is not None) != (self.reason == "failed" or self.cleanup_failed):
            raise ValueError("A teardown has an error exactly if it is for 'failed' or a clean-up inside failed.")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Which run this is; `number` counts every run of the session from 1."""

    kind: RunKind
    number: int


@dataclass(frozen=True, slots=True)
class AgentName:
    """The agent as the session knows it; `name` is None if the setup gives none."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Which session this is. `execution_id` is the caller's own name for what the session is part of, if any."""

    id: str
    execution_id: str | None = None
    agent: AgentName = AgentName()


class Stopping:
    """Notice that the current phase is being stopped; it cancels nothing by itself."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._reason: EndReason | None = None

    def is_set(self) -> bool:
        """Whether the stop has been decided."""
        return self._event.is_set()

    async def wait(self) -> EndReason:
        """Wait for the stop; its reason."""
        await self._event.wait()
        assert self._reason is not None
        return self._reason

    @property
    def reason(self) -> EndReason | None:
        """Why; None while nothing is being stopped."""
        return self._reason

    def set(self, reason: EndReason) -> None:
        """For the runner: give notice. The first reason wins."""
        if self._reason is None:
            self._reason = reason
            self._event.set()


def pause_failed(info: PauseInfo | None, error: BaseException) -> PauseInfo:
    """`info` after one more failure; the first stays `error`."""
    if info is None or info.error is None:
        return PauseInfo("failed", error)
    if error is info.error or error in info.also:
        return info
    return PauseInfo("failed", info.error, (*info.also, error))


def cleanup_failed(info: TeardownInfo, error: BaseException) -> TeardownInfo:
    """`info` after one more failed clean-up; the first is `error`, the session's own failure the first of `also`."""
    if info.cleanup_failed:
        return TeardownInfo(info.reason, info.error, True, (*info.also, error))
    before = (info.error,) if info.error is not None else ()
    return TeardownInfo(info.reason, error, True, (*before, *info.also))


def _check_reason(reason: str, forbidden: str, what: str) -> None:
    if reason not in END_REASONS:
        raise ValueError(f"{reason!r} is not one of {', '.join(END_REASONS)}.")
    if reason == forbidden:
        raise ValueError(f"The reason of {what} is never {forbidden!r}.")
