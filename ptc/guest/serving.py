"""What every process of ours that loads a program does alike: make its engine, compile, end with a status."""

import json
import os
import time
from collections.abc import Callable
from typing import NoReturn

from ptc.guest import fault, harden
from ptc.guest.confinement import Confinement, Level
from ptc.guest.control import Message
from ptc.guest.engine import Engine, EngineFault
from ptc.guest.quickjs import QuickJS, is_supported
from ptc.guest.run import GUEST_FAULT, OUT_OF_MEMORY
from ptc.guest.seccomp import Filter

BAD_FRAME = 71


def open_engine(name: str, library: str) -> Engine:
    """The adapter of an engine, from the path of its library. It is made here and opened where programs are loaded."""
    if name == "v8":
        from ptc.guest.v8 import V8  # only here: root starts faster without

        return V8(library)
    if name != "quickjs":
        raise ValueError(f"no engine is called {name!r}")
    engine = QuickJS(library)
    if is_supported() and _survives(engine.can_track):
        engine.rejections = "all"
    return engine


def heap_limit(memory: int, is_measured: bool) -> int:
    """The engine's own limit, in bytes, for programs that may have so much memory.

    What the host measures is the limit; this one only stands behind it, or in for it where nothing can be measured.
    """
    return 2 * memory + harden.ADDRESS_MARGIN if is_measured else memory


def hello(engine: Engine, rlimits: list[str], confinement: Confinement) -> Message:
    """The first message of root, or of what stands for it: what this machine has."""
    return {
        "type": "root",
        "engine": _name(engine),
        "rejections": engine.rejections,
        "rlimits": rlimits,
        "seccomp": {"level": confinement.level, "denied": confinement.denied, "problem": confinement.problem},
    }


def confine_image(confinement: Confinement) -> tuple[Level, Filter | None]:
    """Put the filter of images in force. Gives the level there is now, and the filter its runs are to load."""
    filters = confinement.filters
    if filters is None:
        return confinement.level, None
    if not filters.image.load():  # it was seen to work, so this kernel is out of something
        return "no-new-privs", None
    return confinement.level, filters.run


def loaded(engine: Engine, process: str, rlimits: list[str], level: Level, began: float) -> Message:
    """The message that a program is compiled. began: of the load, on the performance counter."""
    return {
        "type": "loaded",
        "isolation": {"process": process, "rlimits": rlimits, "seccomp": level},
        "engine": _name(engine),
        "loadMs": (time.perf_counter() - began) * 1000.0,
    }


def _name(engine: Engine) -> Message:
    return {"name": engine.name, "version": engine.version}


def compile_program(engine: Engine, message: Message) -> Message | None:
    """Have the engine load the program of a `load` message. Gives the `refused` message if it cannot be loaded."""
    answer = json.loads(engine.call("load", json.dumps({**message, "rejections": engine.rejections})))
    if "misuse" in answer:
        return {"type": "refused", "kind": "misuse", "message": answer["misuse"]}
    if "problem" in answer:
        problem = answer["problem"]
        refusal: Message = {"type": "refused", "kind": "exception", "message": problem["message"]}
        if problem.get("line") is not None:
            refusal["at"] = {"line": problem["line"], "column": problem["column"]}
        return refusal
    return None


def end_with(serve: Callable[[], int]) -> NoReturn:
    """Serve, and end the process with the status that tells how it went."""
    fault.be_brief()
    status = GUEST_FAULT
    try:
        status = serve()
    except MemoryError:
        status = OUT_OF_MEMORY
    except EngineFault as error:
        status = OUT_OF_MEMORY if error.out_of_memory else GUEST_FAULT
        fault.report(error)
    except ValueError as error:
        status = BAD_FRAME
        fault.report(error)
    except BaseException as error:
        fault.report(error)
    finally:
        os._exit(status)


def _survives(attempt: Callable[[], bool]) -> bool:
    """Whether it works, found out in a process that may die of it where there can be one."""
    if hasattr(os, "fork"):
        return harden.in_child(lambda: b"yes" if attempt() else b"no") == b"yes"
    try:
        return attempt()
    except RuntimeError:
        return False
