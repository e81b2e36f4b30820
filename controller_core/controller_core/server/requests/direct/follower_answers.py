"""Reads that a node answers although another leads: 1004 and 1012, from its own applied state.

The node asks the leader for its index and answers once that much is applied here (`node.follower_reads`), so
the answer is as new as the leader's. Otherwise the request goes the way of all others (`leader_rule`): the
leader answers it.

    no leader is known, it changes, or does not answer in time   ->  the leader, as soon as there is one
    this node is too far behind, or too many reads wait here     ->  the leader
    the group has had another master for less than               ->  the leader, which knows whose turn it is
    `MASTER_NEW_MS`, as far as this node has looked                  to hear of it (`notices.notice_order`)

Answers that tell whom a node hears stay with the leader: `alive` of 1006, the living master of 1003. One part
of 1004 is this node's own hearing, and has to be: a sender whose heartbeats over this very connection are of
a member without a record gets the answer to register (`unknown_members`).
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import GroupReply
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand, failure
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.frame import PreparedAnswer
from controller_core.server.clock import Clock
from controller_core.server.common.metrics import Metrics
from controller_core.server.node.types import (
    CommandDroppedError,
    FollowerLagsError,
    NotLeaderError,
    ReadLateError,
)
from controller_core.server.notices.notice_order import DEMOTED_WITHIN_S
from controller_core.server.requests import older_protocol
from controller_core.server.requests.answers import answer
from controller_core.server.requests.direct.waiting_request import WaitingRequest
from controller_core.server.requests.forwarding import cluster_meant, is_forwarded
from controller_core.server.requests.interfaces import NodeReads

FOLLOWER_READS: Final = frozenset(
    {RequestCode.CONTROLLER_GET_REPLICA_INFO, RequestCode.CONTROLLER_GET_NEXT_BROKER_ID}
)
MASTER_NEW_MS: Final = int(DEMOTED_WITHIN_S * 1_000) + 500
"""For so long a change of master may be open at the leader, whose clock is another one."""
GROUPS_NOTED_MAX: Final = 32_768

Read = Callable[[int, RemotingCommand], GroupReply | PreparedAnswer | None]
ClusterOf = Callable[[int, str], str]

_log = logging.getLogger(__name__)
_RESULTS: Final[dict[type[Exception], str]] = {
    CommandDroppedError: "full",
    NotLeaderError: "no_leader",
    FollowerLagsError: "lags",
    ReadLateError: "late",
}


class WaitingRead(WaitingRequest):
    """One read that waits for its index; a `Waiter` of the node."""

    __slots__ = ("_answer", "_channel_id", "_metrics", "_read")

    def __init__(
        self,
        channel_id: int,
        request: RemotingCommand,
        read: Read,
        answer_of: "Callable[[int, RemotingCommand, Read], RemotingCommand | PreparedAnswer | None]",
        metrics: Metrics,
    ) -> None:
        super().__init__(request)
        self._channel_id: Final = channel_id
        self._read: Final = read
        self._answer: Final = answer_of
        self._metrics: Final = metrics

    def set_result(self, _result: object, /) -> None:
        """Answer from the state, which is new enough."""
        try:
            found = self._answer(self._channel_id, self.request, self._read)
        except RemotingProtocolError as error:
            found = older_protocol.refusal(self.request, error)
        except Exception as error:
            _log.exception("request %d failed", self.request.code)
            found = failure(self.request, error)
        if found is None:
            self._metrics.follower_read("new_master")
            self.serve_again()
        else:
            self._metrics.follower_read("served")
            self.finish(found)

    def set_exception(self, exception: Exception, /) -> None:
        """Have the leader answer."""
        self._metrics.follower_read(_RESULTS.get(type(exception), "no_leader"))
        self.serve_again()


class FollowerAnswers:
    """Serves the reads of one node while another leads.

    Attributes:
        served: reads that were answered here.
    """

    def __init__(
        self, node: NodeReads, state: GroupsState, cluster_of: ClusterOf, clock: Clock, metrics: Metrics
    ) -> None:
        """Take the node, the groups, the cluster that a connection's heartbeats name, and the counts."""
        self.served = 0
        self._node = node
        self._state = state
        self._cluster_of = cluster_of
        self._clock = clock
        self._metrics = metrics
        self._masters: dict[GroupKey, tuple[int, int]] = {}
        """Of each group that was asked for: the master epoch, and when this node first looked at it."""

    def ask(self, channel_id: int, request: RemotingCommand, read: Read) -> WaitingRead | None:
        """Have a read wait for the leader's index; None if this node must not answer it."""
        if request.code not in FOLLOWER_READS or self._node.is_leader or is_forwarded(request):
            return None
        waiting = WaitingRead(channel_id, request, read, self._answer, self._metrics)
        try:
            self._node.read_for(waiting)
        except (NotLeaderError, CommandDroppedError) as error:
            self._metrics.follower_read(_RESULTS[type(error)])
            return None
        return waiting

    def _answer(
        self, channel_id: int, request: RemotingCommand, read: Read
    ) -> RemotingCommand | PreparedAnswer | None:
        """Return the answer from the state of now; None if it names a master that is too new."""
        if request.code == RequestCode.CONTROLLER_GET_REPLICA_INFO:
            name = (request.ext or {}).get("brokerName", "")
            cluster = cluster_meant(request, partial(self._cluster_of, channel_id, name))
            group = self._state.find_one(name, cluster)
            if group is not None and self._is_new(group):
                return None
        reply = read(channel_id, request)
        self.served += reply is not None
        return reply if reply is None or isinstance(reply, PreparedAnswer) else answer(request, reply)

    def _is_new(self, group: Group) -> bool:
        """Say whether this node has known the group's master for too short a time.

        Why the time of the first look and not of the change: a snapshot does not tell when it happened.
        """
        now_ms = self._clock.now_ms()
        known = self._masters.get(group.key)
        if known is None or known[0] != group.master_epoch:
            self._masters.pop(group.key, None)
            if len(self._masters) >= GROUPS_NOTED_MAX:
                del self._masters[next(iter(self._masters))]
            self._masters[group.key] = (group.master_epoch, now_ms)
            return True
        return now_ms - known[1] < MASTER_NEW_MS
