"""When passes happen: one at a time for each resource, soon after a wake-up, and again by themselves.

A wake-up says only that something about a resource may have changed; the pass looks for itself. A pass that
comes by schedule or after a reflection change first makes the cheaper check (`quiet_delay_s`). Wake-ups that
come during a pass make one more pass, not many. A pass that fails is tried again after a growing delay, for
ever: an operator that gives up would have to be noticed by somebody.

A resource may be held: no pass over it begins for a moment. During a failover the CPU must serve the work
that clients wait for, and the two dozen calls of a pass come just then by themselves, because everything
changes.

While another operator has the Lease, wake-ups stay queued and no pass begins; this operator only observes now
and then, so that it knows each group when it must act faster than a pass.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from rocketmq_operator.clients.api import BusyError, PeerUnavailableError
from rocketmq_operator.handlers.leadership import NotLeadingError

PASSES_AT_ONCE_MAX: Final = 4
"""Of one kind: a thousand topics do not stand in the way of a group."""
BACKOFF_FIRST_S: Final = 0.2
BACKOFF_MAX_S: Final = 30.0
GATE_POLL_S: Final = 0.2
STANDBY_OBSERVE_S: Final = 10.0
"""Between two looks at a resource of an operator that stands by; a watch tells it of pods in between."""
_LOG: Final = logging.getLogger(__name__)


class ResourceName(NamedTuple):
    """A custom resource of ours."""

    kind: str
    namespace: str
    name: str


DoPass = Callable[[ResourceName], Awaitable[float | None]]
"""Does one pass; returns when the next should come, in seconds, None when the resource is gone."""
ObserveResource = Callable[[ResourceName], Awaitable[None]]
"""Looks at a resource and changes nothing."""
QuietCheck = Callable[[ResourceName], Awaitable[float | None]]
"""Returns the delay until the next pass if a pass would have no work now; None if it may have some."""


async def _never_quiet(_: ResourceName) -> float | None:
    return None


def backoff_s(failures: int) -> float:
    """Return how long to wait after so many failures in a row."""
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 30))


class PassScheduler:
    """Runs passes.

    Invariant: a resource has at most one task, and a task at most one pass.
    """

    def __init__(
        self,
        do_pass: DoPass,
        may_act: Callable[[], bool],
        observe: ObserveResource | None = None,
        quiet: QuietCheck = _never_quiet,
    ) -> None:
        """Store the callbacks.

        Args:
            do_pass: does a pass.
            may_act: says whether we may act.
            observe: called from time to time while this operator may not act.
            quiet: called before a pass that may be unnecessary, unless the last pass failed; it costs less
                than a pass.
        """
        self._do_pass: Final = do_pass
        self._quiet: Final = quiet
        self._observe: Final = observe
        self._may_act: Final = may_act
        self._wake_ups: Final[dict[ResourceName, asyncio.Event]] = {}
        self._tasks: Final[dict[ResourceName, asyncio.Task[None]]] = {}
        self._changed: Final[set[ResourceName]] = set()
        self._held_until_s: Final[dict[ResourceName, float]] = {}
        self._slots: Final[defaultdict[str, asyncio.Semaphore]] = defaultdict(
            lambda: asyncio.Semaphore(PASSES_AT_ONCE_MAX)
        )

    def wake(self, resource: ResourceName, *, changed: bool = True) -> None:
        """Have a pass over the resource soon.

        Args:
            resource: which.
            changed: whether something changed that `quiet` may not know yet.
        """
        if changed:
            self._changed.add(resource)
        event = self._wake_ups.setdefault(resource, asyncio.Event())
        event.set()
        if resource not in self._tasks:
            self._tasks[resource] = asyncio.create_task(self._serve(resource, event), name="/".join(resource))

    def hold(self, resource: ResourceName, hold_s: float) -> None:
        """Begin no pass over the resource for so long; one that is held already is not held longer."""
        now_s = asyncio.get_running_loop().time()
        if self._held_until_s.get(resource, 0.0) <= now_s:
            self._held_until_s[resource] = now_s + hold_s

    async def stop(self) -> None:
        """End all passes and wait until they have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, resource: ResourceName, wake_up: asyncio.Event) -> None:
        failures = 0
        # Whether something is known to have changed since the last pass, or may have: it is not just time
        # again.
        changed = True
        delay: float | None = GATE_POLL_S
        while delay is not None or wake_up.is_set():
            held_s = self._held_until_s.get(resource, 0.0) - asyncio.get_running_loop().time()
            if held_s > 0:
                await asyncio.sleep(held_s)
            changed = changed or resource in self._changed
            self._changed.discard(resource)
            wake_up.clear()
            if not self._may_act():
                changed = True
                await self._stand_by(resource)
                continue
            failures, delay = await self._attempt(resource, failures, changed=changed)
            changed = failures > 0
            if failures:
                # Why not woken before its time: what wakes us may be what fails.
                await asyncio.sleep(max(backoff_s(failures), delay or 0.0))
            elif delay is not None:
                await _wait(wake_up, delay)
        # Why here and not in a callback: a wake-up between the two would find a task that is already over.
        del self._wake_ups[resource], self._tasks[resource]
        self._held_until_s.pop(resource, None)
        self._changed.discard(resource)

    async def _stand_by(self, resource: ResourceName) -> None:
        """Look once, then wait until we may act or it is time for another look."""
        if self._observe is not None:
            async with self._slots[resource.kind]:
                try:
                    await self._observe(resource)
                except Exception as error:
                    # Why all: a look that fails is made again, whatever it was.
                    _LOG.debug("%s: %s", "/".join(resource), error)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + STANDBY_OBSERVE_S
        while not self._may_act() and loop.time() < end_s:  # noqa: ASYNC110 - the Lease's clock has no event
            await asyncio.sleep(GATE_POLL_S)

    async def _attempt(
        self, resource: ResourceName, failures: int, *, changed: bool
    ) -> tuple[int, float | None]:
        """Do one pass; return the failures in a row and the delay until the next.

        After a failure that delay is the least one.
        """
        async with self._slots[resource.kind]:
            try:
                if not changed and (delay := await self._quiet(resource)) is not None:
                    return 0, delay
                return 0, await self._do_pass(resource)
            except NotLeadingError:
                return 0, GATE_POLL_S
            except BusyError as error:
                _LOG.warning("%s: %s", "/".join(resource), error)
                return failures + 1, error.retry_after_s
            except PeerUnavailableError as error:
                _LOG.warning("%s: %s; again in %.1f s", "/".join(resource), error, backoff_s(failures + 1))
            except Exception:
                # Why all: one resource that breaks our code must not stop the others.
                _LOG.exception(
                    "%s: a pass broke; again in %.1f s", "/".join(resource), backoff_s(failures + 1)
                )
        return failures + 1, GATE_POLL_S


async def _wait(wake_up: asyncio.Event, delay_s: float) -> None:
    """Wait for a wake-up, and not longer than so many seconds."""
    try:
        async with asyncio.timeout(delay_s):
            await wake_up.wait()
    except TimeoutError:
        return
