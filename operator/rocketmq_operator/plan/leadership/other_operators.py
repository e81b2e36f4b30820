"""Which operator of the whole cluster acts, where two releases watch every namespace.

The operator that was installed first acts.

Each release has a Lease in its own namespace, so the Lease does not keep two releases apart. Both would write
the same objects. An operator of the whole cluster may list Deployments everywhere, and finds the other's
there. A later Deployment never stops an earlier one: permission to create a Deployment in some namespace must
not suffice to stop the operator of the cluster.
"""

from collections.abc import Iterable
from typing import Final

from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.plan.common.objects import Live

OPERATOR_LABELS: Final = {"app.kubernetes.io/name": "rocketmq-ha", COMPONENT_LABEL: "operator"}
"""What the chart writes on the Deployment of every operator."""
_NAMESPACE_OPTION: Final = "--namespace"


def earlier_operator(deployments: Iterable[Live], own_namespace: str) -> str:
    """Return the namespace/name of an operator of the whole cluster that was installed before ours.

    The result is empty if none exists.

    Args:
        deployments: those with `OPERATOR_LABELS`, of all namespaces.
        own_namespace: where our own Deployment is; without one, ours counts as the last.
    """
    whole = sorted(
        (one for one in deployments if _runs(one) and _watches_all(one)), key=lambda one: _age(one)
    )
    first = next(iter(whole), None)
    if first is None or first["metadata"]["namespace"] == own_namespace:
        return ""
    return f"{first['metadata']['namespace']}/{first['metadata']['name']}"


def operators_in_watched_namespaces(deployments: Iterable[Live], own_namespace: str) -> tuple[str, ...]:
    """Return namespace/name of other operators whose namespaces are all ours too."""
    found = (one["metadata"] for one in deployments if _runs(one) and not _watches_all(one))
    return tuple(
        sorted(f"{one['namespace']}/{one['name']}" for one in found if one["namespace"] != own_namespace)
    )


def _runs(deployment: Live) -> bool:
    return bool(deployment["spec"].get("replicas", 1)) and "deletionTimestamp" not in deployment["metadata"]


def _watches_all(deployment: Live) -> bool:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    given = [word for one in containers for word in one.get("args") or ()]
    return not any(word.partition("=")[0] == _NAMESPACE_OPTION for word in given)


def _age(deployment: Live) -> tuple[str, str]:
    metadata = deployment["metadata"]
    return (metadata.get("creationTimestamp", ""), metadata.get("uid", ""))
