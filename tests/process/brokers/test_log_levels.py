"""The logback file that the operator writes, in a real name server: its level changes while it runs."""

from pathlib import Path

from rocketmq_operator.api.common import LogLevel
from rocketmq_operator.plan.pods.logs import LOGBACK_KEY, SCAN_S, logback_file
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import java_command, write_properties

BOOT_S = 30.0


def write(volume: Path, level: LogLevel) -> None:
    """Replace the file as the kubelet does: a new directory takes the place of the old one by a link."""
    version = volume / f"..{level}"
    version.mkdir(parents=True)
    (version / LOGBACK_KEY).write_text(logback_file(level)[LOGBACK_KEY])
    fresh = volume / "..data_tmp"
    fresh.symlink_to(version.name)
    fresh.replace(volume / "..data")


async def test_a_name_server_logs_to_standard_output_and_changes_its_level(tmp_path: Path) -> None:
    volume, home = tmp_path / "config", tmp_path / "home"
    write(volume, LogLevel.ERROR)
    (volume / LOGBACK_KEY).symlink_to(f"..data/{LOGBACK_KEY}")
    conf = write_properties(tmp_path / "namesrv.conf", {"listenPort": str(free_port())})
    command = java_command(
        await jars(), "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf), home=home
    )
    logback = home / "conf" / "rmq.namesrv.logback.xml"
    logback.symlink_to(volume / LOGBACK_KEY)
    command = [
        f"-Drmq.logback.configurationFile={logback}" if "logback" in word else word for word in command
    ]
    async with ManagedProcess("name server", command, tmp_path / "log") as server:
        await server.wait_for_text("boot success", BOOT_S)
        assert " INFO " not in server.output(), "it logs errors only"
        write(volume, LogLevel.DEBUG)
        # A name server looks for silent brokers every 5 s, and logs that.
        await server.wait_for_text(" INFO RocketmqNamesrv", 2 * SCAN_S + BOOT_S)
    assert not list(home.rglob("*.log")), "no file besides standard output"
