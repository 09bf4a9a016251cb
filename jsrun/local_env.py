"""LocalEnv: the Env of one person at one machine - a model by its name, a belt, a terminal, a memory."""

import sys
from collections.abc import Callable, Sequence
from typing import Literal, TextIO

from jsrun._text import compact_json
from jsrun._threads import call, in_thread
from jsrun.env import AIOptions, Answer, AskAnswer, AskOptions, Memory, Note, ToolBelt, ToolResult, as_ask_answer
from jsrun.errors import NotWired
from jsrun.models import Model, resolve_model
from jsrun.prompts import Prompt
from jsrun.terminal import Terminal, write
from ptc.wire import Json

Ask = Callable[[str, AskOptions], object]


class LocalEnv:
    """An Env for command lines and scripts.

    - `model`: a model string (see `resolve_model`) or a Model; the prompt's text is the system message, the input the
      user message: a string as it is, else JSON. None: `ai` is not wired.
    - `belt`: serves `tool`. None: not wired.
    - `ask`: `"terminal"`, or a function like `CallbackEnv`'s (a `Terminal` is one); None leaves questions unanswered.
    - `memory`: serves `remember` and `recall`. None: not wired.
    - `log`: a text stream, `"stderr"`, a function of the status, or None for silence.

    JsrunError if the model string names no model.
    """

    def __init__(
        self,
        model: str | Model | None = None,
        belt: ToolBelt | None = None,
        ask: Literal["terminal"] | Ask | None = "terminal",
        memory: Memory | None = None,
        log: Literal["stderr"] | TextIO | Callable[[str], object] | None = "stderr",
    ) -> None:
        self.belt = belt
        self._model = resolve_model(model) if isinstance(model, str) else model
        self._ask: Ask | None = Terminal() if ask == "terminal" else ask
        self._memory = memory
        self._log = log

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        if self._model is None:
            raise NotWired("ai")
        user = input if isinstance(input, str) else compact_json(input)
        return await self._model.answer(prompt.text, user, options)

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        if self.belt is None:
            raise NotWired("tool")
        return await self.belt.call(name, args)

    async def ask(self, question: str, options: AskOptions) -> AskAnswer:
        if self._ask is None:
            return AskAnswer(unanswered=True)
        return as_ask_answer(await call(self._ask, question, options))

    async def remember(self, note: str) -> None:
        if self._memory is None:
            raise NotWired("remember")
        await self._memory.remember(note)

    async def recall(self, query: str) -> Sequence[Note]:
        if self._memory is None:
            raise NotWired("recall")
        return await self._memory.recall(query)

    async def log(self, status: str) -> None:
        if self._log is None:
            return
        if callable(self._log):
            await call(self._log, status)
            return
        stream = sys.stderr if self._log == "stderr" else self._log
        # In a thread, as the reader of a pipe may be slow; one line a status, whatever it holds.
        await in_thread(write, stream, " ".join(status.splitlines()) + "\n")
