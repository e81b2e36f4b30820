"""Three controllers move from plain TCP to TLS and back, one at a time, and never lose their quorum.

The certificates are those that the operator makes.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ApplyBrokerIdRequestHeader
from rocketmq_operator.clients.certificates import issue, new_authority
from testkit.products.controllers import ControllerCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SERVED_WITHIN_S = 60.0
MODES = {
    "plain": {},
    "permissive": {"peerTlsMode": "permissive", "httpPlain": "all"},
    "enforcing": {"peerTlsMode": "enforcing", "httpPlain": "reads"},
}


def tls_keys(directory: Path) -> list[dict[str, str]]:
    """Write a certificate for each controller; return the settings of each."""
    now = datetime.now(UTC)
    authority = new_authority("main", timedelta(days=2), now)
    (directory / "ca.crt").write_text(authority.certificate)
    found = []
    for node in range(3):
        pair = issue(authority, f"n{node}", ["127.0.0.1", "localhost"], timedelta(days=1), now)
        cert, key = directory / f"n{node}.crt", directory / f"n{node}.key"
        cert.write_text(pair.certificate)
        key.write_text(pair.key)
        ports = [("peerTls", "CertPath", "KeyPath"), ("httpTls", "CertPath", "KeyPath")]
        keys = {}
        for port, cert_key, key_key in [*ports, ("tls.server.", "certPath", "keyPath")]:
            keys |= {f"{port}{cert_key}": str(cert), f"{port}{key_key}": str(key)}
        found.append(keys | {"peerTlsTrustCertPath": str(directory / "ca.crt")})
    return found


async def register(cluster: ControllerCluster, group: str) -> None:
    """Write something into the controllers' log: it needs a quorum."""
    header = ApplyBrokerIdRequestHeader("c1", group, 1, "127.0.0.1:1;1")
    request = RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, header.to_ext())
    async with asyncio.timeout(SERVED_WITHIN_S):
        while True:
            leader = await cluster.wait_leader()
            host, _, port = cluster.remoting_addresses[leader].rpartition(":")
            try:
                connection = await connect(host, int(port), 5.0)
                answer = await connection.call(request, 5.0)
                connection.abort()
                if answer.code == ResponseCode.SUCCESS:
                    return
            except ChannelError:
                pass
            await asyncio.sleep(0.1)


async def test_they_move_one_at_a_time_and_serve_after_each_restart(tmp_path: Path) -> None:
    keys = tls_keys(tmp_path)
    async with ControllerCluster(tmp_path / "controllers", 3) as cluster:
        await cluster.wait_all_ready()
        base = [path.read_text() for path in cluster.config_paths]
        for mode in ("permissive", "enforcing", "permissive", "plain"):
            for node in range(3):
                settings = MODES[mode] | ({} if mode == "plain" else keys[node])
                lines = "".join(f"{key}={value}\n" for key, value in settings.items())
                cluster.config_paths[node].write_text(f"{base[node]}\n{lines}")
                await cluster.stop_node(node)
                await cluster.start_node(node)
                await register(cluster, f"{mode}-{node}")
                await cluster.wait_all_ready()
