"""The logback file that the operator writes, in a real name server."""

from pathlib import Path

import pytest

from rocketmq_operator.api.common import LogLevel
from rocketmq_operator.plan.pods.logs import LOGBACK_KEY, logback_file
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import java_command, write_properties

BOOT_S = 60.0


@pytest.mark.parametrize("level", [LogLevel.ERROR, LogLevel.INFO])
async def test_a_name_server_logs_to_standard_output_at_the_level(tmp_path: Path, level: LogLevel) -> None:
    config, home = tmp_path / "logback.xml", tmp_path / "home"
    config.write_text(logback_file(level)[LOGBACK_KEY])
    conf = write_properties(tmp_path / "namesrv.conf", {"listenPort": str(free_port())})
    command = java_command(
        await jars(), "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf), home=home
    )
    logback = home / "conf" / "rmq.namesrv.logback.xml"
    logback.symlink_to(config)
    command = [
        f"-Drmq.logback.configurationFile={logback}" if "logback" in word else word for word in command
    ]
    async with ManagedProcess("name server", command, tmp_path / "log") as server:
        await server.wait_for_text("boot success", BOOT_S)
        assert (" INFO RocketmqNamesrv" in server.output()) == (level is LogLevel.INFO)
    assert not list(home.rglob("*.log")), "no file besides standard output"
