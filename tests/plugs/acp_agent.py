"""An agent written with the ACP library: three updates a turn, a question for permission in every tenth, cancels."""

import asyncio
import sys
from typing import Any

import acp
from acp.schema import AllowedOutcome, PermissionOption, ToolCallUpdate

UPDATES = 3


class Counting:
    """Counts its turns in the texts of its updates."""

    def __init__(self) -> None:
        self.turn = 0
        self.cancelled = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id="counting")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> acp.PromptResponse:
        if prompt[0].text == "wait":
            await self.cancelled.wait()
            return acp.PromptResponse(stop_reason="cancelled")
        for number in range(UPDATES):
            text = acp.update_agent_message_text(f"{self.turn * UPDATES + number} ")
            await self.client.session_update(session_id=session_id, update=text)
        if self.turn % 10 == 0:
            answer = await self.client.request_permission(
                session_id=session_id,
                tool_call=ToolCallUpdate(tool_call_id=f"call-{self.turn}", title="Go on?"),
                options=[PermissionOption(option_id="yes", name="Yes", kind="allow_once")],
            )
            assert isinstance(answer.outcome, AllowedOutcome), answer
        self.turn += 1
        return acp.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    sys.stderr.write("an agent of the ACP library\n")
    asyncio.run(acp.run_agent(Counting()))  # type: ignore[arg-type]  # it offers what the test asks for
