"""Build one controller node from its parts: log, Raft, state machine, heartbeats, notices, ports.

    brokers, mqadmin -> remoting_server -> handlers -> leader_rule -> here, or forwarding -> the leader
                                              |            |
                                           heartbeats     submission -> node (Raft, log) -> machine (groups)
                                              |            |
                                           failover ---->--+-> notifier -> brokers
    people, operator -> http

Parts are made here and know each other only through their arguments. Starting goes from the inside out (a
port is open only when what it needs runs), stopping from the outside in: leadership is handed over first, so
that brokers find a leader before this node's port closes.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from controller_core.access.request_signer import RequestSigner
from controller_core.groups.history import EventKind
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.groups.replies import Outcome
from controller_core.server.clock import Clock
from controller_core.server.common.metrics import Metrics
from controller_core.server.common.standby import Standby
from controller_core.server.elections.first_elections import FirstElections
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.elections.leader_elections import LeaderElections
from controller_core.server.elections.node_losses import NodeLosses
from controller_core.server.http_api.node_view import NodeView
from controller_core.server.http_api.routes import NodeHttpServer
from controller_core.server.logs import bind
from controller_core.server.membership.changes import MembershipChanges
from controller_core.server.membership.members import ControllerMembers
from controller_core.server.node.raft_node import Node
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import NotLeaderError
from controller_core.server.notices.ha_addresses import HaAddresses
from controller_core.server.proposals.commands import CommandMaker
from controller_core.server.proposals.submission import CommandSubmitter
from controller_core.server.requests.direct.direct_writes import DirectWrites
from controller_core.server.requests.direct.follower_answers import FollowerAnswers
from controller_core.server.requests.forwarding import Forwarder
from controller_core.server.requests.handlers import Handlers
from controller_core.server.requests.leader_rule import LeaderRule
from controller_core.server.requests.node_requests import NodeRequests
from controller_core.server.requests.remoting_server import RemotingServer
from controller_core.server.requests.sender_rules import SenderRules
from controller_core.server.settings.certificates import Tls
from controller_core.server.settings.live_config import LiveConfig

_log = logging.getLogger(__name__)

NEW_LEADER_MS: Final = 15_000
"""For how long a broker may still send its requests to the leader before this one.

A broker asks who leads every `syncControllerMetadataPeriod` (10 s), and waits 3 s for a controller that is
gone.
"""


class Controller:
    """One node.

    Attributes:
        failed: done, with the reason, if the node must end: its log failed, or holds an entry of a later
            release.
        heartbeats: which brokers are alive, as this node hears it.
        followers: the reads that this node answers while another leads.
        leader_elections: the elections that this node holds while it leads.
    """

    def __init__(
        self,
        config: LiveConfig,
        clock: Clock,
        node: Node,
        machine: GroupsMachine,
        membership: MembershipChanges | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Put the parts together; nothing runs before `start`.

        Args:
            config: the settings.
            clock: this process's clocks.
            node: Raft and the log, driving `machine`; not started.
            machine: the groups.
            membership: who the controllers are; without it they are those of the settings for ever.
            tls: certificates; without it every port is plain.
        """
        settings = config.settings
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._config = config
        self._clock = clock
        self._leads_since_ms = -NEW_LEADER_MS
        self._node = node
        self._machine = machine
        self._self = settings.self_peer
        self._metrics = Metrics()
        self._membership = membership
        self._members = ControllerMembers(settings) if membership is None else membership.members
        self._tls = tls
        leader_tls = None if tls is None else tls.leader_client()
        self._forwarder = Forwarder(settings.self_id, self._address_of, leader_tls)
        self.heartbeats = HeartbeatReceiver(machine.state, clock)
        self._maker = CommandMaker(
            clock,
            *(self.heartbeats.alive_of, self.heartbeats.alive_ids_of),
            lambda: config.settings.elect_unclean_master,
            self.heartbeats.is_learner,
        )
        self._submitter = CommandSubmitter(
            node,
            machine.state,
            clock,
            self._metrics,
            alive_of=self.heartbeats.alive_of,
            may_notify=lambda: config.settings.notify_role_changed,
            leads_newly=lambda: clock.now_ms() - self._leads_since_ms < NEW_LEADER_MS,
            dial_at=self._direct_address,
            broker_tls=None if tls is None else tls.brokers_client(),
            sign=RequestSigner(Path(settings.credentials_path)) if settings.credentials_path else None,
        )
        self._first_elections = self._make_first_elections()
        self.leader_elections = self._make_leader_elections()
        self._node_losses = self._make_node_losses()
        self._ha_addresses = HaAddresses(
            machine.state,
            self._submitter.notifier.ask,
            is_alive=self.heartbeats.table.is_alive,
            leads=lambda: node.is_leader and config.settings.notify_role_changed,
            is_open=self._submitter.changes.is_open,
        )
        machine.observe(self._applied)
        self.followers = self._make_followers()
        self._rules = SenderRules(node, machine.state, self.heartbeats, config)
        self._remoting = RemotingServer(self._make_handlers(), self.heartbeats, self._metrics, self._rules)
        self._view = self._make_view()
        self._view.port_numbers = self._remoting.numbers
        self._http = NodeHttpServer(self._view)
        self._tasks: list[asyncio.Task[None]] = []

    def _revived(self, key: ReplicaKey) -> None:
        group = self._machine.state.get(key.group)
        if group is not None and key.broker_id in group.replicas:
            self._submitter.follow_up.prepare(group.replicas[key.broker_id].address)
            if self._node.is_leader:
                self._submitter.guards.lift(key.group)
                self._ha_addresses.look_after(key.group)
        self.leader_elections.on_revival(key)

    def _applied(self, outcome: Outcome) -> None:
        for event in outcome.events:
            if event.kind is EventKind.BROKER_REGISTERED:
                # Not within the command: its notices and answer come first.
                key = GroupKey(event.cluster, event.group)
                asyncio.get_running_loop().call_soon(self.heartbeats.registered, key)
        if self._node.is_leader:
            for group in {notice.key for notice in outcome.notices}:
                self._ha_addresses.look_after(group)

    def _make_standby(self) -> Standby:
        return Standby(self._machine.state, lambda: self._config.settings.standby)

    def _make_first_elections(self) -> FirstElections:
        return FirstElections(
            self._machine.state,
            self.heartbeats,
            self._clock,
            self._submitter.notifier.ask,
            lambda: self._config.settings.first_election_wait_ms,
            self._submitter.notifier.forget,
        )

    def _make_leader_elections(self) -> LeaderElections:
        return LeaderElections(
            node=self._node,
            machine=self._machine,
            heartbeats=self.heartbeats,
            submitter=self._submitter,
            maker=self._maker,
            config=self._config,
            clock=self._clock,
            first_elections=self._first_elections,
        )

    def _make_node_losses(self) -> NodeLosses:
        return NodeLosses(
            node=self._node,
            own_id=self._self.raft_id,
            heartbeats=self.heartbeats,
            others=self._forwarder,
            config=self._config,
            clock=self._clock,
        )

    def _make_view(self) -> NodeView:
        return NodeView(
            node=self._node,
            machine=self._machine,
            heartbeats=self.heartbeats,
            submitter=self._submitter,
            maker=self._maker,
            config=self._config,
            clock=self._clock,
            shown_metrics=self._metrics,
            members=self._members,
            membership=self._membership,
            standby=self._make_standby(),
        )

    def _make_followers(self) -> FollowerAnswers:
        return FollowerAnswers(
            self._node, self._machine.state, self.heartbeats.cluster_of, self._clock, self._metrics
        )

    def _make_handlers(self) -> Handlers:
        rule = LeaderRule(self._node, self._self.raft_id, self._forwarder)
        node_requests = NodeRequests(
            self._machine.state, self.heartbeats, self._clock, lambda: self._config.settings.node_timeout_ms
        )
        return Handlers(
            node=self._node,
            machine=self._machine,
            heartbeats=self.heartbeats,
            submitter=self._submitter,
            rule=rule,
            direct=DirectWrites(self._submitter.submit_for, rule.begin, self._metrics).propose,
            followers=self.followers,
            maker=self._maker,
            config=self._config,
            clock=self._clock,
            first_elections=self._first_elections,
            direct_address=self._direct_address,
            peers=self._members.peers,
            standby=self._make_standby(),
            further=node_requests.table(),
        )

    def _direct_address(self, announced: str) -> str:
        """Return the address at which this node connects to a broker."""
        is_direct = self._config.settings.direct_addresses
        return self.heartbeats.direct_address(announced) if is_direct else announced

    def _address_of(self, raft_id: int) -> str | None:
        peer = self._members.peer(raft_id)
        return None if peer is None else peer.address

    def set_hindrance(self, hindrance: Callable[[], str | None]) -> None:
        """Have the status say what keeps this node out of its cluster, when it hears no leader."""
        self._view.hindrance = hindrance

    def set_controller_hosts(self, hosts: Callable[[], Collection[str]]) -> None:
        """Believe the mark of a forwarded request only from these hosts: those of peer connections."""
        self._rules.is_controller = lambda host: host in hosts()

    def set_peer_refusals(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Have the metrics show what the peers' port refused."""
        self._view.peer_refusals = counts

    async def start(self) -> None:
        """Join the others and open the ports.

        Raises:
            OSError: a port cannot be opened.
        """
        settings = self._config.settings
        self.heartbeats.on_deaths = self.leader_elections.on_deaths
        self.heartbeats.on_revival = self._revived
        self._node.on_leadership(self.leadership_changed)
        self._node.on_fatal(self._fail)
        await self._node.start()
        self._tasks = [
            asyncio.create_task(self.heartbeats.run(), name="heartbeats"),
            asyncio.create_task(self.leader_elections.run(), name="failover"),
            asyncio.create_task(self._node_losses.run(), name="lost nodes"),
        ]
        if self._membership is not None:
            self._tasks.append(asyncio.create_task(self._membership.run(), name="membership"))
        if self._tls is not None:
            self._tasks.append(asyncio.create_task(self._tls.watch(), name="certificates"))
        for task in self._tasks:
            task.add_done_callback(self._task_ended)
        tls = self._tls
        await self._remoting.start(
            settings.listen_host,
            self._self.port,
            None if tls is None else tls.remoting(),
            source_connections_max=settings.source_connections_max,
        )
        http_port = settings.http_port(self._self)
        if tls is not None:
            self._http.server_ssl = None if tls.http_server is None else tls.http_server.context
            self._http.plain_allowed = settings.http_plain != "none"
        await self._http.start(settings.listen_host, http_port)
        _log.info(
            "this node serves",
            extra=bind(address=self._self.address, http_port=http_port),
        )

    async def stop(self) -> None:
        """Hand leadership over, close the ports, stop Raft and the log."""
        if self._node.is_leader and len(self._node.conf_state.voters) > 1:
            await self._hand_over()
        await self._remoting.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.leader_elections.stop()
        await self._ha_addresses.stop()
        await self._submitter.stop()
        self._forwarder.close()
        await self._http.stop()
        await self._node.stop()

    async def _hand_over(self) -> None:
        with contextlib.suppress(NotLeaderError):
            if not await self._node.transfer_leadership():
                _log.warning("leadership was not handed over; the others elect after their timeout")

    def leadership_changed(self, leads: bool, term: int) -> None:
        """If this node leads now, finish the work of its predecessor."""
        _log.info("this node leads" if leads else "this node does not lead any more", extra=bind(term=term))
        if leads:
            self._leads_since_ms = self._clock.now_ms()
            self.leader_elections.wake()
            self._submitter.guards.lift_all()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        _log.critical("this node must end", exc_info=error)
        self._view.failure = error
        if not self.failed.done():
            self.failed.set_result(error)
