"""Hold the Lease, or watch it: of two operators one acts.

The operator calls `may_act` before every write. It turns false by the clock alone when a renewal is late, so
an operator that is cut off or was frozen stops by itself before the other one may begin.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from rocketmq_operator.clients.api import KubeApi, KubeConflictError, PeerUnavailableError
from rocketmq_operator.plan.leadership.lease import (
    LEASE_NAME,
    RETRY_S,
    STANDBY_S,
    LeaseAction,
    LeaseSighting,
    lease_action,
    lease_body,
    may_act,
    sighting_of,
)

RELEASE_TRIES_MAX: Final = 3
HEARD_MAX_S: Final = 60.0
"""An API server that was not heard for so long is silent."""
_LOG: Final = logging.getLogger(__name__)


class NotLeadingError(Exception):
    """This operator does not hold the Lease any more: it must stop before the next write."""


class LeaseHolder:
    """One operator's hold on the Lease."""

    def __init__(
        self,
        kube: KubeApi,
        namespace: str,
        identity: str,
        now: Callable[[], datetime],
        monotonic_s: Callable[[], float],
    ) -> None:
        """Take the Lease's namespace, our own name, and the clocks."""
        self._kube: Final = kube
        self._namespace: Final = namespace
        self._identity: Final = identity
        self._now: Final = now
        self._monotonic_s: Final = monotonic_s
        self._sight: LeaseSighting | None = None
        self._renewed_s: float | None = None
        self._heard_s = monotonic_s()
        self._hearing_since_s = self._heard_s

    @property
    def silence_s(self) -> float:
        """Seconds since the API server last answered a question for the Lease, holder or not."""
        return self._monotonic_s() - self._heard_s

    @property
    def heard_for_s(self) -> float:
        """Seconds for which the API server has answered without a gap of `HEARD_MAX_S`.

        It is 0 while it does not answer.
        """
        return self._monotonic_s() - self._hearing_since_s if self.silence_s < HEARD_MAX_S else 0.0

    def may_act(self) -> bool:
        """Tell whether writes are ours to do now."""
        return may_act(self._renewed_s, self._monotonic_s())

    async def run(self) -> None:
        """Take, renew and watch the Lease until cancelled."""
        while True:
            try:
                await self.once()
            except PeerUnavailableError as error:
                _LOG.warning("Lease: %s", error)
            await asyncio.sleep(STANDBY_S if self._renewed_s is None else RETRY_S)

    async def once(self) -> None:
        """Acquire, renew or observe the Lease once.

        Raises:
            PeerUnavailableError: the API server does not answer.
        """
        # Why before the call: a renewal counts from the time of the request, not from the time of the answer.
        asked_s = self._monotonic_s()
        lease = await self._kube.get("Lease", self._namespace, LEASE_NAME)
        if self.silence_s >= HEARD_MAX_S:
            self._hearing_since_s = self._monotonic_s()
        self._heard_s = self._monotonic_s()
        self._sight = sighting_of(lease, self._sight, self._monotonic_s())
        if lease_action(lease, self._identity, self._sight, self._monotonic_s()) is LeaseAction.WATCH:
            self._renewed_s = None
            return
        body = lease_body(lease, self._namespace, self._identity, self._now())
        try:
            await (self._kube.create(body) if lease is None else self._kube.replace(body))
        except KubeConflictError:
            self._renewed_s = None
            return
        if self._renewed_s is None:
            _LOG.info("this operator acts from now on")
        self._renewed_s = asked_s

    async def release(self) -> None:
        """Give the Lease away, so that the other one need not wait until it is old."""
        if self._renewed_s is None:
            return
        self._renewed_s = None
        for _ in range(RELEASE_TRIES_MAX):
            try:
                return await self._give_away()
            except KubeConflictError:
                continue  # a renewal of ours was still on its way
            except PeerUnavailableError as error:
                _LOG.warning("Lease not given away: %s", error)
                return

    async def _give_away(self) -> None:
        lease = await self._kube.get("Lease", self._namespace, LEASE_NAME)
        if lease is not None and lease.get("spec", {}).get("holderIdentity") == self._identity:
            body = lease_body(lease, self._namespace, self._identity, self._now())
            await self._kube.replace(body | {"spec": body["spec"] | {"holderIdentity": ""}})
