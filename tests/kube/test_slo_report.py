"""An SLOReport on a real cluster: applied as README shows, run at once, read in status and at its address.

Measuring is left switched on, as the tests after this one want it; the report is deleted again.
"""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from typing import Final

import pytest

from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.release import Release, as_shown, measure
from testkit.kube.reports import MEASURE, KubeReport

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

MEASURED_S = 20.0
EXECUTORS_WITHIN_S = 120.0
FAILED_WITHIN_S = 180.0
GONE_WITHIN_S = 60.0
FETCH_TIMEOUT_S = 20
PAGE_BYTES_MAX = 1 << 20
SPARK = {"app.kubernetes.io/name": "rocketmq", "app.kubernetes.io/component": "spark"}


def _reasons(status: Json) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in status["conditions"]}


async def _page(cluster: Cluster, address: str) -> bytes:
    """Fetch a page from inside the cluster."""
    fetch = (
        "import sys, urllib.request; "
        f"sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout={FETCH_TIMEOUT_S}).read())"
    )
    script = f"python3 -c {shlex.quote(fetch)} {shlex.quote(address)}"
    return await cluster.shell(MEASURE, "server", script)


async def test_a_report_is_made_on_request_and_says_what_it_came_to(release: Release) -> None:
    cluster, report = release.cluster, KubeReport(release.cluster, "weekly")
    await release.group.until_whole()
    await measure(cluster)
    await as_shown(cluster, "kubectl -n rocketmq apply -f examples/sloreport.yaml")
    await cluster.kubectl("wait", "--for=condition=Ready", "rmqslo/weekly", "--timeout=60s", timeout_s=70.0)
    # No run of its own may come between.
    await report.patch({"suspend": True})
    assert (await cluster.get("cronjob", "weekly"))["spec"]["suspend"] is True
    await asyncio.sleep(MEASURED_S)

    status = await report.run_now("weekly-now")
    assert status["lastResult"] == "Succeeded", status
    assert _reasons(status)["Ready"] == "Reported"
    # Earlier tests measured groups of their own.
    objectives = {one["name"]: one for one in status["objectives"] if one["group"] == "orders"}
    assert objectives["write-availability"]["attained"].endswith("%")
    assert (status["attained"], status["budgetLeft"]) == (
        status["objectives"][0].get("attained"),
        status["objectives"][0]["budgetLeft"],
    )
    assert _reasons(status)["ObjectivesMet"] in {"AllHold", "Overspent", "NotMeasured"}

    page = await _page(cluster, status["address"])
    assert b"weekly in rocketmq" in page
    assert len(page) < PAGE_BYTES_MAX
    columns = (await cluster.kubectl("get", "rmqslo")).splitlines()
    assert columns[0].split()[:5] == ["NAME", "SCHEDULE", "ATTAINED", "BUDGET", "LAST-RUN"]
    assert status["address"] in columns[1]


async def test_a_report_may_keep_what_it_reads_of_closed_days(release: Release) -> None:
    cluster, report = release.cluster, KubeReport(release.cluster, "weekly")
    await as_shown(
        cluster, 'kubectl -n rocketmq patch rmqslo weekly --type=merge -p \'{"spec":{"daily":true}}\''
    )
    await report.until_acted_on()
    status = await report.run_now("weekly-daily")
    assert status["lastResult"] == "Succeeded", status
    known = (
        (await cluster.shell(MEASURE, "server", "ls /data/report-days/weekly/segments/days")).decode().split()
    )
    assert known, "each day that was looked at has a manifest"
    await report.patch({"daily": False})


async def test_a_report_on_two_executors_is_the_same_page_byte_for_byte(release: Release) -> None:
    cluster, report = release.cluster, KubeReport(release.cluster, "weekly")
    await measure(cluster, "measure.report.executors=true")
    # The collector goes on: only of a copy do two runs see the same.
    await cluster.shell(MEASURE, "server", "cp -r /data/segments /data/copied")
    await report.patch({"source": {"path": "copied"}})
    status = await report.run_now("weekly-one-pod")
    assert status["lastResult"] == "Succeeded", status
    page = await _page(cluster, status["address"])
    await report.patch({"engine": "kubernetes", "executors": 2})
    running = asyncio.create_task(report.run_now("weekly-executors"))

    async def both() -> bool:
        found = await cluster.find("pods", "rocketmq-ha.dev/slo-report=weekly,spark-role=executor")
        return sum(pod["status"]["phase"] == "Running" for pod in found) == 2

    await until("two executors run", both, EXECUTORS_WITHIN_S, poll_s=0.5)
    status = await running
    assert (status["lastResult"], status["lastJob"]) == ("Succeeded", "weekly-executors"), status
    assert await _page(cluster, status["address"]) == page

    async def gone() -> bool:
        return await cluster.find("pods", "rocketmq-ha.dev/slo-report=weekly,spark-role=executor") == []

    await until("no executor is left", gone, GONE_WITHIN_S)
    await report.patch({"engine": "local", "source": {"path": "segments"}})


@pytest.fixture
async def unenforced(release: Release) -> AsyncIterator[None]:
    """Have the namespace accept pods of each profile, so that the account's own policy decides."""
    label = "pod-security.kubernetes.io/enforce"
    place = ("label", "--overwrite", "namespace", release.cluster.namespace)
    await release.cluster.kubectl(*place, f"{label}=privileged")
    yield
    await release.cluster.kubectl(*place, f"{label}=restricted")


def _volume(**source: Json) -> Json:
    return {"volumes": [{"name": "one", **source}]}


def _container(kind: str = "containers", **rest: object) -> Json:
    return {kind: [{"name": "another", "image": "one", **rest}]}


SECRET: Final[Json] = {"name": "key", "key": "key"}


@pytest.mark.usefixtures("unenforced")
@pytest.mark.parametrize(
    ("labels", "spec", "refusal"),
    [
        ({"app": "shop"}, {}, "executors of reports alone"),
        (SPARK, _volume(hostPath={"path": "/"}), "no directory of its node"),
        (SPARK, _volume(secret={"secretName": "key"}), "no Secret and no directory"),
        (SPARK, _volume(projected={"sources": [{"secret": {"name": "key"}}]}), "no Secret and no directory"),
        (SPARK, _volume(csi={"driver": "one", "nodePublishSecretRef": {"name": "key"}}), "no Secret and no"),
        (SPARK, _container(envFrom=[{"secretRef": {"name": "key"}}]), "nothing from a Secret"),
        (
            SPARK,
            _container(env=[{"name": "A", "valueFrom": {"secretKeyRef": SECRET}}]),
            "nothing from a Secret",
        ),
        (
            SPARK,
            _container("initContainers", envFrom=[{"secretRef": {"name": "key"}}]),
            "nothing from a Secret",
        ),
        (SPARK, {"serviceAccountName": "rocketmq-ha-operator"}, "no other account"),
        (SPARK, {"hostNetwork": True}, "shares nothing with its node"),
        (SPARK, _container(securityContext={"privileged": True}), "not privileged"),
        (SPARK, _container("initContainers", securityContext={"privileged": True}), "not privileged"),
    ],
)
async def test_the_account_of_executors_makes_no_other_pod(
    release: Release, labels: Json, spec: Json, refusal: str
) -> None:
    cluster = release.cluster
    account = f"--as=system:serviceaccount:{cluster.namespace}:rocketmq-ha-executors"
    container = {"name": "one", "image": "one"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "labels": labels},
        "spec": {"automountServiceAccountToken": False, "containers": [container], **spec},
    }
    dry_run = ("create", account, "--dry-run=server", "-f", "-")
    with pytest.raises(KubeError, match=refusal):
        await cluster.kubectl(*dry_run, stdin=json.dumps(pod).encode())
    for name in ("main-controller-0", "main-nameserver-0"):
        with pytest.raises(KubeError, match="executors of reports alone"):
            await cluster.kubectl("delete", account, "--dry-run=server", "pod", name)


async def test_a_run_that_fails_says_why_and_leaves_the_last_numbers(release: Release) -> None:
    report = KubeReport(release.cluster, "weekly")
    before = await report.status()
    await report.patch({"source": {"path": "nowhere"}})
    status = await report.run_now("weekly-broken", FAILED_WITHIN_S)
    assert status["lastResult"] == "Failed"
    assert status["lastMessage"] == "slo-pipeline: /data/nowhere: no such directory"
    assert (_reasons(status)["Ready"], status["reason"]) == ("RunFailed", "RunFailed")
    assert status["objectives"] == before["objectives"]


async def test_a_deleted_report_takes_its_jobs_with_it(release: Release) -> None:
    cluster = release.cluster
    await cluster.kubectl("delete", "sloreport", "weekly")

    async def gone() -> bool:
        left = await cluster.find("cronjobs,jobs,configmaps,pods", "rocketmq-ha.dev/slo-report=weekly")
        return left == []

    await until("nothing of the report is left", gone, GONE_WITHIN_S)
