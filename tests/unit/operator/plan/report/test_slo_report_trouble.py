"""An SLOReport is not settled while a run does not start or failed, or a webhook changes an object."""

from typing import Any

import pytest

from testkit.memory.reports import REPORT, ReportWorld

Json = dict[str, Any]
SUMMARY = '{"verdict": "Within the error budget", "objectives": []}'


async def _made() -> ReportWorld:
    world = ReportWorld()
    await world.one_pass()
    return world


UNPLACED: Json = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available."}],
}
NOT_PULLED: Json = {
    "phase": "Pending",
    "containerStatuses": [
        {"name": "report", "image": "slo:1", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    ],
}


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        (UNPLACED, "Unschedulable", "weekly-3: Unschedulable: 0/3 nodes are available."),
        (NOT_PULLED, "ImageNotPulled", "weekly-3: ImageNotPulled: image slo:1 of container report"),
    ],
)
async def test_a_run_whose_pod_does_not_start_is_named_until_it_starts(
    pod: Json, reason: str, message: str
) -> None:
    world = await _made()
    world.put_run("weekly-3", status={"active": 1}, pod_status=pod)
    for _ in range(2):
        await world.one_pass()
    assert world.condition("Progressing") == ("True", reason, message)
    assert world.status["reason"] == reason
    assert world.events() == [reason], "once"
    world.get("Pod", "weekly-3-x")["status"] = {"phase": "Running"}
    await world.one_pass()
    assert world.condition("Progressing") == ("True", "Running", "weekly-3")
    assert world.status["reason"] == ""


@pytest.mark.parametrize(("kind", "name"), [("CronJob", REPORT), ("ConfigMap", "weekly-objectives")])
async def test_a_report_whose_object_a_webhook_changes_is_not_settled(kind: str, name: str) -> None:
    world = ReportWorld()

    def shorten(value: Json) -> None:
        if value["kind"] == kind:
            value["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "policy"

    world.kube.webhook = shorten
    for _ in range(3):
        await world.one_pass()
    status, reason, message = world.condition("Progressing")
    assert (status, reason) == ("True", "FieldRewritten")
    assert f"{kind} {name}: metadata.labels" in message
    assert world.status["reason"] == "FieldRewritten"
    assert world.condition("Ready")[:2] == ("True", "Scheduled")
    writes = len(world.kube.writes)
    await world.one_pass()
    assert world.kube.writes[writes:] == [], "no fight"


async def test_a_report_whose_run_failed_is_not_settled() -> None:
    world = await _made()
    world.put_failure("weekly-1", "no measurements")
    await world.one_pass()
    assert world.condition("Progressing")[:2] == ("True", "RunFailed")
    world.advance(60)
    world.put_success("weekly-2", SUMMARY)
    await world.one_pass()
    assert world.condition("Progressing")[:2] == ("False", "Settled")
