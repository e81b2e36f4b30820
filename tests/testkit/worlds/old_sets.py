"""StatefulSets of a namespace, as the API server has them."""

from typing import Any

Json = dict[str, Any]
NAMESPACE = "shop"


def stateful_set(name: str, replicas: int, owner: str = "") -> Json:
    """Return a StatefulSet whose pods have their store below /data."""
    metadata: Json = {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}", "generation": 1}
    if owner:
        metadata["ownerReferences"] = [
            {"uid": owner, "kind": "BrokerGroup", "name": name, "controller": True}
        ]
    container = {"name": "broker", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [
                {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}
            ],
        },
    }
