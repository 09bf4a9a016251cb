"""`env`: sets and removes variables of the agent."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pydantic import BaseModel

from jsrun.plugs.api import NextSession, NextTeardown, Plug
from jsrun.plugs.errors import PlugError

_GLOB = frozenset("*?[")


class EnvInputs(BaseModel):
    """`from_runner`: names, or globs, of the runner's variables to pass on; then `set`, then `unset`.

    A plain name that the runner does not have fails the run, unless `optional`.
    """

    set: dict[str, str] = {}
    unset: list[str] = []
    from_runner: list[str] = []
    optional: bool = False


class EnvPlug(Plug, name="jsrun/env", description="sets and removes variables of the agent", api=(1, 0)):
    """See the module. Commands of inner plugs get the same variables, in teardown too."""

    Inputs = EnvInputs
    if TYPE_CHECKING:
        inputs: EnvInputs

    async def session(self, next: NextSession) -> None:
        """Edit the draft, go on."""
        missing = self._edit()
        if missing and not self.inputs.optional:
            raise PlugError(f"The runner does not have the variable {', '.join(missing)}. Set it, or say `optional`.")
        await next()

    async def teardown(self, next: NextTeardown) -> None:
        """The same, but a clean-up does not fail for want of a variable."""
        missing = self._edit()
        if missing and not self.inputs.optional:
            self.log.warning("the runner does not have variables that this session had", names=missing)
        await next()

    def _edit(self) -> list[str]:
        """Edit the draft; the names that the runner does not have."""
        env = self.ctx.agent.env
        runner = self.ctx.runner_env
        missing = []
        for name in self.inputs.from_runner:
            found = [known for known in runner if fnmatchcase(known, name)] if _GLOB & set(name) else [name]
            for one in found:
                if one in runner:
                    env[one] = runner[one]
                else:
                    missing.append(one)
        env.update(self.inputs.set)
        for name in self.inputs.unset:
            env[name] = None
        return missing
