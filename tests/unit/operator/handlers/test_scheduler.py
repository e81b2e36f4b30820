"""When passes happen: one at a time, once for many wake-ups, after a failure, never without the Lease."""

import asyncio
from collections.abc import Callable

import pytest

from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.handlers.scheduler import (
    BACKOFF_MAX_S,
    PASSES_AT_ONCE_MAX,
    PassScheduler,
    ResourceName,
    backoff_s,
)

ORDERS = ResourceName("BrokerGroup", "shop", "orders")


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - the condition emits no event
            await asyncio.sleep(0)


class _Passes:
    """Counts passes; each waits until the test releases it."""

    def __init__(self, delay: float | None = 60.0) -> None:
        self.begun = 0
        self.at_once = 0
        self.most_at_once = 0
        self.delay = delay
        self.failures: list[Exception] = []
        self.go = asyncio.Event()

    async def do(self, _: ResourceName) -> float | None:
        self.begun += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.go.wait()
        self.at_once -= 1
        if self.failures:
            raise self.failures.pop(0)
        return self.delay


async def test_many_wake_ups_during_a_pass_make_one_more_pass() -> None:
    passes = _Passes()
    work = PassScheduler(passes.do, lambda: True)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 1)
    for _ in range(10):
        work.wake(ORDERS)
    passes.go.set()
    await _until(lambda: passes.begun == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (passes.begun, passes.most_at_once) == (2, 1)
    await work.stop()


async def test_a_held_resource_has_no_pass_until_the_first_hold_is_over() -> None:
    passes = _Passes()
    passes.go.set()
    work = PassScheduler(passes.do, lambda: True)
    started_s = asyncio.get_running_loop().time()
    work.hold(ORDERS, 0.1)
    work.hold(ORDERS, 3_600.0)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 1)
    assert asyncio.get_running_loop().time() - started_s >= 0.1
    await work.stop()


async def test_a_pass_comes_again_by_itself() -> None:
    passes = _Passes(delay=0.01)
    passes.go.set()
    work = PassScheduler(passes.do, lambda: True)
    work.wake(ORDERS)
    await _until(lambda: passes.begun >= 3)
    await work.stop()
    assert passes.most_at_once == 1


@pytest.mark.parametrize("error", [PeerUnavailableError("cut"), KeyError("our own mistake")])
async def test_a_pass_that_fails_is_tried_again(error: Exception) -> None:
    passes = _Passes()
    passes.failures = [error]
    passes.go.set()
    work = PassScheduler(passes.do, lambda: True)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 2)
    await work.stop()


async def test_a_resource_that_is_gone_is_dropped_and_may_come_back() -> None:
    passes = _Passes(delay=None)
    passes.go.set()
    work = PassScheduler(passes.do, lambda: True)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 1 and not work._tasks)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 2)
    await work.stop()


async def test_a_wake_up_is_kept_until_the_lease_is_ours() -> None:
    passes = _Passes()
    passes.go.set()
    leading = False
    work = PassScheduler(passes.do, lambda: leading)
    work.wake(ORDERS)
    for _ in range(20):
        await asyncio.sleep(0)
    assert passes.begun == 0
    leading = True
    await _until(lambda: passes.begun == 1)
    await work.stop()


def test_delays_grow_to_a_bound_and_never_end() -> None:
    delays = [backoff_s(failures) for failures in range(1, 2_000)]
    assert delays == sorted(delays)
    assert delays[0] < 1
    assert delays[-1] == BACKOFF_MAX_S


async def test_an_operator_that_stands_by_looks_and_makes_no_pass() -> None:
    passes, looks = _Passes(), _Passes()
    looks.go.set()

    async def look(resource: ResourceName) -> None:
        await looks.do(resource)

    work = PassScheduler(passes.do, lambda: False, look)
    work.wake(ORDERS)
    await _until(lambda: looks.begun == 1)
    assert passes.begun == 0
    await work.stop()


async def test_a_look_that_fails_does_not_keep_an_operator_from_acting_later() -> None:
    passes, acts = _Passes(), [False]
    passes.go.set()

    async def look(_: ResourceName) -> None:
        acts[0] = True
        raise PeerUnavailableError("the API server does not answer")

    work = PassScheduler(passes.do, lambda: acts[0], look)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 1)
    await work.stop()


async def test_resources_of_one_kind_do_not_stand_in_the_way_of_another() -> None:
    passes = _Passes()
    work = PassScheduler(passes.do, lambda: True)
    topics = PASSES_AT_ONCE_MAX + 3
    for number in range(topics):
        work.wake(ResourceName("Topic", "shop", f"t{number}"))
    await _until(lambda: passes.begun == PASSES_AT_ONCE_MAX)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == PASSES_AT_ONCE_MAX + 1)
    assert passes.most_at_once == PASSES_AT_ONCE_MAX + 1
    await work.stop()


class _Quiet:
    """Reports no work until the test sets some; counts the calls."""

    def __init__(self) -> None:
        self.asked = 0
        self.delay: float | None = 0.01

    async def ask(self, _: ResourceName) -> float | None:
        self.asked += 1
        return self.delay


async def test_a_pass_that_comes_only_because_it_is_time_first_asks_what_costs_less() -> None:
    passes, quiet = _Passes(delay=0.01), _Quiet()
    passes.go.set()
    work = PassScheduler(passes.do, lambda: True, quiet=quiet.ask)
    work.wake(ORDERS)
    await _until(lambda: quiet.asked >= 3)
    assert passes.begun == 1, "the first, which was woken"
    quiet.delay = None
    await _until(lambda: passes.begun >= 3)
    await work.stop()


async def test_who_is_woken_by_what_is_kept_asks_that_first() -> None:
    passes, quiet = _Passes(delay=60.0), _Quiet()
    quiet.delay = 60.0
    passes.go.set()
    work = PassScheduler(passes.do, lambda: True, quiet=quiet.ask)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 1)
    for _ in range(20):
        await asyncio.sleep(0)
    work.wake(ORDERS, changed=False)
    await _until(lambda: quiet.asked == 1)
    quiet.delay = None
    work.wake(ORDERS, changed=False)
    await _until(lambda: passes.begun == 2)
    await work.stop()


async def test_who_was_woken_looks_for_itself_and_so_does_a_pass_after_one_that_failed() -> None:
    passes, quiet = _Passes(delay=60.0), _Quiet()
    quiet.delay = 60.0
    passes.failures = [PeerUnavailableError("cut")]
    passes.go.set()
    work = PassScheduler(passes.do, lambda: True, quiet=quiet.ask)
    for begun in (2, 3, 4):
        work.wake(ORDERS)
        await _until(lambda begun=begun: passes.begun >= begun)
        for _ in range(20):
            await asyncio.sleep(0)
    assert quiet.asked == 0
    await work.stop()


async def test_whoever_has_just_got_the_lease_looks_for_itself() -> None:
    passes, quiet, acts = _Passes(delay=60.0), _Quiet(), [False]
    passes.go.set()

    async def look(_: ResourceName) -> None:
        acts[0] = True

    work = PassScheduler(passes.do, lambda: acts[0], look, quiet.ask)
    work.wake(ORDERS)
    await _until(lambda: passes.begun == 1)
    assert quiet.asked == 0
    await work.stop()
