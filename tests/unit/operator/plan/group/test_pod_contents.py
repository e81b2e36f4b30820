"""The pods' contents: programs accept the files that the operator writes, and the scripts run."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from controller_core.server.settings.config import load
from controller_core.server.settings.properties import parse
from ha_sidecar.common.options import read_file
from ha_sidecar.companion import config as companion_config
from ha_sidecar.companion.leaving import EndDecision, EndMethod
from ha_sidecar.replica import config as replica_config
from ha_sidecar.setting_options import setting_keys
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.java import JAVA_RUN, JAVA_START, JAVA_STOP, JAVA_WAIT
from rocketmq_operator.plan.group.companion import HELD_AFTER_S, until_port_is_free
from testkit.processes.ports import free_port
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
THREE = {"logReplicas": 1}
HEARTBEAT_THREADS = 4


class Leaving:
    """A broker's process that sleeps, a companion that answers, and the command that stands between them.

    Attributes:
        java: the process, by the name that the command looks for.
        port: the companion's.
        how: its answer to the question how the broker should end.
    """

    def __init__(self, directory: Path) -> None:
        program = directory / "java"
        shutil.copy("/bin/sleep", program)
        self.java = subprocess.Popen([program, "60"])
        self.port = 0
        self.how = "kill"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question."""
        await reader.readuntil(b"POST /v1/leave HTTP/1.0\r\n\r\n")
        body = json.dumps({"how": self.how, "reason": ""})
        writer.write(f"HTTP/1.0 200 OK\r\n\r\n{body}\n".encode())
        writer.close()

    async def start(self, command: str) -> asyncio.subprocess.Process:
        """Run the command against this process alone."""
        text = command.replace(f"/{names.COMPANION_HTTP_PORT}", f"/{self.port}")
        text = text.replace("/proc/[0-9]*", f"/proc/{self.java.pid}")
        return await asyncio.create_subprocess_exec(
            *("bash", "-c", text), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )

    def stands_still(self) -> bool:
        """Wait until the process does something else than run; say whether that is to stand still."""
        return os.WIFSTOPPED(os.waitpid(self.java.pid, os.WUNTRACED)[1])

    async def run(self, command: str) -> int:
        """Run the command; return its status."""
        ran = await self.start(command)
        return await asyncio.wait_for(ran.wait(), 10)


async def _leave_command() -> str:
    (broker,) = _pod(await _settled(), "orders")["containers"]
    command: str = broker["lifecycle"]["preStop"]["exec"]["command"][-1]
    return command


async def _settled(spec: Json | None = None) -> OperatorWorld:
    world = OperatorWorld(THREE if spec is None else spec)
    await world.settle()
    return world


def _pod(world: OperatorWorld, stateful_set: str) -> Json:
    pod: Json = world.get("StatefulSet", stateful_set)["spec"]["template"]["spec"]
    return pod


def _script(world: OperatorWorld, config_map: str, key: str, root: Path) -> str:
    """Return a start script with every path below `root`."""
    text: str = world.get("ConfigMap", config_map)["data"][key]
    for path in (names.CONFIG_PATH, names.TOKEN_PATH, names.SCRATCH_PATH):
        (root / path[1:]).mkdir(parents=True, exist_ok=True)
        text = text.replace(f"{path}/", f"{root}{path}/", 1) if path == names.SCRATCH_PATH else text
    for path in (names.CONFIG_PATH, names.TOKEN_PATH):
        text = text.replace(f"{path}/", f"{root}{path}/")
    return text


def _accepted(shell: str, script: str) -> None:
    checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def _run(script: str, root: Path, env: dict[str, str]) -> str:
    programs = root / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("controller-core", "ha-sidecar"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, **env, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_companion_stands_beside_each_broker_and_outlives_it() -> None:
    companion, _ = _pod(await _settled(), "orders")["initContainers"]
    assert companion["restartPolicy"] == "Always"
    assert companion["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": names.COMPANION_HTTP_PORT}


async def test_a_companion_takes_the_file_that_is_written_for_it(tmp_path: Path) -> None:
    world = await _settled()
    path = tmp_path / "companion.conf"
    path.write_text(world.get("ConfigMap", "orders")["data"]["companion.conf"])
    texts = read_file(path, setting_keys(companion_config.CompanionConfig))
    config = companion_config.from_texts(texts, serves=True)
    assert config.broker == ("127.0.0.1", names.BROKER_PORT)
    assert [host for host, _ in config.controllers] == list(names.controller_hosts("main", "shop"))
    grace_s = _pod(world, "orders")["terminationGracePeriodSeconds"]
    assert config.deadline_s < grace_s / 2, "the broker must still have time to stop"


async def test_a_companion_keeps_its_own_state_on_the_volume_beside_the_broker_s_store(
    tmp_path: Path,
) -> None:
    world = await _settled()
    path = tmp_path / "companion.conf"
    path.write_text(world.get("ConfigMap", "orders")["data"]["companion.conf"])
    state = companion_config.from_texts(
        read_file(path, setting_keys(companion_config.CompanionConfig)), serves=True
    ).state
    assert state is not None
    companion, _ = _pod(world, "orders")["initContainers"]
    (mount,) = [one for one in companion["volumeMounts"] if one["name"] == names.DATA_VOLUME]
    assert state.parent == Path(mount["mountPath"])
    assert not mount.get("readOnly")
    assert state.name != "store", "the seed decides by that folder whether a broker's store is empty"


async def test_a_broker_with_a_successor_leaves_its_group_before_it_stops() -> None:
    command = await _leave_command()
    assert f"127.0.0.1/{names.COMPANION_HTTP_PORT}" in command
    answer = json.dumps(asdict(EndDecision(EndMethod.KILL, "")))
    assert answer.removeprefix("{").partition(",")[0] in command
    _accepted("bash", command)


@pytest.fixture
async def leaving(tmp_path: Path) -> AsyncIterator[Leaving]:
    made = Leaving(tmp_path)
    server = await asyncio.start_server(made.serve, "127.0.0.1")
    async with server:
        made.port = server.sockets[0].getsockname()[1]
        yield made
    made.java.kill()
    made.java.wait()


async def test_a_broker_that_is_to_end_at_once_is_killed(leaving: Leaving) -> None:
    assert await leaving.run(await _leave_command()) == 0
    assert leaving.java.wait(5) == -signal.SIGKILL


async def test_a_broker_that_is_to_end_at_once_stands_still_before_it_is_killed(leaving: Leaving) -> None:
    command = await _leave_command()
    assert command.count("sleep 0.05") == 1
    ran = await leaving.start(command.replace("sleep 0.05", "echo still; read -r"))
    assert ran.stdout is not None
    async with asyncio.timeout(10):
        assert await ran.stdout.readline() == b"still\n"
        assert await asyncio.to_thread(leaving.stands_still)
        await ran.communicate(b"go on\n")
    assert leaving.java.wait(5) == -signal.SIGKILL


async def test_a_broker_that_is_to_stop_in_good_order_is_let_run(leaving: Leaving) -> None:
    leaving.how = "stop"
    assert await leaving.run(await _leave_command()) == 0
    assert leaving.java.poll() is None


async def test_a_broker_without_a_companion_is_left_to_stop_in_good_order(leaving: Leaving) -> None:
    leaving.port = free_port()
    assert await leaving.run(await _leave_command()) == 0
    assert leaving.java.poll() is None


def test_a_broker_does_not_start_while_its_port_is_held() -> None:
    port = free_port()
    script = until_port_is_free(port)
    with socket.create_server(("", port)):
        waits = subprocess.Popen(["sh", "-euc", script])
        with pytest.raises(subprocess.TimeoutExpired):
            waits.wait(0.3)
    assert waits.wait(5) == 0


def test_a_port_that_nobody_holds_is_not_waited_for() -> None:
    subprocess.run(["sh", "-euc", until_port_is_free(free_port())], check=True, timeout=1)


async def test_a_brokers_process_starts_and_its_container_ends_when_its_port_is_free() -> None:
    script = (await _settled()).get("ConfigMap", "orders")["data"]["start-broker.sh"]
    before, wait, rest = script.partition(until_port_is_free(names.BROKER_PORT))
    process, again, after = rest.partition(f"sleep {HELD_AFTER_S}\n{until_port_is_free(names.BROKER_PORT)}")
    assert (bool(wait), bool(again), after) == (True, True, 'exit "$code"\n')
    assert "mqbroker" not in before
    assert process.endswith("done\n")


async def test_a_controller_that_is_cut_off_does_not_hold_heartbeats_to_the_others_up() -> None:
    world = await _settled()
    (broker,) = _pod(world, "orders")["containers"]
    options = {one["name"]: one.get("value", "") for one in broker["env"]}["JAVA_OPT_EXT"]
    found = re.search(r"-Dcom\.rocketmq\.remoting\.client\.connect\.timeout=(\d+)", options)
    assert found is not None
    conf = parse(world.get("ConfigMap", "orders")["data"]["broker.conf"])
    beats_held = int(found[1]) / int(conf["brokerHeartbeatInterval"])
    assert beats_held <= HEARTBEAT_THREADS - 1, "each holds one of the broker's threads"


async def test_a_single_broker_does_not_wait_for_a_successor() -> None:
    world = await _settled({"replicas": 1, "durability": "Async"})
    assert "lifecycle" not in _pod(world, "orders")["containers"][0]


async def test_a_log_replica_takes_the_file_and_the_addresses_that_are_written_for_it(tmp_path: Path) -> None:
    world = await _settled()
    data = world.get("ConfigMap", "orders")["data"]
    script = _script(world, "orders", "start-replica.sh", tmp_path)
    conf = tmp_path / names.CONFIG_PATH[1:]
    for name in ("addresses", "replica.conf"):
        (conf / name).write_text(data[name])
    printed = _run(script, tmp_path, {"POD_NAME": "orders-log-0", "POD_IP": "10.9.8.7"}).split()
    assert printed[:3] == ["ha-sidecar", "replica", "-c"]
    texts = read_file(conf / "replica.conf", setting_keys(replica_config.ReplicaConfig))
    texts |= {
        key[2:].replace("-", "_"): value for key, value in zip(printed[4::2], printed[5::2], strict=True)
    }
    config = replica_config.from_texts(texts)
    service = world.get("Service", "orders-log-0")["spec"]["clusterIP"]
    assert config.address == f"{service}:{names.REPLICA_PORT}"
    assert config.ha_address == f"10.9.8.7:{names.REPLICA_HA_PORT}"


async def test_a_controller_starts_again_in_the_same_pod(tmp_path: Path) -> None:
    world = await _settled()
    script = _script(world, "main-controller", "start.sh", tmp_path)
    conf = tmp_path / names.CONFIG_PATH[1:]
    for file in ("controller.conf", "peers"):
        (conf / file).write_text(world.get("ConfigMap", "main-controller")["data"][file])
        (conf / file).chmod(0o555)  # as a ConfigMap's files are
    (tmp_path / names.TOKEN_PATH[1:] / names.TOKEN_KEY).write_text("secret")
    for _ in range(2):
        printed = _run(script, tmp_path, {"POD_NAME": "main-controller-2"})
        assert printed.split()[:3] == ["controller-core", "serve", "-c"]
    own = tmp_path / "tmp" / "controller.conf"
    settings = load(parse(own.read_text()))[0]
    assert (settings.self_id, settings.http_token) == ("n2", "secret")
    assert [peer.host for peer in settings.peers] == list(names.controller_hosts("main", "shop", 3))
    assert own.stat().st_mode & 0o777 == 0o600, "it holds the token, and the next start rewrites it"


@pytest.mark.parametrize(
    ("config_map", "key"),
    [("orders", "start-broker.sh"), ("main-nameserver", "start.sh"), ("main-controller", "start.sh")],
)
async def test_start_scripts_are_valid_shell(config_map: str, key: str) -> None:
    text = (await _settled()).get("ConfigMap", config_map)["data"][key]
    _accepted("sh", text)


@pytest.mark.parametrize(("end", "code"), [("true", 0), ("exit 255", 255), ("kill -KILL $$", 137)])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_container_of_a_java_process_ends_with_its_exit_code(
    tmp_path: Path, shell: str, end: str, code: int
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mqnamesrv").write_text(f"sleep 0.05\n{end}\n")
    script = f'set -eu\nprogram=mqnamesrv\n{JAVA_RUN}exit "$code"\n'
    done = subprocess.run(
        [shell, "-c", script], env={**os.environ, "ROCKETMQ_HOME": str(tmp_path)}, timeout=10
    )
    assert done.returncode == code


async def test_each_start_script_of_a_java_process_ends_with_its_exit_code() -> None:
    world = await _settled()
    for config_map, key in (("orders", "start-broker.sh"), ("main-nameserver", "start.sh")):
        script = world.get("ConfigMap", config_map)["data"][key]
        assert script.count(JAVA_START) == 1
        assert script.index(JAVA_STOP) < script.index(JAVA_START) < script.index(JAVA_WAIT)
        assert script.endswith('\nexit "$code"\n')


async def test_a_broker_announces_its_services_address_and_replicates_over_its_pods(tmp_path: Path) -> None:
    world = await _settled()
    data = world.get("ConfigMap", "orders")["data"]
    conf = tmp_path / names.CONFIG_PATH[1:]
    script = _script(world, "orders", "start-broker.sh", tmp_path)
    for name in ("addresses", "broker.conf"):
        (conf / name).write_text(data[name])
    home = tmp_path / "rocketmq"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "mqbroker").write_text("#!/bin/sh\ntrue\n")
    _run(script, tmp_path, {"POD_NAME": "orders-1", "POD_IP": "10.9.8.7", "ROCKETMQ_HOME": str(home)})
    lines = (tmp_path / "tmp" / "broker.conf").read_text().splitlines()
    service = world.get("Service", "orders-1")["spec"]["clusterIP"]
    assert lines[-2:] == [f"brokerIP1={service}", "brokerIP2=10.9.8.7"]
