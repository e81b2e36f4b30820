"""If an announced address leads elsewhere, the controller reaches the broker at its own host."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller_core.channel.errors import CallTimeoutError
from controller_core.remoting.bodies import BrokerReplicasInfo, ReplicaIdentity, encode_names
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader
from testkit.fakes.broker import FakeBroker
from testkit.fakes.lent_broker import LentBroker
from testkit.products.one_controller import OneNode

WITHIN_S = 60.0
DIRECT = pytest.mark.parametrize("given", [{"directAddresses": "true"}])


@pytest.fixture
async def lent(one: OneNode) -> AsyncIterator[LentBroker]:
    broker = LentBroker(one)
    await broker.start()
    yield broker
    await broker.die()
    await broker.tenant.leave()


async def _identity(broker: FakeBroker) -> ReplicaIdentity:
    answer = await broker.call(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names(["b1"]))
    info = BrokerReplicasInfo.decode(answer.body).replicas_info_table["b1"]
    (found,) = (*info.in_sync_replicas, *info.not_in_sync_replicas)
    return found


@DIRECT
async def test_a_new_master_is_told_at_its_own_host(lent: LentBroker) -> None:
    await lent.elect()
    notice = await lent.wait_notice(1)
    assert notice.header.master_address == lent.address, "clients get the announced address"
    assert not lent.tenant.dialled.is_set()


async def test_without_the_setting_it_is_told_where_it_announced(lent: LentBroker) -> None:
    await lent.elect()
    request = await asyncio.wait_for(lent.tenant.heard.get(), WITHIN_S)
    assert request.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED
    assert lent.notices == []


@DIRECT
async def test_the_controllers_tell_where_it_is_met(lent: LentBroker) -> None:
    found = await _identity(lent)
    assert (found.broker_address, found.direct_address) == (lent.address, lent.host_itself)


@DIRECT
async def test_who_is_met_where_it_announced_has_no_other_address(one: OneNode) -> None:
    async with one.broker() as broker:
        assert (await _identity(broker)).direct_address is None


async def test_without_the_setting_nobody_is_told_of_another_address(lent: LentBroker) -> None:
    assert (await _identity(lent)).direct_address is None


@DIRECT
async def test_a_connection_to_the_tenant_is_left_once_the_broker_is_heard(one: OneNode) -> None:
    notifier = one.controller._submitter.notifier
    ask = RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader().to_ext())
    broker = LentBroker(one)
    await broker.start(register=False)
    with pytest.raises(CallTimeoutError):
        await notifier.ask(broker.address, ask, 0.05)
    assert broker.tenant.heard.get_nowait().code == ask.code
    await broker.register()
    answer = await notifier.ask(broker.address, ask, WITHIN_S)
    assert (answer.code, broker.tenant.heard.qsize()) == (ResponseCode.SUCCESS, 0)
    await broker.die()
    await broker.tenant.leave()
