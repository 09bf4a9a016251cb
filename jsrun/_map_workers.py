"""The workers' half of `map`: a bundle on its way to them, the runners it gets there, and processes to work in."""

import asyncio
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import multiprocessing.util
import os
import pickle
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from jsrun._text import quoted
from jsrun.bundle import Bundle
from jsrun.canonical import json_text
from jsrun.env import Env
from jsrun.errors import InputError, JsrunError
from jsrun.look import WorkspaceLook
from jsrun.runner import Run, Runner

P = ParamSpec("P")
T = TypeVar("T")

EnvFactory: TypeAlias = Callable[[], Env] | str
"""Makes the Env of one run: a function, or the name of one as MODULE:FUNCTION, imported where it is needed."""

_DOOR_METHODS: Final = ("ai", "tool", "ask", "remember", "recall", "log")
# Bundles whose compiled programs a process keeps: a worker that serves several maps at once should not compile for each
# input in turn, and one that lives for weeks should not keep what it ever saw.
_KEPT: Final = 4
# Cancelled runs end within a fraction of a second; who waits longer waits for a host function that hangs.
_END_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one input: `result`, the JSON text of a RunResult, or else code and message of an error."""

    result: str | None = None
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """What every input of one map has in common. `workspace` is where guards look if the bundle has no Look."""

    bundle: Bundle
    env_factory: EnvFactory
    workspace: str | None = None

    def pack(self) -> bytes:
        """Everything as bytes for another process. JsrunError if a part cannot be sent."""
        bundle = self.bundle
        texts = {
            "manifest": bundle.manifest.to_text(),
            "program": bundle.program,
            "source": bundle.source,
            "prompts": dict(bundle.prompts),
            "memory_seed": bundle.memory_seed,
            "evals": dict(bundle.evals),
            "path": None if bundle.path is None else str(bundle.path),
        }
        live = {}
        for name, part in {
            "memory of the bundle": bundle.memory,
            "look of the bundle": bundle.look,
            "Env factory": self.env_factory,
        }.items():
            try:
                live[name] = pickle.dumps(part)
            except Exception as error:  # whatever the parts raise that were not made to be sent
                raise JsrunError(
                    f"The {name} cannot be sent to another process: {error}. Define it at the top level of a module, "
                    "or use threads."
                ) from None
        return pickle.dumps((texts, bundle.fuel, tuple(live.values()), self.workspace))

    @classmethod
    def unpack(cls, packed: bytes) -> "Job":
        """The inverse of `pack`. JsrunError if the module of a part cannot be imported here."""
        texts, fuel, live, workspace = pickle.loads(packed)
        try:
            memory, look, env_factory = map(pickle.loads, live)
        except Exception as error:
            raise JsrunError(f"A worker cannot import what it was sent: {error}.") from None
        texts["manifest"] = json.loads(texts["manifest"])
        return cls(Bundle(**texts, fuel=fuel, memory=memory, look=look), env_factory, workspace)


class Package:
    """A job that can be submitted with each input to any executor.

    Threads share its workers, which end with `end`. In another process it is bytes, and the workers are those which
    that process keeps for these bytes.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._workers: Workers | None = None
        self._lock = threading.Lock()
        self._ended = False

    def workers(self) -> "Workers":
        """The workers for this job in this process."""
        with self._lock:
            if self._workers is None:
                self._workers = Workers(self._job)
                if self._ended:
                    self._workers.end()
            return self._workers

    def end(self) -> None:
        """Cancel what runs in this process, and end its workers. What has not begun will be refused."""
        with self._lock:
            self._ended = True
            workers = self._workers
        if workers is not None:
            workers.end()

    @cached_property
    def _packed(self) -> tuple[bytes, str]:
        packed = self._job.pack()
        return packed, hashlib.sha256(packed).hexdigest()

    def __reduce__(self) -> tuple[type["Sent"], tuple[bytes, str]]:
        return Sent, self._packed


@dataclass(frozen=True, slots=True)
class Sent:
    """A package that has arrived in another process."""

    packed: bytes
    key: str

    def workers(self) -> "Workers":
        """The workers this process keeps for this job."""
        with _lock:
            workers = _kept.get(self.key)
            if workers is None:
                if not _kept:
                    # Runs before a worker process of multiprocessing leaves, and at the end of any other process.
                    multiprocessing.util.Finalize(None, _end_all, exitpriority=10)
                workers = _kept[self.key] = Workers(Job.unpack(self.packed))
            _kept.move_to_end(self.key)
            oldest = _kept.popitem(last=False)[1] if len(_kept) > _KEPT else None
        if oldest is not None:
            oldest.retire()
        return workers


_lock = threading.Lock()
_kept: "OrderedDict[str, Workers]" = OrderedDict()


def _end_all() -> None:
    with _lock:
        workers = list(_kept.values())
        _kept.clear()
    for one in workers:
        with contextlib.suppress(Exception):  # the process leaves, and what is left of its runs with it
            one.end()


def run_one(package: Package | Sent, text: str) -> Reply:
    """What executors call: run the job's bundle with the input of this JSON text.

    JsrunError if nothing could ever run: a bundle the engine refuses, an Env factory that is not there.
    """
    return package.workers().run(text)


class Workers:
    """Runners of one job in one process: as many as there are inputs at work at once, each compiled once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._make_env = env_maker(job.env_factory)
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._keep = True
        self._open = True

    def run(self, text: str) -> Reply:
        """Run the bundle once, in this thread."""
        try:
            env = self._make_env()
        except Exception as error:  # the host's own code
            return Reply(code="env", message=f"The Env of this run cannot be made: {error}")
        check_env(env, self._job.env_factory)
        worker = self._take()
        try:
            return Reply(result=worker.run(text, env, self._look(env)))
        except InputError as error:
            return Reply(code="input", message=str(error))
        finally:
            self._give_back(worker)

    def retire(self) -> None:
        """Keep no worker that is idle, now or later."""
        with self._changed:
            self._keep = False
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def end(self) -> None:
        """Cancel what is running, refuse what comes, and wait until all workers are closed."""
        with self._changed:
            self._open = False
            busy = list(self._busy)
        for worker in busy:
            worker.cancel()
        self.retire()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, _END_SECONDS)

    def _look(self, env: Env) -> WorkspaceLook | None:
        if self._job.workspace is None or self._job.bundle.look is not None:
            return None
        return WorkspaceLook(self._job.workspace, getattr(env, "belt", None))

    def _take(self) -> "_Worker":
        with self._changed:
            if not self._open:
                raise JsrunError("This map has ended.")
            worker = self._idle.pop() if self._idle else _Worker(self._job.bundle)
            self._busy.add(worker)
            return worker

    def _give_back(self, worker: "_Worker") -> None:
        with self._changed:
            if self._keep:
                self._busy.discard(worker)
                self._idle.append(worker)
                return
        try:
            worker.close()
        finally:
            with self._changed:
                self._busy.discard(worker)
                self._changed.notify_all()


class _Worker:
    """A runner with an event loop of its own, used by one thread at a time."""

    def __init__(self, bundle: Bundle) -> None:
        self._runner = Runner(bundle)
        self._loop = asyncio.Runner()
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._cancelled = False

    def run(self, text: str, env: Env, look: WorkspaceLook | None) -> str:
        return self._loop.run(self._live(json.loads(text), env, look))

    def cancel(self) -> None:
        """End the run that is going on as `cancelled`, and any later one; from any thread."""
        with self._lock:
            self._cancelled = True
            if self._run is not None:
                self._loop.get_loop().call_soon_threadsafe(self._run.cancel, "the map was stopped")

    def close(self) -> None:
        with self._loop as loop:
            loop.run(self._runner.aclose())

    async def _live(self, value: object, env: Env, look: WorkspaceLook | None) -> str:
        run = self._runner.start(value, env, look=look)
        with self._lock:
            self._run = run
            if self._cancelled:
                run.cancel("the map was stopped")
        try:
            return json_text((await run.result()).to_json())
        finally:
            with self._lock:
                self._run = None


def env_maker(factory: EnvFactory) -> Callable[[], Any]:
    """The function that makes Envs. JsrunError if a name leads to none; modules of the current directory count."""
    if not isinstance(factory, str):
        return factory
    module_name, colon, attribute = factory.partition(":")
    if not module_name or not colon or not attribute:
        raise JsrunError(f"The Env factory {quoted(factory)} is not a name. Write MODULE:FACTORY.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise JsrunError(f"The Env factory {quoted(factory)} cannot be imported: {error}.") from None
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise JsrunError(f"The Env factory {quoted(factory)} is not a function of {quoted(module_name)}.")
    make: Callable[[], Any] = found
    return make


def check_env(env: object, factory: EnvFactory) -> None:
    """JsrunError if what a factory made is no Env."""
    missing = [door for door in _DOOR_METHODS if not callable(getattr(env, door, None))]
    if missing or isinstance(env, type):
        name = quoted(factory) if isinstance(factory, str) else getattr(factory, "__qualname__", "given")
        lacks = f"it has no {', '.join(missing)}" if missing else "it is a class"
        raise JsrunError(f"What the Env factory {name} made is not an Env: {lacks}.")


class Processes(ProcessPoolExecutor):
    """Worker processes that never outlive the process that has them, however that one ends.

    They start fresh instead of as copies, so that threads and locks of this process do not matter to them. Ctrl-C is
    this process's business: they ignore it. `stop` ends them at once, whatever they are doing.
    """

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        # Nothing is ever sent. Each worker waits for the end of the pipe, which comes when this side is closed: by us,
        # or by the system if we are killed.
        self._gone, self._here = context.Pipe(duplex=False)
        super().__init__(workers, mp_context=context, initializer=_begin, initargs=(self._gone,))
        # It would unblock the signal that `submit` blocks, if it were started there.
        resource_tracker.ensure_running()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As any executor's. Workers are started here; until they can ignore Ctrl-C they inherit that it is blocked."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop(self) -> None:
        """End all workers now."""
        self._here.close()
        self.shutdown(wait=True, cancel_futures=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As any executor's; once it has waited, no worker is left."""
        super().shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            self._here.close()
            self._gone.close()


def _begin(gone: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_leave_with_host, args=(gone,), name="jsrun map", daemon=True).start()


def _leave_with_host(gone: Connection) -> None:
    with contextlib.suppress(OSError, EOFError):
        gone.recv_bytes()
    os._exit(1)
