"""The children of an SLOReport.

These are a CronJob that runs `slo-pipeline report`, and a ConfigMap with the objectives.

The job reads the collector's segments and writes its page on the same volume, below the folder that the
report server shows. A volume of ReadWriteOnce is on one node, so its pod goes where a pod is that holds the
volume; the report server's Service says which pods those are. With `daily`, an init container runs
`slo-pipeline daily --extracts-only` first. What it keeps of closed days lies beside the reports, by report
and by source directory: no two reports wait for each other's files, the deletion of one takes nothing from
another, and a report that changes its directory does not reuse days of the former one. The result of a run
leaves the pod as its termination message: the operator needs no right to read logs.

Source: Kubernetes CronJob and "Customizing the termination message".
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from rocketmq_operator.api.names import CONFIG_HASH_ANNOTATION, REPORT_LABEL
from rocketmq_operator.api.slo_report import Engine, SLOReportSpec
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.objects import Json, Owner, child, selector_labels
from rocketmq_operator.plan.common.parts import digest
from rocketmq_operator.plan.report import executors as report_executors

REPORT: Final = "report"
"""Component of a report's objects."""
DAILY: Final = "daily"
"""The container that runs before it, if the spec requests it."""
RETRIES_MAX: Final = 1
DEADLINE_S: Final = 1_800
"""A run that takes longer is ended: the next one would find the same."""
THREADS_MIN: Final = 2
SUMMARY_PATH: Final = "/dev/termination-log"
"""Kubernetes' own default, spelt out on both sides."""
_OBJECTIVES_VOLUME: Final = "objectives"


def report_children(
    owner: Owner, spec: SLOReportSpec, claim: str, holders: Mapping[str, str], account: str = ""
) -> tuple[Json, ...]:
    """Return all children.

    Args:
        owner: the SLOReport.
        spec: its spec.
        claim: the PersistentVolumeClaim with the measurements.
        holders: labels of pods that hold the volume; empty if unknown, then the scheduler decides.
        account: makes the pods of executors, where there are any.
    """
    text = objectives_text(owner, spec)
    files = {names.OBJECTIVES_FILE: text} if text else {}
    if spec.engine is Engine.KUBERNETES:
        files |= report_executors.spark_files(owner, spec, claim, holders)
    body = {"data": files} if files else {}
    pod = {
        "metadata": {
            "labels": _pod_labels(owner, spec),
            "annotations": {CONFIG_HASH_ANNOTATION: digest("".join(files.values()))},
        },
        "spec": _pod(owner, spec, claim, holders, account),
    }
    labels = report_labels(owner.name)
    return (
        child(owner, "ConfigMap", names.report_objectives(owner.name), labels=labels, **body),
        child(owner, "CronJob", owner.name, labels=labels, spec=_cron_job(owner, spec, pod)),
    )


def report_labels(name: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a report, its Jobs and their pods included."""
    return selector_labels(REPORT, name) | {REPORT_LABEL: name}


def objectives_text(owner: Owner, spec: SLOReportSpec) -> str:
    """Return the file of objectives as slo-pipeline reads it, empty for those that come with it."""
    if not spec.objectives:
        return ""
    value: Json = {
        "service": owner.name,
        "timeWindow": {"duration": f"{spec.window_days}d", "isRolling": True},
        "slos": [
            one.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
            for one in spec.objectives
        ],
    }
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text


def _pod_labels(owner: Owner, spec: SLOReportSpec) -> dict[str, str]:
    """Return the labels of the job's pods, by which network policies select them."""
    local = spec.engine is Engine.LOCAL
    return report_labels(owner.name) if local else report_executors.spark_labels(owner.name)


def _cron_job(owner: Owner, spec: SLOReportSpec, pod: Json) -> Json:
    return {
        "schedule": spec.schedule,
        "timeZone": "Etc/UTC",
        "suspend": spec.suspend,
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": spec.successful_jobs_history_limit,
        "failedJobsHistoryLimit": spec.failed_jobs_history_limit,
        "jobTemplate": {
            "metadata": {"labels": report_labels(owner.name)},
            "spec": {
                "backoffLimit": RETRIES_MAX,
                "activeDeadlineSeconds": DEADLINE_S,
                "template": pod,
            },
        },
    }


def _pod(owner: Owner, spec: SLOReportSpec, claim: str, holders: Mapping[str, str], account: str) -> Json:
    asks = spec.engine is Engine.KUBERNETES
    return {
        "restartPolicy": "Never",
        **({"serviceAccountName": account} if asks else {}),
        "automountServiceAccountToken": asks,
        "securityContext": parts.pod_security(parts.OUR_USER),
        **({"initContainers": [_daily(owner, spec)]} if spec.daily else {}),
        "containers": [_container(owner, spec)],
        "volumes": [
            {"name": names.DATA_VOLUME, "persistentVolumeClaim": {"claimName": claim}},
            {
                "name": _OBJECTIVES_VOLUME,
                "configMap": {"name": names.report_objectives(owner.name), "defaultMode": 0o444},
            },
            {"name": "scratch", "emptyDir": {}},
        ],
        **report_executors.affinity(holders),
    }


def _container(owner: Owner, spec: SLOReportSpec) -> Json:
    mounts: list[dict[str, Any]] = [
        {"name": names.DATA_VOLUME, "mountPath": names.MEASURED_PATH},
        {"name": _OBJECTIVES_VOLUME, "mountPath": names.OBJECTIVES_PATH, "readOnly": True},
        {"name": "scratch", "mountPath": names.SCRATCH_PATH},
    ]
    return {
        "name": REPORT,
        "image": spec.image,
        "args": arguments(owner, spec),
        **({"env": report_executors.driver_environment()} if spec.engine is Engine.KUBERNETES else {}),
        "resources": parts.resources(spec.resources),
        "securityContext": parts.container_security(),
        "terminationMessagePath": SUMMARY_PATH,
        # A run that fails says why as the last of its output.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _daily(owner: Owner, spec: SLOReportSpec) -> Json:
    """Return the container that keeps what reports read of closed days; it starts no Spark."""
    words = [
        "daily",
        f"--input={names.MEASURED_PATH}/{spec.source.path}",
        f"--tables={_days_path(owner, spec)}",
        "--extracts-only",
    ]
    same = {
        key: value for key, value in _container(owner, spec).items() if key not in {"name", "args", "env"}
    }
    return {"name": DAILY, "args": words, **same}


def _days_path(owner: Owner, spec: SLOReportSpec) -> str:
    # No path of a source has a "%", so that no two of them become one.
    folder = spec.source.path.replace("/", "%2F")
    return f"{names.MEASURED_PATH}/{names.DAYS_FOLDER}/{owner.name}/{folder}"


def arguments(owner: Owner, spec: SLOReportSpec) -> list[str]:
    """Return the words after `slo-pipeline`."""
    words = [
        "report",
        f"--input={names.MEASURED_PATH}/{spec.source.path}",
        f"--out={names.MEASURED_PATH}/{names.REPORTS_FOLDER}/{owner.name}",
        f"--window-days={spec.window_days}",
        f"--title={owner.name} in {owner.namespace}",
        f"--master={_master(spec)}",
        f"--summary={SUMMARY_PATH}",
    ]
    if spec.daily:
        words.append(f"--tables={_days_path(owner, spec)}")
    if spec.objectives:
        words.append(f"--slo={names.OBJECTIVES_PATH}/{names.OBJECTIVES_FILE}")
    return words


def _master(spec: SLOReportSpec) -> str:
    if spec.engine is Engine.KUBERNETES:
        return report_executors.MASTER
    return f"local[{max(THREADS_MIN, report_executors.threads(spec))}]"
