"""A group hibernates and wakes up on a real cluster, with the messages that were acknowledged before."""

import pytest

from testkit.kube.kubectl import until
from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.release import Release, as_shown, shown_commands

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

STOPPED_WITHIN_S = 180.0
MESSAGES_MIN = 200


async def test_a_group_that_hibernates_keeps_its_messages_volumes_and_addresses(
    release: Release, load: LoadPod
) -> None:
    cluster, group = release.cluster, release.group
    before = await group.until_whole()
    members = "rocketmq-ha.dev/group=orders"

    async def identities(kind: str) -> dict[str, str]:
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in await cluster.find(kind, members)}

    kept = {kind: await identities(kind) for kind in ("persistentvolumeclaims", "services")}

    async def has_sent() -> bool:
        return len(await load.sends()) >= MESSAGES_MIN

    await until(f"{MESSAGES_MIN} messages are sent", has_sent, STOPPED_WITHIN_S)
    await load.stop()
    asleep, waited, awake = shown_commands("Hibernate", "docs/operations/scaling.md")
    await as_shown(cluster, asleep)
    await as_shown(cluster, waited)
    assert await cluster.find("pods", members) == []
    stopped = await group.view()
    assert not stopped.ready
    await as_shown(cluster, awake)
    after = await group.until_whole()
    assert after.master == before.brokers[0], "the last to stop is master again"
    assert after.epoch >= max(stopped.epoch, before.epoch)
    assert {kind: await identities(kind) for kind in kept} == kept
    assert (await load.read_back()).lost == frozenset()
