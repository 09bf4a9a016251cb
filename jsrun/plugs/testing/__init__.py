"""The test kit for plugs: one plug attached for real, in a world in memory where no test sleeps.

    async with PlugHarness(VmPlug, inputs={"image": "x"}, faults=[faults.crash("persisted.set")]) as harness:
        await harness.attach()

| name | is |
|---|---|
| `PlugHarness` | a session with the plug, its client, its agent, its hosts and its stored state |
| `faults` | `fail`, `hang` and `crash` at an operation of the plug |
| `conformance`, `Case` | what every plug must keep to, as pytest cases |
| `ScriptedAgent` | an agent that does what a test says |
| `Peer` | the other end of a side: it asks, tells and answers |
| `VirtualTime` | time that jumps to the next timer when everyone waits |
"""

from jsrun.plugs.testing import faults
from jsrun.plugs.testing.agent import ScriptedAgent
from jsrun.plugs.testing.clock import VirtualTime
from jsrun.plugs.testing.conformance import Case, conformance
from jsrun.plugs.testing.harness import PlugHarness
from jsrun.plugs.testing.peer import Peer

__all__ = ["Case", "Peer", "PlugHarness", "ScriptedAgent", "VirtualTime", "conformance", "faults"]
