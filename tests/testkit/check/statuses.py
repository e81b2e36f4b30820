"""The rules that the status of each kind follows, so that tools which wait agree with `Ready`."""

from collections.abc import Mapping
from typing import Any, Final

from rocketmq_operator.api.names import (
    CLUSTER_KIND,
    CONSUMER_GROUP_KIND,
    GROUP_KIND,
    REPORT_KIND,
    TOPIC_KIND,
)
from testkit.check.argo_health import computed_health, health_scripts
from testkit.check.kstatus import KStatus, computed_kstatus

KINDS_WITH_READY: Final = tuple(
    one.kind for one in (CLUSTER_KIND, GROUP_KIND, TOPIC_KIND, CONSUMER_GROUP_KIND, REPORT_KIND)
)
_SCRIPTS: Final = health_scripts()
_HEALTH: Final = {
    KStatus.CURRENT: "Healthy",
    KStatus.IN_PROGRESS: "Progressing",
    KStatus.FAILED: "Degraded",
}


def broken_status_rules(value: Mapping[str, Any]) -> list[str]:
    """Return which rules the status of an object breaks; empty for an object that is being deleted."""
    if value["kind"] not in KINDS_WITH_READY or value["metadata"].get("deletionTimestamp"):
        return []
    found = {one["type"]: one["status"] for one in value["status"]["conditions"]}
    computed = computed_kstatus(value)
    health, _ = computed_health(_SCRIPTS[value["kind"]], value)
    stops = "True" in {found.get("Paused"), found.get("Hibernated")}
    is_suspended = stops and computed is not KStatus.FAILED
    is_observed = value["status"]["observedGeneration"] == value["metadata"]["generation"]
    rules = {
        "an object that is not ready is Current": computed is not KStatus.CURRENT or found["Ready"] == "True",
        "both Reconciling and Stalled are True": "True" not in {found["Reconciling"]} & {found["Stalled"]},
        "a stalled object is not Failed": found["Stalled"] != "True" or computed is KStatus.FAILED,
        "Argo CD and kstatus disagree": health
        == ("Suspended" if is_suspended and is_observed else _HEALTH[computed]),
    }
    return [f"{rule}: {computed}, {health}, {found}" for rule, holds in rules.items() if not holds]
