"""The generic rules of kstatus, which Flux and others apply to an object of any kind: a second opinion.

Source: sigs.k8s.io/cli-utils, pkg/kstatus/README.md and the generic rules in pkg/kstatus/status. Kinds of
Kubernetes have rules of their own, which are not here.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class KStatus(StrEnum):
    """What kstatus computes."""

    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    CURRENT = "Current"
    TERMINATING = "Terminating"


def computed_kstatus(value: Mapping[str, Any]) -> KStatus:
    """Return the status of an object by the generic rules, which are asked in this order."""
    metadata, status = value.get("metadata", {}), value.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return KStatus.TERMINATING
    generation, observed = metadata.get("generation"), status.get("observedGeneration")
    if generation is not None and observed is not None and observed != generation:
        return KStatus.IN_PROGRESS
    conditions = status.get("conditions") or []
    for one in conditions:
        if one["type"] == "Reconciling" and one["status"] == "True":
            return KStatus.IN_PROGRESS
        if one["type"] == "Stalled" and one["status"] == "True":
            return KStatus.FAILED
    for one in conditions:
        if one["type"] == "Ready":
            return KStatus.CURRENT if one["status"] == "True" else KStatus.IN_PROGRESS
    return KStatus.CURRENT
