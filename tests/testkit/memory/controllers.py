"""The controllers in memory, for the operator's tests: the masters follow from the pods of a `MemoryKube`.

A pod that is ready is alive, registered by its Service's ClusterIP, and in the SyncStateSet. Without a
master no controller changes that set. A master whose pod is gone is replaced by the first broker of
the set that lives. Each change of master raises the epoch and is remembered. Who the controllers
themselves are is `membership_memory`.
"""

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.clients.api import PeerUnavailableError
from testkit.memory.kubernetes import MemoryKube
from testkit.memory.membership import COUNT_MAX, NAMESPACE, MemoryMembership

Json = dict[str, Any]
LOG_END = 1 << 30
_NANOSECONDS = 10**9


class MemoryControllers:
    """One cluster's controllers.

    Attributes:
        reachable: whether they answer.
        behind: names of members that are not in the SyncStateSet although they live.
        lags: how many bytes the logs of members end before the others'.
        hears_brokers: whether brokers speak to them, which those with static roles do not.
        designations: members that were made master by request.
        now: what their clock says.
        membership: who they are.
    """

    def __init__(self, kube: MemoryKube, group: str) -> None:
        self.reachable = True
        self.hears_brokers = True
        self.behind: set[str] = set()
        self.lags: dict[str, int] = {}
        self.designations: list[str] = []
        self.records: list[Json] = []
        self.master = ""
        self.epoch = 0
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self._kube = kube
        self._group = group
        self._ids: dict[str, int] = {}
        self._incarnations: dict[str, str] = {}
        self._last_in_sync: set[str] = set()
        self._next_id = itertools.count(1)
        self.membership = MemoryMembership(kube)
        kube.on_change = self._notice

    async def nodes(self) -> list[Json | None]:
        """Return what each controller says of itself."""
        return self.membership.nodes() if self.reachable else [None] * COUNT_MAX

    async def members(self, node: int) -> Json:
        """Return the leader's report on all groups; ask no other controller."""
        self._answer()
        assert f"n{node}" == self.membership.leader
        return self.membership.members()

    async def change_members(self, action: str, member: str) -> None:
        """Change who they are."""
        self._answer()
        self.membership.change(action, member)

    async def group(self, cluster: str, name: str) -> Json | None:
        """Return the group."""
        self._answer()
        if name != self._group or not self._ids:
            return None
        return {
            "cluster": cluster,
            "name": name,
            "master_id": self._ids[self.master] if self.master else None,
            "master_address": self._address(self.master) if self.master else None,
            "master_epoch": self.epoch,
            "failure_reason": None if self.master else "NoElectableReplica",
            "replicas": [self._member(name) for name in self._ids],
        }

    async def failovers(self, cluster: str, name: str) -> list[Json]:
        """Return the changes of master, newest first."""
        self._answer()
        return [
            record
            for record in reversed(self.records)
            if (record["cluster"], record["group"]) == (cluster, name)
        ]

    async def designate(self, cluster: str, name: str, broker_id: int) -> None:
        """Make a member master."""
        self._answer()
        member = next(member for member, its_id in self._ids.items() if its_id == broker_id)
        self._elect(member, "Designated")
        self.designations.append(member)
        self._kube.wrote(f"designate {member}")

    async def events(self) -> AsyncIterator[Json]:
        """Yield nothing: tests hand events over themselves."""
        nothing: tuple[Json, ...] = ()
        for event in nothing:
            yield event

    def _answer(self) -> None:
        if not self.reachable:
            raise PeerUnavailableError("the controllers are cut off")

    def _notice(self) -> None:
        """Register pods that became ready; replace a master whose pod is gone or is another one."""
        self.membership.notice()
        alive = self._alive()
        for name in sorted(alive):
            if self._address(name) and name not in self._ids:
                self._ids[name] = next(self._next_id)
        is_lost = self.master and self._incarnations.get(self.master) != alive.get(self.master)
        self._incarnations = alive
        brokers = [
            name
            for name in sorted(alive)
            if "-log-" not in name and name in self._ids and self._may_be_in_sync(name)
            if not self._last_in_sync or name in self._last_in_sync
        ]
        if is_lost:
            brokers = [name for name in brokers if name != self.master]
        if (not self.master or is_lost) and brokers:
            self._elect(brokers[0], "ConnectionClosed" if is_lost else "MasterMissing")
        elif is_lost and self.master not in alive:
            self.master = ""
        if self.master:
            self._last_in_sync = {name for name in alive if name in self._ids and self._may_be_in_sync(name)}

    def _may_be_in_sync(self, name: str) -> bool:
        return name not in self.behind and "-learner-" not in name

    def _alive(self) -> dict[str, str]:
        if not self.hears_brokers:
            return {}
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self._kube.pods()
            if pod["metadata"]["labels"].get("rocketmq-ha.dev/group") == self._group
            and pod["status"]["conditions"][0]["status"] == "True"
        }

    def _elect(self, member: str, cause: str) -> None:
        before = self.master
        if member == before:
            return
        self.epoch += 1
        self.master = member
        now_ns = int(self.now.timestamp()) * _NANOSECONDS
        times = (
            "last_heartbeat",
            "suspected",
            "proposed",
            "committed",
            "noticed",
            "role_taken",
            "first_beat",
        )
        self.records.append(
            {
                "cluster": "main",
                "group": self._group,
                "cause": cause,
                "old_master_id": self._ids[before] if before else None,
                "old_master_address": self._address(before) if before else None,
                "old_epoch": self.epoch - 1,
                "new_master_id": self._ids[member],
                "new_master_address": self._address(member),
                "new_epoch": self.epoch,
                "sync_state_set_before": [1, 2],
                "sync_state_set_after": [self._ids[member]],
                "unclean": False,
                **{f"{name}_ns": now_ns + number * 10**7 for number, name in enumerate(times)},
            }
        )

    def _member(self, name: str) -> Json:
        alive = name in self._incarnations
        return {
            "broker_id": self._ids[name],
            "address": self._address(name),
            "electable": "-log-" not in name,
            "in_sync": self._may_be_in_sync(name) and (alive if self.master else name in self._last_in_sync),
            "alive": alive,
            "max_offset": LOG_END - self.lags.get(name, 0),
        }

    def _address(self, member: str) -> str:
        service = self._kube.objects.get(("Service", NAMESPACE, member))
        return "" if service is None else join_host_port(service["spec"].get("clusterIP", ""), 10_911)
