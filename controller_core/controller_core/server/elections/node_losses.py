"""Find members whose node is lost, and let them die before their own timeout; the leader only.

    every SCAN_S        the members that a silent agent named are judged (`groups.liveness.node_agents`)
    `LOST` here         this leader asks all other controllers for their verdict, at the same time
    a majority: `LOST`  the member is dead, with the cause NodeLost
    no majority         the next scan asks again, at the latest until the member's own timeout is over

So a node that is cut off from the leader alone is not lost. The leader's own verdict must still hold when it
has the answers. A controller that does not answer says nothing; it may be on the lost
node.

A controller of an earlier release cannot read an election with this cause (`groups.commands`). While one of
them answers, no node is lost. To know that in time, and to have connections open when they are needed, the
leader asks all others every `GREET_S` about no member.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

from controller_core import limits
from controller_core.channel.errors import ChannelError
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.liveness.node_agents import Verdict
from controller_core.raft.types import ConfState
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.nodes.bodies import AskedMember, NodeAnswer, NodeQuestion
from controller_core.server.clock import Clock
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.logs import bind
from controller_core.server.settings.live_config import LiveConfig

SCAN_S: Final = 0.05
IDLE_S: Final = 0.5
"""Between two scans without an agent."""
ASK_S: Final = 0.2
GREET_S: Final = 1.0

_log = logging.getLogger(__name__)


class LeaderMembership(Protocol):
    """What this asks of the node."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied all entries of earlier terms."""
        ...

    @property
    def conf_state(self) -> ConfState:
        """The present controllers."""
        ...


class ControllerQuestions(Protocol):
    """Sends questions to other controllers."""

    async def ask(self, node_id: int, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Return the answer; raise `ChannelError` without one."""
        ...


class NodeLosses:
    """The leader's scan for lost nodes."""

    def __init__(
        self,
        *,
        node: LeaderMembership,
        own_id: int,
        heartbeats: HeartbeatReceiver,
        others: ControllerQuestions,
        config: LiveConfig,
        clock: Clock,
    ) -> None:
        self._node: Final = node
        self._own_id: Final = own_id
        self._heartbeats: Final = heartbeats
        self._others: Final = others
        self._config: Final = config
        self._clock: Final = clock
        self._older: Final[set[int]] = set()

    async def run(self) -> None:
        """Scan until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._scan_again_and_again())
            tasks.create_task(self._greet_again_and_again())
            tasks.create_task(self._tick())

    @property
    def _timeout_ms(self) -> int:
        return self._config.settings.node_timeout_ms

    async def _tick(self) -> None:
        while True:
            self._heartbeats.agents.tick(self._clock.now_ms())
            await asyncio.sleep(SCAN_S if len(self._heartbeats.agents) else IDLE_S)

    async def _scan_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(SCAN_S if len(self._heartbeats.agents) else IDLE_S)
            if self._node.is_leader and (suspects := self._suspects()):
                await self._judge(suspects)

    async def _greet_again_and_again(self) -> None:
        while True:
            if self._node.is_leader and self._timeout_ms and len(self._heartbeats.agents):
                async for _ in self._answers(()):
                    pass
            await asyncio.sleep(GREET_S)

    def _suspects(self) -> list[ReplicaKey]:
        timeout_ms = self._timeout_ms
        if not timeout_ms:
            return []
        silent = self._heartbeats.agents.silent_members(self._clock.now_ms(), timeout_ms)
        return [key for key in silent if self._is_lost(key)][: limits.NODE_MEMBERS_MAX]

    def _is_lost(self, key: ReplicaKey) -> bool:
        return self._heartbeats.node_verdict(key, self._timeout_ms) is Verdict.LOST

    async def _judge(self, suspects: Sequence[ReplicaKey]) -> None:
        """Let those die that a majority of the controllers, this one included, takes for lost."""
        needed = len(self._controllers()) // 2 + 1
        votes = dict.fromkeys(suspects, 1)
        if needed > 1:
            async with contextlib.aclosing(self._answers(suspects)) as answers:
                async for verdicts in answers:
                    for key, verdict in zip(suspects, verdicts, strict=False):
                        votes[key] += verdict == Verdict.LOST.value
                    if all(count >= needed for count in votes.values()):
                        break
        lost = [key for key, count in votes.items() if count >= needed and self._is_lost(key)]
        if self._older or not self._node.is_leader:
            return
        for key in lost:
            self._tell(key)
        self._heartbeats.lose(lost)

    def _tell(self, key: ReplicaKey) -> None:
        """Log a lost node, with the pauses of late that the patience came from."""
        member_ms, agent_ms, node_ms = self._heartbeats.agents.longest_pauses_ms(key)
        _log.warning(
            "a node is lost",
            extra=bind(
                cluster=key.cluster,
                broker_group=key.broker_name,
                id=key.broker_id,
                member_longest_pause_ms=member_ms,
                agent_longest_pause_ms=agent_ms,
                node_longest_pause_ms=node_ms,
            ),
        )

    def _controllers(self) -> frozenset[int]:
        state = self._node.conf_state
        return frozenset(int(node_id) for node_id in (*state.voters, *state.voters_outgoing))

    async def _answers(self, keys: Sequence[ReplicaKey]) -> AsyncGenerator[tuple[str, ...], None]:
        """Ask all other controllers; yield the verdicts of each as they come, for at most `ASK_S`."""
        others = self._controllers() - {self._own_id}
        self._older.intersection_update(others)
        asked = tuple(AskedMember(key.cluster, key.broker_name, key.broker_id) for key in keys)
        request = RemotingCommand.request(RequestCode.NODE_VERDICTS, None, NodeQuestion(asked).encode())
        tasks = [asyncio.ensure_future(self._answer(node_id, request)) for node_id in sorted(others)]
        try:
            for task in asyncio.as_completed(tasks):
                yield await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, node_id: int, request: RemotingCommand) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(ASK_S):
                answer = await self._others.ask(node_id, request, ASK_S)
            if answer.code == ResponseCode.SUCCESS:
                self._older.discard(node_id)
                return NodeAnswer.decode(bytes(answer.body)).verdicts
        except (ChannelError, TimeoutError, RemotingProtocolError) as error:
            _log.debug("controller %d, a question about nodes: %s", node_id, error)
            return ()
        self._older.add(node_id)
        return ()
