"""What keeps a pod from working, and the status that Kubernetes 1.34 gives it for that."""

from enum import StrEnum
from typing import Any, Final

Json = dict[str, Any]


class PodFault(StrEnum):
    """What a spec can do to a pod."""

    UNSCHEDULABLE = "unschedulable"
    UNBOUND = "unbound"
    """Its claim is not bound to a volume."""
    IMAGE = "image"
    CRASH = "crash"
    MEMORY = "memory"
    CONFIG = "config"
    """Its process runs and never does its work."""


def deployment_status(name: str, wanted: int, ready: int, forbidden: str | None) -> Json:
    """Return the status of a Deployment; `forbidden` is why the API server refuses its pods."""
    if forbidden is None:
        return {"replicas": wanted, "readyReplicas": ready}
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    return {"readyReplicas": 0, "conditions": [failure | {"message": f'pods "{name}-1" is {forbidden}'}]}


def failed_create(set_name: str, pod: str, why: str) -> Json:
    """Return the Event of a StatefulSet whose pod the API server refuses.

    `why` follows the pod's name, or is the text about its claim.
    """
    about_claim = why.startswith("persistentvolumeclaims ")
    made = f"Claim data-{pod} for Pod {pod}" if about_claim else f"Pod {pod}"
    words = why if about_claim else f'pods "{pod}" is {why}'
    note = f"create {made} in StatefulSet {set_name} failed error: {words}"
    return {
        "reason": "FailedCreate",
        "type": "Warning",
        "note": note,
        "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
    }


_UNPLACED: Final = {
    PodFault.UNSCHEDULABLE: (
        "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available."
    ),
    PodFault.UNBOUND: "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
}
CRASH_LOG: Final = (
    "2026-01-01T00:00:07.123Z INFO start\n2026-01-01T00:00:08.001Z ERROR cannot open /data: no space left\n"
    "\tat org.apache.Main.run(Main.java:7)\n"
)
_BACK_OFF: Final = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
_STATES: Final[dict[PodFault, Json]] = {
    PodFault.IMAGE: {
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    },
    PodFault.CRASH: {
        "state": {"waiting": _BACK_OFF},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": CRASH_LOG}},
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
    if fault is not None and fault in _UNPLACED:
        unplaced = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": _UNPLACED[fault],
        }
        return {"phase": "Pending", "conditions": [*conditions, unplaced], "containerStatuses": []}
    main: Json = next(iter(pod["spec"].get("containers", [])), {})
    container = {"name": main.get("name", ""), "image": main.get("image", ""), "ready": ready}
    state = _STATES[fault] if fault is not None else {"state": {"running": {}}}
    phase = "Pending" if fault is PodFault.IMAGE else "Running"
    return {"phase": phase, "conditions": conditions, "containerStatuses": [container | state]}
