"""Settings of pods that must be refused, and one spec that has every setting."""

from typing import Any, Final

from testkit.worlds.crd_cases import RefusedChange

Json = dict[str, Any]


def of_pods(**settings: object) -> Json:
    """Return a change of a group with settings of its brokers' pods."""
    return {"pod": settings}


def of_containers(**container: object) -> Json:
    """Return a change of a cluster with one more container beside its controllers."""
    return {"controllers": {"pod": {"containers": [{"name": "logs", "image": "logs:1", **container}]}}}


POD_REFUSALS = (
    RefusedChange(
        "a field that is misspelt", "BrokerGroup", of_pods(nodeSelectors={"a": "b"}), ("nodeSelectors",)
    ),
    RefusedChange(
        "a label of ours",
        "BrokerGroup",
        of_pods(labels={"app.kubernetes.io/name": "x"}),
        ("pod.labels has app.kubernetes.io/name", "remove it"),
    ),
    RefusedChange(
        "a label of our domain",
        "BrokerGroup",
        of_pods(labels={"rocketmq-ha.dev/x": "y"}),
        ("pod.labels has rocketmq-ha.dev/x", "remove it"),
    ),
    RefusedChange(
        "an annotation of our domain",
        "BrokerGroup",
        of_pods(annotations={"rocketmq-ha.dev/config-hash": "y"}),
        ("pod.annotations has rocketmq-ha.dev/config-hash",),
    ),
    RefusedChange(
        "a variable of ours",
        "BrokerGroup",
        of_pods(env=[{"name": "JAVA_OPT_EXT", "value": "-Xmx1g"}]),
        ("pod.env has JAVA_OPT_EXT", "take another name"),
    ),
    RefusedChange(
        "a variable without a value", "BrokerGroup", of_pods(env=[{"name": "A"}]), ("env A needs either",)
    ),
    RefusedChange(
        "a variable from two places",
        "BrokerGroup",
        of_pods(
            env=[
                {
                    "name": "A",
                    "valueFrom": {
                        "secretKeyRef": {"name": "s", "key": "k"},
                        "configMapKeyRef": {"name": "s", "key": "k"},
                    },
                }
            ]
        ),
        ("valueFrom has 2 sources", "give one of"),
    ),
    RefusedChange(
        "a volume of ours",
        "BrokerGroup",
        of_pods(volumes=[{"name": "data", "emptyDir": {}}]),
        ("pod.volumes has data", "take another name"),
    ),
    RefusedChange(
        "a volume without a source", "BrokerGroup", of_pods(volumes=[{"name": "x"}]), ("volumes x needs",)
    ),
    RefusedChange(
        "a mount without a volume",
        "BrokerGroup",
        of_pods(volumeMounts=[{"name": "lost", "mountPath": "/x"}]),
        ("pod.volumeMounts names volume lost", "not in pod.volumes"),
    ),
    RefusedChange(
        "a mount in our place",
        "BrokerGroup",
        of_pods(volumeMounts=[{"name": "scratch", "mountPath": "/var/lib/rocketmq"}]),
        ("pod.volumeMounts has /var/lib/rocketmq",),
    ),
    RefusedChange(
        "a container of ours",
        "RocketMQCluster",
        of_containers(name="companion"),
        ("pod.containers has companion", "take another name"),
    ),
    RefusedChange("a container without an image", "RocketMQCluster", of_containers(image=""), ("image",)),
    RefusedChange("root", "BrokerGroup", of_pods(securityContext={"runAsUser": 0}), ("runAsUser", "0", "1")),
    RefusedChange(
        "too little grace",
        "BrokerGroup",
        of_pods(terminationGracePeriodSeconds=5),
        ("terminationGracePeriodSeconds", "5", "30"),
    ),
    RefusedChange(
        "a way to probe",
        "BrokerGroup",
        of_pods(probes={"liveness": {"tcpSocket": {"port": 1}}}),
        ("tcpSocket",),
    ),
    RefusedChange("a heap without a unit", "BrokerGroup", {"jvm": {"heap": "3"}}, ("jvm.heap", "3")),
    RefusedChange("a heap of all", "BrokerGroup", {"jvm": {"heap": "100%"}}, ("jvm.heap", "100%")),
    RefusedChange(
        "another collector", "BrokerGroup", {"jvm": {"collector": "CMS"}}, ("jvm.collector", "CMS")
    ),
    RefusedChange(
        "two options in one", "BrokerGroup", {"jvm": {"options": ["-Xa -Xb"]}}, ("options", "-Xa -Xb")
    ),
    RefusedChange(
        "an option that a field has",
        "BrokerGroup",
        {"jvm": {"options": ["-Xmn1g", "-Xmx4g"]}},
        ("jvm.options has -Xmx4g", "use heap"),
    ),
    RefusedChange(
        "a name in an override",
        "BrokerGroup",
        {"podOverride": {"metadata": {"name": "x"}}},
        ("podOverride.metadata", "name"),
    ),
)

EVERY_SETTING: Final[Json] = {
    "labels": {"team": "orders"},
    "annotations": {"example.com/scrape": "true"},
    "env": [
        {"name": "TZ", "value": "Europe/Berlin"},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "levels", "key": "a", "optional": True}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ],
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "registry"}],
    "imagePullPolicy": "Always",
    "serviceAccountName": "rocketmq",
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["amd64"]}]}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 5,
                    "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]},
                }
            ],
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 10,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"noisy": "true"}},
                        "topologyKey": "kubernetes.io/hostname",
                    },
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "tolerations": [{"key": "queue", "operator": "Exists", "effect": "NoSchedule"}],
    "nodeSelector": {"pool": "queues"},
    "volumes": [
        {"name": "extra", "configMap": {"name": "extra", "items": [{"key": "a", "path": "b"}]}},
        {"name": "login", "secret": {"secretName": "login", "defaultMode": 288}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "shared", "readOnly": True}},
        {"name": "vault", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}},
    ],
    "volumeMounts": [
        {"name": "extra", "mountPath": "/etc/extra", "readOnly": True},
        {"name": "memory", "mountPath": "/var/cache/x", "subPath": "x"},
    ],
    "containers": [
        {
            "name": "logs",
            "image": "logs:1",
            "imagePullPolicy": "Never",
            "command": ["logs"],
            "args": ["--all"],
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"containerPort": 2020, "name": "http", "protocol": "TCP"}],
            "resources": {"cpu": "50m", "memory": "64Mi", "cpuLimit": 1},
            "volumeMounts": [{"name": "scratch", "mountPath": "/logs", "readOnly": True}],
            "readOnlyRootFilesystem": False,
        }
    ],
    "hostAliases": [{"ip": "192.0.2.7", "hostnames": ["vault.example.com"]}],
    "terminationGracePeriodSeconds": 90,
    "probes": {
        "startup": {"failureThreshold": 240},
        "liveness": {"initialDelaySeconds": 5, "periodSeconds": 30, "timeoutSeconds": 5},
        "readiness": {"failureThreshold": 5},
    },
    "securityContext": {
        "runAsUser": 4000,
        "runAsGroup": 4000,
        "fsGroup": 4000,
        "fsGroupChangePolicy": "Always",
        "supplementalGroups": [5000],
        "seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"},
        "seLinuxOptions": {"level": "s0:c1,c2"},
    },
    "runtimeClassName": "gvisor",
}
OVERRIDE: Final[Json] = {
    "metadata": {"annotations": {"example.com/late": "yes"}},
    "spec": {"dnsPolicy": "Default", "automountServiceAccountToken": True},
}
ACCEPTED_POD_CHANGES: Final[tuple[tuple[str, str, Json], ...]] = (
    (
        "every setting of pods of a group",
        "BrokerGroup",
        {"pod": EVERY_SETTING, "podOverride": OVERRIDE, "logPod": EVERY_SETTING, "logPodOverride": OVERRIDE},
    ),
    (
        "every setting of pods of a cluster",
        "RocketMQCluster",
        {
            part: {"pod": EVERY_SETTING, "podOverride": OVERRIDE}
            for part in ("controllers", "nameServers", "proxy")
        },
    ),
    (
        "every setting of a JVM",
        "BrokerGroup",
        {"jvm": {"heap": "40%", "directMemory": "1Gi", "collector": "Parallel", "options": ["-Xmn1g"]}},
    ),
    ("a platform that chooses the user", "BrokerGroup", {"pod": {"securityContext": {}}}),
)
