"""The peers, each behind the same few questions. One that is not installed is left out and named."""

import asyncio
import concurrent.futures
import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.bench import samples


def timed(start: float) -> float:
    """Seconds since `start`."""
    return time.perf_counter() - start


def unshared_bytes(pid: int) -> int:
    """The memory of a process that it shares with no other, in bytes. Linux only."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(
        int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(("Private_Clean", "Private_Dirty"))
    )


def children(pid: int) -> list[int]:
    """The processes started by a process. Linux only."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


class Monty:
    """pydantic-monty: a pool of worker processes that are used again; Python programs."""

    name = "pydantic-monty"

    def __init__(self) -> None:
        import pydantic_monty

        self._stack = ExitStack()
        before = set(children(os.getpid()))
        self._pool: Any = self._stack.enter_context(pydantic_monty.Monty(max_processes=os.cpu_count()))
        with self._pool.checkout() as session:
            session.feed_run("1")
        self.workers = [pid for pid in children(os.getpid()) if pid not in before]
        self._program = samples.python_50kb()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _session(self) -> Any:
        return self._pool.checkout(limits={"max_suspensions": 10**7})

    async def warm(self, count: int) -> list[float]:
        """Check out a worker, feed `1`, give it back."""
        times = []
        for _ in range(count):
            await asyncio.sleep(0.002)
            start = time.perf_counter()
            with self._session() as session:
                assert session.feed_run("1") == 1
            times.append(timed(start))
        return times

    async def back_to_back(self, count: int) -> list[float]:
        """The same without a pause."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            with self._session() as session:
                assert session.feed_run("1") == 1
            times.append(timed(start))
        return times

    async def load(self) -> list[float]:
        """Feed 50 KB."""
        start = time.perf_counter()
        with self._session() as session:
            assert session.feed_run(self._program) == 1
        return [timed(start)]

    async def calls(self) -> list[float]:
        """Host calls in sequence, each returning its argument."""
        with self._session() as session:
            start = time.perf_counter()
            session.feed_run(
                f"for i in range({samples.CALLS}):\n    echo(i)", external_lookup={"echo": lambda value: value}
            )
            return [timed(start) / samples.CALLS]

    async def big(self) -> list[float]:
        """118 KB from a host function."""
        with self._session() as session:
            start = time.perf_counter()
            assert session.feed_run("len(big())", external_lookup={"big": lambda: samples.OBJECTS}) == 2000
            return [timed(start)]

    async def rate(self, count: int) -> list[float]:
        """Runs a second with three calls each, on a thread for every processor."""

        def one(_number: int) -> None:
            with self._session() as session:
                session.feed_run("[echo(1), echo(2), echo(3)]", external_lookup={"echo": lambda value: value})

        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(one, range(count)))
        return [count / timed(start)]


class QuickJSRs:
    """quickjs-rs: QuickJS in WebAssembly inside the host process."""

    name = "quickjs-rs"

    def __init__(self) -> None:
        import quickjs_rs

        self._quickjs_rs = quickjs_rs
        self._program = f"(function () {{\n{samples.program_50kb()}}})()"

    def _evaluate(self, source: str, **functions: Any) -> Any:
        with self._quickjs_rs.Runtime() as runtime, runtime.new_context() as context:
            for name, function in functions.items():
                context.register(name, function)
            return context.eval(source)

    async def warm(self, count: int) -> list[float]:
        """Runtime, context, eval, close."""
        times = []
        for _ in range(count):
            await asyncio.sleep(0.002)
            start = time.perf_counter()
            assert self._evaluate("1") == 1
            times.append(timed(start))
        return times

    async def back_to_back(self, count: int) -> list[float]:
        """The same without a pause."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            assert self._evaluate("1") == 1
            times.append(timed(start))
        return times

    async def load(self) -> list[float]:
        """Evaluate 50 KB."""
        start = time.perf_counter()
        assert self._evaluate(self._program) == 1
        return [timed(start)]

    async def calls(self) -> list[float]:
        """Host calls in sequence, each returning its argument."""
        start = time.perf_counter()
        self._evaluate(f"for (let i = 0; i < {samples.CALLS}; i++) echo(i); 1", echo=lambda value: value)
        return [timed(start) / samples.CALLS]

    async def big(self) -> list[float]:
        """118 KB from a host function."""
        start = time.perf_counter()
        assert self._evaluate("big().length", big=lambda: samples.OBJECTS) == 2000
        return [timed(start)]

    async def rate(self, count: int) -> list[float]:
        """Runs a second with three calls each, on a thread for every processor."""

        def one(_number: int) -> None:
            self._evaluate("[echo(1), echo(2), echo(3)]; 1", echo=lambda value: value)

        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(one, range(count)))
        return [count / timed(start)]


class Pipe:
    """The floor: 60 bytes to another process and back over a pipe, blocking on both sides."""

    name = "bare pipe"

    def __init__(self) -> None:
        child_read, self._write = os.pipe()
        self._read, child_write = os.pipe()
        self._echo = subprocess.Popen(["cat"], stdin=child_read, stdout=child_write)
        os.close(child_read)
        os.close(child_write)

    async def calls(self) -> list[float]:
        """Round trips in sequence."""
        message = b"x" * 60
        start = time.perf_counter()
        for _ in range(samples.CALLS):
            os.write(self._write, message)
            os.read(self._read, 100)
        return [timed(start) / samples.CALLS]

    def close(self) -> None:
        """End the other process."""
        os.close(self._write)
        os.close(self._read)
        self._echo.wait()


class InProcess:
    """The engine without any process: quickjs-ng in the host, values as plain JSON text."""

    name = "quickjs-ng in process"

    def __init__(self) -> None:
        import _quickjs

        self._context: Any = _quickjs.Context()

    async def big(self) -> list[float]:
        """118 KB of JSON text parsed by the engine."""
        start = time.perf_counter()
        assert self._context.parse_json(samples.OBJECTS_JSON) is not None
        return [timed(start)]


class Node:
    """Starting node, what a cold load is compared to."""

    name = "node -e 1"

    def __init__(self) -> None:
        path = shutil.which("node")
        if path is None:
            raise ImportError("node")
        self._path = path

    async def load(self) -> list[float]:
        """Start and end of a node process."""
        start = time.perf_counter()
        subprocess.run([self._path, "-e", "1"], check=True)  # noqa: ASYNC221 - nothing else is to run meanwhile
        return [timed(start)]

    async def compute(self, code: str) -> list[float]:
        """The time node itself measures around a function body; its start does not count."""
        source = f"const t = process.hrtime.bigint(); (() => {{ {code} }})();"
        source += "console.log(Number(process.hrtime.bigint() - t))"
        done = subprocess.run([self._path, "-e", source], check=True, capture_output=True, text=True)  # noqa: ASYNC221
        return [int(done.stdout) / 1e9]
