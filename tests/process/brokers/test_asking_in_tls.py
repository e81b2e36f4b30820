"""The commands of a migration ask a Java broker and a name server that take nothing but TLS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_core.tls.dialling import dial_in_tls, dial_trusting
from testkit.processes.certificates import Authority
from testkit.rocketmq.group_without_controllers import MASTER, OldGroup
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_tls import JAVA_OPTIONS, server_options
from testkit.rocketmq.processes import NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


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
