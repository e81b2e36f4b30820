"""Writes that Kubernetes refuses: other claims of a StatefulSet, other families of a Service's addresses."""

from collections.abc import Sequence
from typing import Any

from rocketmq_operator.clients.api import RequestRefusedError

Json = dict[str, Any]


def refuse_other_claims(live: Json, wanted: Json) -> None:
    """Raise `RequestRefusedError` if the claims of a StatefulSet change."""
    if live.get("volumeClaimTemplates") != wanted.get("volumeClaimTemplates"):
        raise RequestRefusedError("spec: Forbidden: updates to volumeClaimTemplates of a StatefulSet")


def refuse_other_families(body: Json, families: Sequence[str]) -> None:
    """Raise `RequestRefusedError` if a Service asks for a family that the cluster has not."""
    spec = body["spec"]
    for number, family in enumerate(spec.get("ipFamilies", [])):
        if family not in families:
            raise RequestRefusedError(
                f'Service "{body["metadata"]["name"]}" is invalid: spec.ipFamilies[{number}]: Invalid value: '
                f'"{family}": not configured on this cluster'
            )
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and len(families) == 1:
        raise RequestRefusedError("this cluster is not configured for dual-stack services")
