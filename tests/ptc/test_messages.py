"""What a program may send, and what becomes of it."""

from typing import Any

import pytest

from ptc.limits import Limits
from ptc.outcome import UNSET, Failure, LogEntry, Position, Truncation
from ptc.protocol.events import CallRequested, KillRequested, Logged, Ready, Settled
from ptc.protocol.machine import HostMachine
from tests.ptc.machines import BOOT_DATA, READY, call, machine, refused, result_of, sent, settle

BIG = "x" * 5000


class TestHandshake:
    @pytest.mark.parametrize(
        "message", [call(), {"type": "log", "text": "x"}, {"type": "done"}, {"type": "output-limit"}, {"type": "x"}, {}]
    )
    def test_only_ready_may_come_first(self, message: object) -> None:
        """PTC-026 anything else before it is a violation, and so is everything before boot."""
        assert "before ready" in refused(machine("new"), message)
        assert "before boot" in refused(machine("ready"), message)

    @pytest.mark.parametrize("state", ["ready", "running"])
    def test_a_second_ready_is_a_violation(self, state: Any) -> None:
        """PTC-026 before and after boot, also in the same chunk."""
        assert "ready" in refused(machine(state), READY)
        assert machine("new").feed(sent(READY) * 2) == [Ready(), KillRequested("protocol")]

    @pytest.mark.parametrize("message", [{"type": "ready"}, READY, {"type": "ready", "wire": 1, "more": [1]}])
    def test_wire_version_one_is_accepted(self, message: object) -> None:
        """PTC-027 absent or 1."""
        made = machine("new")
        assert made.feed(sent(message)) == [Ready()]
        assert made.state == "ready"

    @pytest.mark.parametrize("version", ["0", "2", "true", '"1"', "1.0", "null", "[1]", "-1", "1e0"])
    def test_another_wire_version_is_a_violation(self, version: str) -> None:
        """PTC-027 exactly the integer 1."""
        assert refused(machine("new"), f'{{"type":"ready","wire":{version}}}').startswith("bad ready message: wire: ")


class TestMessages:
    @pytest.mark.parametrize(
        "body",
        [
            "null",
            "[]",
            '["call"]',
            "7",
            '"done"',
            "true",
            "{}",
            '{"type":null}',
            '{"type":1}',
            '{"type":["done"]}',
            '{"type":"Done"}',
            '{"type":"reply","id":1}',
            '{"type":"boot"}',
            '{"kind":"done"}',
            '{"type":""}',
        ],
    )
    def test_what_is_no_known_message_is_a_violation(self, body: str) -> None:
        """PTC-028 null, array, scalar, no type, unknown type."""
        refused(machine(), body)
        refused(machine("new"), body)

    def test_extra_members_are_ignored_and_appear_nowhere(self) -> None:
        """PTC-028 in every message and in the error and its position."""
        made = machine()
        extra = {"secret": "s3cr3t", "ok": True}
        at = {"line": 1, "column": 2, **extra}
        error = {"kind": "exception", "message": "m", "at": at, **extra}
        sequence = [call(**extra), {"type": "log", "text": "t", **extra}, {"type": "done", "error": error, **extra}]
        events = made.feed(b"".join(map(sent, sequence)))
        assert [type(event) for event in events] == [CallRequested, Logged, KillRequested, Settled]
        assert "s3cr3t" not in repr(events)

    @pytest.mark.parametrize(
        "number",
        [
            "0",
            "-1",
            "2",
            "1.0",
            "true",
            '"1"',
            "9007199254740993",
            "9007199254740992",
            "null",
            "[1]",
            "1e0",
            "-0",
            "1.5",
        ],
    )
    def test_a_call_id_that_is_not_the_next_integer_is_a_violation(self, number: str) -> None:
        """PTC-029 the first one."""
        body = f'{{"type":"call","id":{number},"global":"tools","name":"echo","args":[1]}}'
        message = refused(machine(), body)
        assert "expected 1" in message or message.startswith("bad call message: id: ")

    @pytest.mark.parametrize("number", [1, 3, 0, 2.0, True, "2"])
    def test_a_later_id_is_checked_the_same_and_earlier_calls_stand(self, number: object) -> None:
        """PTC-029 repeated and skipped ids; the good call was dispatched once."""
        made = machine()
        events = made.feed(sent(call(1)) + sent(call(number)) + sent(call(2)))
        assert events == [CallRequested(1, "tools", "echo", 1), KillRequested("protocol")]
        result = settle(made)
        assert (result.kind, result.calls, result.unfinished) == ("protocol", 1, ((1, "tools", "echo"),))

    def test_a_missing_id_is_a_violation(self) -> None:
        """PTC-029 no id at all."""
        assert refused(machine(), {"type": "call", "global": "tools", "name": "echo", "args": [1]}).startswith(
            "bad call message: id: "
        )

    @pytest.mark.parametrize(
        ("space", "name"),
        [
            ("tool", "echo"),
            ("tools", "Echo"),
            ("tools", ""),
            ("", ""),
            ("more", "search"),
            ("constructor", "echo"),
            ("__proto__", "toString"),
            ("tools", "constructor"),
            ("tools", "toString"),
            ("tools", "__proto__"),
            ("tools", "__class__"),
            ("tools", BIG),
            (BIG, BIG),
            ("tools\ud800", "\x1b[31m"),
        ],
        ids=lambda text: ascii(text[:20]),
    )
    def test_an_undeclared_function_is_a_violation(self, space: str, name: str) -> None:
        """PTC-030 by own name only, and the message repeats little of what the program sent."""
        made = machine()
        message = refused(made, call(1, **{"global": space, "name": name}))
        assert "which is not declared" in message
        assert len(message) < 250
        message.encode("ascii")

    @pytest.mark.parametrize("member", ["global", "name"])
    @pytest.mark.parametrize("value", [None, 1, True, ["tools"], {"a": 1}])
    def test_a_name_that_is_no_text_is_a_violation(self, member: str, value: object) -> None:
        """PTC-030 before it is looked up."""
        assert refused(machine(), call(1, **{member: value})).startswith(f"bad call message: {member}: ")

    @pytest.mark.parametrize(
        "args",
        [None, 1, "x", {}, [], [1, 2], [[1]], [{"kind": "array", "length": 1}], [{"kind": "bigint", "digits": "01"}]],
    )
    def test_malformed_args_are_a_violation(self, args: object) -> None:
        """PTC-031 PTC-016 and nothing is called."""
        assert "bad args" in refused(machine(), call(1, args))

    def test_missing_args_are_a_violation(self) -> None:
        """PTC-031 no argument at all."""
        message = call()
        del message["args"]
        assert refused(machine(), message) == "call 1 without args"

    def test_more_tokens_than_allowed_are_a_violation(self) -> None:
        """PTC-016 the machine applies its own limit."""
        tokens = [{"kind": "array", "length": 3}, 1, 2, 3]
        assert [type(event) for event in machine(max_value_tokens=4).feed(sent(call(1, tokens)))] == [CallRequested]
        assert "4 tokens, more than 3" in refused(machine(max_value_tokens=3), call(1, tokens))

    @pytest.mark.parametrize(
        ("member", "value"),
        [
            *[("text", value) for value in (None, 1, True, ["x"])],
            *[("level", value) for value in (None, "", "trace", "LOG", 1)],
            *[("cut", value) for value in (None, -1, 1.0, True, "1", 0.5)],
        ],
        ids=repr,
    )
    def test_a_bad_log_is_a_violation(self, member: str, value: object) -> None:
        """PTC-032 each member."""
        message = {"type": "log", "text": "x", member: value}
        assert refused(machine(), message).startswith(f"bad log message: {member}: ")

    def test_a_log_without_text_is_a_violation(self) -> None:
        """PTC-032 text is required."""
        refused(machine(), {"type": "log"})

    def test_a_log_is_an_entry(self) -> None:
        """PTC-032 empty text, each level, lone surrogates, what the guest cut."""
        made = machine()
        levels: list[Any] = ["log", "info", "warn", "error", "debug"]
        for level in levels:
            assert made.feed(sent({"type": "log", "text": "", "level": level})) == [Logged(LogEntry("", level))]
        assert made.feed(sent({"type": "log", "text": "\ud800"})) == [Logged(LogEntry("\ud800"))]
        assert made.feed(sent({"type": "log", "text": "x", "cut": 7})) == [Logged(LogEntry("x", cut=7))]
        result = settle(made)
        assert len(result.logs) == 7
        assert result.truncated == Truncation(characters=7)

    @pytest.mark.parametrize(
        "error",
        [
            None,
            "x",
            [],
            {},
            {"kind": "exception"},
            {"message": "m"},
            {"kind": "exception", "message": None},
            {"kind": "exception", "message": 1},
            {"kind": None, "message": "m"},
            {"kind": "exception", "message": "m", "at": None},
            {"kind": "exception", "message": "m", "at": [1, 2]},
            {"kind": "exception", "message": "m", "at": {}},
            {"kind": "exception", "message": "m", "at": {"line": 1}},
            {"kind": "exception", "message": "m", "at": {"line": 0, "column": 1}},
            {"kind": "exception", "message": "m", "at": {"line": 1, "column": 0}},
            {"kind": "exception", "message": "m", "at": {"line": 1.0, "column": 1}},
            {"kind": "exception", "message": "m", "at": {"line": True, "column": 1}},
            {"kind": "exception", "message": "m", "at": {"line": "1", "column": 1}},
            {"kind": "exception", "message": "m", "stack": None},
            {"kind": "exception", "message": "m", "stack": ["f"]},
            *[
                {"kind": kind, "message": "m"}
                for kind in (
                    "timeout",
                    "abort",
                    "worker-exit",
                    "protocol",
                    "sandbox-unavailable",
                    "memory-limit",
                    "compute-limit",
                    "call-limit",
                    "Exception",
                    "",
                )
            ],
        ],
        ids=repr,
    )
    def test_a_bad_error_is_a_violation(self, error: object) -> None:
        """PTC-033 null, ill-typed, bad position, or a kind that only the host may report."""
        assert refused(machine(), {"type": "done", "error": error}).startswith("bad done message: error")
        refused(machine(), {"type": "done", "error": error, "value": [1]})

    @pytest.mark.parametrize("kind", ["exception", "invalid-output", "output-limit", "stuck"])
    def test_an_error_settles_with_its_kind(self, kind: Any) -> None:
        """PTC-033 with a value beside it, even a broken one, the error counts."""
        error = {"kind": kind, "message": "m"}
        values: list[object] = [[1], [], None, "x"]
        for value in values:
            made = machine()
            result = result_of(made.feed(sent({"type": "done", "error": error, "value": value})))
            assert result.failure == Failure(kind, "m")
            assert (result.has_value, result.value, result.exit) == (False, None, None)

    def test_an_error_carries_position_and_stack(self) -> None:
        """PTC-033 as sent."""
        error = {"kind": "exception", "message": "m", "at": {"line": 3, "column": 4}, "stack": "at f (3:4)"}
        result = result_of(machine().feed(sent({"type": "done", "error": error, "cpuMs": 12.5})))
        assert result.failure == Failure("exception", "m", Position(3, 4), "at f (3:4)")
        assert result.cpu == 0.0125

    @pytest.mark.parametrize("value", ["null", "1.5.2", "true", '"1"', "-1", "-0.5", "-0", "[]", "1e400"])
    def test_a_bad_cpu_time_is_a_violation(self, value: str) -> None:
        """PTC-033 cpuMs is a number from 0."""
        refused(machine(), f'{{"type":"done","cpuMs":{value}}}')
        refused(machine(), f'{{"type":"done","cpuMs":{value},"error":{{"kind":"stuck","message":"m"}}}}')

    def test_a_completion_without_value_differs_from_null(self) -> None:
        """PTC-093 host side."""
        nothing = result_of(machine().feed(sent({"type": "done", "cpuMs": 3})))
        null = result_of(machine().feed(sent({"type": "done", "value": [None]})))
        assert (nothing.failure, nothing.has_value, nothing.value, nothing.cpu) == (None, False, None, 0.003)
        assert (null.failure, null.has_value, null.value, null.cpu) == (None, True, None, None)

    @pytest.mark.parametrize(
        "value", ["null", "1", "[]", "[-0]", "[1e400]", "[1,2]", '[{"kind":"map"}]', '{"kind":"array"}']
    )
    def test_an_undecodable_completion_is_invalid_output(self, value: str) -> None:
        """PTC-034 PTC-016 settled at once."""
        made = machine()
        result = result_of(made.feed(sent(f'{{"type":"done","value":{value}}}')))
        assert result.kind == "invalid-output"
        assert not result.has_value

    def test_a_completion_over_the_ledger_is_output_limit(self) -> None:
        """PTC-034 PTC-111 on the exact byte, beside the entries; everything else is kept."""
        for limit, kind in ((2 + 4 + 6, None), (2 + 4 + 5, "output-limit")):
            made = machine(max_output_bytes=limit)
            made.feed(sent({"type": "log", "text": "é"}))
            result = result_of(made.feed(sent({"type": "done", "value": ["1234"]})))
            assert result.kind == kind
            assert result.has_value == (kind is None)

    def test_an_error_that_does_not_fit_loses_its_stack_first(self) -> None:
        """PTC-097 PTC-111 then it is output-limit, with the start of the fixed text."""
        error = {"kind": "exception", "message": "m" * 10, "stack": "s" * 10}
        for limit, expected in (
            (26, Failure("exception", "m" * 10, stack="s" * 10)),
            (25, Failure("exception", "m" * 10)),
            (14, Failure("exception", "m" * 10)),
            (13, Failure("output-limit", "output ex")),
        ):
            result = result_of(machine(max_output_bytes=limit).feed(sent({"type": "done", "error": error})))
            assert result.failure == expected

    def test_an_output_limit_claimed_by_the_guest_keeps_what_fits(self) -> None:
        """PTC-114 a message of the guest comes first, then entries; a long one is cut with a mark."""
        made = machine(max_output_bytes=40)
        made.feed(sent({"type": "log", "text": "a" * 20}))
        result = result_of(
            made.feed(sent({"type": "done", "error": {"kind": "output-limit", "message": "value too large"}}))
        )
        assert result.failure == Failure("output-limit", "value too large")
        assert result.logs == (LogEntry("a" * 19, cut=1),)
        assert result.truncated == Truncation(characters=1, output_limit=True)
        long = result_of(machine().feed(sent({"type": "done", "error": {"kind": "output-limit", "message": BIG}})))
        assert long.failure == Failure("output-limit", "x" * 4096 + "… [+904 characters]")


def test_a_declared_namespace_is_taken_as_it_was() -> None:
    """PTC-030 functions are looked up among the declared names alone."""
    made = HostMachine({"": frozenset({""}), "__proto__": frozenset({"toString"})}, Limits())
    made.feed(sent(READY))
    made.boot(BOOT_DATA, UNSET, None)
    events = made.feed(
        sent(call(1, **{"global": "__proto__", "name": "toString"})) + sent(call(2, **{"global": "", "name": ""}))
    )
    assert events == [CallRequested(1, "__proto__", "toString", 1), CallRequested(2, "", "", 1)]
