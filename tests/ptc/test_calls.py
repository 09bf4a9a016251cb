"""Calls, boot and replies of the host's machine."""

from typing import Any

import pytest

from ptc.errors import LocalProtocolError, UsageError
from ptc.limits import Limits
from ptc.outcome import UNSET
from ptc.protocol.events import CallRequested, Event, KillRequested, Logged, Replied
from ptc.protocol.machine import HostMachine
from ptc.protocol.messages import Boot, FailedReply, Reply, boot_frame
from tests.ptc.machines import BOOT_DATA, call, machine, messages, refused, result_of, sent, settle


class TestCalls:
    def test_more_pending_calls_than_allowed_are_a_violation(self) -> None:
        """PTC-035 a reply makes room again."""
        made = machine(max_pending_calls=2)
        made.feed(sent(call(1)) + sent(call(2)))
        made.reply(1, None)
        assert made.feed(sent(call(3))) == [CallRequested(3, "tools", "echo", 1)]
        assert refused(made, call(4)) == "call 4 while 2 are unfinished, 2 may be"

    def test_more_bytes_of_pending_calls_than_allowed_are_a_violation(self) -> None:
        """PTC-035 bodies are summed; one frame of exactly the cap passes."""
        empty = len(sent(call(1, [""]))) - 4
        exact = call(1, ["x" * (1000 - empty)])
        made = machine(max_message_bytes=1000)
        assert len(sent(exact)) == 1004
        assert [type(event) for event in made.feed(sent(exact))] == [CallRequested]
        small = call(2, [""])
        assert "bytes of unfinished calls, 1000 may be" in refused(made, small)
        made = machine(max_message_bytes=1000)
        made.feed(sent(exact))
        made.reply_error(1, "no")
        assert [type(event) for event in made.feed(sent(small))] == [CallRequested]

    def test_the_call_after_the_last_allowed_ends_the_run(self) -> None:
        """PTC-036 not executed, also if its args are bad; but a wrong id or name stays a violation."""
        for args in ([1], None):
            made = machine(max_calls=2)
            made.feed(sent(call(1)) + sent(call(2)))
            assert refused(made, call(3, args), "call-limit") == "more than 2 calls"
        made = machine(max_calls=1)
        made.feed(sent(call(1)))
        refused(made, call(3))
        made = machine(max_calls=1)
        made.feed(sent(call(1)))
        refused(made, call(2, name="nope"))

    def test_calls_so_far_are_in_the_result(self) -> None:
        """PTC-115 accepted calls and those without an answer."""
        made = machine()
        made.feed(b"".join(sent(call(number)) for number in range(1, 901)[:100]))
        for number in range(1, 99):
            made.reply(number, number)
        made.deadline()
        result = settle(made)
        assert result.calls == 100
        assert result.unfinished == ((99, "tools", "echo"), (100, "tools", "echo"))

    def test_nothing_is_dispatched_after_the_end(self) -> None:
        """PTC-037 of the same chunk or a later one, and no reply is written any more."""
        for ending in (sent({"type": "done"}), sent("null"), b"\x00\x00\x00\x00", sent({"type": "output-limit"})):
            made = machine()
            events = made.feed(sent(call(1)) + ending + sent(call(2)) + sent({"type": "log", "text": "x"}))
            assert [type(event) for event in events][:2] == [CallRequested, KillRequested]
            assert not [event for event in events[1:] if isinstance(event, (CallRequested, Logged))]
            assert made.feed(sent(call(2))) == []
            assert made.reply(1, "late") == []
            assert made.reply_error(1, "late") == []
            assert made.take_frames() == b""

    def test_a_reply_that_was_not_taken_is_dropped_at_the_end(self) -> None:
        """PTC-037 the channel closes with its backlog."""
        made = machine()
        made.feed(sent(call(1)))
        made.reply(1, "x")
        assert made.unsent_bytes > 0
        made.abort("stop")
        assert made.take_frames() == b""
        assert made.unsent_bytes == 0

    def test_a_wrong_reply_is_a_mistake_of_the_host(self) -> None:
        """PTC-038 unknown and answered ids."""
        made = machine()
        made.feed(sent(call(1)))
        made.reply(1, 1)
        for number, text in ((1, "is answered"), (2, "was never made"), (0, "was never made")):
            with pytest.raises(LocalProtocolError, match=text):
                made.reply(number, 1)
            with pytest.raises(LocalProtocolError, match=text):
                made.reply_error(number, "x")
        assert made.state == "running"

    @pytest.mark.parametrize("state", ["new", "running", "ending", "settled"])
    def test_boot_outside_ready_is_a_mistake_of_the_host(self, state: Any) -> None:
        """PTC-038 and nothing is written."""
        made = machine(state)
        with pytest.raises(LocalProtocolError, match=f"boot in state {state}"):
            made.boot(BOOT_DATA, UNSET, None)
        with pytest.raises(LocalProtocolError, match=f"boot in state {state}"):
            made.boot_with(b"", None)
        assert made.take_frames() == b""


class TestBoot:
    def test_boot_carries_program_limits_and_input(self) -> None:
        """PTC-045 exactly the three members of data; the host's limits; input as tokens."""
        data: dict[str, object] = {
            "code": "return 1 // é\ud800",
            "namespaces": [
                {"global": "tools", "names": ["a"], "errorClass": {"name": "E", "memberNameProperty": "m"}},
                {"global": "more", "names": []},
            ],
            "maxOutputBytes": 99,
        }
        made = machine(
            "ready", max_calls=7, max_pending_calls=6, max_value_tokens=5, max_log_chars=4, max_log_entries=3
        )
        assert made.boot(data, {"a": [2**60]}, 1.5) == []
        assert made.state == "running"
        (boot,) = messages(made.take_frames())
        Boot.model_validate(boot)
        assert boot["type"] == "boot"
        assert boot["data"] == data
        assert boot["limits"] == {
            "maxPendingCalls": 6,
            "maxMessageBytes": 16 << 20,
            "maxValueTokens": 5,
            "maxLogChars": 4,
            "maxLogEntries": 3,
            "timeoutMs": 1500,
        }
        assert boot["input"] == [
            {"kind": "object", "keys": ["a"]},
            {"kind": "array", "length": 1},
            {"kind": "bigint", "digits": str(2**60)},
        ]

    def test_a_forked_run_gets_empty_code_and_no_input(self) -> None:
        """PTC-045 the shape for a run that was loaded before, and no deadline as null."""
        made = machine("ready")
        made.boot(BOOT_DATA, UNSET, None)
        (boot,) = messages(made.take_frames())
        Boot.model_validate(boot)
        assert (boot["data"]["code"], boot["data"]["namespaces"]) == ("", [])
        assert "input" not in boot
        assert boot["limits"]["timeoutMs"] is None

    @pytest.mark.parametrize(
        "data",
        [
            {},
            {**BOOT_DATA, "more": 1},
            {**BOOT_DATA, "code": 1},
            {**BOOT_DATA, "maxOutputBytes": 0},
            {**BOOT_DATA, "namespaces": [{"global": "x"}]},
            {**BOOT_DATA, "namespaces": [{"global": "x", "names": [1]}]},
        ],
        ids=repr,
    )
    def test_boot_data_of_another_shape_is_misuse(self, data: dict[str, object]) -> None:
        """PTC-045 a mistake of the host never reaches a program."""
        made = machine("ready")
        with pytest.raises(UsageError, match=r"^boot data: "):
            made.boot(data, UNSET, None)
        assert made.state == "ready"

    def test_an_input_that_cannot_cross_is_misuse(self) -> None:
        """PTC-129 with its path, or with sizes; the run can still be booted."""
        made = machine("ready", max_message_bytes=512)
        with pytest.raises(UsageError, match=r"^input\.a\[1\]: set is not JSON$"):
            made.boot(BOOT_DATA, {"a": [1, set()]}, None)
        with pytest.raises(
            UsageError, match=r"^boot: \d+ bytes of program and input do not fit a message of 512 bytes$"
        ):
            made.boot(BOOT_DATA, "x" * 512, None)
        assert made.take_frames() == b""
        made.boot(BOOT_DATA, "x", None)
        assert made.state == "running"

    def test_a_frame_built_ahead_boots_the_same(self) -> None:
        """PTC-045 equal arguments give equal bytes."""
        limits = Limits()
        made, other = machine("ready"), machine("ready")
        made.boot(BOOT_DATA, [1], 2)
        other.boot_with(boot_frame(BOOT_DATA, [1], limits, 2), 2)
        assert made.take_frames() == other.take_frames()
        made.deadline(), other.deadline()
        assert settle(made) == settle(other)


class TestReplies:
    def one_call(self, **limits: Any) -> HostMachine:
        made = machine(**limits)
        made.feed(sent(call(1)))
        return made

    def test_a_value_is_sent_as_tokens(self) -> None:
        """PTC-001 the good reply."""
        made = self.one_call()
        assert made.reply(1, {"é": [1, 2**53, None]}) == [Replied(1, True)]
        data = made.take_frames()
        data[4:].decode("ascii")
        (reply,) = messages(data)
        Reply.model_validate(reply)
        assert reply["value"][0] == {"kind": "object", "keys": ["é"]}
        assert made.take_frames() == b""

    def test_a_failure_is_sent_as_its_text(self) -> None:
        """PTC-121 verbatim."""
        made = self.one_call()
        assert made.reply_error(1, "é\n\ud800") == [Replied(1, False, "é\n\ud800")]
        (reply,) = messages(made.take_frames())
        FailedReply.model_validate(reply)
        assert reply == {"type": "reply", "id": 1, "ok": False, "message": "é\n\ud800"}

    def failed(self, made: HostMachine, events: list[Event]) -> str:
        (reply,) = messages(made.take_frames())[-1:]
        assert events == [Replied(reply["id"], False, reply["message"])]
        assert made.state == "running"
        message: str = reply["message"]
        return message

    def test_a_result_that_is_not_json_fails_that_call(self) -> None:
        """PTC-046 with the path."""
        made = self.one_call()
        assert self.failed(made, made.reply(1, {"t": [object()]})) == "result.t[0]: object is not JSON"
        assert result_of(made.feed(sent({"type": "done", "value": [1]}))).value == 1

    def test_a_result_of_too_many_tokens_fails_that_call(self) -> None:
        """PTC-046 with the number."""
        made = self.one_call(max_value_tokens=10)
        assert self.failed(made, made.reply(1, [0] * 10)) == "result[9]: more than 10 tokens"

    def test_an_oversized_result_fails_that_call(self) -> None:
        """PTC-046 with both sizes; a frame of exactly the cap passes."""
        overhead = len('{"type":"reply","id":1,"ok":true,"value":[""]}')
        made = self.one_call(max_message_bytes=300)
        assert (
            self.failed(made, made.reply(1, "x" * (301 - overhead)))
            == "result: 301 bytes do not fit a message of 300 bytes"
        )
        made = self.one_call(max_message_bytes=300)
        assert made.reply(1, "x" * (300 - overhead)) == [Replied(1, True)]
        assert len(made.take_frames()) == 304

    def test_a_full_backlog_fails_that_call(self) -> None:
        """PTC-046 four frames of the largest size wait at most; taking them makes room."""
        made = machine(max_message_bytes=1000)
        for number in range(1, 7):
            made.feed(sent(call(number)))
        big = "x" * 900
        for number in (1, 2, 3, 4):
            assert made.reply(number, big) == [Replied(number, True)]
        waiting = made.unsent_bytes
        assert 3600 < waiting <= 4000
        text = self.failed(made, made.reply(5, big))
        assert text == f"result: 946 bytes do not fit, {waiting} of 4000 bytes wait to be sent"
        assert made.unsent_bytes == 0
        assert made.reply(6, big) == [Replied(6, True)]

    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            ("x" * 4096, "x" * 4096),
            ("x" * 4097, "x" * 4096 + "… [+1 characters]"),
            ("😀" * 10_000, "😀" * 4096 + "… [+5904 characters]"),
        ],
        ids=["4096", "4097", "10000 wide"],
    )
    def test_a_long_failure_message_is_cut(self, message: str, expected: str) -> None:
        """PTC-047 with the number of characters left out."""
        made = self.one_call()
        assert self.failed(made, made.reply_error(1, message)) == expected

    @pytest.mark.parametrize("message", ["x" * 5000, "é" * 300, "\x00" * 4096, "😀" * 4097, "x" * 190])
    def test_a_failure_message_fits_the_smallest_frame(self, message: str) -> None:
        """PTC-047 cut further where frames are small, and no further than needed."""
        made = self.one_call(max_message_bytes=256)
        made.reply_error(1, message)
        data = made.take_frames()
        assert 232 <= len(data) <= 260
        (reply,) = messages(data)
        kept, _, rest = reply["message"].partition("… [+")
        assert message.startswith(kept)
        if rest:
            assert int(rest.removesuffix(" characters]")) == len(message) - len(kept)
        else:
            assert kept == message
