"""What a node shows of itself and lets people change.

The numbers of /metrics and the JSON of the HTTP interface.

Reads only, and two requests that people make: designating a master and handing leadership over. It knows the
parts of a node, and none of them knows it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from controller_core.error_text import error_text
from controller_core.groups.history import EventsPage
from controller_core.groups.keys import GroupKey
from controller_core.log.errors import LogFailedError
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.headers import ElectMasterRequestHeader
from controller_core.server.clock import Clock
from controller_core.server.common import json_views, metrics
from controller_core.server.common.http_errors import HttpError
from controller_core.server.common.metrics import GroupNumbers, Metrics, NodeNumbers, PortNumbers
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.http_api import log_pages
from controller_core.server.http_api.group_import import GroupImport
from controller_core.server.http_api.members_view import MembersView
from controller_core.server.membership.changes import MembershipChanges
from controller_core.server.membership.members import ControllerMembers
from controller_core.server.node.raft_node import Node
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import (
    CommandDroppedError,
    FollowerLagsError,
    NodeStatus,
    NotLeaderError,
    ProposalLostError,
    ReadLateError,
)
from controller_core.server.proposals.commands import CommandMaker
from controller_core.server.proposals.submission import CommandSubmitter
from controller_core.server.settings.live_config import LiveConfig
from controller_core.server.settings.peer_list import Peer

ANSWER_WITHIN_S: Final = 2.5
READY_LAG_ENTRIES_MAX: Final = 1_000

_NOT_READ: Final = (
    NotLeaderError,
    CommandDroppedError,
    ProposalLostError,
    FollowerLagsError,
    ReadLateError,
)
_ROLE_NAMES: Final = {
    metrics.ROLE_UNKNOWN: "unknown",
    metrics.ROLE_CANDIDATE: "candidate",
    metrics.ROLE_FOLLOWER: "follower",
    metrics.ROLE_LEADER: "leader",
}


class NodeView:
    """What the HTTP interface sees of a node (`http.ControllerView`)."""

    def __init__(
        self,
        *,
        node: Node,
        machine: GroupsMachine,
        heartbeats: HeartbeatReceiver,
        submitter: CommandSubmitter,
        maker: CommandMaker,
        config: LiveConfig,
        clock: Clock,
        shown_metrics: Metrics,
        members: ControllerMembers,
        membership: MembershipChanges | None = None,
        standby: Callable[[], bool] = bool,
    ) -> None:
        self.hindrance: Callable[[], str | None] = lambda: None
        """Says what keeps this node out of its cluster, if anything does."""
        self.port_numbers: Callable[[], PortNumbers] = lambda: PortNumbers(0, 0)
        """Counts the connections of the remoting port."""
        self.peer_refusals: Callable[[], Mapping[str, int]] = dict
        """Counts by reason what the peers' port refused."""
        self.failure: BaseException | None = None
        self._node = node
        self._machine = machine
        self._heartbeats = heartbeats
        self._submitter = submitter
        self._maker = maker
        self._config = config
        self._clock = clock
        self._self = config.settings.self_peer
        self._members = members
        self._membership = membership
        self._members_view = MembersView(node, config.settings, members, membership)
        self._standby = standby
        self._group_import = GroupImport(heartbeats, submitter, clock, standby)
        self._metrics = shown_metrics
        shown_metrics.observe(self._node_numbers, self._group_numbers)

    def _node_numbers(self) -> NodeNumbers:
        status = self._node.status()
        return NodeNumbers(
            status.role,
            status.term,
            status.commit_index,
            status.applied_index,
            voters=len(status.conf_state.voters),
            learners=len(status.conf_state.learners),
            log_state=self._log_state(),
            skipped_entries=self._machine.skipped,
            port=self.port_numbers(),
            peer_refusals=self.peer_refusals(),
        )

    def _log_state(self) -> str:
        if isinstance(self.failure, LogFailedError):
            return "failed"
        return "full" if self._node.log_is_full else "ok"

    def _group_numbers(self) -> Iterable[GroupNumbers]:
        for group in self._machine.state.groups():
            yield GroupNumbers(
                group.key.cluster,
                group.key.broker_name,
                group.master_epoch,
                len(group.sync_state_set),
                len(group.replicas),
            )

    def _role(self) -> str:
        return _ROLE_NAMES[self._node.role]

    # What the HTTP interface asks.

    @property
    def namespace(self) -> str:
        """What events say in `namespace`."""
        return self._config.settings.namespace

    @property
    def http_token(self) -> str:
        """The token that changes need; empty for loopback only."""
        return self._config.settings.http_token

    @property
    def takes_plain_changes(self) -> bool:
        """Whether other hosts may send changes without TLS."""
        settings = self._config.settings
        return not settings.http_tls_cert_path or settings.http_plain == "all"

    @property
    def admin_names(self) -> frozenset[str]:
        """Names of an administrator's certificate, in lower case; empty for any certificate."""
        return self._config.settings.admin_names

    @property
    def asks_for_certificate(self) -> bool:
        """Whether a change may be made with a client certificate."""
        return bool(self._config.settings.http_tls_trust_path)

    @property
    def applied_index(self) -> int:
        """Index of the last applied entry."""
        return self._node.applied_index

    def alive_problem(self) -> str | None:
        """Say why this process must be restarted; None while it is well, or can get well by itself."""
        if self.failure is None or isinstance(self.failure, LogFailedError):
            return None
        return f"the node failed: {self.failure}"

    def ready_problem(self) -> str | None:
        """Return why this node should not get traffic now; None if it should."""
        if self.failure is not None:
            return f"the node failed: {self.failure}"
        if self._node.log_is_full:
            return "the log waits for space on its disk"
        if self._node.leader_id is None:
            return self.hindrance() or "no leader is heard"
        if self._role() == "leader" and not self._node.is_leader:
            return "the new leader has not applied what came before its term"
        status = self._node.status()
        lag = status.commit_index - status.applied_index
        return f"{lag} entries are not applied yet" if lag > READY_LAG_ENTRIES_MAX else None

    def status_json(self) -> json_views.Json:
        """Return the node's own state."""
        settings = self._config.settings
        status = self._node.status()
        leader = self._leader_peer()
        return {
            "name": settings.self_id,
            "raft_id": self._self.raft_id,
            "group": settings.group,
            "role": self._role(),
            "ready": self.ready_problem() is None,
            "ready_problem": self.ready_problem(),
            "term": status.term,
            "leader": None if leader is None else leader.name,
            "leader_address": None if leader is None else leader.address,
            "first_index": status.first_index,
            "last_index": status.last_index,
            "commit_index": status.commit_index,
            "applied_index": status.applied_index,
            "snapshot_index": status.snapshot_index,
            "skipped_entries": self._machine.skipped,
            "groups": len(self._machine.state),
            "standby": self._standby(),
            "changed_settings": self._config.changes(),
            "clock_id": self._clock.clock_id,
            "voters": [f"n{voter - 1}" for voter in status.conf_state.voters],
            "learners": [f"n{learner - 1}" for learner in status.conf_state.learners],
            "incarnation": None if self._membership is None else self._membership.store or None,
            "log_state": self._log_state(),
            "peers": [self._peer_json(peer, status) for peer in self._members.peers()],
        }

    def _peer_json(self, peer: Peer, status: NodeStatus) -> json_views.Json:
        progress = status.progress.get(peer.raft_id)
        return {
            "name": peer.name,
            "address": peer.address,
            "http_address": f"{peer.host}:{self._config.settings.http_port(peer)}",
            "match_index": None if progress is None else progress.match,
        }

    def members_json(self) -> json_views.Json:
        """Return the controllers."""
        return self._members_view.json()

    async def change_members(self, action: str, member: str) -> json_views.Json:
        """Add, promote or remove a controller."""
        return await self._members_view.change(action, member)

    async def replace_members(self, add: Sequence[str], remove: Sequence[str]) -> json_views.Json | None:
        """Replace controllers by learners in one joint change; None if leadership was handed over instead."""
        return await self._members_view.replace(add, remove)

    def groups_json(self) -> list[json_views.Json]:
        """Return all broker groups in order of their names."""
        groups = sorted(self._machine.state.groups(), key=lambda group: group.key)
        return [json_views.group_json(group, self._heartbeats.beat_of) for group in groups]

    def group_json(self, cluster: str, name: str) -> json_views.Json | None:
        """Return one broker group, None if it is not known."""
        group = self._machine.state.get(GroupKey(cluster, name))
        return None if group is None else json_views.group_json(group, self._heartbeats.beat_of)

    def failovers_json(self) -> list[json_views.Json]:
        """Return the kept changes of master, oldest first."""
        return [json_views.failover_json(record) for record in self._machine.state.history.failovers]

    def log_json(self, first: int | None, limit: int) -> json_views.Json:
        """Return entries of this node's log."""
        return log_pages.log_json(self._node, first, limit)

    def entry_json(self, index: int) -> json_views.Json:
        """Return one entry of this node's log.

        Raises:
            HttpError: the log does not have it.
        """
        return log_pages.one_entry_json(self._node, index)

    def events_after(self, sequence: int, count_max: int) -> EventsPage:
        """Return kept events that follow `sequence`."""
        return self._machine.state.history.events_after(sequence, count_max)

    @property
    def newest_event(self) -> int:
        """Sequence number of the last event, 0 without one."""
        return self._machine.state.history.last_sequence

    async def news(self) -> None:
        """Wait until there are new events."""
        await self._machine.news()

    async def read_barrier(self) -> None:
        """Wait until this node has applied all entries committed by now.

        Raises:
            HttpError: the cluster is without a leader.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                if self._node.is_leader:
                    await self._node.read_barrier()
                else:
                    indexed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                    self._node.read_for(indexed)
                    await indexed
        except (*_NOT_READ, TimeoutError) as error:
            raise HttpError(503, f"no consistent read is possible now: {error_text(error)}") from error

    def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return self._metrics.text()

    def leader_http_url(self) -> str | None:
        """Return the leader's base URL when another node leads; None when this node does.

        Raises:
            HttpError: 503, the cluster is without a leader.
        """
        if self._node.is_leader:
            return None
        leader = self._leader_peer()
        if leader is None or leader.name == self._self.name:
            raise HttpError(503, "nobody leads now", field="leader", headers={"Retry-After": "1"})
        scheme = "https" if self._config.settings.http_tls_cert_path else "http"
        return f"{scheme}://{leader.host}:{self._config.settings.http_port(leader)}"

    async def designate(self, cluster: str, name: str, broker_id: int) -> json_views.Json:
        """Designate a master.

        Raises:
            HttpError: it was refused.
        """
        header = ElectMasterRequestHeader(name, cluster, broker_id, designate_elect=True)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                outcome = await self._submitter.submit(self._maker.elect_master(header, cluster))
        except (NotLeaderError, CommandDroppedError, ProposalLostError, TimeoutError) as error:
            raise HttpError(
                503, f"the election was not held, or its result is unknown: {error_text(error)}"
            ) from error
        reply = outcome.reply
        group = self.group_json(cluster, name)
        if reply.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
            raise HttpError(404, reply.remark or "not registered", field="group", value=f"{cluster}/{name}")
        if (
            reply.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
            or group is None
        ):
            raise HttpError(409, reply.remark or reply.code.name, field="brokerId", value=broker_id)
        return {"changed": reply.code == ResponseCode.SUCCESS, **group}

    async def import_groups(self, told: list[Any], *, only_check: bool) -> json_views.Json:
        """Take groups over from other controllers, or only say whether that is possible."""
        return await self._group_import.run(told, only_check=only_check)

    async def transfer(self, to: str) -> json_views.Json:
        """Hand Raft's leadership to another node.

        Raises:
            HttpError: no such node, or it did not happen in time.
        """
        peer = self._members.named(to)
        if peer is None:
            raise HttpError(400, "is not a controller", field="to", value=to)
        try:
            done = peer.raft_id == self._self.raft_id or await self._node.transfer_leadership(peer.raft_id)
        except NotLeaderError as error:
            raise HttpError(503, str(error), field="leader") from error
        if not done:
            raise HttpError(503, "did not take over in time", field="to", value=to)
        return {"leader": to, "term": self._node.term}

    async def make_snapshot(self) -> json_views.Json:
        """Write a snapshot of the applied state now."""
        return {"index": await self._node.make_snapshot()}

    def _leader_peer(self) -> Peer | None:
        leader_id = self._node.leader_id
        return None if leader_id is None else self._members.peer(leader_id)
