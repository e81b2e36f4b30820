"""Why a pod does not start is read from the status that Kubernetes writes, in texts that stay the same."""

from typing import Any

import pytest

from rocketmq_operator.plan.pods.observed import parse_pod
from rocketmq_operator.plan.pods.trouble import PodTrouble

Json = dict[str, Any]
OOM = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
FAILED = {"terminated": {"reason": "Error", "exitCode": 3}}
ENDED = {"terminated": {"reason": "Completed", "exitCode": 0}}
RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def waiting(reason: str, message: str = "") -> Json:
    """Return the state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def pod(phase: str, main: Json | None, *, init: Json | None = None, **conditions: str) -> Json:
    """Return a pod with this status of its main container and of its sidecar."""
    status: Json = {
        "phase": phase,
        "conditions": [{"type": one, "status": held, "message": "no"} for one, held in conditions.items()],
    }
    if main is not None:
        status["containerStatuses"] = [{"name": "broker", "image": "rocketmq:typo", "ready": False} | main]
    if init is not None:
        status["initContainerStatuses"] = [
            {"name": "companion", "image": "sidecar:typo", "ready": False} | init
        ]
    return {"metadata": {"name": "orders-0"}, "status": status}


NOT_STARTED: dict[str, tuple[Json, PodTrouble | None]] = {
    "no node": (pod("Pending", None, PodScheduled="False"), PodTrouble("Unschedulable", "no")),
    "no image": (
        pod("Pending", {"state": waiting("ErrImagePull", "not found")}),
        PodTrouble("ImageNotPulled", "image rocketmq:typo of container broker"),
    ),
    "no image, backing off": (
        pod("Pending", {"state": waiting("ImagePullBackOff", "Back-off pulling image")}),
        PodTrouble("ImageNotPulled", "image rocketmq:typo of container broker"),
    ),
    "no image of the sidecar": (
        pod("Pending", {"state": waiting("PodInitializing")}, init={"state": waiting("InvalidImageName")}),
        PodTrouble("ImageNotPulled", "image sidecar:typo of container companion"),
    ),
    "no secret": (
        pod("Pending", {"state": waiting("CreateContainerConfigError", 'secret "x" not found')}),
        PodTrouble("NotCreated", 'container broker: secret "x" not found'),
    ),
    "too little memory": (
        pod("Running", {"state": waiting("CrashLoopBackOff"), "lastState": OOM}),
        PodTrouble("OOMKilled", "container broker needs more memory than its limit"),
    ),
    "too little memory, just now": (
        pod("Running", {"state": OOM}),
        PodTrouble("OOMKilled", "container broker needs more memory than its limit"),
    ),
    "crash": (
        pod("Running", {"state": waiting("CrashLoopBackOff"), "lastState": FAILED}),
        PodTrouble("CrashLoop", "container broker ended with exit code 3"),
    ),
    "ends again and again without an error": (
        pod("Running", {"state": waiting("CrashLoopBackOff"), "lastState": ENDED}),
        PodTrouble("CrashLoop", "container broker ended with exit code 0"),
    ),
    "starting": (pod("Pending", {"state": waiting("ContainerCreating")}), None),
    "not seen by the scheduler yet": (pod("Pending", None), None),
    "ended as it should": (pod("Running", {"state": ENDED}), None),
}


@pytest.mark.parametrize(("status", "trouble"), NOT_STARTED.values(), ids=NOT_STARTED.keys())
def test_a_pod_whose_process_does_not_run(status: Json, trouble: PodTrouble | None) -> None:
    seen = parse_pod(status)
    assert (seen.runs, seen.answers, seen.trouble) == (False, False, trouble)


def test_a_process_that_crashed_and_runs_again_is_still_in_trouble() -> None:
    seen = parse_pod(pod("Running", {"state": RUNS, "lastState": FAILED}, Ready="False"))
    assert (seen.runs, seen.trouble) == (
        True,
        PodTrouble("CrashLoop", "container broker ended with exit code 3"),
    )


def test_a_broker_that_answers_while_its_companion_waits_is_not_in_trouble() -> None:
    seen = parse_pod(pod("Running", {"state": RUNS, "lastState": FAILED, "ready": True}, Ready="False"))
    assert (seen.runs, seen.answers, seen.trouble) == (True, True, None)


def test_a_pod_that_is_ready_has_no_trouble_whatever_was_before() -> None:
    status = pod(
        "Running",
        {"state": RUNS, "lastState": OOM},
        init={"state": waiting("CrashLoopBackOff"), "lastState": OOM},
        Ready="True",
    )
    assert parse_pod(status).trouble is None


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_the_main_container_is_the_first_of_the_spec_wherever_its_status_stands(order: int) -> None:
    main = {"name": "broker", "ready": True, "state": RUNS}
    beside = {"name": "a-proxy", "ready": False, "state": waiting("ImagePullBackOff")}
    found = parse_pod(
        {
            "metadata": {"name": "orders-0"},
            "spec": {"containers": [{"name": "broker"}, {"name": "a-proxy"}]},
            "status": {"phase": "Running", "containerStatuses": [main, beside][::order]},
        }
    )
    assert (found.runs, found.answers) == (True, True)


def test_the_scheduler_s_sentence_ends_before_what_it_says_of_preemption() -> None:
    unplaced = pod("Pending", None, PodScheduled="False")
    unplaced["status"]["conditions"][0]["message"] = (
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are "
        "available: 3 Preemption is not helpful for scheduling."
    )
    found = parse_pod(unplaced).trouble
    assert found is not None
    assert found.message == "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate"
