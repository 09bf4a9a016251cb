"""PydanticAIProvider: any model of pydantic-ai, asked directly. The library is imported when a provider is made."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jsrun.agent.errors import InvalidConfiguration, one_line
from jsrun.agent.provider import Delta, InferenceRequest, InferenceResult

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class PydanticAIProvider:
    """Asks one model of pydantic-ai, without instrumentation of that library and without its retries.

    `model` is a name, `PROVIDER:NAME`, or a model object. With a name, `model_kwargs` are what its class takes besides
    the name (`provider`, `profile`, `settings`). Raises InvalidConfiguration for an unknown model, a missing key, and a
    package that is not installed, which it names.
    """

    def __init__(self, model: "str | Model", **model_kwargs: Any) -> None:
        try:
            from jsrun.agent.providers import pydantic_ai_mapping
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "pydantic_ai":
                raise
            raise InvalidConfiguration('models need the "ai" extra; run: pip install "subharness[ai]"') from None
        self._mapping = pydantic_ai_mapping
        try:
            self._model = pydantic_ai_mapping.model_of(model, model_kwargs)
        except ImportError as error:  # a client package; the library's sentence names the install
            raise InvalidConfiguration(f"the model {_shown(model)} needs a package: {one_line(str(error))}") from None
        except pydantic_ai_mapping.CANNOT_BE_MADE as error:
            raise InvalidConfiguration(f"the model {_shown(model)} cannot be used: {one_line(str(error))}") from None

    async def __call__(self, request: InferenceRequest) -> InferenceResult:
        """The answer. Raises AiError."""
        return await self._mapping.ask(self._model, request)

    async def stream(self, request: InferenceRequest, emit: Callable[[Delta], None]) -> InferenceResult:
        """The answer, shown while it comes. Raises AiError."""
        return await self._mapping.ask_streaming(self._model, request, emit)


def _shown(model: object) -> str:
    return repr(model[:200]) if isinstance(model, str) else type(model).__name__
