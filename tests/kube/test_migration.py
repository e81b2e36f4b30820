"""Brokers in plain StatefulSets become a BrokerGroup, by the reference's commands.

A master and a slave, and three members of DLedger.

A thousand messages of a Java producer are written to the old brokers and read from the
new ones, on the same volumes.
"""

import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, KubeError, until
from testkit.kube.old_group import (
    DLEDGER,
    DLEDGER_MEMBERS,
    GROUP,
    MASTER,
    NAME_SERVERS,
    SLAVE,
    KubeOldGroup,
)
from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.release import ROCKETMQ_IMAGE, ROOT, Release, as_shown, described
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_800),
    pytest.mark.usefixtures("alone"),
]

SHOP, TOPIC = "migration", "Payments"
MESSAGES = 1_000
MANY = LoadSettings(threads=4, rate=200)
SLOW = LoadSettings(threads=1, rate=20)
SENT_WITHIN_S = 120.0
MIGRATED_WITHIN_S = 900.0
REMOVED_WITHIN_S = 240.0
NEW_NAME_SERVERS = "main-nameserver:9876"
_ACCESS = ("--credentials-secret", "--trust-config-map")


def _shown() -> list[str]:
    """Return the commands of the reference's first path, those that change something and those that look."""
    text = (ROOT / "docs" / "reference" / "migration.md").read_text()
    return re.findall(r"^((?:helm|kubectl) .*)$", text, re.MULTILINE)


def _migrate(*wanted: str) -> list[str]:
    """Return the words of the one shown migration of a master and a slave with exactly these options."""
    marks = {"--dry-run", "--undo", "--yes"}
    found = [
        shlex.split(line)[2:]
        for line in _shown()
        if " rmqha migrate " in line
        and not any(option in line for option in ("--path dledger", *_ACCESS))
        and marks & set(line.split()) == set(wanted)
    ]
    assert len(found) == 1, (wanted, found)
    at = found[0].index("-n")
    words = [*found[0][:at], *found[0][at + 2 :]]
    return [str(ROOT / word) if word.startswith("examples/") else word for word in words]


@pytest.fixture
async def shop(release: Release) -> AsyncIterator[Cluster]:
    """A namespace under the restricted profile with a cluster of ours, which the operator looks after."""
    cluster = Cluster(release.cluster.kubeconfig, SHOP)
    look_everywhere, *others = [line for line in _shown() if " rmqha " not in line and " create " not in line]
    await as_shown(release.cluster, look_everywhere)
    deployment = "deployment/rocketmq-ha-operator"
    await release.cluster.kubectl("rollout", "status", deployment, "--timeout=120s", timeout_s=130.0)
    await cluster.kubectl("create", "namespace", SHOP)
    try:
        await cluster.kubectl("label", "namespace", SHOP, "pod-security.kubernetes.io/enforce=restricted")
        for command in others:
            await as_shown(cluster, command.replace(" -n shop ", f" -n {SHOP} "))
        yield cluster
    finally:
        await cluster.kubectl("delete", "brokergroups,rocketmqclusters", "--all", timeout_s=REMOVED_WITHIN_S)
        await cluster.kubectl("delete", "namespace", SHOP, timeout_s=REMOVED_WITHIN_S)


async def _plugin(cluster: Cluster, *words: str) -> str:
    try:
        return await cluster.plugin(*words, timeout_s=MIGRATED_WITHIN_S)
    except KubeError as error:
        raise KubeError(f"{error}\n{await described(cluster)}") from error


async def test_a_plain_group_becomes_a_broker_group_with_every_message(shop: Cluster) -> None:
    old = KubeOldGroup(shop)
    await old.install()
    producer = LoadPod(shop, "producer", ROCKETMQ_IMAGE, NAME_SERVERS, TOPIC)
    await producer.start(MANY)

    async def enough() -> bool:
        return len([one for one in await producer.sends() if one.acknowledged]) >= MESSAGES

    await until(f"{MESSAGES} messages are sent", enough, SENT_WITHIN_S, poll_s=2.0)
    await producer.stop()
    sent = {one.key for one in await producer.sends() if one.acknowledged}
    volumes = [await old.volume(f"data-{name}-0") for name in (MASTER, SLAVE)]

    printed = await _plugin(shop, *_migrate("--dry-run"))
    assert f"next: forbid writes to {MASTER}-0, {SLAVE}-0" in printed
    assert await old.replicas() == {"names": 1, MASTER: 1, SLAVE: 1}

    for step in ("forbid writes to", f"stop {MASTER}-0, then"):
        printed = await _plugin(shop, *_migrate("--yes"), "--step")
        assert f"done: {step}" in printed
    assert await old.replicas() == {"names": 1, MASTER: 0, SLAVE: 0}
    await _plugin(shop, *_migrate("--undo", "--yes"))
    assert await old.replicas() == {"names": 1, MASTER: 1, SLAVE: 1}
    assert (await producer.read_back()).lost == frozenset()

    printed = await _plugin(shop, *_migrate("--yes"))
    assert f"{GROUP} is migrated" in printed
    view = await KubeGroup(shop, GROUP).until_whole()
    assert view.master == f"{GROUP}-0"
    assert [await old.volume(f"data-{GROUP}-{number}") for number in (0, 1)] == volumes
    for name in volumes:
        volume = json.loads(await shop.kubectl("get", "pv", name, "-o", "json"))
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        assert not [key for key in volume["metadata"]["annotations"] if key.startswith("rocketmq-ha.dev/")]
    again = await _plugin(shop, *_migrate("--yes"))
    assert again.startswith(f"{GROUP} is migrated: ")

    later = LoadPod(shop, "later", ROCKETMQ_IMAGE, NEW_NAME_SERVERS, TOPIC)
    await later.start(SLOW)
    await later.stop()
    result = await later.read_back()
    assert result.lost == frozenset()
    assert sent <= result.unexpected, "consumers read earlier messages afterwards"
    left = [
        one["metadata"]["name"] for one in await shop.find("pods", "app.kubernetes.io/component=migration")
    ]
    assert left == []


async def test_three_members_of_dledger_become_a_broker_group(shop: Cluster, tmp_path: Path) -> None:
    old = KubeOldGroup(shop)
    await old.install_dledger()
    producer = LoadPod(shop, "producer", ROCKETMQ_IMAGE, NAME_SERVERS, TOPIC)
    await producer.start(SLOW)

    async def enough() -> bool:
        return any(one.acknowledged for one in await producer.sends())

    await until("a message is sent", enough, SENT_WITHIN_S, poll_s=2.0)
    await producer.stop()
    volumes = [await old.volume(f"data-{DLEDGER}-{number}") for number in range(DLEDGER_MEMBERS)]
    manifest = yaml.safe_load((ROOT / "examples" / "migrated.yaml").read_text())
    manifest["spec"]["replicas"] = DLEDGER_MEMBERS
    path = tmp_path / "migrated.yaml"
    path.write_text(yaml.safe_dump(manifest))

    (shown,) = [line for line in _shown() if "--path dledger" in line]
    words = shlex.split(shown.replace(" -n shop ", " ").replace("examples/migrated.yaml", str(path)))[2:]
    printed = await _plugin(shop, *words)
    assert "next: forbid writes to dledger-0, dledger-1, dledger-2" in printed
    words.remove("--dry-run")
    with pytest.raises(KubeError, match=f"nobody reads {TOPIC}"):
        await _plugin(shop, *words, "--yes", "--timeout", "60s")
    printed = await _plugin(shop, *words, "--yes", "--ignore", TOPIC)
    assert f"{GROUP} is migrated" in printed
    view = await KubeGroup(shop, GROUP).until_whole()
    assert view.master == f"{GROUP}-0"
    assert [await old.volume(f"data-{GROUP}-{number}") for number in range(DLEDGER_MEMBERS)] == volumes

    later = LoadPod(shop, "later", ROCKETMQ_IMAGE, NEW_NAME_SERVERS, TOPIC)
    await later.start(SLOW)
    await later.stop()
    result = await later.read_back()
    assert (result.lost, result.unexpected) == (frozenset(), frozenset())
