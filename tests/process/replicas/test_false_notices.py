"""Notices (1008) that no controller sent do not move a log replica; a true one does.

Brokers and controllers are real.
"""

import asyncio
import socket
from pathlib import Path

import pytest

from controller_core.channel import connect
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import NotifyBrokerRoleChangedRequestHeader
from ha_sidecar.commitlog.store import ARCHIVE_DIRECTORY
from testkit.demo.cluster import DemoCluster
from testkit.demo.story import DemoStory, wait_whole
from testkit.demo.under_load import under_load
from testkit.products.replica import LogReplicaProcess, log_prefix_equal

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

EPOCH_MAX = 2**31 - 1
NOTICES_LOOKED_INTO_S = 30.0


async def tell(replica: LogReplicaProcess, epoch: int, master: str, master_id: int | None) -> RemotingCommand:
    """Send one notice as anybody may."""
    host, _, port = replica.address.rpartition(":")
    connection = await connect(host, int(port), 1.0)
    try:
        header = NotifyBrokerRoleChangedRequestHeader(master or None, epoch, EPOCH_MAX, master_id)
        body = SyncStateSet.of([1, 2, 3], EPOCH_MAX).encode() if master else b""
        request = RemotingCommand.request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header.to_ext(), body)
        answer = await connection.call(request, 5.0)
    finally:
        connection.close()
    assert answer.code == ResponseCode.SUCCESS
    return answer


async def handshakes(replica: LogReplicaProcess) -> list[int]:
    """Return the epochs of all masters that it has greeted."""
    return [event["epoch"] for event in await replica.events() if event["kind"] == "HandshakeDone"]


async def followed(cluster: DemoCluster, epoch: int) -> None:
    async with asyncio.timeout(60):
        while epoch not in await handshakes(cluster.log_replica):  # noqa: ASYNC110 - events are read by polling
            await asyncio.sleep(0.05)


async def test_a_log_replica_follows_the_controllers_whatever_strangers_tell_it(tmp_path: Path) -> None:
    async with under_load(tmp_path, rate=100) as running:
        cluster, replica = running.cluster, running.cluster.log_replica
        group = await wait_whole(cluster)
        epoch = group["master_epoch"]
        greeted = await handshakes(replica)
        counted = (await replica.metrics())["rmqha_ha_notices_total"]
        with socket.create_server(("127.0.0.1", 0)) as evil:
            evil.settimeout(0.1)
            address = f"127.0.0.1:{evil.getsockname()[1]}"
            await tell(replica, EPOCH_MAX, address, 7)
            await tell(replica, epoch + 1, address, group["master_id"])
            await tell(replica, epoch, address, 7)
            told = await tell(replica, epoch, "", None)
            assert told.remark is not None
            assert "no majority of the controllers" in told.remark
            async with asyncio.timeout(NOTICES_LOOKED_INTO_S):
                while (await replica.metrics())["rmqha_ha_notices_total"] < counted + 3:  # noqa: ASYNC110 - counts emit no event
                    await asyncio.sleep(0.05)
            with pytest.raises(TimeoutError):
                evil.accept()
        assert await handshakes(replica) == greeted, "it has never left its master"
        assert (await replica.metrics())["rmqha_ha_master_epoch"] == epoch
        assert (await DemoStory(cluster, running.load, running.progress).switch_over()).new_epoch == epoch + 1
        await followed(cluster, epoch + 1)
        result = await running.read_back()
        assert result.lost == frozenset()
        assert not (replica.store / ARCHIVE_DIRECTORY).exists()
        max_offset = await replica.wait_max_offset(1)
        master = cluster.broker_at((await wait_whole(cluster))["master_address"])
        assert log_prefix_equal(replica.store / "commitlog", master.store / "commitlog", max_offset)
