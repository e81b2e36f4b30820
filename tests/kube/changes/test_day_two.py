"""Changes to a serving group under load: changed, grown, shrunk, locked, deleted and made again.

They share the release of the first hours, and leave its group as they found it.
"""

import asyncio

import pytest

from testkit.kube.group import BROKER_CONTAINER
from testkit.kube.kubectl import until
from testkit.kube.pods.load_pod import ONE_OF_EACH_THREAD, LoadPod
from testkit.kube.release import Release, as_shown, shown_commands

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

PAGES = "docs/operations"
ROLLED_WITHIN_S = 420.0
CHANGED_WITHIN_S = 300.0
STILL_S = 15.0
"""Longer than the operator's pass of 10 s."""


async def change(release: Release, patch: str) -> None:
    """Change the group's spec."""
    await release.cluster.kubectl("patch", "brokergroup", "orders", "--type=merge", f"--patch={patch}")


async def pods_of(release: Release, component: str = "") -> dict[str, str]:
    """Return the group's pods and their uids; those of brokers or log replicas only, if that is said."""
    chosen = f",app.kubernetes.io/component={component}" if component else ""
    found = await release.cluster.find("pods", f"rocketmq-ha.dev/group=orders{chosen}")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


async def until_replaced(release: Release, before: dict[str, str]) -> list[str]:
    """Wait until every pod is another one; return the members in the order in which they were replaced."""
    order: list[str] = []

    async def all_are() -> bool:
        now = await pods_of(release)
        order.extend(name for name, uid in before.items() if name not in order and now.get(name, uid) != uid)
        assert len(now) >= len(before) - 1, f"two members are away at once: {sorted(now)}"
        return len(order) == len(before)

    await until("every pod is replaced", all_are, ROLLED_WITHIN_S, poll_s=0.5)
    return order


async def test_a_changed_setting_goes_through_the_group_member_by_member_the_master_last(
    release: Release, load: LoadPod
) -> None:
    group = release.group
    before, pods = await group.until_whole(), await pods_of(release, "broker")
    logs = await pods_of(release, "log-replica")
    changed, _ = shown_commands("A setting", f"{PAGES}/changing.md")
    await as_shown(release.cluster, changed)
    order = await until_replaced(release, pods)
    after = await group.until_whole()
    assert order[-1] == before.master, order
    assert await pods_of(release, "log-replica") == logs, "the setting does not apply to a log replica"
    assert after.master != before.master
    assert after.epoch == before.epoch + 1, "one switchover is enough"
    for broker in after.brokers:
        text = await release.cluster.shell(broker, BROKER_CONTAINER, "cat /tmp/broker.conf")
        assert b"sendMessageThreadPoolNums=6" in text
    await load.stop_without_loss(failed_max=ONE_OF_EACH_THREAD)


@pytest.mark.flaky(reruns=2)
async def test_a_broker_joins_by_kubectl_scale_and_leaves_again(release: Release, load: LoadPod) -> None:
    group = release.group
    await group.until_whole()
    grown, shrunk = shown_commands("Brokers", f"{PAGES}/scaling.md")
    await as_shown(release.cluster, grown)

    async def has(brokers: int) -> bool:
        view = await group.view()
        return view.whole and len(view.brokers) == brokers

    await until("the third broker is in sync", lambda: has(3), CHANGED_WITHIN_S)
    assert (await group.view()).in_sync == "4/4"
    await as_shown(release.cluster, shrunk)
    await until("the third broker is not a member", lambda: has(2), CHANGED_WITHIN_S)

    async def pod_is_gone() -> bool:
        return set(await pods_of(release)) == {"orders-0", "orders-1", "orders-log-0"}

    await until("the third broker's pod has gone", pod_is_gone, CHANGED_WITHIN_S)
    claims = await release.cluster.find("persistentvolumeclaims", "rocketmq-ha.dev/group=orders")
    assert len(claims) == 4, "its volume is kept"
    await release.cluster.kubectl("delete", "persistentvolumeclaim", "data-orders-2")
    await load.stop_without_loss(failed_max=0)


@pytest.mark.flaky(reruns=2)
async def test_a_log_replica_more_joins_and_leaves_again_and_no_broker_notices(
    release: Release, load: LoadPod
) -> None:
    group = release.group
    await group.until_whole()
    brokers = await pods_of(release, "broker")
    more, fewer = shown_commands("Log replicas", f"{PAGES}/scaling.md")

    async def in_sync(of_all: str) -> bool:
        return (await group.view()).in_sync == of_all

    await as_shown(release.cluster, more)
    await until("the second log replica is in sync", lambda: in_sync("4/4"), CHANGED_WITHIN_S)
    await as_shown(release.cluster, fewer)
    await until("it is not a member any more", lambda: in_sync("3/3"), CHANGED_WITHIN_S)

    async def pod_is_gone() -> bool:
        return set(await pods_of(release, "log-replica")) == {"orders-log-0"}

    await until("its pod has gone", pod_is_gone, CHANGED_WITHIN_S)
    await release.cluster.kubectl("delete", "persistentvolumeclaim", "data-orders-log-1")
    assert await pods_of(release, "broker") == brokers
    await load.stop_without_loss(failed_max=0)


async def test_a_slave_that_lost_its_volume_is_filled_again(release: Release, load: LoadPod) -> None:
    group, cluster = release.group, release.cluster
    view = await group.until_whole()
    (slave,) = set(view.brokers) - {view.master}
    pods = await pods_of(release)
    for command in shown_commands("Losing one", f"{PAGES}/volumes.md"):
        await as_shown(cluster, command.replace("orders-1", slave))

    async def replaced() -> bool:
        return (await pods_of(release)).get(slave, pods[slave]) != pods[slave]

    await until(f"{slave} is another pod", replaced, CHANGED_WITHIN_S)
    after = await group.until_whole(CHANGED_WITHIN_S)
    assert after.in_sync == "3/3", "what it was before its volume was lost is forgotten"
    assert after.master == view.master
    await load.stop_without_loss()


async def test_two_brokers_that_lost_their_volumes_have_every_message_again_from_the_log_replica(
    release: Release, load: LoadPod
) -> None:
    group, cluster = release.group, release.cluster
    before = await group.until_whole()
    await load.until_brokers_know_topic(before.brokers)
    assert (await load.stop()).acknowledged > 0
    pods = await pods_of(release, "broker")
    claims = [f"data-{broker}" for broker in before.brokers]
    await cluster.kubectl("delete", "persistentvolumeclaim", *claims, "--wait=false")
    await cluster.kubectl("delete", "pod", *before.brokers, timeout_s=120.0)

    async def both_are_others() -> bool:
        now = await pods_of(release, "broker")
        return all(now.get(name, uid) != uid for name, uid in pods.items())

    await until("both brokers are other pods", both_are_others, CHANGED_WITHIN_S)
    after = await group.until_whole(CHANGED_WITHIN_S)
    assert after.in_sync == "3/3"
    assert after.epoch > before.epoch
    assert (await load.read_back()).lost == frozenset()


@pytest.mark.flaky(reruns=2)
async def test_the_master_s_node_is_drained_without_a_failed_send_and_the_group_is_whole_when_it_is_back(
    release: Release, load: LoadPod
) -> None:
    group, cluster = release.group, release.cluster
    before = await group.until_at_home()
    pod = await cluster.get("pod", before.master)
    node = pod["spec"]["nodeName"]
    drained, uncordoned = shown_commands("Draining one", f"{PAGES}/nodes.md")
    # What else is on the node, the load among it, stays: this is about the group.
    only = "--pod-selector=rocketmq-ha.dev/group=orders --timeout=120s"
    try:
        await as_shown(cluster, f"{drained.replace('node2', node)} {only}")
        after = await group.until_epoch_above(before.epoch)
        assert after.master != before.master
    finally:
        await as_shown(cluster, uncordoned.replace("node2", node))
    whole = await group.until_whole(CHANGED_WITHIN_S)
    assert whole.epoch == before.epoch + 1, "one change of master is enough"
    await load.stop_without_loss(failed_max=0)


async def test_nothing_changes_while_a_group_is_paused(release: Release) -> None:
    group = release.group
    await group.until_whole()
    pods = await pods_of(release, "broker")
    pause, go_on = shown_commands("Nothing for a while", f"{PAGES}/changing.md")
    await as_shown(release.cluster, pause)
    await change(release, '{"spec":{"config":{"sendMessageThreadPoolNums":"7"}}}')
    await asyncio.sleep(STILL_S)
    assert await pods_of(release, "broker") == pods
    picture = await release.cluster.plugin("status", "orders")
    assert "waits  spec.paused is true: nothing is changed" in picture
    await change(release, '{"spec":{"config":null}}')
    await as_shown(release.cluster, go_on)
    await until_replaced(release, pods)
    await group.until_whole()


async def test_a_deleted_group_leaves_its_volumes_and_has_its_messages_again_when_it_is_made_anew(
    release: Release, load: LoadPod
) -> None:
    group, cluster = release.group, release.cluster
    await load.until_brokers_know_topic((await group.until_whole()).brokers)
    stats = await load.stop()
    assert stats.acknowledged > 0
    await cluster.kubectl("delete", "brokergroup", "orders", timeout_s=120.0)

    async def gone() -> bool:
        return await pods_of(release) == {}

    await until("its pods are gone", gone, CHANGED_WITHIN_S)
    claims = await cluster.find("persistentvolumeclaims", "rocketmq-ha.dev/group=orders")
    assert [claim["status"]["phase"] for claim in claims] == ["Bound"] * 3
    await as_shown(cluster, "kubectl -n rocketmq apply -f examples/brokergroup.yaml")

    async def made() -> bool:
        return (await group.view()).whole

    await until("the group is whole again", made, CHANGED_WITHIN_S)
    assert (await load.read_back()).lost == frozenset()
