"""A Topic and a ConsumerGroup on a real broker.

Java has what the operator's passes write, and a pass finds a foreign change.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller_core.access.signing import Credentials
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.client_headers import GetRouteInfoRequestHeader
from controller_core.remoting.codes import RequestCode, ResponseCode
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.clients.brokers import BrokersClient
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer, mqadmin
from testkit.worlds.metadata import MetadataWorld

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

Json = dict[str, Any]
CLUSTER, GROUP = "main", "orders"
ANSWER_WITHIN_S = 60.0
TOPIC, CONSUMERS = "Prices_V1", "price-readers"
TOPIC_SPEC = {
    "cluster": CLUSTER,
    "topicName": TOPIC,
    "readQueues": 4,
    "writeQueues": 4,
    "messageType": "FIFO",
    "attributes": {"cleanup.policy": "DELETE"},
    "deletionPolicy": "Delete",
}
CONSUMERS_SPEC = {"cluster": CLUSTER, "ordered": True, "retryMaxTimes": 3, "deletionPolicy": "Delete"}


class PatientBrokers(BrokersClient):
    """Asks again until an answer comes: a JVM may take longer for its first answers than an ask waits.

    Whatever name server is meant, it is the one that runs: Services of the world in memory lead nowhere.
    """

    def __init__(self, name_server: str) -> None:
        self._name_server = name_server

    async def delete_route(self, address: str, cluster: str, topic: str) -> None:
        """Delete a route."""
        await super().delete_route(self._name_server, cluster, topic)

    async def read(
        self, address: str, kind: str, name: str, credentials: Credentials | None = None
    ) -> Json | None:
        """Return what the broker has."""
        async with asyncio.timeout(ANSWER_WITHIN_S):
            while True:
                try:
                    return await super().read(address, kind, name, credentials)
                except PeerUnavailableError:
                    await asyncio.sleep(0.2)


@dataclass(frozen=True)
class Real:
    """A name server, a broker, and an operator's world that knows the broker as its only group's master."""

    jar_directory: Path
    home: Path
    name_server: NameServer
    broker: JavaBroker
    world: MetadataWorld
    brokers: BrokersClient

    async def config(self, kind: str, name: str) -> Json | None:
        """Return what the broker has."""
        return await self.brokers.read(self.broker.address, kind, name)

    async def settle(self, kind: str, name: str) -> None:
        """Make passes until one went through: a broker's first answers may come too late."""
        async with asyncio.timeout(ANSWER_WITHIN_S):
            while True:
                try:
                    await self.world.one_pass(kind, name)
                except PeerUnavailableError:
                    await asyncio.sleep(0.2)
                else:
                    return

    async def mqadmin(self, *arguments: str) -> str:
        """Do what a person does behind the operator's back."""
        return await mqadmin(self.jar_directory, self.home, *arguments)


@pytest.fixture(params=["5.5.0", "5.2.0"])
async def real(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Real]:
    jar_directory = await jars(request.param)
    name_server = NameServer(jar_directory, tmp_path / "ns")
    broker = JavaBroker(
        jar_directory, BrokerPlace(CLUSTER, GROUP, "one", tmp_path / "one"), name_server.address
    )
    world, brokers = MetadataWorld(), PatientBrokers(name_server.address)
    world.kube.remove("BrokerGroup", "shop", "pay")
    world.controllers.masters = {GROUP: broker.address}
    world.brokers = brokers  # type: ignore[assignment]  # the real ones in place of those in memory
    try:
        await name_server.start()
        await broker.start()
        yield Real(jar_directory, tmp_path / "admin", name_server, broker, world, brokers)
    finally:
        await broker.stop()
        await name_server.stop()


async def until_route(name_server: str, *, there: bool) -> None:
    """Wait until the name server has a route of the topic, or none: it learns after the broker answered."""
    host, _, port = name_server.rpartition(":")
    asker = Asker((host, int(port)))
    found: bool | None = None
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            while found is not there:
                await asyncio.sleep(0.1)
                try:
                    await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(TOPIC))
                    found = True
                except AskError as error:
                    found = False if error.code == ResponseCode.TOPIC_NOT_EXIST else None
    finally:
        asker.close()


async def test_a_topic_is_made_changed_corrected_and_forgotten_on_a_real_broker(real: Real) -> None:
    world = real.world
    world.put("Topic", "prices", TOPIC_SPEC)
    await real.settle("Topic", "prices")
    config = await real.config("Topic", TOPIC)
    assert config is not None
    assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (4, 4, 6)
    assert config["attributes"] == {"message.type": "FIFO", "cleanup.policy": "DELETE"}
    assert world.condition("Ready") == ("True", "Applied"), world.status()
    await until_route(real.name_server.address, there=True)

    # The attribute that cannot change is there, the same as before: nothing is refused.
    world.put("Topic", "prices", TOPIC_SPEC | {"readQueues": 6, "messageType": "DELAY"})
    await real.settle("Topic", "prices")
    config = await real.config("Topic", TOPIC)
    assert config is not None
    assert (config["readQueueNums"], config["attributes"]["message.type"]) == (6, "DELAY")
    assert world.status()["observedGeneration"] == 2, world.status()

    where = ("-b", real.broker.address, "-n", real.name_server.address)
    printed = await real.mqadmin("updateTopic", *where, "-t", TOPIC, "-r", "2", "-w", "2", "-p", "4")
    assert "success" in printed, printed
    world.advance(1)
    await real.settle("Topic", "prices")
    config = await real.config("Topic", TOPIC)
    assert config is not None
    assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (6, 4, 6)
    assert world.events() == [
        ("DriftCorrected", f"{GROUP}: readQueues 2 -> 6; writeQueues 2 -> 4; permission R -> RW")
    ]

    world.delete("Topic", "prices")
    await real.settle("Topic", "prices")
    assert not world.has("Topic", "prices")
    assert await real.config("Topic", TOPIC) is None
    await until_route(real.name_server.address, there=False)


async def test_a_consumer_group_is_made_corrected_and_forgotten_on_a_real_broker(real: Real) -> None:
    world = real.world
    world.put("ConsumerGroup", CONSUMERS, CONSUMERS_SPEC)
    await real.settle("ConsumerGroup", CONSUMERS)
    config = await real.config("ConsumerGroup", CONSUMERS)
    assert config is not None
    assert (config["consumeMessageOrderly"], config["retryMaxTimes"]) == (True, 3)
    assert world.condition("Ready", "ConsumerGroup", CONSUMERS) == ("True", "Applied")

    where = ("-b", real.broker.address, "-n", real.name_server.address)
    printed = await real.mqadmin("updateSubGroup", *where, "-g", CONSUMERS, "-s", "false", "-r", "9")
    assert re.search(r"success", printed), printed
    await real.settle("ConsumerGroup", CONSUMERS)
    config = await real.config("ConsumerGroup", CONSUMERS)
    assert config is not None
    assert (config["consumeEnable"], config["retryMaxTimes"]) == (True, 3)
    ((reason, note),) = world.events()
    assert reason == "DriftCorrected"
    assert "consumeEnable false -> true" in note
    assert "retryMaxTimes 9 -> 3" in note

    world.delete("ConsumerGroup", CONSUMERS)
    await real.settle("ConsumerGroup", CONSUMERS)
    assert not world.has("ConsumerGroup", CONSUMERS)
    assert await real.config("ConsumerGroup", CONSUMERS) is None


async def test_what_a_real_broker_refuses_is_said_in_its_words(real: Real) -> None:
    real.world.put("Topic", "odd", {"cluster": CLUSTER, "attributes": {"no.such.key": "1"}})
    await real.settle("Topic", "odd")
    assert real.world.condition("Ready", name="odd") == ("False", "StepRefused")
    assert "unsupported key: no.such.key" in str(real.world.status(name="odd")["conditions"])
