"""Our own requests about nodes: heartbeats of node agents (30904), and a controller's question (30905).

Every node serves them from its own tables. `remoting.nodes.bodies` bounds the bodies; `sender_rules` checks
the senders of heartbeats.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from controller_core.groups.keys import BrokerId, ReplicaKey
from controller_core.groups.liveness.node_agents import CONFIRM_EARLY_MS
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.bodies import NodeAnswer, NodeHeartbeat, read_heartbeat, read_question
from controller_core.server.clock import Clock
from controller_core.server.elections.heartbeats import HeartbeatReceiver

FULL_REMARK: Final = "this controller keeps the heartbeats of as many node agents as it can"


class NodeRequests:
    """Serves the two requests."""

    def __init__(
        self,
        state: GroupsState,
        heartbeats: HeartbeatReceiver,
        clock: Clock,
        timeout_ms: Callable[[], int],
    ) -> None:
        """Take the groups, the heartbeats, the clock, and what returns the present `nodeTimeoutMs`."""
        self._state = state
        self._heartbeats = heartbeats
        self._clock = clock
        self._timeout_ms = timeout_ms

    def table(self) -> Mapping[int, Callable[[int, RemotingCommand], RemotingCommand | None]]:
        """Return the requests that this serves."""
        return {
            RequestCode.NODE_HEARTBEAT: self._heartbeat,
            RequestCode.NODE_VERDICTS: self._verdicts,
        }

    def _heartbeat(self, channel_id: int, request: RemotingCommand) -> RemotingCommand | None:
        named = self._living(read_heartbeat(request.body))
        is_taken = self._heartbeats.agents.beat(channel_id, named, self._clock.now_ms())
        if request.is_oneway:
            return None
        if not is_taken:
            return RemotingCommand.response_to(request, ResponseCode.SYSTEM_BUSY, remark=FULL_REMARK)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS)

    def _living(self, heartbeat: NodeHeartbeat) -> Iterable[ReplicaKey]:
        """Yield the named members that live where the agent says.

        An agent may know an old address of a member, which another pod has now.
        """
        for member in heartbeat.members:
            group = self._state.find_one(member.broker_name, member.cluster_name)
            if group is None:
                continue
            key = ReplicaKey(*group.key, BrokerId(member.broker_id))
            entry = self._heartbeats.table.get(key)
            host = "" if entry is None else self._heartbeats.host_of(entry.channel_id)
            if host and host.strip("[]") == member.host.strip("[]"):
                yield key

    def _verdicts(self, _channel_id: int, request: RemotingCommand) -> RemotingCommand:
        question = read_question(request.body)
        keys = [
            ReplicaKey(member.cluster_name, member.broker_name, BrokerId(member.broker_id))
            for member in question.members
        ]
        verdicts = (self._heartbeats.node_verdict(key, self._timeout_ms(), CONFIRM_EARLY_MS) for key in keys)
        body = NodeAnswer(tuple(verdict.value for verdict in verdicts)).encode()
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)
