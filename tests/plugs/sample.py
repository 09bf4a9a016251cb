"""A plug as an author writes it, for the type checker as much as for the tests."""

from typing import Any

from pydantic import BaseModel

from jsrun.plugs import Message, NextMessage, NextSession, NextTeardown, PersistedState, Plug


class VmPlug(Plug, name="acme/vm", description="runs the agent in a VM", api=(1, 0)):
    """Keeps the id of a machine, and counts what passes."""

    class Inputs(BaseModel):
        """What `with:` gives."""

        image: str
        cpus: int = 2

    class Persisted(BaseModel):
        """What the provider assigned."""

        vm_id: str

    inputs: Inputs
    persisted: PersistedState[Persisted]

    async def load(self) -> None:
        """Nothing passed yet."""
        self.passed = 0

    async def migrate(self, stored: Any) -> Persisted | None:
        """An older version kept the id alone."""
        return self.Persisted(vm_id=stored) if isinstance(stored, str) else None

    async def session(self, next: NextSession) -> None:
        """Make the machine, or find it again."""
        machine = self.persisted.value
        if machine is None:
            machine = self.Persisted(vm_id=f"vm-{self.inputs.image}")
            await self.persisted.set(machine)
        self.ctx.set_output("vm", machine.vm_id)
        self.ctx.agent.env["CPUS"] = str(self.inputs.cpus)
        self.ctx.agent.args += ["--vm", machine.vm_id]
        info = await next()
        self.log.info("paused", reason=info.reason, passed=self.passed)

    async def teardown(self, next: NextTeardown) -> None:
        """Remove the machine, if there is one."""
        await next()
        await self.persisted.clear()

    async def message(self, message: Message, next: NextMessage) -> Any:
        """Count."""
        self.passed += 1
        return await next(message)
