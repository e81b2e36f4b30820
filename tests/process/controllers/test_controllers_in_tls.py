"""Three controllers whose ports speak TLS only, between themselves with certificates on both ends."""

import asyncio
from pathlib import Path

import pytest

from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ApplyBrokerIdRequestHeader
from controller_core.tls.dialling import ClientTls
from testkit.processes.certificates import Authority, controllers_in_tls
from testkit.products.controllers import ControllerCluster, command_path
from testkit.products.store_commands import printed_by

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SERVED_WITHIN_S = 60.0


async def test_they_elect_and_send_requests_on_in_tls_and_refuse_plain_tcp(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with ControllerCluster(tmp_path, 3, settings=controllers_in_tls(authority)) as cluster:
        leader = await cluster.wait_leader()
        header = ApplyBrokerIdRequestHeader("c1", "orders", 1, "127.0.0.1:1;1")
        request = RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, header.to_ext())
        host, _, port = cluster.remoting_addresses[(leader + 1) % 3].rpartition(":")
        connection = await connect(host, int(port), 5.0, client_tls=ClientTls(authority.client()))
        async with asyncio.timeout(SERVED_WITHIN_S):
            while (await connection.call(request, 5.0)).code != ResponseCode.SUCCESS:  # noqa: ASYNC110 - leaders change
                await asyncio.sleep(0.1)
        connection.abort()
        plain = await connect(host, int(port), 5.0)
        with pytest.raises(ChannelError):
            await plain.call(request, 5.0)
        plain.abort()
        await cluster.wait_group("c1", "orders", bool)
        words = ["bench", "--workload=get-replica-info", "--duration=1s", "--groups=1", "--output=json"]
        words += [f"--controllers={','.join(cluster.remoting_addresses)}", f"--cacert={authority.trust}"]
        measured = await printed_by([command_path("controller-core"), *words])
        assert measured["requests"] > 0
        assert measured["errors"] == 0
