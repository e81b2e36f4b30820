"""Objectives as OpenSLO v1 documents, for tools that read those, and for `openslo_reader`.

Shape: one Service; one AlertNotificationTarget a severity; one AlertPolicy and AlertCondition a burn alert;
one SLO an objective with its indicator inline. The query of an indicator is the recorded series of the rules
that `prometheus` exports. Its metric source also names our indicator and its threshold, as a source's `spec`
is the source's own. What OpenSLO v1 cannot say:

| ours | exported as |
|---|---|
| slices below 1 minute | RatioTimeslices of 1 minute: its mean of shares is the share of good slices |
| an objective of 100 % | the nearest target below it, and an annotation |
| a second, shorter window of a burn alert | an annotation |
| an indicator that Prometheus cannot see | a metric source of the type `slo-pipeline` |
| a window in seconds | the same window in minutes |

Never: a field that OpenSLO v1 does not have, nor a query that is always 0.

Source: OpenSLO v1 specification, kinds Service, SLO, AlertPolicy, AlertCondition, AlertNotificationTarget.
"""

from collections.abc import Mapping
from typing import Any, Final

from slo_pipeline.objectives.model import UNITS_S, BurnAlert, Objectives, Slo, seconds
from slo_pipeline.objectives.openslo_model import API_VERSION
from slo_pipeline.objectives.prometheus import error_ratio

SHORT_WINDOW: Final = "rocketmq-ha.dev/short-window"
TARGET_PERCENT: Final = "rocketmq-ha.dev/target-percent"
TARGET_PERCENT_MAX: Final = 99.999_999_9
SLICE_S_MIN: Final = 60
OWN_SOURCE: Final = "slo-pipeline"
Document = dict[str, Any]


def documents(objectives: Objectives) -> list[Document]:
    """Return the documents in the order in which one refers to another."""
    severities = dict.fromkeys(alert.severity for alert in objectives.alerting)
    alerts = _alerts_by_name(objectives)
    service = _document("Service", objectives.service, {"description": "Apache RocketMQ broker groups"})
    return [
        service,
        *[_target(severity) for severity in severities],
        *[_condition(name, alert) for name, alert in alerts.items()],
        *[_policy(name, alert) for name, alert in alerts.items()],
        *[_slo(objectives, slo, alerts) for slo in objectives.slos],
    ]


def _document(kind: str, name: str, spec: Document, annotations: dict[str, str] | None = None) -> Document:
    metadata: Document = {"name": name}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _target(severity: str) -> Document:
    description = f"Alertmanager routes the alerts of the exported rules by their label severity: {severity}."
    return _document(
        "AlertNotificationTarget", severity, {"description": description, "target": "alertmanager"}
    )


def _alerts_by_name(objectives: Objectives) -> dict[str, BurnAlert]:
    """Return the alerts by their names, which are DNS labels.

    An alert whose name is taken has its number behind it.
    """
    named: dict[str, BurnAlert] = {}
    for number, alert in enumerate(objectives.alerting, start=1):
        name = f"{alert.severity}-{alert.lookbackWindow}-{alert.threshold:g}".replace(".", "-").replace(
            "+", ""
        )
        named[f"{name}-{number}" if name in named else name] = alert
    return named


def _duration(text: str) -> str:
    """Return a duration of whole minutes in a unit that OpenSLO has: seconds become minutes."""
    return f"{seconds(text) // UNITS_S['m']}m" if text.endswith("s") else text


def _condition(name: str, alert: BurnAlert) -> Document:
    condition = {
        "kind": "burnrate",
        "op": "gt",
        "threshold": alert.threshold,
        "lookbackWindow": _duration(alert.lookbackWindow),
        "alertAfter": "0m",
    }
    spec = {"severity": alert.severity, "condition": condition}
    return _document("AlertCondition", name, spec, {SHORT_WINDOW: alert.shortWindow})


def _policy(name: str, alert: BurnAlert) -> Document:
    spec = {
        "alertWhenBreaching": True,
        "alertWhenResolved": False,
        "conditions": [{"conditionRef": name}],
        "notificationTargets": [{"targetRef": alert.severity}],
    }
    return _document("AlertPolicy", name, spec)


def _slo(objectives: Objectives, slo: Slo, alerts: Mapping[str, BurnAlert]) -> Document:
    spec: Document = {"description": slo.description} if slo.description else {}
    spec |= {
        "service": objectives.service,
        "indicator": {
            "metadata": {"name": slo.indicator.replace("_", "-")},
            "spec": {
                "description": _described(slo),
                "ratioMetric": {"rawType": "failure", "raw": {"metricSource": _source(slo)}},
            },
        },
        "timeWindow": [{"duration": _duration(objectives.timeWindow.duration), "isRolling": True}],
        "budgetingMethod": _method(slo),
        "objectives": [_objective(slo)],
        "alertPolicies": [{"alertPolicyRef": name} for name in alerts],
    }
    beyond = slo.targetPercent > TARGET_PERCENT_MAX
    return _document("SLO", slo.name, spec, {TARGET_PERCENT: f"{slo.targetPercent!r}"} if beyond else None)


def _method(slo: Slo) -> str:
    if slo.budgetingMethod == "Timeslices" and slo.slice_s < SLICE_S_MIN:
        return "RatioTimeslices"
    return slo.budgetingMethod


def _objective(slo: Slo) -> Document:
    objective: Document = {
        "displayName": slo.measured.says,
        "targetPercent": min(slo.targetPercent, TARGET_PERCENT_MAX),
    }
    match _method(slo):
        case "Timeslices":
            objective |= {"timeSliceTarget": 1.0, "timeSliceWindow": "1m"}
        case "RatioTimeslices":
            objective["timeSliceWindow"] = "1m"
    return objective


def _source(slo: Slo) -> Document:
    query = error_ratio(slo, "5m")
    spec: Document = {} if query is None else {"query": query}
    spec["indicator"] = slo.indicator
    if slo.value is not None:
        spec |= {"op": slo.op, "value": slo.value}
    if slo.timeSliceWindow is not None:
        spec["timeSliceWindow"] = slo.timeSliceWindow
    return {"type": OWN_SOURCE if query is None else "Prometheus", "spec": spec}


def _described(slo: Slo) -> str:
    threshold = "" if slo.value is None else f" (threshold {slo.value:g} {slo.measured.unit})"
    return f"Good: {slo.measured.says}{threshold}."
