"""The controller's requests, each to the place that serves it: 904, 1001 to 1006, 1009 to 1013.

| served | requests |
|---|---|
| by every node from what it knows itself | 904, 1005, 1009, 1010 |
| by every node, from the applied state and the leader's index | 1004, 1012 (`direct.follower_answers`) |
| by the leader, from the applied state (lease, ReadIndex) | the same, 1006, 1003 that brings nothing new |
| by the leader, through the log | 1001, 1002, 1003, 1011, 1013 |

`handle` is called on the event loop for each request. Requests that memory can answer get their answer at
once, without a task: polls and heartbeats are nearly all of the traffic. A write that waits for nothing but
its command is returned as such (`direct`), and the rest as a coroutine for the server to run.

A header or body that lacks what a request needs is answered with code 1, as Java does when a handler throws.
So is a text or a list that passes its bound (`requests.bounds`).

Never here: decisions. Commands are judged when applied (`groups.state`), reads by `groups.reads`.

Source: ControllerRequestProcessor.java of 5.4.0 for the codes and the remarks.
"""

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Final

from controller_core.groups import reads
from controller_core.groups.commands import AnyCommand
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey, ReplicaKey
from controller_core.groups.liveness import scan
from controller_core.groups.replies import GroupReply
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet, decode_names
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import PreparedAnswer
from controller_core.server.clock import Clock
from controller_core.server.elections.first_elections import FirstElections
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.proposals.commands import CommandMaker
from controller_core.server.requests import answers
from controller_core.server.requests.bounds import (
    check_names,
    check_set,
    check_texts,
    refused_claim,
    refused_take_up,
)
from controller_core.server.requests.deadlines import Deadline
from controller_core.server.requests.direct.direct_writes import DIRECT, DirectWrite
from controller_core.server.requests.direct.follower_answers import FollowerAnswers
from controller_core.server.requests.direct.waiting_request import WaitingRequest
from controller_core.server.requests.forwarding import cluster_meant, own_channel
from controller_core.server.requests.interfaces import NodeReads, Submitter
from controller_core.server.requests.leader_rule import LeaderRule
from controller_core.server.requests.node_answers import NodeAnswers
from controller_core.server.requests.prepared_answers import PreparedAnswers
from controller_core.server.requests.unknown_members import UnknownMembers
from controller_core.server.settings.live_config import LiveConfig
from controller_core.server.settings.peer_list import Peer

Propose = Callable[[RemotingCommand, AnyCommand], DirectWrite | RemotingCommand | None]
NO_BROKER_ID_REMARK: Final = "Heart beat with empty brokerId"

Answer = RemotingCommand | PreparedAnswer | Coroutine[object, object, RemotingCommand] | WaitingRequest | None


class Handlers:
    """Serves one node's requests."""

    def __init__(
        self,
        *,
        node: NodeReads,
        machine: GroupsMachine,
        heartbeats: HeartbeatReceiver,
        submitter: Submitter,
        rule: LeaderRule,
        maker: CommandMaker,
        config: LiveConfig,
        clock: Clock,
        first_elections: FirstElections,
        direct: Propose,
        followers: FollowerAnswers,
        direct_address: Callable[[str], str] = str,
        peers: Callable[[], tuple[Peer, ...]] | None = None,
        standby: Callable[[], bool] = bool,
        further: Mapping[int, Callable[[int, RemotingCommand], Answer]] = MappingProxyType({}),
    ) -> None:
        """Take the node's parts.

        `direct` proposes the commands of requests that wait for nothing else. `followers` answers reads while
        another node leads. `direct_address` returns the address at which to reach the member that announced
        an address. `peers` returns the present controllers; the default returns those of the settings.
        `standby` says whether the node stands by.
        `further` has requests that every node serves.
        """
        self._node = node
        self._machine = machine
        self._heartbeats = heartbeats
        self._submitter = submitter
        self._rule = rule
        self._maker = maker
        self._direct = direct
        self._followers = followers
        self._direct_address = direct_address
        self._clock = clock
        self._first_elections = first_elections
        self._unknown = UnknownMembers(machine.state, heartbeats.table, heartbeats.unregistered)
        self._prepared = PreparedAnswers()
        self._lease_seen_ms = -1
        self._standby = standby
        own = NodeAnswers(node, config, heartbeats.lease_ms, peers, standby)
        self._local: dict[int, Callable[[int, RemotingCommand], Answer]] = {
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.CONTROLLER_GET_METADATA_INFO: own.metadata,
            RequestCode.UPDATE_CONTROLLER_CONFIG: own.update_config,
            RequestCode.GET_CONTROLLER_CONFIG: own.get_config,
            **further,
        }
        self._reads: dict[int, Callable[[int, RemotingCommand], GroupReply | PreparedAnswer | None]] = {
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self._get_replica_info,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._get_sync_state_data,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self._get_next_broker_id,
            RequestCode.CONTROLLER_REGISTER_BROKER: self._register_unchanged,
        }
        self._writes: dict[int, Callable[[int, RemotingCommand], AnyCommand | GroupReply]] = {
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self._alter_sync_state_set,
            RequestCode.CONTROLLER_ELECT_MASTER: self._elect_master,
            RequestCode.CONTROLLER_REGISTER_BROKER: self._register_broker,
            RequestCode.CLEAN_BROKER_DATA: self._clean_broker_data,
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self._apply_broker_id,
        }

    def handle(self, channel_id: int, request: RemotingCommand) -> Answer:
        """Serve a request that came in by a connection.

        Returns:
            The answer; what will tell it; a coroutine of it; or None for a oneway request that is done.

        Raises:
            RemotingProtocolError: a header or body is not what the request needs, or passes a bound.
        """
        check_texts(request, self._knows)
        local = self._local.get(request.code)
        if local is not None:
            return local(channel_id, request)
        if self._standby():
            return answers.not_leader(request)
        read = self._reads.get(request.code)
        if read is not None and not self._must_wait(channel_id, request) and self._may_read():
            reply = read(channel_id, request)
            if isinstance(reply, PreparedAnswer):
                return reply
            if reply is not None:
                return answers.answer(request, reply)
        elif read is not None and (waiting := self._followers.ask(channel_id, request, read)) is not None:
            return waiting
        elif read is None and request.code not in self._writes:
            return answers.not_supported(request)
        if request.code in DIRECT and self._node.is_leader:
            return self._proposed(channel_id, request) or self._by_leader(channel_id, request)
        return self._by_leader(channel_id, request)

    def _proposed(self, channel_id: int, request: RemotingCommand) -> DirectWrite | RemotingCommand | None:
        """Propose a request's command at once; return None if the log cannot take it now."""
        made = self._writes[request.code](channel_id, request)
        return answers.answer(request, made) if isinstance(made, GroupReply) else self._direct(request, made)

    def again(self, channel_id: int, waiting: WaitingRequest) -> Coroutine[object, object, RemotingCommand]:
        """Serve a request anew whose command was not proposed after all, or that another node must answer."""
        return self._by_leader(channel_id, waiting.request, waiting.deadline)

    def _must_wait(self, channel_id: int, request: RemotingCommand) -> bool:
        """Whether the answer would tell a broker of a new master before its turn (`notices.notice_order`)."""
        return self._awaited(channel_id, request) is not None

    def _awaited(self, channel_id: int, request: RemotingCommand) -> GroupKey | None:
        """Return the group whose open change a request must wait for; None if it must not wait."""
        changes = self._submitter.changes
        if request.code != RequestCode.CONTROLLER_GET_REPLICA_INFO or not changes.any_open:
            return None
        name = (request.ext or {}).get("brokerName", "")
        key = self._find(name, self._cluster(channel_id, request, name))
        return key if key is not None and changes.is_open(key) else None

    def _may_read(self) -> bool:
        """Say whether the applied state may be read now; asked of Raft once a millisecond.

        Why that is safe: the lease counts ticks of 10 ms and ends two ticks early for being counted so
        coarsely.
        """
        if not self._node.is_leader:
            return False
        now_ms = self._clock.now_ms()
        if now_ms != self._lease_seen_ms:
            if not self._node.has_read_lease():
                return False
            self._lease_seen_ms = now_ms
        return True

    async def _by_leader(
        self, channel_id: int, request: RemotingCommand, begun: Deadline | None = None
    ) -> RemotingCommand:
        async def here() -> RemotingCommand:
            return answers.answer(request, await self._as_leader(channel_id, request))

        def cluster() -> str:
            return self._cluster(channel_id, request, (request.ext or {}).get("brokerName", ""))

        return await self._rule.serve(request, here, cluster, begun)

    async def _as_leader(self, channel_id: int, request: RemotingCommand) -> GroupReply | PreparedAnswer:
        read = self._reads.get(request.code)
        if read is not None:
            if (awaited := self._awaited(channel_id, request)) is not None:
                await self._submitter.changes.settled(awaited)
            await self._node.read_barrier()
            reply = read(channel_id, request)
            if reply is not None:
                return reply
        if (refusal := await self._first_refusal(channel_id, request)) is not None:
            return refusal
        made = self._writes[request.code](channel_id, request)
        if isinstance(made, GroupReply):
            return made
        reply = (await self._submitter.submit(made)).reply
        if request.code == RequestCode.CONTROLLER_REGISTER_BROKER and reply.code == ResponseCode.SUCCESS:
            header = headers.RegisterBrokerToControllerRequestHeader.from_ext(request.ext)
            self._registered(channel_id, request, header)
        return reply

    # Served by every node.

    def _heartbeat(self, channel_id: int, request: RemotingCommand) -> Answer:
        header = headers.BrokerHeartbeatRequestHeader.from_ext(request.ext)
        if header.broker_id is None:
            code = ResponseCode.CONTROLLER_INVALID_REQUEST
            refusal = RemotingCommand.response_to(request, code, remark=NO_BROKER_ID_REMARK)
            return None if request.is_oneway else refusal
        key = self._heartbeats.beat(channel_id, header, BrokerId(header.broker_id))
        if header.epoch is not None:
            self._submitter.saw_epoch(key, header.epoch, is_beat=True)
        return None if request.is_oneway else self._prepared.heartbeat

    # Reads of the leader.

    def _get_replica_info(self, channel_id: int, request: RemotingCommand) -> GroupReply | PreparedAnswer:
        name = headers.GetReplicaInfoRequestHeader.from_ext(request.ext).broker_name
        cluster = self._cluster(channel_id, request, name)
        group = self._machine.state.find_one(name, cluster)
        if group is not None and self._unknown.beats_unregistered(channel_id, name):
            return reads.unknown_group()  # so that it registers: see `unknown_members`
        if group is not None:
            return self._prepared.replica_info(group)
        return reads.get_replica_info(self._machine.state, name, cluster)

    def _get_sync_state_data(self, _channel_id: int, request: RemotingCommand) -> GroupReply:
        names = decode_names(request.body)
        check_names(names)
        return reads.get_sync_state_data(
            self._machine.state,
            names,
            self._heartbeats.table.is_alive,
            self._direct_address,
            headers.SyncStateDataRequestHeader.from_ext(request.ext).cluster_name or "",
        )

    def _get_next_broker_id(self, _channel_id: int, request: RemotingCommand) -> GroupReply:
        header = headers.GetNextBrokerIdRequestHeader.from_ext(request.ext)
        return reads.get_next_broker_id(self._machine.state, header.cluster_name, header.broker_name)

    def _register_unchanged(
        self, channel_id: int, request: RemotingCommand
    ) -> GroupReply | PreparedAnswer | None:
        header = headers.RegisterBrokerToControllerRequestHeader.from_ext(request.ext)
        now_ms = self._clock.now_ms()
        if (refusal := self._unknown.refusal(header, own_channel(channel_id, request), now_ms)) is not None:
            return refusal
        group = self._unchanged(header)
        if isinstance(group, GroupReply) and self._unknown.may_take_up(header, now_ms):
            return None
        # Who registers is alive. It may be the master, whom the answer names only while it is.
        if isinstance(group, Group) and self._registered(channel_id, request, header):
            group = self._unchanged(header)
        if not isinstance(group, Group):
            return group
        master_alive = reads.has_living_master(group, self._heartbeats.table.is_alive)
        return self._prepared.registration(
            group, header.cluster_name, header.broker_name, master_alive=master_alive
        )

    def _unchanged(
        self, header: headers.RegisterBrokerToControllerRequestHeader
    ) -> Group | GroupReply | None:
        return reads.registered_so(
            self._machine.state,
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=BrokerId(header.broker_id),
            address=header.broker_address,
            log_replica=header.replica_kind == headers.REPLICA_KIND_LOG,
        )

    def _registered(
        self,
        channel_id: int,
        request: RemotingCommand,
        header: headers.RegisterBrokerToControllerRequestHeader,
    ) -> bool:
        """Take a registration that is in the state as a sign of life.

        Return whether the broker was not alive before.

        Not earlier: its revival may start an election, whose notices name the registered address.
        """
        key = ReplicaKey(header.cluster_name, header.broker_name, BrokerId(header.broker_id))
        return self._heartbeats.proof_of_life(own_channel(channel_id, request), key, header.broker_address)

    # Writes of the leader: to the command, or to a refusal that needs no entry.

    def _apply_broker_id(self, _channel_id: int, request: RemotingCommand) -> AnyCommand | GroupReply:
        header = headers.ApplyBrokerIdRequestHeader.from_ext(request.ext)
        group = self._machine.state.find_one(header.broker_name, header.cluster_name)
        return refused_claim(group, header) or self._maker.apply_broker_id(header)

    def _register_broker(self, _channel_id: int, request: RemotingCommand) -> AnyCommand | GroupReply:
        header = headers.RegisterBrokerToControllerRequestHeader.from_ext(request.ext)
        take_up = self._unknown.may_take_up(header, self._clock.now_ms())
        group = self._machine.state.get(GroupKey(header.cluster_name, header.broker_name))
        if take_up and (refusal := refused_take_up(group, header)) is not None:
            return refusal
        return self._maker.register_broker(header, take_up=take_up)

    def _alter_sync_state_set(self, channel_id: int, request: RemotingCommand) -> AnyCommand:
        header = headers.AlterSyncStateSetRequestHeader.from_ext(request.ext)
        cluster = self._cluster(channel_id, request, header.broker_name)
        if group := self._find(header.broker_name, cluster):
            key = ReplicaKey(*group, BrokerId(header.master_broker_id))
            self._submitter.saw_epoch(key, header.master_epoch, is_beat=False)
        wanted = SyncStateSet.decode(request.body)
        check_set(wanted)
        return self._maker.alter_sync_state_set(header, wanted, cluster)

    def _elect_master(self, channel_id: int, request: RemotingCommand) -> AnyCommand | GroupReply:
        header = headers.ElectMasterRequestHeader.from_ext(request.ext)
        cluster = self._cluster(channel_id, request, header.broker_name)
        if not header.designate_elect and header.broker_id != headers.BROKER_ID_NONE:
            key = ReplicaKey(cluster, header.broker_name, BrokerId(header.broker_id))
            self._heartbeats.proof_of_life(own_channel(channel_id, request), key)
            if (held := self._held(cluster, header.broker_name)) is not None:
                return held
        return self._maker.elect_master(header, cluster)

    async def _first_refusal(self, channel_id: int, request: RemotingCommand) -> GroupReply | None:
        """Return why a broker's own 1002 is not judged yet in a group that never had a master.

        None if it is.
        """
        if request.code != RequestCode.CONTROLLER_ELECT_MASTER:
            return None
        header = headers.ElectMasterRequestHeader.from_ext(request.ext)
        if header.designate_elect or header.broker_id == headers.BROKER_ID_NONE:
            return None
        cluster = self._cluster(channel_id, request, header.broker_name)
        key = ReplicaKey(cluster, header.broker_name, BrokerId(header.broker_id))
        self._heartbeats.proof_of_life(own_channel(channel_id, request), key)
        return await self._first_elections.refusal(key)

    def _clean_broker_data(self, channel_id: int, request: RemotingCommand) -> AnyCommand:
        header = headers.CleanControllerBrokerDataRequestHeader.from_ext(request.ext)
        cluster = self._cluster(channel_id, request, header.broker_name)
        return self._maker.clean_broker_data(header, cluster)

    def _held(self, cluster: str, broker_name: str) -> GroupReply | None:
        """Refuse a broker's own election while this node has not listened long enough to judge the master."""
        key = self._find(broker_name, cluster)
        group = None if key is None else self._machine.state.get(key)
        if group is None or not scan.must_hold_request(
            group,
            self._heartbeats.table,
            now_ms=self._clock.now_ms(),
            listening_since_ms=self._heartbeats.listening_since_ms,
        ):
            return None
        why = "the recorded master may live, this controller has only begun to listen"
        remark = f"Failed to elect a new master: {why}"
        return GroupReply(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, {}, remark)

    def _cluster(self, channel_id: int, request: RemotingCommand, broker_name: str) -> str:
        return cluster_meant(request, lambda: self._heartbeats.cluster_of(channel_id, broker_name))

    def _find(self, broker_name: str, cluster: str) -> GroupKey | None:
        group = self._machine.state.find_one(broker_name, cluster)
        return None if group is None else group.key

    def _knows(self, broker_name: str, cluster: str) -> bool:
        return self._find(broker_name, cluster) is not None
