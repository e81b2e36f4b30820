"""Move addresses as soon as there is a new master.

The way leads from the controllers' event stream straight to the EndpointSlices.

The way of a pass (wake-up, look, plan, step) takes a dozen calls. A client that lost its master counts
milliseconds. So this module caches the last observation of each group, applies the event to it, and writes
the resulting slices side by side, without a call before them. The decision is the plan's own
(`plan.group.slices.endpoint_slice_moves`); the next pass looks again and corrects errors.

    MasterElected        laid over the last look; moves, if the new master's companion has a guest port
    RoleTaken            moves, if it did not and the new master has as many copies as it can have by then
    SyncStateSetChanged  moves, as soon as it has
    the master's pod is  its address leads to its companion, where new connections wait for
    being deleted        the broker's end (by the watch)

A broker refuses requests until it has taken its role and a second copy is in its set. A client that met it
there was seen to use up its three tries within 40 ms; sends failed in 4 of 12 faults then. At the guest port
clients wait for that moment, so their address may lead there from the election on: each node's kube-proxy
needs as long as the broker does. A companion of an older version lacks the port. Then the address moves when
the broker can acknowledge; where no copy can come, the pass after `HELD_AFTER_EVENT_S` moves it all the same.

An event that tells of an epoch which the last look already had is old and changes nothing.

The operator that stands by moves addresses too, `STANDBY_S` later and only those that are still wrong then:
the one that acts may have been on the node that is lost, and its Lease lasts far longer than a client waits.
Two things keep an operator that was frozen from moving an address back: a slice carries the master epoch that
decided it, and a newer one is left alone; and the write names the version that was read, so that it fails if
anybody wrote in between.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from rocketmq_operator.clients.api import (
    ControllerApi,
    Json,
    KubeApi,
    KubeConflictError,
    PeerUnavailableError,
)
from rocketmq_operator.plan.common.objects import controller_of, replaced_by_key
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.observed import ObservedGroup, ReportedFailover, ReportedGroup
from rocketmq_operator.plan.group.slices import endpoint_slice_moves, guest_port
from rocketmq_operator.plan.group.takeover import deciding_epoch, server_of, slice_is_current
from rocketmq_operator.plan.pods.observed import ObservedPod

RECONNECT_S: Final = 0.2
RECONNECT_MAX_S: Final = 5.0
WRITE_TRIES_MAX: Final = 3
HELD_AFTER_EVENT_S: Final = 1.5
"""From a controller's first word of a failover until clients have their master; whatever a pass does can wait
for that."""
HELD_AFTER_DELETION_S: Final = 5.0
"""From the deletion of the master's pod until clients have another: it waits until its address leads
elsewhere, or hands over, before it ends."""
STANDBY_S: Final = 0.1
"""What the acting operator has in advance: it needs a quarter of that when it lives, and all of it on a full
machine. Then both may write, and write the same."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ElectionEvent:
    """What an event MasterElected says.

    Attributes:
        copies: members of the SyncStateSet after the election.
        copies_needed: how many of them clients should find, by the members before the election.
    """

    group: str
    epoch: int
    master_id: int
    master_address: str
    old_address: str
    cause: str
    at: datetime
    copies: int
    copies_needed: int


def parse_election(event: Json) -> ElectionEvent | None:
    """Read an event; None if it tells of something else.

    Raises:
        ObservationError: it says MasterElected and has not its shape.
    """
    if event.get("kind") != "MasterElected":
        return None
    try:
        attributes = event["attrs"]
        return ElectionEvent(
            group=event["group"],
            epoch=int(event["epoch"]),
            master_id=int(attributes["new_master_id"]),
            master_address=attributes["new_master_address"],
            old_address=attributes.get("old_master_address", ""),
            cause=attributes.get("cause", ""),
            at=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=event["ts_ns"] // 1_000),
            copies=_count(attributes.get("sync_state_set_after", "")),
            # Of three, two are left; of two, one.
            copies_needed=2 if _count(attributes.get("sync_state_set_before", "")) > 2 else 1,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ObservationError(f"not an event of a controller: {error!r}") from error


def can_acknowledge(election: ElectionEvent, event: Json) -> bool:
    """Say whether an event tells that the master which was elected can acknowledge."""
    if (event.get("group"), event.get("epoch")) != (election.group, election.epoch):
        return False
    match event.get("kind"):
        case "RoleTaken":
            return election.copies >= election.copies_needed
        case "SyncStateSetChanged":
            return _count(event.get("attrs", {}).get("sync_state_set_after", "")) >= election.copies_needed
        case _:
            return False


def _count(ids: str) -> int:
    return len(ids.split(",")) if ids else 0


def with_election(observed: ObservedGroup, election: ElectionEvent) -> ObservedGroup | None:
    """Return the look at a group as it is after the event, None if the look is newer than the event."""
    group = observed.group
    if group is not None and election.epoch <= group.master_epoch:
        return None
    members = group.members if group is not None else ()
    failover = ReportedFailover(
        cluster=observed.spec.cluster,
        group=election.group,
        cause=election.cause,
        old_master_address=election.old_address if election.old_address != election.master_address else "",
        new_master_address=election.master_address,
        had_master=bool(election.old_address),
        old_epoch=election.epoch - 1,
        new_epoch=election.epoch,
        sync_state_set_before=(),
        sync_state_set_after=(),
        unclean=False,
        times={"proposed": election.at},
    )
    return replace(
        observed,
        now=max(observed.now, election.at),
        group=ReportedGroup(election.master_id, election.master_address, election.epoch, "", members),
        failovers=(failover, *observed.failovers),
    )


class Takeover:
    """Keeps the last look at each group and moves addresses when there is a new master.

    Attributes:
        moving: moves that a watch's news has begun.
    """

    def __init__(
        self,
        kube: KubeApi,
        may_act: Callable[[], bool],
        wake: Callable[[str, str], None],
        on_moved: Callable[[float], None] = lambda _: None,
        standby_s: float = STANDBY_S,
        hold: Callable[[str, str, float], None] = lambda _namespace, _group, _hold_s: None,
    ) -> None:
        """Store the writer, the controllers to query and the receivers of results.

        Args:
            kube: writes the slices.
            may_act: says whether this operator acts.
            wake: told (namespace, group) of news.
            on_moved: told how long a move took, in seconds.
            standby_s: what the acting operator has in advance.
            hold: told (namespace, group, seconds) that passes may wait so long, until clients have their
                master.
        """
        self._kube: Final = kube
        self._may_act: Final = may_act
        self._wake: Final = wake
        self._on_moved: Final = on_moved
        self._standby_s: Final = standby_s
        self._hold: Final = hold
        self._observations: Final[dict[tuple[str, str], ObservedGroup]] = {}
        self._elections: Final[dict[tuple[str, str], ElectionEvent]] = {}
        self.moving: Final[set[asyncio.Task[int]]] = set()

    def note_group(self, observed: ObservedGroup) -> None:
        """Keep a look; an older one than what an event told is not taken."""
        key = (observed.owner.namespace, observed.owner.name)
        previous = self._observations.get(key)
        epoch = observed.group.master_epoch if observed.group is not None else -1
        if previous is not None and previous.group is not None and previous.group.master_epoch > epoch:
            observed = replace(observed, group=previous.group, failovers=previous.failovers)
        self._observations[key] = observed

    def note_pod(self, namespace: str, group: str, pod: ObservedPod, *, gone: bool) -> None:
        """Store a pod from a watch.

        When the master's deletion begins, passes and new connections wait for its successor.
        """
        key = (namespace, group)
        if (observed := self._observations.get(key)) is None:
            return
        before = observed.pods.get(pod.name)
        pods = {name: value for name, value in observed.pods.items() if name != pod.name}
        self._observations[key] = replace(observed, pods=pods if gone else pods | {pod.name: pod})
        if pod.deleting and pod.name == observed.master and before is not None and not before.deleting:
            self._hold(namespace, group, HELD_AFTER_DELETION_S)
            if self._may_act() and not observed.spec.paused:
                task = asyncio.get_running_loop().create_task(
                    self._move_addresses(key, self._observations[key], self._write)
                )
                self.moving.add(task)
                task.add_done_callback(self.moving.discard)

    def forget(self, namespace: str, group: str) -> None:
        """Drop the cached data of a deleted group."""
        self._observations.pop((namespace, group), None)
        self._elections.pop((namespace, group), None)

    async def on_event(self, namespace: str, event: Json) -> int:
        """Write the slices that follow from an event; return how many.

        Raises:
            ObservationError: it has not the shape of a controller's event.
        """
        started_s = asyncio.get_running_loop().time()
        if group := event.get("group"):
            self._hold(namespace, group, HELD_AFTER_EVENT_S)
            self._wake(namespace, group)
        if (election := parse_election(event)) is not None:
            self._note_election(namespace, election)
        key = (namespace, str(group))
        if (election_due := self._elections.get(key)) is None:
            return 0
        if not (can_acknowledge(election_due, event) or self._guests_wait(key)):
            return 0
        # Why before the writes: the other controllers tell the same, and once is enough.
        del self._elections[key]
        write = self._write
        if not self._may_act():
            await asyncio.sleep(self._standby_s)
            write = self._write_if_still_wrong
        after = self._observations.get(key)
        if (
            after is None
            or after.spec.paused
            or after.group is None
            or after.group.master_epoch != election_due.epoch
        ):
            return 0
        moved = await self._move_addresses(key, after, write)
        self._on_moved(asyncio.get_running_loop().time() - started_s)
        return moved

    async def _move_addresses(
        self, key: tuple[str, str], after: ObservedGroup, write: Callable[[Json], Awaitable[Json | None]]
    ) -> int:
        """Write the slices that follow from a look; return how many."""
        done = await asyncio.gather(*(write(step.body) for step in endpoint_slice_moves(after)))
        written = [body for body in done if body is not None]
        if (observed := self._observations.get(key)) is not None:
            self._observations[key] = replace(observed, children=replaced_by_key(observed.children, written))
        for body in written:
            name, ports = body["metadata"]["name"], {one["name"]: one["port"] for one in body["ports"]}
            _LOG.info(
                "%s/%s epoch %d: %s is served by %s %s",
                *key,
                deciding_epoch(body),
                name,
                server_of(body),
                ports,
            )
        return len(written)

    def _guests_wait(self, key: tuple[str, str]) -> bool:
        """Tell whether clients that come by a former master's address wait for the new one."""
        observed = self._observations[key]
        return guest_port(observed, observed.master) is not None

    def _note_election(self, namespace: str, election: ElectionEvent) -> None:
        key = (namespace, election.group)
        observed = self._observations.get(key)
        after = with_election(observed, election) if observed is not None else None
        if after is not None:
            self._observations[key] = after
            self._elections[key] = election

    async def _write(self, body: Json) -> Json | None:
        for _ in range(WRITE_TRIES_MAX):
            try:
                return await self._kube.apply(body)
            except PeerUnavailableError as error:
                _LOG.warning("EndpointSlice %s: %s", body["metadata"]["name"], error)
        return None

    async def _write_if_still_wrong(self, body: Json) -> Json | None:
        """Write a slice in the acting operator's place.

        Return None if it was done, or is newer, or another writer was faster.
        """
        metadata = body["metadata"]
        try:
            live = await self._kube.get(body["kind"], metadata["namespace"], metadata["name"])
            if live is None or slice_is_current(live, body) or deciding_epoch(live) > deciding_epoch(body):
                return None
            if controller_of(live) != controller_of(body):
                return None
            version = live["metadata"]["resourceVersion"]
            return await self._kube.apply(body | {"metadata": metadata | {"resourceVersion": version}})
        except KubeConflictError:
            return None
        except PeerUnavailableError as error:
            _LOG.warning("EndpointSlice %s: %s", metadata["name"], error)
            return None

    async def follow(self, namespace: str, cluster: str, controllers: ControllerApi) -> None:
        """Follow what controllers tell of a cluster's groups until cancelled.

        Other clusters may use the same controllers, and have groups of the same names.
        """
        failures = 0
        while True:
            try:
                async for event in controllers.events():
                    failures = 0
                    if event.get("cluster") == cluster:
                        await self.on_event(namespace, event)
            except (PeerUnavailableError, ObservationError) as error:
                failures += 1
                _LOG.debug("events of %s: %s", namespace, error)
            await asyncio.sleep(min(RECONNECT_MAX_S, RECONNECT_S * 2.0 ** min(failures, 10)))
