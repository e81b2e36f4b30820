"""The end of the release that this folder's tests share: README's commands remove it, after all others."""

import pytest

from testkit.kube.kubectl import until
from testkit.kube.release import REMOVE_TITLE, Release, as_shown, shown_commands

pytestmark = [
    pytest.mark.timeout(600),
]


async def test_uninstalling_leaves_the_volumes_and_nothing_else(release: Release) -> None:
    cluster = release.cluster
    for command in shown_commands(REMOVE_TITLE):
        await as_shown(cluster, command)
    kinds = await cluster.kubectl("api-resources", "--verbs=list", "--namespaced", "-o", "name")
    wanted = sorted(set(kinds.split()) - {"events", "events.events.k8s.io"})

    async def only_volumes() -> bool:
        return await _left(release, wanted) <= {"persistentvolumeclaim"}

    await until("nothing but volumes is left", only_volumes, 120.0, poll_s=2.0)
    claims = await cluster.find("persistentvolumeclaims")
    # Three controllers, two brokers, one log replica, and the measurements.
    assert len(claims) == 7
    roles = await cluster.kubectl(
        "get", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/instance=rocketmq-ha"
    )
    assert roles == ""


async def _left(release: Release, kinds: list[str]) -> set[str]:
    """Return the kinds of which something is left that a namespace does not have by itself."""
    text = await release.cluster.kubectl("get", ",".join(kinds), "-o", "name", "--ignore-not-found")
    own = {"serviceaccount/default", "configmap/kube-root-ca.crt"}
    return {name.partition("/")[0].partition(".")[0] for name in text.split() if name not in own}
