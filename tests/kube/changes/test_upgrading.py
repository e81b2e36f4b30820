"""An older chart becomes this one under load: clients do not notice, and new features work at once."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.release import ROOT, Release, as_shown, shown_commands

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

CHART: Final = "charts/rocketmq-ha"
OLDER: Final = "0.0.9"
LACKING: Final = ("lostMembers",)
"""Fields of this chart's BrokerGroup that the older one does not know."""


def _older_chart(directory: Path) -> Path:
    """Return a copy of the chart as it may have been before: of a lower version, with fewer fields."""
    copied = directory / "rocketmq-ha"
    shutil.copytree(ROOT / CHART, copied)
    about = copied / "Chart.yaml"
    about.write_text(yaml.safe_dump(yaml.safe_load(about.read_text()) | {"version": OLDER}))
    groups = copied / "crds" / "brokergroups.rocketmq-ha.dev.yaml"
    definition = yaml.safe_load(groups.read_text())
    fields: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for name in LACKING:
        del fields["spec"]["properties"][name]
    groups.write_text(yaml.safe_dump(copy.deepcopy(definition)))
    return copied


async def test_an_older_chart_becomes_this_one_under_load_and_nobody_notices(
    release: Release, load: LoadPod, tmp_path: Path
) -> None:
    group, cluster = release.group, release.cluster
    definitions, upgrade = shown_commands("The chart", "docs/operations/upgrading.md")
    older = str(_older_chart(tmp_path))
    # Applied, it would only add: what the newer one brought stays until somebody replaces it.
    await cluster.kubectl("replace", "-f", f"{older}/crds")
    await as_shown(cluster, f"{upgrade.replace(CHART, older)} --set operator.podLabels.chart=older")
    await _rolled_out(release)
    before = await group.until_whole()
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await _members(release)}
    await as_shown(cluster, definitions)
    await as_shown(cluster, f"{upgrade} --set operator.podLabels.chart=null")
    await _rolled_out(release)
    patch = json.dumps({"spec": {"lostMembers": {"afterSeconds": 700}}})
    await cluster.kubectl("patch", "brokergroup", "orders", "--type=merge", f"--patch={patch}")
    assert (await cluster.get("brokergroup", "orders"))["spec"]["lostMembers"]["afterSeconds"] == 700
    after = await group.until_whole()
    assert (after.master, after.epoch) == (before.master, before.epoch)
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await _members(release)} == pods
    undo = '--patch={"spec":{"lostMembers":null}}'
    await cluster.kubectl("patch", "brokergroup", "orders", "--type=merge", undo)
    await load.stop_without_loss(failed_max=0)


async def _members(release: Release) -> list[dict[str, Any]]:
    return await release.cluster.find("pods", "rocketmq-ha.dev/cluster=main")


async def _rolled_out(release: Release) -> None:
    deployment = "deployment/rocketmq-ha-operator"
    await release.cluster.kubectl("rollout", "status", deployment, "--timeout=120s", timeout_s=130.0)
