"""A slave learns its master's HA address at once, and no broker learns a wrong address."""

import asyncio

import pytest

from controller_core.channel import Connection
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.common import broker_questions
from controller_core.server.notices import ha_addresses
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode

WITHIN_S = 60.0
HA_ADDRESS = "127.0.0.1:10912"


class BrokerWithHaAddress(FakeBroker):
    """A broker that answers 906 as Java's do, and records the notices."""

    def __init__(self, one: OneNode) -> None:
        super().__init__([one.remoting], "b1", beat_interval_s=0.05)
        self.is_master = False
        self.refused = 0
        self.refuses = False
        self.is_lost = False
        self.told: asyncio.Queue[headers.ExchangeHAInfoRequestHeader] = asyncio.Queue()

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code != RequestCode.EXCHANGE_BROKER_HA_INFO:
            return super()._on_request(connection, request)
        if self.refuses:
            self.refused += 1
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="username is null")
        asked = headers.ExchangeHAInfoRequestHeader.from_ext(request.ext)
        if asked.master_ha_address is not None:
            self.told.put_nowait(asked)
            if self.is_lost:
                return None
        answer = headers.ExchangeHAInfoResponseHeader()
        if asked.master_ha_address is None and self.is_master:
            answer = headers.ExchangeHAInfoResponseHeader(HA_ADDRESS, 7, self.address)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, answer.to_ext())


@pytest.fixture(autouse=True)
def _quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_addresses, "PAUSES_S", (0.02,) * 1_000)


async def test_a_slave_that_comes_alive_is_told_what_its_master_says_of_itself(one: OneNode) -> None:
    async with BrokerWithHaAddress(one) as master:
        await master.elect()
        master.is_master = True
        async with BrokerWithHaAddress(one) as slave:
            told = await asyncio.wait_for(slave.told.get(), WITHIN_S)
            assert told == headers.ExchangeHAInfoRequestHeader(HA_ADDRESS, 7, master.address)
        assert master.told.empty()


async def test_a_master_that_has_not_taken_its_office_is_asked_again(one: OneNode) -> None:
    async with BrokerWithHaAddress(one) as master:
        await master.elect()
        async with BrokerWithHaAddress(one) as slave:
            await asyncio.sleep(0.1)
            assert slave.told.empty()
            master.is_master = True
            await asyncio.wait_for(slave.told.get(), WITHIN_S)


async def test_slaves_are_told_after_a_change_of_master(one: OneNode) -> None:
    async with BrokerWithHaAddress(one) as new, BrokerWithHaAddress(one) as third:
        old = BrokerWithHaAddress(one)
        await old.start()
        await old.elect()
        await old.alter((1, 2, 3), set_epoch=1)
        await old.die()
        new.is_master = True
        told = await asyncio.wait_for(third.told.get(), WITHIN_S)
        assert told.master_address == new.address


async def test_who_is_in_the_set_is_told_nothing_more(one: OneNode) -> None:
    async with BrokerWithHaAddress(one) as master:
        await master.elect()
        master.is_master = True
        async with BrokerWithHaAddress(one) as slave:
            await asyncio.wait_for(slave.told.get(), WITHIN_S)
            await master.alter((1, 2), set_epoch=1)
            rounds = one.controller._ha_addresses._tasks
            async with asyncio.timeout(WITHIN_S):
                while rounds:  # noqa: ASYNC110 - without a notification
                    await asyncio.sleep(0.01)


async def test_a_master_that_refuses_is_logged_once_with_its_words(
    one: OneNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with BrokerWithHaAddress(one) as master:
        await master.elect()
        master.is_master = master.refuses = True
        async with BrokerWithHaAddress(one) as slave:
            async with asyncio.timeout(WITHIN_S):
                while master.refused < 3:  # noqa: ASYNC110 - without a notification
                    await asyncio.sleep(0.01)
            assert slave.told.empty()
    told = [record for record in caplog.records if "answered 16: username is null" in record.getMessage()]
    assert len(told) == 1


async def test_a_slave_whose_node_is_gone_does_not_keep_the_others_from_their_master(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_questions, "ASK_TIMEOUT_S", 3_600.0)
    async with BrokerWithHaAddress(one) as master, BrokerWithHaAddress(one) as lost:
        lost.is_lost = True
        async with BrokerWithHaAddress(one) as slave:
            await master.elect()
            master.is_master = True
            for broker in (lost, slave):
                assert (await asyncio.wait_for(broker.told.get(), WITHIN_S)).master_address == master.address
