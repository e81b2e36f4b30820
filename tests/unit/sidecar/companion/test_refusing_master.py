"""A master that refuses the log replica's questions.

The replica stores and logs its words once, and retries ever more slowly.
"""

import asyncio
from typing import Any

import pytest

from controller_core.channel import connect
from controller_core.channel.asking import Asker
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader
from ha_sidecar.address import host_port
from ha_sidecar.common import metadata
from ha_sidecar.common.ha_socket import HaEnd
from ha_sidecar.decisions.metadata_tables import KINDS
from ha_sidecar.replica.group_view import MasterRole
from testkit.ha.following import following


async def test_a_refused_906_is_kept_until_the_master_answers(
    answering_group: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    master = await answering_group.add()
    master.access_refusal, master.ha_address = "no user", "127.0.0.1:10912"
    command = RemotingCommand.request(
        RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader().to_ext()
    )
    async with following(tmp_path, 4096) as ours:
        follower = ours.follower
        connection = await connect(*host_port(master.address), 5.0)
        role = MasterRole(master_address=master.address)
        asking = asyncio.create_task(follower._ask_until_answered(connection, command, role))
        async with asyncio.timeout(30):
            while not follower.refusal:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.01)
        assert follower.refusal == "request 906 was answered 16: no user"
        master.access_refusal = ""
        assert await asyncio.wait_for(asking, 30) == HaEnd(("127.0.0.1", 10912))
        assert follower.refusal == ""
        connection.close()
    told = [record for record in caplog.records if "was answered 16: no user" in record.getMessage()]
    assert len(told) == 1


async def test_refused_metadata_is_left_out_and_each_kind_is_logged_once(
    answering_group: Any, caplog: pytest.LogCaptureFixture
) -> None:
    master = await answering_group.add()
    master.access_refusal = "no user"
    asker = Asker(host_port(master.address))
    for _ in range(2):
        assert await metadata.fetch(asker) == {}
    asker.close()
    told = [
        record.getMessage() for record in caplog.records if "was answered 16: no user" in record.getMessage()
    ]
    assert len(told) == len(KINDS)
