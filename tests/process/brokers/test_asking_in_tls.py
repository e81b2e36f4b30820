"""Commands reach Java brokers that serve TLS alone, and members those that serve plain TCP alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_core.channel import connect
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.tls.dialling import ClientTls, dial_in_tls, dial_trusting, trusting
from ha_sidecar.address import host_port
from testkit.processes.certificates import Authority
from testkit.rocketmq.group_without_controllers import MASTER, OldGroup
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_tls import JAVA_OPTIONS, server_options
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

WITHIN_S = 10.0


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let all JVMs serve and dial in TLS only; give the files of a certificate."""
    authority = Authority(tmp_path)
    made = authority.member("broker")
    monkeypatch.setenv(JAVA_OPTIONS, server_options(made))
    dial_trusting("tls", authority.trust, plain_allowed=False)
    yield made
    dial_in_tls(None)


async def test_commands_of_a_migration_ask_an_enforcing_broker(tmp_path: Path, directory: Path) -> None:
    name_server = NameServer(await jars(), tmp_path / "ns")
    await name_server.start()
    group = OldGroup(await jars(), tmp_path / "group", name_server, tls=directory)
    try:
        broker = await group.start_old("master", MASTER)
        (refusal,) = await group.refusals(broker)
        assert refusal, "a broker that takes only TLS answers in plain TCP"
        (found,) = (await group.survey(broker))["brokers"]
        assert (found["broker_id"], found["permission"]) == (0, 6)
        await group.permit("read", broker)
        (found,) = (await group.survey(broker))["brokers"]
        assert found["permission"] == 4
    finally:
        await group.stop()
        await name_server.stop()


async def test_a_dial_in_tls_first_reaches_a_broker_in_plain_tcp(tmp_path: Path) -> None:
    """As while a cluster moves to TLS: ours dial in TLS before the last broker has a certificate."""
    name_server = NameServer(await jars(), tmp_path / "ns")
    await name_server.start()
    broker = JavaBroker(await jars(), BrokerPlace("c", "g", "b0", tmp_path / "b0"), name_server.address)
    try:
        await broker.start()
        assert "disabled mode" in broker.process.output()
        tls = ClientTls(trusting("tls", Authority(tmp_path).trust).context, plain_allowed=True)
        connection = await connect(*host_port(broker.address), WITHIN_S, client_tls=tls)
        try:
            answer = await connection.call(
                RemotingCommand.request(RequestCode.GET_BROKER_HA_STATUS), WITHIN_S
            )
            assert (answer.code, connection.certificate) == (ResponseCode.SUCCESS, None)
        finally:
            connection.close()
    finally:
        await broker.stop()
        await name_server.stop()
