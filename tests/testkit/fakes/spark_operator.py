"""The SparkApplication of an API server of a cluster with the spark-operator.

It has the schema, as far as reports need it.

Each object on the way has all of its fields here, so that a misspelt one is found; of those that no report
uses the type is left open. Pod templates are checked as such: a list of a pod's own fields, and what the
spark-operator wants of them.

Source: kubeflow/spark-operator, config/crd/bases, API v1beta2, of August 2026.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]


class Texts:
    """A map of texts by name."""


class Anything:
    """A field that no report uses: there is such a one, and that is all that is known."""


def _fields(**used: object) -> dict[str, object]:
    return used


def _unused(names: str) -> dict[str, object]:
    return dict.fromkeys(names.split(), Anything)


_TEMPLATE: Final = _fields(metadata=_fields(labels=Texts, annotations=Texts), spec=Anything)
_OF_PODS: Final = _fields(
    cores=int, memory=str, memoryOverhead=str, serviceAccount=str, labels=Texts, template=_TEMPLATE
) | _unused(
    "affinity annotations configMaps coreLimit coreRequest dnsConfig env envFrom envSecretKeyRefs envVars "
    "gpu hostAliases hostNetwork image initContainers javaOptions lifecycle memoryLimit nodeSelector "
    "podSecurityContext ports priorityClassName schedulerName secrets securityContext shareProcessNamespace "
    "sidecars terminationGracePeriodSeconds tolerations volumeMounts"
)
_APPLICATION: Final = _fields(
    type=("Java", "Python", "Scala", "R"),
    pythonVersion=("2", "3"),
    mode=("cluster", "client"),
    sparkVersion=str,
    image=str,
    imagePullPolicy=str,
    mainApplicationFile=str,
    arguments=[str],
    sparkConf=Texts,
    timeToLiveSeconds=int,
    restartPolicy=_fields(
        type=("Never", "Always", "OnFailure"),
        onFailureRetries=int,
        onFailureRetryInterval=int,
        onSubmissionFailureRetries=int,
        onSubmissionFailureRetryInterval=int,
    ),
    driver=_OF_PODS | _unused("kubernetesMaster podName serviceAnnotations serviceLabels"),
    executor=_OF_PODS | _fields(instances=int) | _unused("deleteOnTermination"),
) | _unused(
    "batchScheduler batchSchedulerOptions deps driverIngressOptions driverPodDisruptionBudget "
    "dynamicAllocation failureRetries hadoopConf hadoopConfigMap imagePullSecrets mainClass "
    "memoryOverheadFactor monitoring nodeSelector proxyUser "
    "retryInterval sparkConfigMap sparkUIOptions suspend volumes"
)
_SCHEDULED: Final = _fields(
    schedule=str,
    timeZone=str,
    suspend=bool,
    concurrencyPolicy=("Allow", "Forbid", "Replace"),
    successfulRunHistoryLimit=int,
    failedRunHistoryLimit=int,
    template=_APPLICATION,
)
_REQUIRED: Final = {
    "ScheduledSparkApplication": ("schedule", "template"),
    "SparkApplication": ("driver", "executor", "mainApplicationFile", "sparkVersion", "type"),
}
_MEMORY: Final = re.compile("[1-9][0-9]*[mg]")
"""As Spark reads it, which takes Mi for nothing."""


def problems(document: Json) -> list[str]:
    """Return the errors of a SparkApplication or ScheduledSparkApplication, each with its path."""
    if document.get("apiVersion") != "sparkoperator.k8s.io/v1beta2":
        return [f"apiVersion: {document.get('apiVersion')!r}"]
    if document["kind"] == "SparkApplication":
        return list(_of_application(document["spec"], "spec"))
    if document["kind"] != "ScheduledSparkApplication":
        return [f"kind: {document['kind']!r}"]
    spec = document["spec"]
    found = [*_wrong(spec, _SCHEDULED, "spec"), *_missing(spec, "ScheduledSparkApplication", "spec")]
    return found + [one for one in _of_application(spec["template"], "spec.template") if one not in found]


def _of_application(spec: Json, path: str) -> Iterator[str]:
    yield from _wrong(spec, _APPLICATION, path)
    yield from _missing(spec, "SparkApplication", path)
    for part, container in (("driver", "spark-kubernetes-driver"), ("executor", "spark-kubernetes-executor")):
        template = spec.get(part, {}).get("template")
        named = [one["name"] for one in template["spec"]["containers"]] if template else [container]
        if container not in named:
            yield f"{path}.{part}.template: no container {container}"
        for field in ("memory", "memoryOverhead"):
            value = str(spec.get(part, {}).get(field, "1g"))
            if not _MEMORY.fullmatch(value):
                yield f"{path}.{part}.{field}: {value!r}"


def _missing(spec: Mapping[str, Any], kind: str, path: str) -> Iterator[str]:
    yield from (f"{path}.{name}: required" for name in _REQUIRED[kind] if name not in spec)


def _wrong(value: Any, wanted: Any, path: str) -> Iterator[str]:
    """Yield where a value is not of the wanted form: a type, a choice, a one-entry list, named fields."""
    match wanted:
        case dict():
            if not isinstance(value, dict):
                yield f"{path}: {value!r} is not an object"
                return
            yield from (f"{path}.{name}: unknown field" for name in value if name not in wanted)
            for name in value.keys() & wanted.keys():
                yield from _wrong(value[name], wanted[name], f"{path}.{name}")
        case list():
            if not isinstance(value, list):
                yield f"{path}: {value!r} is not a list"
                return
            for place, one in enumerate(value):
                yield from _wrong(one, wanted[0], f"{path}[{place}]")
        case tuple():
            if value not in wanted:
                yield f"{path}: {value!r} is not one of {', '.join(wanted)}"
        case _ if wanted is Texts:
            if not (isinstance(value, dict) and all(isinstance(one, str) for one in value.values())):
                yield f"{path}: {value!r} does not map names to texts"
        case _ if wanted is not Anything and type(value) is not wanted:
            yield f"{path}: {value!r} is not of type {wanted.__name__}"
