"""Route a request that only the leader may serve, within a time limit.

    this node leads             ->  serve it here
    another node leads          ->  ask it (`forwarding`), unless the request was forwarded already; the next
                                    one, if that leads before an answer comes and a repetition is harmless
    no node leads               ->  wait for a leader, at most `HOLD_S`
    it was refused unserved     ->  try again: the leader changed, or the log could not take it
    its result is unknown       ->  try again if a repetition is harmless, else 2007
    the time is over            ->  2007

A leader that does not know the fate of a request that was forwarded to it says 2007, too, but with a mark
(`FATE_UNKNOWN_FIELD`): who forwarded it must not take that for "nothing happened" and ask again.

2007 makes a broker repeat the request by its own timer. A broker without an answer for 3 s closes the
connection, which makes it a dead broker: so every request is answered within `ANSWER_WITHIN_S`, whatever
happens.

Source: RocketMQ NettyRemotingClient.invokeSync (5.1.4 and later) closes on time-out; DLedgerController's
2007.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from controller_core.channel.errors import ChannelError, ConnectError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError
from controller_core.server.requests.answers import NOT_LEADER_REMARK, not_leader
from controller_core.server.requests.deadlines import Deadline, Deadlines, Work
from controller_core.server.requests.forwarding import FATE_UNKNOWN_FIELD, Forwarder, is_forwarded

ANSWER_WITHIN_S: Final = 2.5
HOLD_S: Final = 1.0
_RETRY_S: Final = 0.02
_LOOK_AGAIN_S: Final = 0.05
"""Between two looks whether another node leads, while the leader does not answer."""

# A repetition of these is harmless: reads, claims (their check code identifies them), registrations, and
# elections, which answer 2011 to a repetition. A repeated 1001 or 1011 would get a failure as its answer.
_REPEATABLE: Final = frozenset(
    {
        RequestCode.CONTROLLER_ELECT_MASTER,
        RequestCode.CONTROLLER_REGISTER_BROKER,
        RequestCode.CONTROLLER_GET_REPLICA_INFO,
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
        RequestCode.CONTROLLER_APPLY_BROKER_ID,
    }
)


class Leadership(Protocol):
    """What this rule asks of the node."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied all entries of earlier terms."""
        ...

    @property
    def leader_id(self) -> int | None:
        """Raft id of the leader this node hears from."""
        ...


Serve = Callable[[], Awaitable[RemotingCommand]]


class LeaderRule:
    """Gets requests to the leader, here or elsewhere, in bounded time."""

    def __init__(self, node: Leadership, self_id: int, forwarder: Forwarder) -> None:
        self._node = node
        self._self_id = self_id
        self._forwarder = forwarder
        self._deadlines = Deadlines(ANSWER_WITHIN_S)

    def begin(self, work: Work) -> Deadline:
        """Begin the time within which `work`, another kind of work than a task, must answer."""
        return self._deadlines.begin(work)

    async def serve(
        self,
        request: RemotingCommand,
        here: Serve,
        cluster: Callable[[], str],
        begun: Deadline | None = None,
    ) -> RemotingCommand:
        """Return the answer of the leader, or 2007.

        Args:
            request: the request to serve.
            here: serves it on this node, which then leads.
            cluster: says what the sender's heartbeats named, for the leader to know; empty if nothing.
            begun: the deadline of a request whose time has begun before.
        """
        deadline = self._deadlines.begin() if begun is None else begun.taken_over()
        try:
            return await self._serve(request, here, cluster)
        except asyncio.CancelledError:
            if not deadline.passed or _cancelled_by_another_too():
                raise
            return not_leader(request)
        finally:
            deadline.met()

    async def _serve(
        self, request: RemotingCommand, here: Serve, cluster: Callable[[], str]
    ) -> RemotingCommand:
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + HOLD_S
        while True:
            try:
                if self._node.is_leader:
                    return await here()
                if (answer := await self._ask(request, cluster)) is not None:
                    return answer
            except (NotLeaderError, CommandDroppedError, ConnectError):
                pass  # nothing has happened: a retry is safe
            except (ProposalLostError, ChannelError):
                if request.code not in _REPEATABLE:
                    return fate_unknown(request)
                # Why: what a leader that hangs took must not use up the wait for the next one.
                give_up_s = loop.time() + HOLD_S
            if is_forwarded(request) or loop.time() > give_up_s:
                return not_leader(request)
            await asyncio.sleep(_RETRY_S)

    async def _ask(self, request: RemotingCommand, cluster: Callable[[], str]) -> RemotingCommand | None:
        """Return the leader's answer; None if no other node leads, or the other node does not lead either."""
        leader_id = self._node.leader_id
        if leader_id is None or leader_id == self._self_id or is_forwarded(request):
            return None
        answer = await self._answer_of(leader_id, request, cluster())
        if answer is None:
            return None
        if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
            return answer
        if FATE_UNKNOWN_FIELD in (answer.ext or {}):
            raise ProposalLostError("the leader lost leadership before it applied the request")
        return None

    async def _answer_of(
        self, leader_id: int, request: RemotingCommand, cluster: str
    ) -> RemotingCommand | None:
        """Return the leader's answer; None once another leads and a repetition is harmless.

        Why not wait for the first: it may be on a node that is gone, and its connection stays open.
        """
        calling = asyncio.ensure_future(self._forwarder.call(leader_id, request, cluster))
        try:
            while not (await asyncio.wait({calling}, timeout=_LOOK_AGAIN_S))[0]:
                if request.code in _REPEATABLE and self._node.leader_id not in {leader_id, None}:
                    return None
            return await calling
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)


def _cancelled_by_another_too() -> bool:
    """Take back the cancellation of a deadline; say whether somebody else asks for one as well."""
    task = asyncio.current_task()
    return task is not None and task.uncancel() > 0


def fate_unknown(request: RemotingCommand) -> RemotingCommand:
    """Return the answer to a request that may yet be carried out.

    A mark says so to a node that forwarded it.
    """
    if not is_forwarded(request):
        return not_leader(request)
    code = ResponseCode.CONTROLLER_NOT_LEADER
    return RemotingCommand.response_to(request, code, {FATE_UNKNOWN_FIELD: "true"}, NOT_LEADER_REMARK)
