"""Say from a pod's status whether its main process runs, whether it answers its probe, and why it does not.

The kubelet and the scheduler write the status. The order of the table is the order of the checks; the first
line that holds wins.

    status of the pod                                               reason
    PodScheduled is False                                           Unschedulable
    a container waits, and its image cannot be pulled               ImageNotPulled
    a container waits for a ConfigMap, Secret or command            NotCreated
    a container ended, and the kernel killed it for its memory      OOMKilled
    a container ended with an error, now or before its last start,
      or waits because it ended too often                           CrashLoop

Init containers, sidecars included, come first, because the main container waits for them. A ready pod is
without trouble.

Texts are the same at each look at the same trouble: a status that has them is not written again. So back-off
times are left out, and of a container's last words (`exit_message`) whatever differs from run to run.

Source: Kubernetes 1.34, pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime/kuberuntime_container.go,
k8s.io/api/core/v1 PodReasonUnschedulable.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.plan.common.objects import Json, Live
from rocketmq_operator.plan.pods.exit_reason import exit_message

_NOT_PULLED: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ErrSignatureValidation",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_NOT_CREATED: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
    }
)
MESSAGE_LENGTH_MAX: Final = 240
"""Of one trouble in characters: a condition tells of several."""


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """Why a pod does not become ready: one word, and the same for people."""

    reason: str
    message: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.reason}: {self.message}"


def main_runs(pod: Live) -> bool:
    """Tell whether the main container's process may run; False only where the status excludes it."""
    status = pod.get("status", {})
    if _unscheduled(status) is not None:
        return False
    main = _main_status(pod)
    if main is None:
        return bool(status.get("phase") != "Pending")
    state: Json = main.get("state", {})
    return "running" in state


def main_answers(pod: Live) -> bool:
    """Tell whether the main container passes its readiness probe; a broker's opens its port."""
    main = _main_status(pod)
    return main is not None and bool(main.get("ready"))


def _main_status(pod: Live) -> Json | None:
    """Return the status of the first container of the spec; the kubelet sorts statuses by name."""
    statuses: list[Json] = pod.get("status", {}).get("containerStatuses", [])
    name = next((one["name"] for one in pod.get("spec", {}).get("containers", [])), None)
    if name is None:
        return next(iter(statuses), None)
    return next((one for one in statuses if one.get("name") == name), None)


def trouble_of(pod: Live) -> PodTrouble | None:
    """Return why a pod that is not ready does not become it; None while nothing points to a cause."""
    status = pod.get("status", {})
    conditions = status.get("conditions", [])
    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return None
    unscheduled = _unscheduled(status)
    if unscheduled is not None:
        # What preemption could do says the same again.
        message = str(unscheduled.get("message") or "the scheduler does not say why")
        text, _, _ = message.partition(" preemption:")
        return PodTrouble("Unschedulable", text.rstrip(" ,")[:MESSAGE_LENGTH_MAX])
    return next(_container_troubles(status), None)


def _unscheduled(status: Json) -> Json | None:
    for one in status.get("conditions", []):
        if one["type"] == "PodScheduled" and one["status"] == "False":
            found: Json = one
            return found
    return None


def _container_troubles(status: Json) -> Iterator[PodTrouble]:
    for one in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        if (found := _container_trouble(one)) is not None:
            yield found


def _container_trouble(container: Json) -> PodTrouble | None:
    name, state = container.get("name", ""), container.get("state", {})
    waiting = state.get("waiting", {})
    if waiting.get("reason") in _NOT_PULLED:
        return PodTrouble("ImageNotPulled", f"image {container.get('image', '')} of container {name}")
    if waiting.get("reason") in _NOT_CREATED:
        text = f"container {name}: {waiting.get('message', waiting['reason'])}"
        return PodTrouble("NotCreated", text[:MESSAGE_LENGTH_MAX])
    ended = state.get("terminated") or container.get("lastState", {}).get("terminated")
    if ended is None or container.get("ready"):
        return None
    if ended.get("reason") == "OOMKilled":
        return PodTrouble("OOMKilled", f"container {name} needs more memory than its limit")
    if not ended.get("exitCode") and waiting.get("reason") != "CrashLoopBackOff":
        return None
    message = exit_message(ended.get("message") or "")
    text = f"container {name} ended with exit code {ended.get('exitCode', 0)}" + (
        f": {message}" if message else ""
    )
    return PodTrouble("CrashLoop", text[:MESSAGE_LENGTH_MAX])
