"""What keeps a pod from working, and the status that Kubernetes 1.34 gives it for that."""

from enum import StrEnum
from typing import Any, Final

Json = dict[str, Any]


class PodFault(StrEnum):
    """What a spec can do to a pod."""

    UNSCHEDULABLE = "unschedulable"
    IMAGE = "image"
    CRASH = "crash"
    MEMORY = "memory"
    CONFIG = "config"
    """Its process runs and never does its work."""


_UNPLACED: Final = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available."
_BACK_OFF: Final = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
_STATES: Final[dict[PodFault, Json]] = {
    PodFault.IMAGE: {
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    },
    PodFault.CRASH: {
        "state": {"waiting": _BACK_OFF},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 1}},
    },
    PodFault.MEMORY: {
        "state": {"waiting": _BACK_OFF},
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
    },
    PodFault.CONFIG: {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
}


def pod_status(pod: Json, fault: PodFault | None, *, ready: bool) -> Json:
    """Return phase, conditions (`Ready` first) and container statuses of a pod."""
    conditions: list[Json] = [{"type": "Ready", "status": str(ready)}]
    if fault is PodFault.UNSCHEDULABLE:
        unplaced = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": _UNPLACED,
        }
        return {"phase": "Pending", "conditions": [*conditions, unplaced], "containerStatuses": []}
    main: Json = next(iter(pod["spec"].get("containers", [])), {})
    container = {"name": main.get("name", ""), "image": main.get("image", ""), "ready": ready}
    state = _STATES[fault] if fault is not None else {"state": {"running": {}}}
    phase = "Pending" if fault is PodFault.IMAGE else "Running"
    return {"phase": phase, "conditions": conditions, "containerStatuses": [container | state]}
