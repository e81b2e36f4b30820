"""The logback file that the operator writes, in real name servers and brokers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.common import LogLevel
from rocketmq_operator.plan.pods.logs import LOGBACK_KEY, logback_file
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, java_command, write_properties

BOOT_S = 150.0


def _with_our_logback(command: Sequence[str], directory: Path, spec: dict[str, str]) -> list[str]:
    """Return the command of a JVM with the file that a spec gives, by a link as in a pod."""
    read = BrokerGroupSpec.model_validate({"cluster": "main", "storage": {"size": "1Gi"}} | spec)
    config = directory / "logback.xml"
    config.write_text(logback_file(read)[LOGBACK_KEY])
    link = directory / "rmq.logback.xml"
    link.symlink_to(config)
    return [f"-Drmq.logback.configurationFile={link}" if "logback" in word else word for word in command]


@pytest.mark.parametrize("level", [LogLevel.ERROR, LogLevel.INFO])
async def test_a_name_server_logs_to_standard_output_at_the_level(tmp_path: Path, level: LogLevel) -> None:
    home = tmp_path / "home"
    conf = write_properties(tmp_path / "namesrv.conf", {"listenPort": str(free_port())})
    command = java_command(
        await jars(), "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf), home=home
    )
    command = _with_our_logback(command, tmp_path, {"logLevel": level})
    async with ManagedProcess("name server", command, tmp_path / "log") as server:
        await server.wait_for_text("boot success", BOOT_S)
        assert (" INFO RocketmqNamesrv" in server.output()) == (level is LogLevel.INFO)
    assert not list(home.rglob("*.log")), "no file besides standard output"


@pytest.mark.parametrize("version", ["5.2.0", "5.5.0"])
async def test_a_broker_logs_to_standard_output_without_a_level(tmp_path: Path, version: str) -> None:
    place = BrokerPlace("c", "g", "broker", tmp_path / "broker")
    broker = JavaBroker(await jars(version), place, f"127.0.0.1:{free_port()}")
    command = _with_our_logback(broker.process.command, tmp_path, {"logTo": "Stdout"})
    async with ManagedProcess("broker", command, tmp_path / "log") as process:
        await process.wait_for_text("boot success", BOOT_S)
        await process.wait_for_text(" INFO RocketmqBroker ", BOOT_S)
        assert " DEBUG " not in process.output()
    assert not list((place.directory / "home").rglob("*.log")), "no file besides standard output"
