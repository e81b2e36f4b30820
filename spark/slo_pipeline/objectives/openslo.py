"""Objectives as OpenSLO v1 documents, for tools that read those.

Shape: one Service, one AlertPolicy and AlertCondition a burn alert, one SLO an objective with its indicator inline. Each
indicator's queries are the recording rules that `prometheus` exports, so both exports speak of the same series.
Never: a field that OpenSLO v1 does not have.

Source: OpenSLO v1 specification, kinds Service, SLO, AlertPolicy, AlertCondition.
"""

from typing import Any, Final

from slo_pipeline.objectives.model import BurnAlert, Objectives, Slo
from slo_pipeline.objectives.prometheus import error_ratio

API_VERSION: Final = "openslo/v1"
SHORT_WINDOW: Final = "rocketmq-ha.dev/short-window"
Document = dict[str, Any]


def documents(objectives: Objectives) -> list[Document]:
    """Return the documents in the order in which one refers to another."""
    conditions = [_condition(alert) for alert in objectives.alerting]
    policies = [_policy(alert) for alert in objectives.alerting]
    service = _document("Service", objectives.service, {"description": "Apache RocketMQ broker groups"})
    return [service, *conditions, *policies, *[_slo(objectives, slo) for slo in objectives.slos]]


def _document(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _alert_name(alert: BurnAlert) -> str:
    return f"{alert.severity}-{alert.lookbackWindow}"


def _condition(alert: BurnAlert) -> Document:
    condition = {
        "kind": "burnrate",
        "op": "gt",
        "threshold": alert.threshold,
        "lookbackWindow": alert.lookbackWindow,
        "alertAfter": "0m",
    }
    spec = {"severity": alert.severity, "condition": condition}
    made = _document("AlertCondition", _alert_name(alert), spec)
    # v1 has no word for a second window.
    made["metadata"]["annotations"] = {SHORT_WINDOW: alert.shortWindow}
    return made


def _policy(alert: BurnAlert) -> Document:
    spec = {
        "alertWhenBreaching": True,
        "alertWhenResolved": False,
        "conditions": [{"conditionRef": _alert_name(alert)}],
        "notificationTargets": [],
    }
    return _document("AlertPolicy", _alert_name(alert), spec)


def _slo(objectives: Objectives, slo: Slo) -> Document:
    objective: Document = {"displayName": slo.measured.says, "targetPercent": slo.targetPercent}
    if slo.budgetingMethod == "Timeslices":
        objective["timeSliceWindow"] = f"{slo.slice_s}s"
        objective["timeSliceTarget"] = 1.0
    query = {"type": "Prometheus", "spec": {"query": error_ratio(slo, "5m") or "vector(0)"}}
    indicator = {
        "metadata": {"name": slo.indicator.replace("_", "-")},
        "spec": {
            "description": _described(slo),
            "ratioMetric": {"rawType": "failure", "raw": {"metricSource": query}},
        },
    }
    spec = {
        "description": slo.description or slo.measured.says,
        "service": objectives.service,
        "indicator": indicator,
        "timeWindow": [{"duration": objectives.timeWindow.duration, "isRolling": True}],
        "budgetingMethod": slo.budgetingMethod,
        "objectives": [objective],
        "alertPolicies": [{"alertPolicyRef": _alert_name(alert)} for alert in objectives.alerting],
    }
    return _document("SLO", slo.name, spec)


def _described(slo: Slo) -> str:
    threshold = "" if slo.value is None else f" (threshold {slo.value:g} {slo.measured.unit})"
    return f"Good: {slo.measured.says}{threshold}."
