"""The agent's heartbeats: it tells every controller which members live on its node.

    every `poll-interval-ms`        which of the confirmed, living members belong to this node (`local_hosts`)
    every `heartbeat-interval-ms`   one message with these members to each controller that takes it
    every `CHECK_S`                 a message with an answer, which shows the controllers that take them

A controller takes heartbeats with the token of the agents (`controller_core.remoting.nodes.token`), which is
read from a file at each check. The agent sends no others to a controller that refuses them, or that does not
know the request.

The controllers judge (`controller_core.groups.liveness.node_agents`). The connections of an agent
end with its process, and its word ends with them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from controller_core import limits
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.bodies import NamedMember, NodeHeartbeat
from controller_core.remoting.nodes.token import TOKEN_FIELD
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.node_agent.metrics import NodeAgentMetrics
from ha_sidecar.node_agent.replaced import LocatedMember, is_ip

CHECK_S: Final = 2.0
_ANSWER_S: Final = 1.0

_log = logging.getLogger(__name__)


class NodeWitness:
    """One agent's heartbeats."""

    def __init__(
        self,
        controllers: Controllers,
        hosts_here: Callable[[Iterable[str]], Awaitable[frozenset[str]]],
        metrics: NodeAgentMetrics,
        interval_s: float,
        token_file: Path | None,
    ) -> None:
        """Take the controllers, and what returns which of some addresses belong to this node."""
        self._controllers: Final = controllers
        self._hosts_here: Final = hosts_here
        self._metrics: Final = metrics
        self._interval_s: Final = interval_s
        self._token_file: Final = token_file
        self._takers: frozenset[str] = frozenset()
        self._refusals: dict[str, str] = {}
        self._beat = self._heartbeat((), "")
        self._named: tuple[NamedMember, ...] = ()
        self._token = ""

    async def learn(self, living: Iterable[LocatedMember]) -> None:
        """Find out which of the living members are on this node; raise `OSError` if the kernel refuses."""
        members = [member for member in living if is_ip(member.host)]
        here = await self._hosts_here(member.host for member in members)
        named = sorted(
            (
                NamedMember(member.group.broker_name, member.id, member.host, member.group.cluster)
                for member in members
                if member.host in here
            ),
            key=lambda member: (member.cluster_name, member.broker_name, member.broker_id),
        )
        self._name(tuple(named[: limits.NODE_MEMBERS_MAX]), self._token)

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_again_and_again())
            tasks.create_task(self._send_again_and_again())

    async def _send_again_and_again(self) -> None:
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while True:
            if self._takers:
                self._controllers.links.send_to(self._takers, self._beat)
            # Why not from now on: the time that sending takes must not add up.
            next_s = max(next_s + self._interval_s, loop.time())
            await asyncio.sleep(next_s - loop.time())

    async def _check_again_and_again(self) -> None:
        while True:
            self._name(self._named, self._read_token())
            answers = await self._controllers.ask_each(self._beat, _ANSWER_S)
            takers = {address for address, answer in answers.items() if answer.code == ResponseCode.SUCCESS}
            refusals = {
                address: f"{answer.code}: {answer.remark}"
                for address, answer in answers.items()
                if address not in takers
            }
            for address, why in refusals.items():
                if self._refusals.get(address) != why:
                    _log.warning("controller %s does not take heartbeats of this agent: %s", address, why)
            # Why also the old ones: one that is late with an answer still takes the next heartbeat.
            self._takers = frozenset((takers | self._takers) - refusals.keys())
            self._refusals = refusals
            self._metrics.takers.set(len(takers))
            await asyncio.sleep(CHECK_S)

    def _name(self, named: tuple[NamedMember, ...], token: str) -> None:
        if (named, token) != (self._named, self._token):
            self._beat = self._heartbeat(named, token)
        if named != self._named:
            shown = ", ".join(
                f"{member.cluster_name}/{member.broker_name} {member.broker_id}" for member in named
            )
            _log.info("members on this node: %s", shown or "none")
            self._metrics.members.set(len(named))
        self._named, self._token = named, token

    @staticmethod
    def _heartbeat(named: tuple[NamedMember, ...], token: str) -> RemotingCommand:
        ext = {TOKEN_FIELD: token} if token else None
        return RemotingCommand.request(RequestCode.NODE_HEARTBEAT, ext, NodeHeartbeat(named).encode())

    def _read_token(self) -> str:
        if self._token_file is None:
            return ""
        try:
            return self._token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            _log.debug("token file: %s", error)
            return ""
