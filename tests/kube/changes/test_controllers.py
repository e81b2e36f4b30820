"""Changes to the controllers of a serving group, under load.

There are more of them, fewer, one with an empty store, and none for a while.

No master may change for any of it, and no send may fail. Controllers that all lost their volumes begin a new
epoch, at which a few sends fail.
"""

import json

import pytest

from testkit.kube.kubectl import Json, until
from testkit.kube.pods.load_pod import SENDS_A_SECOND, LoadPod
from testkit.kube.release import NAMESPACE, Release, as_shown, shown_commands

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

CHANGED_WITHIN_S = 300.0
REFUSED_S_MAX = 0.3
"""About 0.1 s, says the page of lost controllers; here all nodes share two cores."""
CHOSEN = "rocketmq-ha.dev/cluster=main,app.kubernetes.io/component=controller"
PAGE = "docs/reference/controllers.md"
HTTP_PORT = 9880


async def members(release: Release, asked: str = "main-controller-0") -> dict[str, Json]:
    """Return who the controllers are, by name, as one of their pods says."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{asked}:{HTTP_PORT}/proxy/v1/members"
    found = json.loads(await release.cluster.text(path))["members"]
    return {one["name"]: one for one in found}


async def pods(release: Release) -> dict[str, str]:
    """Return the controllers' pods and their uids."""
    found = await release.cluster.find("pods", CHOSEN)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


async def until_settled(release: Release, count: int) -> None:
    """Wait until so many controllers are ready and vote, and other controller pods and volumes are gone."""

    async def holds() -> bool:
        status = (await release.cluster.get("rocketmqcluster", "main"))["status"]
        healthy = next(one["status"] for one in status["conditions"] if one["type"] == "QuorumHealthy")
        # Ask the controllers too: a status written before all of them went looks like the expected one.
        roles = [one["role"] for one in (await members(release)).values()]
        return (status["controllers"], healthy, roles) == (f"{count}/{count}", "True", ["voter"] * count)

    await until(f"{count} controllers vote", holds, CHANGED_WITHIN_S, poll_s=1.0)
    assert len(await pods(release)) == count

    async def volumes_are_gone() -> bool:
        claims = await release.cluster.find("persistentvolumeclaims", "rocketmq-ha.dev/cluster=main")
        names = [claim["metadata"]["name"] for claim in claims]
        return len([name for name in names if name.startswith("data-main-controller-")]) == count

    await until("volumes of controllers that went are gone", volumes_are_gone, CHANGED_WITHIN_S)


async def test_controllers_become_more_and_fewer_as_the_page_shows(release: Release, load: LoadPod) -> None:
    before = await release.group.until_whole()
    brokers = await release.cluster.find("pods", "rocketmq-ha.dev/group=orders")
    first, *rest = shown_commands("Changing the number", PAGE)
    for count in (5, 3, 1, 3):
        await as_shown(release.cluster, first.replace('"replicas":5', f'"replicas":{count}'))
        for command in rest:
            printed = await as_shown(release.cluster, command.replace("5/5", f"{count}/{count}"))
        assert printed.split().count("Leader") == 1
        assert printed.split().count("Voter") == count - 1
        await until_settled(release, count)
        after = await release.group.until_whole()
        assert (after.master, after.epoch) == (before.master, before.epoch), f"{count} controllers"
    still = await release.cluster.find("pods", "rocketmq-ha.dev/group=orders")
    assert [pod["metadata"]["uid"] for pod in still] == [pod["metadata"]["uid"] for pod in brokers]
    await load.stop_without_loss(failed_max=0)


async def test_a_controller_that_lost_its_volume_votes_again(release: Release, load: LoadPod) -> None:
    cluster = release.cluster
    before = await release.group.until_whole()
    lost = (await cluster.get("rocketmqcluster", "main"))["status"]["leader"]
    name = f"n{lost[-1]}"
    store = (await members(release))[name]["incarnation"]
    await cluster.kubectl("delete", "persistentvolumeclaim", f"data-{lost}", "--wait=false")
    await cluster.kubectl("delete", "pod", lost)

    async def votes_with_another_store() -> bool:
        status = (await cluster.get("rocketmqcluster", "main"))["status"]
        voter = next(pod for pod in ("main-controller-0", "main-controller-1") if pod != lost)
        now = (await members(release, voter)).get(name, {})
        return (
            now.get("role") == "voter"
            and now["incarnation"] not in {None, store}
            and status["controllers"] == "3/3"
        )

    await until(f"{lost} votes again", votes_with_another_store, CHANGED_WITHIN_S, poll_s=1.0)
    await until_settled(release, 3)
    events = await cluster.find("events")
    assert "ControllerReplaced" in {event["reason"] for event in events}
    after = await release.group.until_whole()
    assert (after.master, after.epoch) == (before.master, before.epoch)
    await load.stop_without_loss(failed_max=0)


async def test_all_controllers_that_are_deleted_at_once_come_back_by_themselves(
    release: Release, load: LoadPod
) -> None:
    before, killed = await release.group.until_whole(), await pods(release)
    await release.cluster.kubectl("delete", "pods", "--selector", CHOSEN, "--wait=false")

    async def all_are_others() -> bool:
        now = await pods(release)
        return now.keys() == killed.keys() and not set(now.values()) & set(killed.values())

    await until("all controllers are others", all_are_others, CHANGED_WITHIN_S)
    await until_settled(release, 3)
    after = await release.group.until_whole()
    assert (after.master, after.epoch) == (before.master, before.epoch)
    await load.stop_without_loss(failed_max=0)


async def test_controllers_that_all_lost_their_volumes_take_the_brokers_up_and_the_master_stays(
    release: Release, load: LoadPod
) -> None:
    before = await release.group.until_whole()
    for command in shown_commands("On Kubernetes", "docs/operations/lost_controllers.md"):
        await as_shown(release.cluster, command)
    await until_settled(release, 3)

    async def has_a_master_again() -> bool:
        group = await release.group.until_whole()
        return group.epoch > before.epoch

    await until("the first election", has_a_master_again, CHANGED_WITHIN_S, poll_s=1.0)
    assert (await release.group.until_whole()).master == before.master
    # The first set is the master alone; until the others have joined it, the broker refuses sends.
    await load.stop_without_loss(failed_max=int(SENDS_A_SECOND * REFUSED_S_MAX))


async def test_a_changed_setting_goes_through_the_controllers_one_by_one(
    release: Release, load: LoadPod
) -> None:
    cluster = release.cluster
    before, old = await release.group.until_whole(), await pods(release)
    await cluster.kubectl(
        "patch", "rmqc", "main", "--type=merge",
        '--patch={"spec":{"controllers":{"resources":{"cpu":"250m","memory":"288Mi"}}}}',
    )  # fmt: skip
    fewest = len(old)

    async def all_are_others() -> bool:
        nonlocal fewest
        found = await cluster.find("pods", CHOSEN)
        fewest = min(fewest, sum(_is_ready(pod) for pod in found))
        return not {pod["metadata"]["uid"] for pod in found} & set(old.values())

    await until("all controllers are others", all_are_others, CHANGED_WITHIN_S, poll_s=0.5)
    assert fewest >= len(old) - 1, "a majority was ready all the time"
    await until_settled(release, 3)
    after = await release.group.until_whole()
    assert (after.master, after.epoch) == (before.master, before.epoch)
    await load.stop_without_loss(failed_max=0)


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
