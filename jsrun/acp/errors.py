"""What a client is told when something goes wrong inside: that it did, and nothing of what it was."""

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

import acp

P = ParamSpec("P")
T = TypeVar("T")

INTERNAL_ERROR: Final = -32603

_log = logging.getLogger("jsrun.acp")


def quietly(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A handler of requests whose exceptions, other than RequestError, go to the log and not to the client."""

    @functools.wraps(method)
    async def handler(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except acp.RequestError:
            raise
        except Exception as error:
            _log.error("a request could not be answered: %s: %s", type(error).__name__, error)
            raise acp.RequestError(INTERNAL_ERROR, "Internal error") from None

    return handler
