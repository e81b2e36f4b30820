"""Simulated clients: producers that count acknowledged messages, and people who designate masters.

These people look at groups, too.

A producer sends numbered messages to the broker it believes to be the master, tries the next broker when that
one refuses, and knows three outcomes: acknowledged, refused, ambiguous. What a broker acknowledged is counted
at the broker, so an answer that is lost on the way counts as acknowledged, too.
"""

import asyncio
import contextlib
from dataclasses import replace
from random import Random
from typing import Any, Protocol, cast

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from testkit.sim.brokers.broker import DATA_PORT
from testkit.sim.brokers.broker_ha import ObjectWriter
from testkit.sim.brokers.broker_set import DEFINITE_REFUSALS
from testkit.sim.checks.observations import Observations
from testkit.sim.controllers.api_answers import of_election, of_replica_info
from testkit.sim.loop.simulated_network import Network
from testkit.sim.loop.virtual_loop import Process, VirtualLoop

SEND_PAUSE_S = (0.02, 0.25)
SEND_WAIT_S = 2.5
LATE_COPIES = 0.15
"""Share of a person's requests that are copies of old ones."""
ASK_PAUSE_S = (0.1, 0.6)
CALL_TIMEOUT_S = 3.0
DIAL_TIMEOUT_S = 1.0


class _ClientEnd(asyncio.Protocol):
    """A client's end of its link to a broker."""

    def __init__(self) -> None:
        self.link: ObjectWriter | None = None
        self.waiting: dict[int, asyncio.Future[str]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the link."""
        self.link = cast("ObjectWriter", transport)

    def data_received(self, data: Any) -> None:
        """Take an answer."""
        number, result, _epoch = data
        future = self.waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(result)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will be answered."""
        self.link = None
        for future in self.waiting.values():
            if not future.done():
                future.set_result("ambiguous")


class Producer:
    """Sends messages to one group.

    Attributes:
        attempted: all messages that were ever sent.
        outcomes: how many had each outcome.
    """

    def __init__(
        self,
        name: str,
        brokers: list[str],
        loop: VirtualLoop,
        network: Network,
        random: Random,
    ) -> None:
        self.attempted: set[str] = set()
        self.outcomes = {"ok": 0, "refused": 0, "ambiguous": 0}
        self.process = Process(loop, name)
        self._name = name
        self._brokers = brokers
        self._loop = loop
        self._random = random
        self._ends: dict[str, _ClientEnd] = {}
        network.place(self.process, name)
        self.process.spawn(self._run())

    async def _run(self) -> None:
        guess = 0
        for number in range(1_000_000):
            message = f"{self._name}-{number}"
            self.attempted.add(message)
            result = await self._send(self._brokers[guess], number, message)
            self.outcomes[result] += 1
            if result != "ok":
                guess = (guess + 1) % len(self._brokers)
            await asyncio.sleep(self._random.uniform(*SEND_PAUSE_S))

    async def _send(self, host: str, number: int, message: str) -> str:
        end = self._ends.get(host)
        if end is None or end.link is None:
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    _, end = await self._loop.create_connection(_ClientEnd, host, DATA_PORT)
            except (OSError, TimeoutError):
                return "refused"
            self._ends[host] = end
        if end is None or end.link is None:
            return "refused"
        answer: asyncio.Future[str] = self._loop.create_future()
        end.waiting[number] = answer
        end.link.write(("send", number, message))
        try:
            async with asyncio.timeout(SEND_WAIT_S):
                return await answer
        except TimeoutError:
            end.link.close()
            return "ambiguous"


class Caller(Protocol):
    """Says whether people may still interfere."""

    @property
    def faults(self) -> bool:
        """Whether the run is in its disturbed part."""
        ...


class Onlooker:
    """Asks any controller about any group, and now and then designates a master."""

    def __init__(
        self,
        name: str,
        controllers: list[str],
        groups: list[str],
        loop: VirtualLoop,
        network: Network,
        random: Random,
        observations: Observations,
        run: Caller,
        *,
        designates: float,
        cluster: str = "c1",
    ) -> None:
        self.designated = 0
        self.process = Process(loop, name)
        self._controllers = controllers
        self._groups = groups
        self._cluster = cluster
        self._loop = loop
        self._random = random
        self._observations = observations
        self._whole = run
        self._designates = designates
        self._connections: dict[str, Connection] = {}
        network.place(self.process, name)
        self.process.spawn(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(*ASK_PAUSE_S))
            with contextlib.suppress(ChannelError, OSError, TimeoutError):
                await self._act()

    async def _act(self) -> None:
        address = self._random.choice(self._controllers)
        group = self._random.choice(self._groups)
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            host, _, port = address.rpartition(":")
            connection = self._connections[address] = await connect(host, int(port), DIAL_TIMEOUT_S)
        try:
            if self._whole.faults and self._random.random() < self._designates:
                await self._designate(connection, group)
            elif self._random.random() < LATE_COPIES:
                await self._repeat(connection, group)
            else:
                await self._look(connection, group)
        except ChannelError:
            connection.abort()

    async def _look(self, connection: Connection, group: str) -> None:
        header = headers.GetReplicaInfoRequestHeader(group)
        began_s = self._loop.now_s
        request = RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, header.to_ext())
        answer = await connection.call(request, CALL_TIMEOUT_S)
        if (told := of_replica_info(answer)) is not None:
            self._observations.call(group, began_s, told.seen)

    async def _repeat(self, connection: Connection, group: str) -> None:
        """Send a copy of a request 1001 that was carried out long ago: it must not be carried out again."""
        done = self._observations.carried_out(group)
        if not done:
            return
        old = self._random.choice(done)
        began_s = self._loop.now_s
        seen = self._observations.open_call(group, began_s, replace(old, code=None, new_set_epoch=0))
        header = headers.AlterSyncStateSetRequestHeader(group, old.master_id, old.master_epoch)
        body = SyncStateSet.of(old.wanted, old.set_epoch).encode()
        request = RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header.to_ext(), body)
        answer = await connection.call(request, CALL_TIMEOUT_S)
        if answer.code == ResponseCode.SUCCESS:
            seen.answered(answer.code, SyncStateSet.decode(answer.body).sync_state_set_epoch)
        elif answer.code in DEFINITE_REFUSALS:
            seen.answered(answer.code, 0)

    async def _designate(self, connection: Connection, group: str) -> None:
        header = headers.ElectMasterRequestHeader(
            group, self._cluster, self._random.randint(1, 3), designate_elect=True
        )
        self.designated += 1
        began_s = self._loop.now_s
        request = RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, header.to_ext())
        answer = await connection.call(request, CALL_TIMEOUT_S)
        if (told := of_election(answer)) is not None:
            self._observations.call(group, began_s, told.seen)
