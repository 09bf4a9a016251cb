"""`python -m tests.bench.jsrun`: what an author waits for - the four commands of a new bundle, and a long replay."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jsrun import CallbackEnv, Fuel, MemoryJournal, Runner
from jsrun.testing import bundle

# Seconds: `new`, `check`, `test` and `run` together; the replay of a run of a thousand calls.
COMMANDS_BAR_S = 3.0
REPLAY_BAR_S = 1.0
CALLS = 1000
ROUNDS = 3

PROGRAM = """
async function run() {
  let sum = 0;
  for (let n = 0; n < %d; n++) sum += (await tool("echo", { n })).n;
  return sum;
}
"""


def commands() -> float:
    """Seconds for a new bundle to be made, checked, tested and run, each command a process of its own."""
    root = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": root, "JSRUN_HOME": str(Path(folder, "home"))}
        started = time.perf_counter()
        for arguments in (
            ["new", "hello"],
            ["check", "hello"],
            ["test", "hello"],
            ["run", "hello", "--input", '{"path":"."}'],
        ):
            command = [sys.executable, "-m", "jsrun", *arguments]
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        return time.perf_counter() - started


async def replay() -> float:
    """Seconds for the replay of a run of a thousand calls."""
    made = bundle(PROGRAM % CALLS, whitelist=["echo"])
    journal = MemoryJournal()
    env = CallbackEnv(tools={"echo": lambda arguments: arguments})
    async with Runner(made, journal=journal) as runner:
        result = await runner.run(None, env, fuel=Fuel(steps=2 * CALLS))
        assert result.finished(), result.sentence
        started = time.perf_counter()
        report = await runner.replay(result.run_id)
        assert report.same, report.difference
        return time.perf_counter() - started


def main() -> int:
    """Measure, print, and say by the exit code whether the bars are held; the best of a few rounds counts."""
    chain = min(commands() for _ in range(ROUNDS))
    again = min(asyncio.run(replay()) for _ in range(ROUNDS))
    print(f"new, check, test and run: {chain:.2f} s (bar {COMMANDS_BAR_S:g} s)")
    print(f"replay of {CALLS:,} calls: {again:.2f} s (bar {REPLAY_BAR_S:g} s)")
    return 0 if chain <= COMMANDS_BAR_S and again <= REPLAY_BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
