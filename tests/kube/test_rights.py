"""The requests of the release's accounts to the API server.

They are few when nothing changes, and within the accounts' rights in the whole run.

After all other tests of the release, and before it is removed.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from testkit.kube import audit
from testkit.kube.kubectl import Cluster, KubeError, until
from testkit.kube.release import Release
from testkit.kube.rights import Right, difference, granted, used

OPERATOR: Final = "rocketmq-ha-operator"
MEASURE: Final = "rocketmq-ha-measure"
_ADMISSION: Final = "asked for by an admission that clusters may have, in the account's name: no log tells"
EXCUSED: Final = {
    Right(
        OPERATOR, "coordination.k8s.io", "leases", "create"
    ): "the Lease comes with the release; for one that was deleted",
    Right(OPERATOR, "rocketmq-ha.dev", "rocketmqclusters/finalizers", "update"): _ADMISSION,
    Right(OPERATOR, "rocketmq-ha.dev", "brokergroups/finalizers", "update"): _ADMISSION,
    Right(OPERATOR, "rocketmq-ha.dev", "sloreports/finalizers", "update"): _ADMISSION,
    Right(OPERATOR, "rocketmq-ha.dev", "users/finalizers", "update"): _ADMISSION,
    Right(
        OPERATOR, "rocketmq-ha.dev", "failovers", "delete"
    ): "of records older than the newest many; a run has not so many",
    Right(
        MEASURE, "", "nodes/metrics", "get"
    ): "asked of kubelets, which ask the API server in their own name",
}
"""Rights that no run is seen to use, and why they are needed."""
BY_CHANCE: Final = {
    Right(OPERATOR, "events.k8s.io", "events", "list"): "of a member without a pod or a volume for seconds",
    Right(
        "rocketmq-ha-executors", "", "pods", "delete"
    ): "of an executor that failed or was not needed any more before the others; a run may be without one",
}
"""Rights that some runs use and some do not, and what for."""
STRETCH: Final = timedelta(seconds=30)
CALLS_MAX: Final = 10
"""Calls in a stretch, beside the Lease's and watches: a group judged from the cache needs zero calls, one
look at the API server for each of cluster and group would be dozens."""
QUIET_WITHIN_S: Final = 180.0


async def _may(cluster: Cluster) -> frozenset[Right]:
    kinds = "roles,clusterroles,rolebindings,clusterrolebindings"
    ours = "--selector=app.kubernetes.io/instance=rocketmq-ha"
    found = json.loads(await cluster.kubectl("get", kinds, "--all-namespaces", ours, "-o", "json"))["items"]
    bindings = [one for one in found if one["kind"].endswith("Binding")]
    return granted([one for one in found if "rules" in one], bindings, cluster.namespace)


def _asked_lately(audit_log: Path, account: str) -> Counter[str]:
    since = datetime.now(UTC) - STRETCH
    return Counter(
        f"{event['verb']} {event['requestURI'].partition('?')[0]}"
        for event in audit.events(audit_log)
        if event["user"]["username"] == account
        and event["verb"] != "watch"
        and event.get("objectRef", {}).get("resource") != "leases"
        and datetime.fromisoformat(event["requestReceivedTimestamp"]) > since
    )


async def test_while_nothing_changes_the_operator_asks_next_to_nothing(
    release: Release, audit_log: Path | None
) -> None:
    if audit_log is None:
        pytest.skip(audit.why_not())
    account = f"system:serviceaccount:{release.cluster.namespace}:{OPERATOR}"

    async def is_quiet() -> bool:
        asked = _asked_lately(audit_log, account)
        if asked.total() > CALLS_MAX:
            raise KubeError(f"{asked.total()} calls in {STRETCH}: {asked.most_common(8)}")
        return True

    await until("the operator asks next to nothing", is_quiet, QUIET_WITHIN_S, poll_s=5.0)


async def test_the_accounts_did_all_that_they_may_and_were_refused_nothing(
    release: Release, audit_log: Path | None, whole_run: bool
) -> None:
    if audit_log is None:
        pytest.skip(audit.why_not())
    seen = used(audit.events(audit_log), release.cluster.namespace)
    assert seen.refused == frozenset()
    apart = difference(seen.rights, await _may(release.cluster), EXCUSED)
    assert apart.ungranted == frozenset()
    if whole_run:
        assert (apart.unused - BY_CHANCE.keys(), apart.unexcused) == (frozenset(), frozenset())


async def test_a_pod_that_breaks_the_restricted_profile_is_refused(release: Release) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bad", "namespace": release.cluster.namespace},
        "spec": {
            "containers": [
                {"name": "bad", "image": "none", "securityContext": {"privileged": True, "runAsUser": 0}}
            ]
        },
    }
    with pytest.raises(KubeError, match="violates PodSecurity"):
        await release.cluster.apply(pod)
