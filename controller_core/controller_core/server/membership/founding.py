"""A node without a log: does it begin a new cluster, or does it wait to be added to one that exists?

The file cannot tell. A node that lost its disk has the same file as one that starts for the first time, and a
cluster that a lost node takes part in again as if nothing were missing can lose what it acknowledged. So the
node asks all that its file names, again and again, until one line of this table holds:

    what the others answer                                       this node
    one of them refuses it: not a member, or with another store  waits to be added (`members add`)
    one with a log counts it as a member                             waits until the leader brings it up
    no node has a log, all of them answer                          founds the cluster that the file describes
    no node that answers has a log                                 asks on, or founds with a majority
                                                                   (`foundWithMajority`)

All of the table is about nodes without a log. Once founded, a cluster starts with any majority.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final

from controller_core.server.logs import bind
from controller_core.server.peers.codec import GreetingAnswer, GreetingReply
from controller_core.server.settings.peer_list import Peer

ASK_PAUSE_S: Final = 0.1
WAIT_PAUSE_S: Final = 1.0
SAY_AFTER_S: Final = 3.0
"""After this silence of other nodes, a log line names them."""

_log = logging.getLogger(__name__)

_OF_A_CLUSTER: Final = frozenset({GreetingAnswer.NONE, GreetingAnswer.UNKNOWN, GreetingAnswer.INCARNATION})
"""What only a node answers that has a log."""

Ask = Callable[[Peer], Awaitable[GreetingReply | None]]


class FoundingVerdict(Enum):
    """What one round of answers means."""

    FOUND = "found"
    WAIT = "wait"
    ASK_ON = "ask on"


def weigh(replies: Iterable[GreetingReply | None], *, with_majority: bool) -> FoundingVerdict:
    """Judge the answers of all other nodes; None stands for no answer."""
    given = list(replies)
    if any(reply is not None and reply.why in _OF_A_CLUSTER for reply in given):
        return FoundingVerdict.WAIT
    agreeing = 1 + sum(reply is not None and _agrees(reply) for reply in given)
    nodes = len(given) + 1
    if agreeing == nodes or (with_majority and agreeing > nodes // 2):
        return FoundingVerdict.FOUND
    return FoundingVerdict.ASK_ON


def _agrees(reply: GreetingReply) -> bool:
    return reply.why in {GreetingAnswer.EMPTY, GreetingAnswer.FOUNDING}


class Founding:
    """Asks until the table decides.

    Attributes:
        problem: what this node waits for, for people.
    """

    def __init__(self, others: tuple[Peer, ...], ask: Ask, *, with_majority: bool) -> None:
        self.problem = "this node is without a log; it asks the others for a cluster"
        self._others = others
        self._ask = ask
        self._with_majority = with_majority
        self._said = ""

    async def run(self) -> None:
        """Return when this node must found the cluster; cancelled once a cluster adds this node."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while True:
            replies = await asyncio.gather(*(self._ask(peer) for peer in self._others))
            verdict = weigh(replies, with_majority=self._with_majority)
            if verdict is FoundingVerdict.FOUND:
                _log.info("no node has a log: this node founds the cluster")
                return
            self.problem = self._describe(verdict, replies)
            if verdict is FoundingVerdict.WAIT or loop.time() - begun_s > SAY_AFTER_S:
                self._say()
            await asyncio.sleep(WAIT_PAUSE_S if verdict is FoundingVerdict.WAIT else ASK_PAUSE_S)

    def _describe(self, verdict: FoundingVerdict, replies: list[GreetingReply | None]) -> str:
        answers = list(zip(self._others, replies, strict=True))
        if verdict is FoundingVerdict.WAIT:
            name, reply = next(
                (peer.name, reply)
                for peer, reply in answers
                if reply is not None and reply.why in _OF_A_CLUSTER
            )
            if not reply.reason:
                return f"this node waits for its log: {name} counts it as a member"
            return f"this node waits to be added to the cluster; {name} answers: {reply.reason}"
        missing = ", ".join(
            f"{peer.name} at {peer.address}" for peer, reply in answers if reply is None or not _agrees(reply)
        )
        return f"this node is without a log and waits for an answer of {missing}"

    def _say(self) -> None:
        if self._said != self.problem:
            self._said = self.problem
            _log.warning(self.problem, extra=bind(founding=True))
