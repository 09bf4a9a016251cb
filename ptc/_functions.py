"""Host functions from close by: called in a thread if they ask for it, and how their failures read in a program."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ptc.errors import CallError
from ptc.namespaces import Blocking

_log = logging.getLogger("ptc")

_NO_TEXT = "the host function failed"


async def in_thread(function: Blocking, argument: Any) -> Any:
    """What a blocking function gives, called in a thread. Raises what it raises."""

    def call() -> tuple[Any, BaseException | None]:
        # As a value, because a future cannot hold every exception (StopIteration).
        try:
            return function(argument), None
        except BaseException as error:
            return None, error

    result, error = await asyncio.to_thread(call)
    if error is not None:
        raise error
    return result


def failure_text(error: BaseException, describe_error: Callable[[BaseException], str]) -> str:
    """The message of the failed call: the text of the error as `describe_error` gives it, and nothing else of it."""
    if isinstance(error, asyncio.CancelledError):
        return "the host function was cancelled"
    try:
        text = str(error) if isinstance(error, CallError) else describe_error(error)
    except Exception:
        _log.exception("an error of a host function could not be described")
        text = _NO_TEXT
    return text if isinstance(text, str) and text else _NO_TEXT
