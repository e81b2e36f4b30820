"""A real broker takes each setting of the list while it runs, and acts by it."""

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from controller_core.broker_settings import LIVE_SETTINGS
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.client_headers import PullMessageRequestHeader, SendMessageRequestHeaderV2
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.numbers import BrokerId, LogOffset
from ha_sidecar.address import host_port
from ha_sidecar.decisions.broker_facts import BrokerFacts, settings
from ha_sidecar.live_settings.watch import SettingsWatch
from testkit.processes.ports import free_port
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, write_properties

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

FACTS = BrokerFacts(BrokerId(1), "", True, 1, LogOffset(0), None, ())
NO_SUCH_GROUP = 26
"""SUBSCRIPTION_GROUP_NOT_EXIST"""
OTHERS = {"true": "false", "false": "true", "04": "05"}
CHANGED = {name: OTHERS.get(value) or str(int(value) + 1) for name, value in LIVE_SETTINGS.items()}
"""Another value of each setting."""


class FreshBroker:
    """A broker without controllers, its file, and the watch of both."""

    def __init__(self, broker: JavaBroker, file: Path) -> None:
        self.broker, self.file = broker, file
        self.asker = Asker(host_port(broker.address))
        self.watch = SettingsWatch(file, self.asker, lambda: FACTS)

    async def given(self, values: Mapping[str, str]) -> None:
        """Give the watch a file with these values."""
        write_properties(self.file, {"listenPort": str(self.broker.port), **values})
        await self.watch.look()

    async def running(self) -> dict[str, str]:
        """Return the settings of the list that the broker shows."""
        answer = await self.asker.ask(RequestCode.GET_BROKER_CONFIG)
        found = settings(answer.body.decode())
        return {name: found[name] for name in LIVE_SETTINGS}

    async def code_of_pull(self, group: str) -> int:
        """Pull as a group that nobody has made; return the answer's code."""
        header = PullMessageRequestHeader.of_queue("T", 0, 0)
        return await self._code(RequestCode.PULL_MESSAGE, _of_group(header, group))

    async def code_of_transaction(self) -> int:
        """Send the first half of a transaction; return the answer's code."""
        properties = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "0" * 32}
        header = SendMessageRequestHeaderV2.of_message("T", 0, properties, _now_ms(), group="g")
        return await self._code(RequestCode.SEND_MESSAGE_V2, header, b"-")

    async def _code(
        self,
        code: RequestCode,
        header: PullMessageRequestHeader | SendMessageRequestHeaderV2,
        body: bytes = b"",
    ) -> int:
        try:
            return (await self.asker.ask(code, header, body)).code
        except AskError as error:
            if error.code is None:
                raise
            return error.code


@pytest.fixture(params=["5.2.0", "5.5.0"])
async def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FreshBroker]:
    place = BrokerPlace("c", "g", "broker", tmp_path / "broker")
    broker = JavaBroker(await jars(request.param), place, f"127.0.0.1:{free_port()}")
    async with broker.process:
        await broker.process.wait_for_text("boot success", 150.0)
        made = FreshBroker(broker, tmp_path / "file.conf")
        yield made
        made.asker.close()


async def test_a_broker_takes_each_setting_of_the_list_while_it_runs(fresh: FreshBroker) -> None:
    assert await fresh.running() == LIVE_SETTINGS, "the defaults"
    await fresh.given({})
    assert await fresh.code_of_transaction() == ResponseCode.SUCCESS
    assert await fresh.code_of_pull("first") != NO_SUCH_GROUP
    await fresh.given(CHANGED)
    assert await fresh.running() == CHANGED
    assert fresh.watch.told is not None
    assert (fresh.watch.told["refused"], fresh.watch.told["waiting"]) == ({}, [])
    assert await fresh.code_of_transaction() == ResponseCode.NO_PERMISSION
    assert await fresh.code_of_pull("second") == NO_SUCH_GROUP
    await fresh.given({"fileReservedTime": "soon", "sendMessageThreadPoolNums": "3"})
    told = fresh.watch.told
    assert (told["refused"], told["waiting"]) == ({"fileReservedTime": "soon"}, ["sendMessageThreadPoolNums"])
    await fresh.given({})
    assert await fresh.running() == LIVE_SETTINGS
    assert await fresh.code_of_transaction() == ResponseCode.SUCCESS
    assert await fresh.code_of_pull("third") != NO_SUCH_GROUP


def _of_group(header: PullMessageRequestHeader, group: str) -> PullMessageRequestHeader:
    return type(header).from_ext(header.to_ext() | {"consumerGroup": group})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
