"""A report as the spark-operator takes it.

It is a SparkApplication, or a ScheduledSparkApplication if there is a schedule.

Problem: users of the spark-operator on Kubernetes want its queues, limits and history for reports too. Shape:
the same image, volume and words as an SLOReport's; driver and executors are described by pod templates, which
need none of the spark-operator's webhooks. Spark starts `slo-pipeline driver` and `slo-pipeline executor` in
them. Never: apply the object, or contact a cluster.

Source: kubeflow/spark-operator, API v1beta2; Spark 4.2 "Running Spark on Kubernetes".
"""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

Json = dict[str, Any]
API_VERSION: Final = "sparkoperator.k8s.io/v1beta2"
MASTER: Final = "k8s://https://kubernetes.default.svc"
PROGRAM: Final = "local:///opt/rocketmq-ha/lib/python3.11/site-packages/slo_pipeline/cli.py"
"""In the image. Spark knows by its suffix that the job is Python's."""
DRIVER: Final = "spark-kubernetes-driver"
EXECUTOR: Final = "spark-kubernetes-executor"
"""What the spark-operator calls the containers."""
HEAP_SHARE: Final = 0.6
"""Of a pod's memory; the rest is for Python's workers, Arrow, and what the JVM has besides its heap."""
USER: Final = 10001
_DATA: Final = "/data"
_OBJECTIVES: Final = "/etc/report"
_OBJECTIVES_FILE: Final = "objectives.yaml"


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """The job to run, and where.

    Attributes:
        claim: the PersistentVolumeClaim with the measurements.
        path: the collector's directory on it; the report goes to reports/<name> beside it.
        account: makes, reads and deletes pods of the namespace.
        memory_mebibytes: of each pod.
        beside: labels of pods on whose node all pods must be, as those are that hold a volume of one node.
        schedule: cron's five fields, UTC; None: once, when it is applied.
        objectives: text of a file of objectives; None for those that come with the program.
    """

    name: str
    namespace: str
    image: str
    claim: str
    path: str
    account: str
    window_days: int
    executors: int
    cores: int
    memory_mebibytes: int
    beside: dict[str, str]
    schedule: str | None = None
    objectives: str | None = None


def documents(asked: JobRequest) -> list[Json]:
    """Return the objects to apply, in order."""
    spec = _application(asked)
    if asked.schedule is None:
        made = _object(API_VERSION, "SparkApplication", asked.name, asked.namespace) | {"spec": spec}
    else:
        scheduled = {
            "schedule": asked.schedule,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "successfulRunHistoryLimit": 1,
            "failedRunHistoryLimit": 1,
            "template": spec,
        }
        made = _object(API_VERSION, "ScheduledSparkApplication", asked.name, asked.namespace)
        made |= {"spec": scheduled}
    if asked.objectives is None:
        return [made]
    settings = _object("v1", "ConfigMap", _objectives_name(asked), asked.namespace)
    return [settings | {"data": {_OBJECTIVES_FILE: asked.objectives}}, made]


def arguments(asked: JobRequest) -> list[str]:
    """Return the words after `slo-pipeline`."""
    words = [
        "report",
        f"--input={_DATA}/{asked.path}",
        f"--out={_DATA}/reports/{asked.name}",
        f"--window-days={asked.window_days}",
        f"--title={asked.name} in {asked.namespace}",
        f"--master={MASTER}",
    ]
    return words if asked.objectives is None else [*words, f"--slo={_OBJECTIVES}/{_OBJECTIVES_FILE}"]


def _application(asked: JobRequest) -> Json:
    heap_mebibytes = int(asked.memory_mebibytes * HEAP_SHARE)
    resources = {
        "cores": asked.cores,
        "memory": f"{heap_mebibytes}m",
        "memoryOverhead": f"{asked.memory_mebibytes - heap_mebibytes}m",
    }
    return {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "sparkVersion": version("pyspark"),
        "image": asked.image,
        "mainApplicationFile": PROGRAM,
        "arguments": arguments(asked),
        "restartPolicy": {"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 10},
        "sparkConf": {
            # Nothing but pods is made by the driver, so that its account may do nothing else.
            "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
            "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
            "spark.kubernetes.driver.service.deleteOnTermination": "false",
            "spark.kubernetes.executor.disableConfigMap": "true",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        },
        "driver": resources | {"serviceAccount": asked.account, "template": _pod(asked, DRIVER)},
        "executor": resources | {"instances": asked.executors, "template": _pod(asked, EXECUTOR)},
    }


def _pod(asked: JobRequest, container: str) -> Json:
    """Return the template of a pod.

    It has the volume, which executors only read, and nothing that the restricted profile refuses.
    """
    drives = container == DRIVER
    volumes: list[Json] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": asked.claim}},
        {"name": "scratch", "emptyDir": {}},
    ]
    mounts: list[Json] = [
        {"name": "data", "mountPath": _DATA, "readOnly": not drives},
        {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of the pod's own
    ]
    if drives and asked.objectives is not None:
        volumes.append({"name": "objectives", "configMap": {"name": _objectives_name(asked)}})
        mounts.append({"name": "objectives", "mountPath": _OBJECTIVES, "readOnly": True})
    spec: Json = {
        "automountServiceAccountToken": drives,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": container,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    if asked.beside:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(asked.beside)}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"spec": spec}


def _objectives_name(asked: JobRequest) -> str:
    return f"{asked.name}-objectives"


def _object(api_version: str, kind: str, name: str, namespace: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
