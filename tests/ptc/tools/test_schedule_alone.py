"""The schedule of calls by itself, for every mixture of calls."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import ptc
from ptc.tools.schedule import Schedule

CALLS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.integers(0, 4), st.integers(0, 3)).map(
        lambda parts: dict(zip(("safe", "fits", "steps", "checking"), parts, strict=True))
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(wanted=CALLS, cap=st.integers(1, 4))
def test_every_schedule_keeps_order_cap_and_solitude(wanted: list[dict[str, Any]], cap: int) -> None:
    """PTC-140 for any mixture of safe, unsafe and refused calls, long and short."""
    started: list[int] = []
    answered: list[int] = []
    running: set[int] = set()

    async def main() -> None:
        schedule = Schedule(cap)

        def submit(number: int, call: dict[str, Any]) -> Any:
            async def check() -> None:
                for _ in range(call["checking"]):
                    await asyncio.sleep(0)
                if not call["fits"]:
                    raise ptc.CallError("no")

            async def work() -> int:
                started.append(number)
                running.add(number)
                assert len(running) <= cap
                assert call["safe"] or running == {number}
                assert all(wanted[other]["safe"] for other in running if other != number)
                if not call["safe"]:
                    assert answered == list(range(number))
                for _ in range(call["steps"]):
                    await asyncio.sleep(0)
                    assert call["safe"] or running == {number}
                running.remove(number)
                return number

            return schedule.submit(check, lambda: bool(call["safe"]), work)

        async def wait(number: int, answer: Any) -> None:
            try:
                assert await answer == number
                assert wanted[number]["fits"]
            except ptc.CallError:
                assert not wanted[number]["fits"]
            answered.append(number)

        answers = [submit(number, call) for number, call in enumerate(wanted)]
        await asyncio.wait_for(asyncio.gather(*(wait(number, answer) for number, answer in enumerate(answers))), 10)
        await schedule.close()

    asyncio.run(main())
    assert answered == list(range(len(wanted)))
    assert started == [number for number, call in enumerate(wanted) if call["fits"]]


async def test_a_call_that_is_never_awaited_is_dropped() -> None:
    """PTC-140 that of a run that settles between accepting it and waiting for it."""
    schedule = Schedule(1)
    done: list[str] = []

    async def fits() -> None:
        done.append("checked")

    async def work() -> None:
        done.append("worked")

    answer = schedule.submit(fits, lambda: True, work)
    answer.close()
    await schedule.close()
    assert done == []


async def test_nothing_starts_in_a_schedule_that_is_closed() -> None:
    """PTC-140 nor is it waited for."""
    schedule = Schedule(1)
    done: list[str] = []

    async def fits() -> None:
        return

    async def work() -> None:
        done.append("worked")

    waiting = asyncio.create_task(schedule.submit(fits, lambda: True, work))
    await schedule.close()
    await asyncio.wait({waiting}, timeout=0.05)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert done == []
