"""Ticks that come late still come, in portions, and a follower drops them."""

import asyncio
from typing import Self

import pytest

from controller_core.server.node.ticker import Ticker


class FakeLoopTime:
    """Replaces the running loop's clock while it is entered."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.now_s = 1000.0

    def __enter__(self) -> Self:
        self.loop.time = lambda: self.now_s  # type: ignore[method-assign] # the test's own clock
        return self

    def __exit__(self, *_: object) -> None:
        del self.loop.time


async def test_a_pause_is_paid_off_in_portions() -> None:
    given: list[int] = []
    with FakeLoopTime() as clock:
        ticker = Ticker(0.01, 10, given.append)
        ticker.start()
        clock.now_s += 0.255
        assert not ticker.catch_up()
        assert not ticker.catch_up()
        assert ticker.catch_up()
        assert given == [10, 10, 5]
        ticker.stop()


async def test_no_tick_is_lost_to_rounding() -> None:
    given: list[int] = []
    with FakeLoopTime() as clock:
        ticker = Ticker(0.01, 10, given.append)
        ticker.start()
        for _ in range(1000):
            clock.now_s += 0.0037
            ticker.catch_up()
        assert sum(given) in (369, 370)
        ticker.stop()


async def test_what_is_forgiven_does_not_come() -> None:
    given: list[int] = []
    with FakeLoopTime() as clock:
        ticker = Ticker(0.01, 10, given.append)
        ticker.start()
        clock.now_s += 5.0
        ticker.catch_up()
        ticker.forgive()
        assert ticker.catch_up()
        assert given == [10]
        ticker.stop()


async def test_a_stopped_ticker_owes_an_answer_to_nobody() -> None:
    ticker = Ticker(0.01, 10, lambda _: None)
    assert not ticker.catch_up()
    ticker.start()
    ticker.stop()
    assert not ticker.catch_up()


async def test_ticks_come_by_themselves() -> None:
    enough = asyncio.Event()
    given: list[int] = []

    def take(count: int) -> None:
        given.append(count)
        if sum(given) >= 5:
            enough.set()

    ticker = Ticker(0.001, 10, take)
    ticker.start()
    await asyncio.wait_for(enough.wait(), 60)
    ticker.stop()
    assert all(1 <= count <= 10 for count in given)


async def test_a_timer_that_fires_exactly_at_a_tick_finds_it_due() -> None:
    given: list[int] = []
    with FakeLoopTime() as clock:
        ticker = Ticker(0.01, 10, given.append)
        ticker.start()
        for number in range(1, 1001):
            clock.now_s = (1_000_000 + number * 10) / 1000  # whole milliseconds, as uvloop's clock has
            ticker.catch_up()
            assert sum(given) == number
        ticker.stop()


async def test_the_timer_sleeps_until_a_tick_is_due_and_for_a_portion_at_most() -> None:
    due, woken = 4, list[tuple[int, float]]()

    def take(count: int) -> None:
        woken.append((count, asyncio.get_running_loop().time()))

    with FakeLoopTime() as clock:
        ticker = Ticker(0.01, 10, take, lambda: due)
        ticker.start()
        began_s = clock.now_s
        assert ticker._handle is not None
        assert ticker._handle.when() == pytest.approx(began_s + 0.04)
        due = 1_000
        clock.now_s += 0.04
        ticker._fire()
        assert ticker._handle.when() == pytest.approx(began_s + 0.14)
        assert [count for count, _ in woken] == [4]
        ticker.stop()


async def test_what_comes_nearer_wakes_earlier_and_what_goes_away_changes_nothing() -> None:
    due = 10
    with FakeLoopTime() as clock:
        ticker = Ticker(0.01, 10, lambda _: None, lambda: due)
        ticker.start()
        due = 3
        ticker.rearm()
        assert ticker._handle is not None
        assert ticker._handle.when() == pytest.approx(clock.now_s + 0.03)
        due = 8
        ticker.rearm()
        assert ticker._handle.when() == pytest.approx(clock.now_s + 0.03)
        ticker.stop()
        ticker.rearm()
        assert ticker._handle is None
