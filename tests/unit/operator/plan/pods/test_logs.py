"""Log levels of pods: files of their ConfigMaps, which change no pod; only the first level of Java's does."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from controller_core.command_line.log_level import FILE_DEFAULT, LEVELS
from rocketmq_operator.api.common import LogLevel
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.pods.logs import JAVA_LOGS, LEVEL_KEY, LOGBACK_KEY, level_file, logback_file
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
OUTSIDE = [{"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}]


async def settled(level: str | None, *, cluster: Json | None = None) -> OperatorWorld:
    """Return a world whose cluster and group have a level."""
    given = {} if level is None else {"logLevel": level}
    world = OperatorWorld(
        group={"logReplicas": 1} | given,
        cluster={"proxy": {"mode": "Cluster"}, "listeners": OUTSIDE} | given | (cluster or {}),
    )
    for _ in range(2):
        await world.settle()
    return world


def templates(world: OperatorWorld) -> dict[str, Json]:
    """Return the pod template of each set by its name."""
    return {
        name: value["spec"]["template"]
        for (kind, _, name), value in world.kube.objects.items()
        if kind in {"StatefulSet", "Deployment"}
    }


def keys(world: OperatorWorld, key: str) -> dict[str, str]:
    """Return the value of a key by the name of each ConfigMap that has it."""
    return {
        name: value["data"][key]
        for (kind, _, name), value in world.kube.objects.items()
        if kind == "ConfigMap" and key in value["data"]
    }


def test_every_level_is_one_of_our_programs_and_one_of_logback() -> None:
    assert {level_file(level)[LEVEL_KEY] for level in LogLevel} == set(LEVELS)
    files = [logback_file(level)[LOGBACK_KEY] for level in LogLevel]
    roots = [re.findall(r'<root level="(.*?)">', text) for text in files]
    assert roots == [["DEBUG"], ["INFO"], ["WARN"], ["ERROR"]]
    assert not any("scan" in text for text in files)
    assert f"{names.CONFIG_PATH}/{LEVEL_KEY}" == FILE_DEFAULT
    assert (level_file(None), logback_file(None)) == ({}, {})


async def test_without_a_level_no_pod_and_no_file_knows_of_levels() -> None:
    world = await settled(None)
    assert keys(world, LEVEL_KEY) == keys(world, LOGBACK_KEY) == {}
    assert JAVA_LOGS not in str(world.kube.objects)


async def test_a_level_reaches_every_process() -> None:
    world = await settled("Warning")
    ours = {"orders", "main-controller", "main-front-outside"}
    java = {"orders", "main-nameserver", "main-proxy"}
    assert keys(world, LEVEL_KEY) == dict.fromkeys(ours, "warning")
    assert set(keys(world, LOGBACK_KEY)) == java
    for name in ("orders", "main-nameserver", "main-proxy"):
        data = world.get("ConfigMap", name)["data"]
        assert JAVA_LOGS in (data.get("start-broker.sh") or data["start.sh"])


@pytest.mark.parametrize(
    ("group", "script"),
    [
        ({"learners": {"count": 1, "kind": "Broker"}}, "start-learner.sh"),
        ({"mode": "Static"}, "start-broker.sh"),
    ],
)
async def test_learners_and_brokers_with_static_roles_follow_the_level(group: Json, script: str) -> None:
    world = OperatorWorld(group=group)
    await world.settle()
    assert JAVA_LOGS not in world.get("ConfigMap", "orders")["data"][script]
    world.write_group(group | {"logLevel": "Debug"})
    await world.settle()
    files, before = world.get("ConfigMap", "orders")["data"], templates(world)
    assert files[script].index(JAVA_LOGS) < files[script].index("program=mqbroker")
    assert (files[LEVEL_KEY], 'level="DEBUG"' in files[LOGBACK_KEY]) == ("debug", True)
    world.write_group(group | {"logLevel": "Error"})
    await world.settle()
    assert templates(world) == before


async def test_another_level_changes_files_and_no_pod() -> None:
    world = await settled("Info")
    before, births = templates(world), dict(world.kube.births)
    world.write_group({"logReplicas": 1, "logLevel": "Debug"})
    world.write_cluster({"proxy": {"mode": "Cluster"}, "listeners": OUTSIDE, "logLevel": "Debug"})
    await world.settle()
    assert keys(world, LEVEL_KEY)["orders"] == "debug"
    assert 'level="DEBUG"' in keys(world, LOGBACK_KEY)["main-nameserver"]
    assert (templates(world), world.kube.births) == (before, births)


async def test_the_first_level_restarts_java_and_nothing_else() -> None:
    without, with_level = templates(await settled(None)), templates(await settled("Info"))
    changed = {name for name, template in with_level.items() if template != without[name]}
    assert changed == {"orders", "main-nameserver", "main-proxy"}


@pytest.mark.parametrize("logback", ["logback_broker.xml", "rmq.broker.logback.xml"])
def test_the_home_of_links_has_everything_and_our_logback_file(tmp_path: Path, logback: str) -> None:
    home, config, scratch = tmp_path / "rocketmq", tmp_path / "config", tmp_path / "scratch"
    for directory in (home / "bin", home / "lib", home / "conf" / "acl", config, scratch):
        directory.mkdir(parents=True)
    (home / "bin" / "mqbroker").write_text("program")
    (home / "conf" / logback).write_text("theirs")
    (home / "conf" / "broker.conf").write_text("a=1")
    (config / LOGBACK_KEY).write_text("ours")
    script = JAVA_LOGS.replace(names.SCRATCH_PATH, "$S").replace(names.CONFIG_PATH, str(config))
    for _ in range(2):  # a container that starts again finds what the first one left
        shown = subprocess.run(
            ["/bin/sh", "-euc", script + 'echo "$ROCKETMQ_HOME"'],
            env=os.environ | {"ROCKETMQ_HOME": str(home), "S": str(scratch)},
            capture_output=True,
            text=True,
            check=True,
        )
        found = Path(shown.stdout.strip())
        assert found == scratch / "home"
        assert (found / "conf" / logback).read_text() == "ours"
        assert (found / "conf" / "broker.conf").read_text() == "a=1"
        assert (found / "bin" / "mqbroker").read_text() == "program"
        assert (found / "conf" / "acl").is_dir()
    (config / LOGBACK_KEY).write_text("newer")
    assert (found / "conf" / logback).read_text() == "newer"
