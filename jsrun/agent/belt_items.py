"""What `--belt` names: the tools of an agent at the command line."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from jsrun.agent.bundle_tool import belt_tools, bundle_tool
from jsrun.agent.code_tool import code_tool
from jsrun.agent.errors import InvalidConfiguration
from jsrun.agent.tools import Tool, ToolRegistry
from jsrun.belt import Belt
from jsrun.belt import Tool as BeltTool
from jsrun.bundle import Bundle
from jsrun.cli.finding import MANIFEST, bundles_in, load_bundle
from jsrun.cli.output import Refusal
from jsrun.cli.run import load_object
from jsrun.errors import BeltError, JsrunError
from jsrun.local_env import LocalEnv
from jsrun.runner import Runner
from jsrun.store import PROJECT, Store
from ptc.runtime import Runtime

WORKSPACE = "workspace"
CODE = "code"


@dataclass(frozen=True, slots=True)
class BeltItems:
    """The items, read and sound. `code` says whether programs may be run too."""

    tools: tuple[Tool, ...]
    bundles: tuple[Bundle, ...]
    code: bool

    async def open(self, stack: AsyncExitStack, model: str | None) -> ToolRegistry:
        """The tools, with what they need open until the stack is closed. `model` serves `ai` in bundles.

        InvalidConfiguration if two have one name.
        """
        tools = list(self.tools)
        for bundle in self.bundles:
            runner = await stack.enter_async_context(Runner(bundle))
            tools.append(bundle_tool(runner, _env(bundle, model)))
        registry = ToolRegistry(tools)
        if not self.code:
            return registry
        return code_tool(registry, runtime=await stack.enter_async_context(Runtime()))


def read_items(items: Iterable[str]) -> BeltItems:
    """What the values of `--belt` name. Refusal, naming the value, for what is none of them."""
    tools: list[Tool] = []
    bundles: list[Bundle] = []
    code = False
    for item in items:
        if item == WORKSPACE:
            tools += belt_tools(Belt.workspace(Path()))
        elif item == CODE:
            code = True
        elif ":" in item and not Path(item).exists():
            tools += _of_object(item)
        else:
            bundles += _bundles(item)
    try:
        ToolRegistry(tools)
    except InvalidConfiguration as error:
        raise Refusal(f"--belt: {error}", code="usage") from None
    return BeltItems(tuple(tools), tuple(bundles), code)


def _bundles(item: str) -> list[Bundle]:
    path = Path(item)
    if path.is_dir() and not (path / MANIFEST).exists():
        found = bundles_in(path)
        if not found:
            raise Refusal(f'--belt "{item}": there is no bundle in this directory.', code="not-found")
        return [load_bundle(str(bundle))[0] for bundle in found]
    try:
        return [load_bundle(item)[0]]
    except Refusal as refusal:
        raise Refusal(f"--belt: {refusal}", code=refusal.code, diagnostics=refusal.diagnostics) from None


def _of_object(item: str) -> list[Tool]:
    found = load_object(item, "--belt")
    parts = list(found) if isinstance(found, list | tuple) else [found]
    tools: list[Tool] = []
    for part in parts:
        if isinstance(part, Tool):
            tools.append(part)
        elif isinstance(part, Belt):
            tools += belt_tools(part)
        elif isinstance(part, BeltTool):
            tools += belt_tools(Belt([part]))
        else:
            raise Refusal(f'--belt "{item}": a Tool, a Belt or a list of them is needed.', code="usage")
    return tools


def _env(bundle: Bundle, model: str | None) -> LocalEnv:
    """The host of a bundle that is a tool: nobody is asked, because the terminal belongs to the conversation."""
    memory = Store(PROJECT).memory(bundle.manifest.name, bundle.memory_seed)
    try:
        return LocalEnv(model, Belt.workspace(Path()), ask=None, memory=memory, log=None)
    except (BeltError, JsrunError) as error:
        raise Refusal(f"--model: {error}", code="usage") from None
