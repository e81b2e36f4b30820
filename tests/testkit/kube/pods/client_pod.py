"""A pod of RocketMQ's own image for clients and tools of RocketMQ, under the restricted profile.

Our Java classes travel in a ConfigMap of the pod's name, RocketMQ's jars are those of its image. The program
is set by a shell script; mqadmin is there too.
"""

import base64
from pathlib import Path
from typing import Final

from testkit.kube.kubectl import Cluster, Json

CONTAINER: Final = "client"
CLASSES: Final = "/load"
"""Where the classes are."""
DATA: Final = "/data"
"""What the pod may write."""
JAVA: Final = f"java -Xms64m -Xmx192m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.home={DATA}"


def client_objects(
    name: str, image: str, classes: Path, script: str, node_selector: Json | None = None
) -> tuple[Json, Json]:
    """Return the ConfigMap with the classes and the pod.

    Args:
        name: of both.
        image: RocketMQ's.
        classes: a folder of compiled classes.
        script: what the container runs.
        node_selector: where the pod must run.
    """
    metadata = {"name": name, "labels": {"app": name}}
    files = {
        path.name: base64.b64encode(path.read_bytes()).decode() for path in sorted(classes.glob("*.class"))
    }
    config: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": files}
    container: Json = {
        "name": CONTAINER,
        "image": image,
        "command": ["sh", "-c", script],
        # Without it the client comes last wherever CPU is scarce; with more, before the broker.
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
        "env": [{"name": "JAVA_OPT_EXT", "value": f"-Xms64m -Xmx192m -Duser.home={DATA}"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "classes", "mountPath": CLASSES},
            {"name": "data", "mountPath": DATA},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        ],
    }
    spec: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": node_selector or {},
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 3000,
            "runAsGroup": 3000,
            "fsGroup": 3000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "classes", "configMap": {"name": name}},
            {"name": "data", "emptyDir": {}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    return config, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def remove_client(cluster: Cluster, name: str) -> None:
    """Remove a client's pod and its ConfigMap, without waiting."""
    await cluster.kubectl(
        "delete", "pod,configmap", name, "--ignore-not-found", "--grace-period=0", "--wait=false"
    )
