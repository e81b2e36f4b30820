"""What an SLOReport on executors has in addition to one in the job's own pod.

These are Spark's settings, and the template of executors' pods.

The job's pod is Spark's driver. It asks the API server for its executors itself, with an account that may do
that and no more, and they are its children: when its pod goes, they go. They run the same image, read the
same volume on the same node, and write nothing to it.

Spark reads the settings where it always does, in `spark-defaults.conf`; only what differs from pod to pod is
in the environment.

Source: Spark 4.2 "Running Spark on Kubernetes", client mode.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Final

import yaml

from rocketmq_operator.api.names import REPORT_LABEL
from rocketmq_operator.api.slo_report import SLOReportSpec
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.objects import Json, Owner, quantity, selector_labels

SPARK: Final = "spark"
"""Component of the pods of driver and executors: they talk with each other."""
MASTER: Final = "k8s://https://kubernetes.default.svc"
SETTINGS_FILE: Final = "spark-defaults.conf"
TEMPLATE_FILE: Final = "executor.yaml"
_CONTAINER: Final = "executor"
_DRIVER_PORT: Final = 7078
_BLOCK_PORT: Final = 7079
PORTS: Final = (_DRIVER_PORT, _BLOCK_PORT)
"""Where driver and executors listen."""
_HEAP_SHARE: Final = Decimal("0.6")
"""Of an executor's memory; the rest is for Python's workers, Arrow, and what the JVM has besides its heap."""
_MEBIBYTE: Final = 1 << 20
_MEMORY_DEFAULT: Final = Decimal(2 << 30)


def spark_labels(name: str) -> dict[str, str]:
    """Return the labels of the pods of a report's driver and executors."""
    return selector_labels(SPARK, name) | {REPORT_LABEL: name}


def spark_files(owner: Owner, spec: SLOReportSpec, claim: str, holders: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings and the template of an executor's pod, by file name."""
    lines = [f"{key} {value}" for key, value in sorted(_settings(owner, spec).items())]
    template: str = yaml.safe_dump(_template(owner, claim, holders), sort_keys=False)
    return {SETTINGS_FILE: "\n".join(lines) + "\n", TEMPLATE_FILE: template}


def driver_environment() -> list[Json]:
    """Return the environment of the driver's container.

    It tells where the settings are, and what differs from pod to pod.
    """
    own = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}
    dynamic = {"spark.kubernetes.driver.pod.name": "$(POD_NAME)", "spark.driver.host": "$(POD_IP)"}
    words = " ".join(f"--conf {key}={value}" for key, value in dynamic.items())
    return [
        *({"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in own.items()),
        {"name": "SPARK_CONF_DIR", "value": names.OBJECTIVES_PATH},
        {"name": "PYSPARK_SUBMIT_ARGS", "value": f"{words} pyspark-shell"},
    ]


def affinity(holders: Mapping[str, str]) -> Json:
    """Return the affinity to the node of the pods that hold the volume; empty if these are unknown."""
    if not holders:
        return {}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(holders)}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def threads(spec: SLOReportSpec) -> int:
    """Return how many CPUs a pod of the report has, rounded up.

    It does not count all of the node, whose memory the pod has not.
    """
    cpu = quantity(parts.resources(spec.resources)["requests"]["cpu"])
    return 1 if cpu is None else max(1, int(cpu.to_integral_value(ROUND_CEILING)))


def _settings(owner: Owner, spec: SLOReportSpec) -> dict[str, str]:
    requested = parts.resources(spec.resources)
    limit = requested["limits"].get("cpu")
    memory_mebibytes = int((quantity(spec.resources.memory) or _MEMORY_DEFAULT) / _MEBIBYTE)
    heap_mebibytes = int(memory_mebibytes * _HEAP_SHARE)
    return {
        "spark.blockManager.port": str(_BLOCK_PORT),
        "spark.driver.port": str(_DRIVER_PORT),
        "spark.executor.cores": str(threads(spec)),
        "spark.executor.instances": str(spec.executors),
        "spark.executor.memory": f"{heap_mebibytes}m",
        "spark.executor.memoryOverhead": f"{memory_mebibytes - heap_mebibytes}m",
        "spark.kubernetes.container.image": spec.image,
        # Nothing but pods is made, so that the account may do nothing else.
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.podNamePrefix": owner.name,
        "spark.kubernetes.executor.podTemplateContainerName": _CONTAINER,
        "spark.kubernetes.executor.podTemplateFile": f"{names.OBJECTIVES_PATH}/{TEMPLATE_FILE}",
        **({} if limit is None else {"spark.kubernetes.executor.limit.cores": limit}),
        "spark.kubernetes.executor.request.cores": requested["requests"]["cpu"],
        "spark.kubernetes.namespace": owner.namespace,
        # Work is not begun on the first executor that is there: a small report would be done by it alone.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }


def _template(owner: Owner, claim: str, holders: Mapping[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": spark_labels(owner.name)},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": parts.pod_security(parts.OUR_USER),
            "containers": [
                {
                    "name": _CONTAINER,
                    "securityContext": parts.container_security(),
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [
                        {"name": names.DATA_VOLUME, "mountPath": names.MEASURED_PATH, "readOnly": True},
                        {"name": "scratch", "mountPath": names.SCRATCH_PATH},
                    ],
                }
            ],
            "volumes": [
                {"name": names.DATA_VOLUME, "persistentVolumeClaim": {"claimName": claim}},
                {"name": "scratch", "emptyDir": {}},
            ],
            **affinity(holders),
        },
    }
