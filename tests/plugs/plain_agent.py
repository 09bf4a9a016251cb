"""An agent without any library: one JSON line for each line. `python plain_agent.py NOTES [no-load]`.

It notes its starts and what it is asked in the file NOTES. A prompt of "wait" is answered when it is cancelled, "ask"
asks for permission first, and "exit N" ends the process.
"""

import json
import os
import sys
from typing import Any


def main() -> None:
    """Until stdin ends."""
    notes = sys.argv[1]
    loads = "no-load" not in sys.argv
    waiting: Any = None
    note(notes, f"start {os.getpid()}")
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method is None:  # an answer to our question
            answer(waiting, {"stopReason": "end_turn"})
            continue
        note(notes, method)
        if method == "initialize":
            answer(number, {"protocolVersion": 1, "agentCapabilities": {"loadSession": loads}})
        elif method == "session/new":
            answer(number, {"sessionId": "acp-1"})
        elif method == "session/load":
            say({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "acp-1", "update": "replayed"}})
            answer(number, {})
        elif method == "session/cancel":
            answer(waiting, {"stopReason": "cancelled"})
        elif method == "session/prompt":
            text = params["prompt"][0]["text"]
            if text.startswith("exit"):
                sys.exit(int(text.split()[1]))
            if text == "wait":
                waiting = number
            elif text == "ask":
                waiting = number
                say({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {}})
            else:
                update = {"sessionId": "acp-1", "update": f"got {text}"}
                say({"jsonrpc": "2.0", "method": "session/update", "params": update})
                answer(number, {"stopReason": "end_turn"})
        elif number is not None:
            say({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "not offered"}})


def answer(number: Any, result: Any) -> None:
    """Answer a request."""
    say({"jsonrpc": "2.0", "id": number, "result": result})


def say(message: dict[str, Any]) -> None:
    """One line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def note(path: str, text: str) -> None:
    """One line of the notes."""
    with open(path, "a") as file:  # noqa: PTH123  # as little of the library as can be
        file.write(text + "\n")


if __name__ == "__main__":
    main()
