"""What every container has that the operator plans: of clusters, groups, reports and migrations."""

from typing import Any, Final

import pytest
import yaml

from rocketmq_operator.plan.migration import checks as migration_checks
from rocketmq_operator.plugin.migration import MigrationOptions, MigrationRun
from testkit.memory.reports import CLAIM, REPORT, SERVER, ReportWorld
from testkit.worlds.migration import MigrationWorld
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
LIMITED: Final[Json] = {"resources": {"cpu": 1, "cpuLimit": 2}}
EXECUTOR: Final = "executor"
"""Spark itself writes the resources of this one."""


def _containers(pod: Json) -> list[Json]:
    return [*pod.get("initContainers", []), *pod["containers"]]


async def _of_clusters_and_groups(extra: Json) -> list[Json]:
    found = []
    for mode in ("Cluster", "Local"):
        cluster = {"controllers": extra, "nameServers": extra, "proxy": {"mode": mode, **extra}}
        group = {"replicas": 2, "logReplicas": 1, **extra}
        if extra:
            group["logResources"] = extra["resources"]
        world = OperatorWorld(group=group, cluster=cluster)
        await world.settle()
        await world.settle()  # proxies come after brokers
        sets = [one for key, one in world.kube.objects.items() if key[0] in {"StatefulSet", "Deployment"}]
        found += [one["spec"]["template"]["spec"] for one in sets]
    return found


async def _of_reports(extra: Json) -> list[Json]:
    world = ReportWorld({"engine": "kubernetes", "daily": True, **extra})
    world.put_server(SERVER, CLAIM, account="demo-executors")
    await world.one_pass()
    files = world.get("ConfigMap", f"{REPORT}-objectives")["data"]
    return [world.pod(), yaml.safe_load(files["executor.yaml"])["spec"]]


async def _of_migrations(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    monkeypatch.setattr(migration_checks, "STILL_S", 0.0)
    world, found = MigrationWorld(), []
    create = world.kube.create

    async def noted(body: Json) -> Json:
        if body["kind"] == "Pod":
            found.append(body["spec"])
        return await create(body)

    monkeypatch.setattr(world.kube, "create", noted)
    manner = MigrationOptions(say=lambda _: None, poll_s=0.0, timeout_s=0.3)
    await MigrationRun(world.kube, world.request(), manner).run()
    return found


@pytest.mark.parametrize("extra", [{}, LIMITED], ids=["by itself", "with cpuLimit"])
async def test_every_planned_container_has_resources_and_leaves_its_last_words(
    extra: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_lived = await _of_migrations(monkeypatch)
    assert len(short_lived) >= 4, "survey, permission, verify, adopt"
    long_lived = [*await _of_clusters_and_groups(extra), *await _of_reports(extra)]
    for pod in long_lived + short_lived:
        for one in _containers(pod):
            assert one.get("terminationMessagePolicy") == "FallbackToLogsOnError", one["name"]
            if one["name"] == EXECUTOR:
                continue
            assert one["resources"]["requests"].keys() == {"cpu", "memory"}, one["name"]
            limits = {"cpu", "memory"} if extra or pod in short_lived else {"memory"}
            assert one["resources"]["limits"].keys() == limits, one["name"]
