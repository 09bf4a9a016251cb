"""Running one program in a test: a bundle made of it, an Env made of its tools, one run."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import ptc
from jsrun import BundleError, CallbackEnv, Env, Fuel, Note, Runner, RunResult
from jsrun.testing import bundle
from ptc.wire import Json


class Play:
    """Call it with a program; every call is a bundle and a runner of its own."""

    def __init__(self, runtime: ptc.Runtime) -> None:
        self.runtime = runtime

    def runner(self, program: str, *, options: Mapping[str, Any] | None = None, **bundle_parts: Any) -> Runner:
        """A runner of a bundle of `program`; `options` are the runner's, the rest makes the bundle.

        A sync program skips the test on an engine that cannot run it.
        """
        parts = {"engine": self.runtime.engine, **bundle_parts}
        try:
            made = bundle(program, **parts)
        except BundleError as error:
            skip_without_sync_doors(error)
            raise
        return Runner(made, runtime=self.runtime, **(options or {}))

    async def __call__(
        self,
        program: str,
        input: object = None,
        /,
        *,
        env: Env | None = None,
        tools: Mapping[str, Callable[[dict[str, Json]], object]] | None = None,
        run: Mapping[str, Any] | None = None,
        run_fuel: Fuel | None = None,
        options: Mapping[str, Any] | None = None,
        **bundle_parts: Any,
    ) -> RunResult:
        """Run `program` once. `tools` make the Env and the whitelist; `run` are options of `Runner.run`."""
        bundle_parts.setdefault("whitelist", list(tools or ()))
        async with self.runner(program, options=options, **bundle_parts) as runner:
            return await runner.run(input, env or playing_env(tools), fuel=run_fuel, **(run or {}))


def skip_without_sync_doors(error: BundleError) -> None:
    """Skip the test if all that is wrong with a bundle is that the engine cannot run sync programs."""
    if [found.code for found in error.diagnostics if found.severity == "error"] == ["engine-form"]:
        pytest.skip("this engine has no sync doors")


def playing_env(tools: Mapping[str, Callable[[dict[str, Json]], object]] | None = None) -> CallbackEnv:
    """An Env with these tools, a model that gives its input back, silent memory and log."""

    async def ai(_prompt: object, input: Json, _options: object) -> object:
        return input if input is not None else "nothing"

    async def nothing(_text: str) -> None:
        return None

    async def recall(_query: str) -> list[Note]:
        return []

    async def ask(_question: str, _options: object) -> str:
        return "yes"

    return CallbackEnv(ai=ai, tools=dict(tools or {}), ask=ask, remember=nothing, recall=recall, log=nothing)


async def echo(args: dict[str, Json]) -> Json:
    """A tool that gives its arguments back."""
    return args
