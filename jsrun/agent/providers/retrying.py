"""RetryingProvider: asks again where that can help, and only there."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from jsrun.agent.errors import AiError, ApiError, InferenceTimeout, InvalidConfiguration, RateLimited
from jsrun.agent.provider import Delta, InferenceRequest, InferenceResult, Provider

# Seconds. A provider that wants more of a pause is not worth waiting for: the run has its own deadline.
LONGEST_WAIT: Final = 60.0
# Seconds before the first retry; each further one waits twice as long.
_FIRST_WAIT: Final = 1.0
# From here on HTTP statuses say that the server failed, not that the request is wrong.
_SERVER_ERRORS: Final = 500


class RetryingProvider:
    """Asks `inner` up to `attempts` times, as long as it is limited in its rate, too late, or failing (status ≥ 500).

    It waits as long as the provider says, else 1, 2, 4 … seconds, 60 at most, and up to half of that again by `jitter`,
    so that many agents do not come back at once. Nothing is asked again once a part of the answer was shown.
    `sleep` takes seconds, `jitter` gives a number from 0 to 1. InvalidConfiguration for fewer attempts than 1.
    """

    def __init__(
        self,
        inner: Provider,
        attempts: int = 3,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise InvalidConfiguration(f"attempts must be a whole number, 1 or more, got {attempts!r}")
        self._inner = inner
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter

    async def __call__(self, request: InferenceRequest) -> InferenceResult:
        """The answer. Raises the AiError of the last attempt."""
        return await self._retried(lambda: self._inner(request), lambda: False)

    async def stream(self, request: InferenceRequest, emit: Callable[[Delta], None]) -> InferenceResult:
        """The answer, shown while it comes if `inner` can do that. Raises the AiError of the last attempt."""
        inner = getattr(self._inner, "stream", None)
        if inner is None:
            return await self(request)
        shown = False

        def show(delta: Delta) -> None:
            nonlocal shown
            shown = True
            emit(delta)

        return await self._retried(lambda: inner(request, show), lambda: shown)

    async def _retried(
        self, ask: Callable[[], Awaitable[InferenceResult]], shown: Callable[[], bool]
    ) -> InferenceResult:
        for attempt in range(1, self._attempts):
            try:
                return await ask()
            except AiError as error:
                if shown() or not _may_pass(error):
                    raise
                pause = self._pause(error, attempt)
            await self._sleep(pause)
        return await ask()

    def _pause(self, error: AiError, attempt: int) -> float:
        """Seconds to wait after attempt number `attempt`."""
        if isinstance(error, RateLimited) and error.retry_after is not None:
            pause = error.retry_after
        else:
            pause = _FIRST_WAIT * 2 ** (attempt - 1)
        return min(max(0.0, pause) * (1 + self._jitter() / 2), LONGEST_WAIT)


def _may_pass(error: AiError) -> bool:
    """Can the same request succeed a little later?"""
    if isinstance(error, ApiError):
        return error.status is not None and error.status >= _SERVER_ERRORS
    return isinstance(error, RateLimited | InferenceTimeout)
