"""Which system calls images and runs may make on Linux: two allow-lists, compiled to filters, and the loading of them.

A call that is not on its process's list ends the process with SIGSYS. libseccomp compiles the lists, so that one list
by names serves every architecture. It does so once, in a throw-away child of root: what is handed on is the compiled
program alone, and loading that takes one system call and no library. A filter is inherited over `fork` and never
lifted, so a run stands under the filter of its image and under its own.

Code of ours that comes to make a new call in an image or a run needs a line here, or it dies as a program would. A call
belongs on a list only if it does no harm in the hands of a program that has taken over the process: then that program
can make every call on the list, with any arguments the rules let pass.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

# <seccomp.h>: actions, attributes, comparisons.
_KILL_PROCESS, _ALLOW, _REFUSE_ACCESS = 0x8000_0000, 0x7FFF_0000, 0x0005_0000 | 13
_BAD_ARCHITECTURE, _OPTIMIZE, _BINARY_TREE = 2, 8, 2
_LESS_OR_EQUAL, _EQUAL, _MASKED_EQUAL = 3, 4, 7
# <linux/prctl.h>, <linux/seccomp.h>
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_VMA = 1, 22, 0x53564D41
_SECCOMP_MODE_FILTER = 2

_PROT_EXEC = 4
_SIGABRT, _SIGKILL = 6, 9
# What os.fork() passes to clone(2): a signal number, and where to note the child's id. No namespace, no thread.
_FORK_FLAGS = 0xFF | 0x0020_0000 | 0x0100_0000
_ALL_BITS = 0xFFFF_FFFF
_MAX_INT = 0x7FFF_FFFF
# Stands for the id of the process that loads the filter, until it does. No process has this id: they end at 2^22.
_OWN_ID = 0x7FFF_FFF0
# The kernel takes 4,096 instructions of 8 bytes; ours have about a hundred. A pipe holds as much.
_MAX_PROGRAM = 32_768


class Condition(NamedTuple):
    """What one argument of a call must be: equal or at most `first`, or, masked with `first`, equal to `second`."""

    argument: int
    compare: int
    first: int
    second: int = 0


class Rule(NamedTuple):
    """One call by name, let pass under all of its conditions."""

    name: str
    conditions: tuple[Condition, ...] = ()
    action: int = _ALLOW


def _all(names: str) -> tuple[Rule, ...]:
    return tuple(Rule(name) for name in names.split())


def _if(name: str, argument: int, compare: int, first: int, second: int = 0) -> Rule:
    return Rule(name, (Condition(argument, compare, first, second),))


RUN: tuple[Rule, ...] = (
    # The channel and native output. A run holds the descriptors 0 to 3 and has no call that makes another one.
    *_all("read write writev"),
    # Memory, never executable: nothing is compiled to machine code here.
    *_all("brk munmap mremap madvise"),
    _if("mmap", 2, _MASKED_EQUAL, _PROT_EXEC, 0),
    _if("mprotect", 2, _MASKED_EQUAL, _PROT_EXEC, 0),
    # Names for stretches of memory, which newer C libraries and interpreters give.
    _if("prctl", 0, _EQUAL, _PR_SET_VMA),
    # Clocks, where the kernel does not answer without a call, and the run's own timers.
    *_all("clock_gettime clock_gettime64 clock_getres gettimeofday time setitimer"),
    # Locks of the C library and the interpreter, which come down to these only if they are ever contended.
    *_all("futex sched_yield"),
    # Harmless facts, random bytes, the return from a signal, the resumption after SIGSTOP.
    *_all("getpid gettid getrandom rt_sigprocmask rt_sigreturn restart_syscall"),
    # abort(), and only of itself: a crash must show as SIGABRT.
    _if("tgkill", 0, _MASKED_EQUAL, _ALL_BITS, _OWN_ID),
    _if("tkill", 0, _MASKED_EQUAL, _ALL_BITS, _OWN_ID),
    *_all("exit exit_group"),
)
"""What a run does once it has confined itself."""

IMAGE: tuple[Rule, ...] = (
    *(rule for rule in RUN if rule.name not in ("tgkill", "tkill")),
    # abort(). The ids are those of this process or of a run, which its own filter holds to itself.
    _if("tgkill", 2, _EQUAL, _SIGABRT),
    _if("tkill", 1, _EQUAL, _SIGABRT),
    # Waiting for the host and for children, passing descriptors. It has sockets and can make none.
    *_all("poll ppoll recvmsg sendmsg sendto recvfrom"),
    # Forking: a copy of this process and nothing else. The last three are the C library's, in the child.
    _if("clone", 0, _MASKED_EQUAL, _ALL_BITS & ~_FORK_FLAGS, 0),
    *_all("fork wait4 set_robust_list set_tid_address rseq"),
    # A filter cannot know whose child a process is: SIGKILL reaches every process of the user, but one at a time.
    Rule("kill", (Condition(0, _LESS_OR_EQUAL, _MAX_INT), Condition(1, _EQUAL, _SIGKILL))),
    # Descriptors, handlers and limits of a run, set before it loads its own filter.
    *_all("close close_range dup2 dup3 rt_sigaction getppid geteuid"),
    _if("prlimit64", 0, _EQUAL, 0),
    _if("prctl", 0, _EQUAL, _PR_SET_PDEATHSIG),
    _if("prctl", 0, _EQUAL, _PR_SET_SECCOMP),
    # Its own size, read from a descriptor opened before.
    *_all("pread64"),
    # Refused, but no reason to die: from 3.12 on Python looks into /proc after each fork and can do without.
    Rule("openat", action=_REFUSE_ACCESS),
    Rule("open", action=_REFUSE_ACCESS),
)
"""What an image does from the moment it is shown program text, and what a run does until it has confined itself."""


class UnavailableError(Exception):
    """No filter can be made here. The text says why."""


class _Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp` of seccomp.h."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("compare", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def compile_filter(library: str, rules: Sequence[Rule]) -> bytes:
    """The rules as a program for the kernel. library: name or path of libseccomp. UnavailableError if it cannot be.

    Calls this architecture or this version of libseccomp does not know are left out: nobody can make them here.
    """
    if not sys.platform.startswith("linux"):
        raise UnavailableError("system calls are filtered on Linux only")
    lib = _open(library)
    context = lib.seccomp_init(_KILL_PROCESS)
    if not context:
        raise UnavailableError(f"{library} does not work here")
    try:
        lib.seccomp_attr_set(context, _BAD_ARCHITECTURE, _KILL_PROCESS)
        # Shorter to load. Versions that cannot do it make a longer program of the same meaning.
        lib.seccomp_attr_set(context, _OPTIMIZE, _BINARY_TREE)
        for rule in rules:
            number = lib.seccomp_syscall_resolve_name(rule.name.encode("ascii"))
            if number < 0:
                continue
            conditions = (_Comparison * len(rule.conditions))(*(_Comparison(*each) for each in rule.conditions))
            error = lib.seccomp_rule_add_array(context, rule.action, number, len(rule.conditions), conditions)
            if error:
                raise UnavailableError(f"{library} refuses the rule for {rule.name}: {os.strerror(-error)}")
        return _export(lib, context)
    finally:
        lib.seccomp_release(context)


def _open(library: str) -> Any:
    try:
        lib = ctypes.CDLL(library)
        lib.seccomp_init.restype = ctypes.c_void_p
        lib.seccomp_init.argtypes = [ctypes.c_uint32]
        lib.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
        lib.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
        lib.seccomp_rule_add_array.argtypes = [
            ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
        ]  # fmt: skip
        lib.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
        lib.seccomp_release.argtypes, lib.seccomp_release.restype = [ctypes.c_void_p], None
    except OSError:
        raise UnavailableError(f"{library} is not installed") from None
    except AttributeError:
        raise UnavailableError(f"{library} is not libseccomp, or too old") from None
    return lib


def _export(lib: Any, context: int) -> bytes:
    reading, writing = os.pipe()
    try:
        error = lib.seccomp_export_bpf(context, writing)
        if error:
            raise UnavailableError(f"the filter cannot be compiled: {os.strerror(-error)}")
        return os.read(reading, _MAX_PROGRAM)
    finally:
        os.close(reading)
        os.close(writing)


class _Program(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


_INSTRUCTION = struct.Struct("=HBBI")


class Filter:
    """A compiled program, ready to be loaded by this process or one forked from it."""

    def __init__(self, program: bytes) -> None:
        self._instructions = ctypes.create_string_buffer(program, len(program))
        self._program = _Program(len(program) // _INSTRUCTION.size, ctypes.addressof(self._instructions))
        self._own_ids = [
            number * _INSTRUCTION.size + _INSTRUCTION.size - 4
            for number, (_code, _true, _false, value) in enumerate(_INSTRUCTION.iter_unpack(program))
            if value == _OWN_ID
        ]
        self._prctl = ctypes.CDLL(None).prctl
        self._prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]

    def load(self) -> bool:
        """Put this process under the filter, for good. False where the kernel does not do it.

        No-new-privileges must have been set.
        """
        for offset in self._own_ids:
            struct.pack_into("=I", self._instructions, offset, os.getpid())
        program = ctypes.addressof(self._program)
        return bool(self._prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0) == 0)
