"""What the release's accounts did in the whole run, held against what they may do; and what its namespace refuses.

After all other tests of the release, and before it is removed.
"""

import json
from pathlib import Path
from typing import Final

import pytest

from testkit.kube import audit
from testkit.kube.kubectl import Cluster, KubeError
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
    Right(
        OPERATOR, "rocketmq-ha.dev", "failovers", "delete"
    ): "of records older than the newest many; a run has not so many",
    Right(
        MEASURE, "", "nodes/metrics", "get"
    ): "asked of kubelets, which ask the API server in their own name",
}
"""Rights that no run is seen to use, and why they are needed."""


async def _may(cluster: Cluster) -> frozenset[Right]:
    kinds = "roles,clusterroles,rolebindings,clusterrolebindings"
    ours = "--selector=app.kubernetes.io/instance=rocketmq-ha"
    found = json.loads(await cluster.kubectl("get", kinds, "--all-namespaces", ours, "-o", "json"))["items"]
    bindings = [one for one in found if one["kind"].endswith("Binding")]
    return granted([one for one in found if "rules" in one], bindings, cluster.namespace)


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
        assert (apart.unused, apart.unexcused) == (frozenset(), frozenset())


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
