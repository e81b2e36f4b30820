"""One timer for many tasks: those that take too long are ended, the others are left alone and forgotten."""

import asyncio

import pytest

from controller_core.server.requests.deadlines import LOOK_EVERY_S, Deadlines

WITHIN_S = 0.1


async def ended_after(deadlines: Deadlines, work_s: float) -> tuple[float, bool]:
    """Work for so long under a deadline; return how long that was, and whether it was ended."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    deadline = deadlines.begin()
    try:
        await asyncio.sleep(work_s)
    except asyncio.CancelledError:
        assert deadline.passed
        return loop.time() - begun_s, True
    deadline.met()
    return loop.time() - begun_s, False


async def test_each_task_that_takes_too_long_is_ended_at_its_time_and_no_other() -> None:
    deadlines = Deadlines(WITHIN_S)
    works = []
    for work_s in (5.0, 0.01, 5.0, 0.02, 5.0):
        works.append(asyncio.create_task(ended_after(deadlines, work_s)))
        await asyncio.sleep(0.02)
    ends = await asyncio.gather(*works)
    assert [ended for _, ended in ends] == [True, False, True, False, True]
    for took_s, ended in ends:
        assert not ended or WITHIN_S <= took_s < WITHIN_S + LOOK_EVERY_S + 0.1


async def test_a_task_that_met_its_deadline_is_not_kept_until_then() -> None:
    deadlines = Deadlines(WITHIN_S)
    assert await asyncio.create_task(ended_after(deadlines, 0.0)) == (pytest.approx(0, abs=0.05), False)
    assert [note.task for note in deadlines._notes] == [None]


async def test_nothing_is_left_of_tasks_long_done_and_no_timer_runs_then() -> None:
    deadlines = Deadlines(WITHIN_S)
    await asyncio.gather(*(asyncio.create_task(ended_after(deadlines, 0.0)) for _ in range(100)))
    async with asyncio.timeout(2):
        while deadlines._timer is not None:  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.01)
    assert not deadlines._notes
    assert await asyncio.create_task(ended_after(deadlines, 5.0)) == (pytest.approx(WITHIN_S, abs=0.1), True)
