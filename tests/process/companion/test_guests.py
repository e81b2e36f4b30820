"""Real consumers that are connected to one broker by two addresses: by a guest port they keep all queues."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_core.channel import Connection, connect
from controller_core.remoting.client_headers import GetConsumerListByGroupRequestHeader
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar.address import host_port
from testkit.fakes.two_address_routes import TwoAddressRoutes
from testkit.processes.ports import free_port
from testkit.processes.relay import Relay
from testkit.products.companion import BrokerCompanion
from testkit.rocketmq.consumers.push_consumers import PushConsumers
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

TOPIC = "T"
WITHIN_S = 90.0
QUEUES = 4
RECEIVES_WITHIN_S = 20.0
"""Less than the 30 s between two heartbeats of a client."""
REFUSED_PULL = "group info not exist"
TAKEN_BACK = f"unregister a consumer[concurrent-{TOPIC}]"


class TwiceReached:
    """A broker, a client's way to it as to a slave, and one as to a master."""

    def __init__(self, release: Path, directory: Path) -> None:
        self.release = release
        self.directory = directory
        self.name_server = NameServer(release, directory / "ns")
        place = BrokerPlace("c", "g", "b0", directory / "b0")
        self.broker = JavaBroker(release, place, self.name_server.address)
        self._asking: Connection | None = None

    async def start(self) -> None:
        """Start the broker."""
        await self.name_server.start()
        await self.broker.start()
        self._asking = await connect(*host_port(self.broker.address), 5.0)

    async def stop(self) -> None:
        """Kill all."""
        if self._asking is not None:
            self._asking.close()
        await asyncio.gather(self.broker.kill(), self.name_server.process.kill())

    async def consumer_names(self) -> list[str]:
        """Return the clients that the broker lists as consumers of the group."""
        assert self._asking is not None
        header = GetConsumerListByGroupRequestHeader(f"concurrent-{TOPIC}")
        question = RemotingCommand.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header.to_ext())
        answer = await self._asking.call(question, 5.0)
        return list(json.loads(answer.body)["consumerIdList"]) if answer.body else []

    def load(self, routes: TwoAddressRoutes) -> LoadClient:
        """Return a producer that sends to the master's address."""
        settings = LoadSettings(threads=2, rate=100)
        return LoadClient(self.release, routes.address, TOPIC, self.directory / "load", settings)

    def consumers(self, routes: TwoAddressRoutes) -> PushConsumers:
        """Return consumers that pull from the master's address."""
        return PushConsumers(self.release, routes.address, TOPIC, self.directory / "consumers")


@pytest.fixture
async def twice(tmp_path: Path) -> AsyncIterator[TwiceReached]:
    made = TwiceReached(await jars(), tmp_path)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def _until_listed(twice: TwiceReached, times: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while len(await twice.consumer_names()) != times:  # noqa: ASYNC110 - brokers send no notification
            await asyncio.sleep(0.1)


async def _until_all_received(load: LoadClient, consumers: PushConsumers) -> None:
    """Wait until the concurrent consumer has each acknowledged message of an ended load."""
    keys = {send.key for send in load.sends() if send.acknowledged}
    async with asyncio.timeout(WITHIN_S):
        while keys - {  # noqa: ASYNC110 - a file sends no notification
            one.key for one in consumers.received() if not one.ordered
        }:
            await asyncio.sleep(0.1)


async def _until_both_receive(consumers: PushConsumers, within_s: float) -> None:
    """Wait until the concurrent consumer and the ordered one have received something."""
    async with asyncio.timeout(within_s):
        while {one.ordered for one in consumers.received()} != {True, False}:  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _guest_port(twice: TwiceReached) -> AsyncIterator[tuple[BrokerCompanion, str]]:
    """Run a companion with a guest port; give it and the port's address."""
    port = free_port()
    companion = BrokerCompanion(twice.broker, [f"127.0.0.1:{free_port()}"], **{"guest-port": str(port)})
    await companion.process.start()
    try:
        await companion.wait_metric("guests", 0, WITHIN_S)
        yield companion, f"127.0.0.1:{port}"
    finally:
        await companion.process.stop()


@contextlib.asynccontextmanager
async def _unknown_guests(twice: TwiceReached) -> AsyncIterator[tuple[TwoAddressRoutes, Relay]]:
    """Give routes whose first address is the guest port, and the way to the second, not started."""
    own_way = Relay(twice.broker.address)
    try:
        async with (
            _guest_port(twice) as (_, address),
            TwoAddressRoutes(twice.name_server.address, address, own_way.address) as routes,
        ):
            yield routes, own_way
    finally:
        await own_way.stop()


async def test_guests_are_listed_once_and_receive_from_all_queues(twice: TwiceReached) -> None:
    async with (
        _guest_port(twice) as (companion, address),
        TwoAddressRoutes(twice.name_server.address, address, twice.broker.address) as routes,
    ):
        load = twice.load(routes)
        async with load:
            await load.wait_for_acknowledged(100, WITHIN_S)
            async with twice.consumers(routes) as consumers:
                await _until_listed(twice, 1)
                guests = await companion.metric("guests")
                assert guests is not None
                assert guests >= 3  # a producer and two consumers
                await load.wait_for_acknowledged(200, WITHIN_S)
                await load.stop()
                await _until_all_received(load, consumers)
                assert {one.queue for one in consumers.received()} == set(range(QUEUES))
                assert len(await twice.consumer_names()) == 1


async def test_guests_that_the_broker_does_not_know_yet_receive_and_are_listed_once_when_it_does(
    twice: TwiceReached,
) -> None:
    """As after a change of master to a broker that has just started, to which clients have not come back."""
    async with _unknown_guests(twice) as (routes, own_way):
        load = twice.load(routes)
        async with load, twice.consumers(routes) as consumers:
            await load.wait_for_acknowledged(100, WITHIN_S)
            await _until_both_receive(consumers, RECEIVES_WITHIN_S)
            await _until_listed(twice, 1)
            await own_way.start()
            await twice.broker.process.wait_for_text(TAKEN_BACK, WITHIN_S)
            await _until_listed(twice, 1)
            known_ns = time.time_ns()
            await load.wait_for_acknowledged(200, WITHIN_S, after_ns=known_ns)
            await load.stop()
            await _until_all_received(load, consumers)
            assert await twice.consumer_names() == list(set(await twice.consumer_names()))


async def test_pulls_of_guests_that_come_back_to_a_fresh_broker_are_not_refused(twice: TwiceReached) -> None:
    """Their clients pull as soon as they are connected, and a refused pull is tried again a second later."""
    async with _unknown_guests(twice) as (routes, _):
        load = twice.load(routes)
        async with load, twice.consumers(routes) as consumers:
            await _until_both_receive(consumers, WITHIN_S)
            await twice.broker.kill()
            await twice.broker.start()
            await load.wait_for_acknowledged(200, WITHIN_S, after_ns=time.time_ns())
            await load.stop()
            await _until_all_received(load, consumers)
            assert REFUSED_PULL not in twice.broker.process.output()


async def test_a_consumer_that_reaches_a_broker_by_two_addresses_is_listed_twice(
    twice: TwiceReached,
) -> None:
    """What a guest port is for; with it gone from RocketMQ, the port may go too."""
    relay = Relay(twice.broker.address)
    await relay.start()
    try:
        async with TwoAddressRoutes(twice.name_server.address, relay.address, twice.broker.address) as routes:
            load = twice.load(routes)
            async with load:
                await load.wait_for_acknowledged(100, WITHIN_S)
                async with twice.consumers(routes):
                    await _until_listed(twice, 2)
                    assert len(set(await twice.consumer_names())) == 1
    finally:
        await relay.stop()
