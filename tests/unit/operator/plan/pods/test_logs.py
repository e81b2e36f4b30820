"""Logs of pods: where Java's processes log, and the levels in files of ConfigMaps, which change no pod."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from controller_core.command_line.log_level import FILE_DEFAULT, LEVELS
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.common import LogLevel
from rocketmq_operator.api.names import LOG_TARGET_ANNOTATION
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.pods.logs import JAVA_LOGS, LEVEL_KEY, LOGBACK_KEY, level_file, logback_file
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
OUTSIDE = [{"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}]


JAVA: Final = {"orders", "main-nameserver", "main-proxy"}
FILES: Final[Json] = {"logTo": "Files"}
PROXY: Final[Json] = {"proxy": {"mode": "Cluster"}, "listeners": OUTSIDE}


async def settled(given: Json) -> OperatorWorld:
    """Return a world whose cluster and group have these fields."""
    world = OperatorWorld({"logReplicas": 1} | given, PROXY | given)
    for _ in range(2):
        await world.settle()
    return world


async def change(world: OperatorWorld, given: Json) -> None:
    """Give cluster and group other fields."""
    world.write_group({"logReplicas": 1} | given)
    world.write_cluster(PROXY | given)
    for _ in range(2):
        await world.settle()


def logging_to_output(world: OperatorWorld) -> set[str]:
    """Return the names of the ConfigMaps whose Java process logs to standard output."""
    found = {
        name
        for (kind, _, name), value in world.kube.objects.items()
        if kind == "ConfigMap" and any(JAVA_LOGS in text for text in value["data"].values())
    }
    assert found == set(keys(world, LOGBACK_KEY))
    return found


def _spec(**given: str) -> BrokerGroupSpec:
    return BrokerGroupSpec.model_validate({"cluster": "main", "storage": {"size": "1Gi"}} | given)


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
    files = [logback_file(_spec(logLevel=level))[LOGBACK_KEY] for level in LogLevel]
    roots = [re.findall(r'<root level="(.*?)">', text) for text in files]
    assert roots == [["DEBUG"], ["INFO"], ["WARN"], ["ERROR"]]
    assert not any("scan" in text for text in files)
    assert f"{names.CONFIG_PATH}/{LEVEL_KEY}" == FILE_DEFAULT
    assert logback_file(_spec(logTo="Stdout")) == logback_file(_spec(logLevel="Info"))
    assert (level_file(None), logback_file(_spec()), logback_file(_spec(logTo="Files"))) == ({}, {}, {})


async def test_a_new_cluster_and_group_log_to_standard_output() -> None:
    world = await settled({})
    assert (keys(world, LEVEL_KEY), logging_to_output(world)) == ({}, JAVA)
    assert all('<root level="INFO">' in text for text in keys(world, LOGBACK_KEY).values())
    births = dict(world.kube.births)
    await change(world, {"logTo": "Stdout"})
    assert world.kube.births == births


async def test_those_of_an_older_operator_go_on_logging_to_files() -> None:
    world = await settled(FILES)
    assert (keys(world, LEVEL_KEY), logging_to_output(world)) == ({}, set())
    before, births = templates(world), dict(world.kube.births)
    assert LOG_TARGET_ANNOTATION not in str(world.kube.objects)
    await change(world, {})
    assert (logging_to_output(world), templates(world), world.kube.births) == (set(), before, births)
    await change(world, {"logTo": "Stdout"})
    assert (logging_to_output(world), world.kube.births["orders-0"]) == (JAVA, births["orders-0"] + 1)
    await change(world, {})
    assert (logging_to_output(world), world.kube.births["orders-0"]) == (JAVA, births["orders-0"] + 1)
    await change(world, FILES)
    assert (logging_to_output(world), templates(world)) == (set(), before)


async def test_a_level_of_an_older_group_sends_its_log_to_standard_output_while_it_is_there() -> None:
    world = await settled(FILES)
    await change(world, {"logLevel": "Info"})
    assert logging_to_output(world) == JAVA
    await change(world, {})
    assert logging_to_output(world) == set()


async def test_a_level_reaches_every_process() -> None:
    world = await settled({"logLevel": "Warning"})
    ours = {"orders", "main-controller", "main-front-outside"}
    assert keys(world, LEVEL_KEY) == dict.fromkeys(ours, "warning")
    assert logging_to_output(world) == JAVA
    await change(world, {"logLevel": "Warning", **FILES})
    assert (keys(world, LEVEL_KEY), logging_to_output(world)) == (dict.fromkeys(ours, "warning"), set())


@pytest.mark.parametrize(
    ("group", "script"),
    [
        ({"learners": {"count": 1, "kind": "Broker"}}, "start-learner.sh"),
        ({"mode": "Static"}, "start-broker.sh"),
    ],
)
async def test_learners_and_brokers_with_static_roles_follow_the_level(group: Json, script: str) -> None:
    world = OperatorWorld(group=group | FILES)
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
    world = await settled({"logLevel": "Info"})
    before, births = templates(world), dict(world.kube.births)
    await change(world, {"logLevel": "Debug"})
    assert keys(world, LEVEL_KEY)["orders"] == "debug"
    assert 'level="DEBUG"' in keys(world, LOGBACK_KEY)["main-nameserver"]
    assert (templates(world), world.kube.births) == (before, births)


async def test_the_target_restarts_java_and_nothing_else() -> None:
    to_files, to_output = templates(await settled(FILES)), templates(await settled({}))
    assert {name for name, template in to_output.items() if template != to_files[name]} == JAVA


async def test_proxies_tell_the_target_where_name_servers_are_external() -> None:
    external = {"nameServers": {"external": ["10.0.0.7:9876"]}, "proxy": {"mode": "Cluster"}}
    world = OperatorWorld({}, external | FILES)
    for _ in range(2):
        await world.settle()
    before = templates(world)["main-proxy"]
    world.write_cluster(external)
    await world.settle()
    assert templates(world)["main-proxy"] == before


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
