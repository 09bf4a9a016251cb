"""Secrets that are kept out of what `jsrun plugs` tells and records, and its log on stderr."""

import fnmatch
import json
import logging
import os
import sys
from typing import Final

from jsrun.plugs.config import Setup
from jsrun.plugs.controller import SessionController
from ptc.command_line import printable

# A shorter value is not looked for: it would be found everywhere.
_SECRET_CHARS: Final = 8
_HIDDEN: Final = "[redacted]"


class Hidden:
    """Takes secrets out of texts: values of variables that a setup names or inherits, and secret inputs of plugs."""

    def __init__(self, setup: Setup) -> None:
        names = set(setup.env_names)
        patterns = setup.agent.inherit_env
        names |= {name for name in os.environ if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
        self._values = {os.environ[name] for name in names if name in os.environ}
        self.controller: SessionController | None = None

    def __call__(self, text: str) -> str:
        values = self._values | (self.controller.known_secrets() if self.controller is not None else set())
        for value in sorted((one for one in values if len(one) >= _SECRET_CHARS), key=len, reverse=True):
            text = text.replace(value, _HIDDEN).replace(json.dumps(value)[1:-1], _HIDDEN)
        return text


class _Formatter(logging.Formatter):
    def __init__(self, hidden: Hidden) -> None:
        super().__init__("%(levelname)s %(message)s")
        self._hidden = hidden

    def format(self, record: logging.LogRecord) -> str:
        return printable(self._hidden(super().format(record)))


def log_to_stderr(hidden: Hidden) -> None:
    """Send the log of plugs to stderr, without secrets."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(hidden))
    logger = logging.getLogger("jsrun.plugs")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
