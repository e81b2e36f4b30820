"""Objectives as Prometheus recording and alerting rules.

Problem: the report judges from single sends and events; Prometheus has scraped series only. Its rules page people within
minutes, the report counts.
Shape: for each objective one recording rule a window (`slo:sli_error:ratio_rate5m` and so on, by group), and one alert a
severity that is the union of its burn alerts. A gauge is first recorded as "bad now", slice by slice, so that a window of days
is an average of what is recorded and not a subquery. What Prometheus cannot see (a failover's write gap, which is measured by the
canary's single sends) has no rule, and `without_rules` names it.
Never: a `query_range` of ours; these are rules for somebody's Prometheus.

Source: metric names of docs/reference; Site Reliability Workbook, "Alerting on SLOs", multiwindow, multi-burn-rate alerts.
"""

from typing import Any, Final

from slo_pipeline.objectives.model import BurnAlert, Objectives, ObjectivesError, Slo

# The canary's histogram has these bounds; another threshold cannot be read from it.
BOUNDS_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0)
LEADER_ROLE: Final = 3
LEADER: Final = f"on (instance) group_left () (rmqha_controller_role == {LEADER_ROLE})"
COUNTING_INTERVAL_S: Final = 30
NOW: Final = "slo:sli_error:now"
Rule = dict[str, Any]


def bad_now(slo: Slo) -> str | None:
    """Return the query that is 1 while a gauge breaks its promise, else 0; None for indicators that count."""
    match slo.indicator:
        case "replication_lag":
            worst = "max by (group) (rmqha_ha_lag_bytes and (rmqha_ha_in_sync == 1))"
            return f"{worst} > bool {slo.value:.12g}"
        case "in_sync_ratio":
            share = f"rmqha_group_sync_state_set_size / rmqha_group_replicas * {LEADER} / {LEADER_ROLE}"
            return f"min by (group) ({share}) < bool {slo.value:.12g}"
        case "controller_leader":
            return f"(count(rmqha_controller_role == {LEADER_ROLE}) or vector(0)) < bool 1"
        case _:
            return None


def error_ratio(slo: Slo, window: str) -> str | None:
    """Return the query for the bad share of a window, by group; None where Prometheus cannot see it.

    Raises:
        ObjectivesError: the threshold is none that the scraped series can answer.
    """
    now = bad_now(slo)
    if now is not None:
        return f"avg_over_time(({now})[{window}:{slo.slice_s}s])"
    match slo.indicator:
        case "write_availability":
            bad = f'sum by (group) (rate(rmqha_canary_send_total{{result!="ok"}}[{window}]))'
            return f"({bad} or 0 * {_sends(window)}) / {_sends(window)}"
        case "send_latency":
            fast = f'sum by (group) (rate(rmqha_canary_send_duration_seconds_bucket{{le="{_bound(slo)}"}}[{window}]))'
            every = f"sum by (group) (rate(rmqha_canary_send_duration_seconds_count[{window}]))"
            return f"1 - {fast} / {every}"
        case "durability":
            lost = f'sum by (group) (increase(rmqha_canary_read_total{{result="missing"}}[{window}]))'
            every = f"sum by (group) (increase(rmqha_canary_read_total[{window}]))"
            return f"{lost} / {every}"
        case "election_health":
            failed = f'sum(increase(rmqha_elections_total{{result="failed"}}[{window}]))'
            return f"({failed} or vector(0)) / sum(increase(rmqha_elections_total[{window}]))"
        case _:
            return None


def _sends(window: str) -> str:
    return f"sum by (group) (rate(rmqha_canary_send_total[{window}]))"


def _bound(slo: Slo) -> str:
    if slo.value not in BOUNDS_MS:
        bounds = ", ".join(f"{bound:g}" for bound in BOUNDS_MS)
        raise ObjectivesError(
            f"{slo.name}: value: {slo.value!r}: Prometheus can only answer at a bound of the histogram: {bounds} ms"
        )
    return str(slo.value / 1_000.0)


def without_rules(objectives: Objectives) -> list[str]:
    """Return the objectives that only the report can judge."""
    return [slo.name for slo in objectives.slos if error_ratio(slo, "5m") is None]


def rules(objectives: Objectives) -> dict[str, Any]:
    """Return the content of a Prometheus rule file.

    Raises:
        ObjectivesError: a threshold that Prometheus cannot answer.
    """
    groups = []
    for slo in objectives.slos:
        if error_ratio(slo, "5m") is None:
            continue
        records = _records(objectives, slo)
        alerts = [
            _alert(objectives, slo, severity)
            for severity in dict.fromkeys(alert.severity for alert in objectives.alerting)
        ]
        groups.append(
            {"name": f"slo-{slo.name}", "interval": f"{_interval_s(slo)}s", "rules": [*records, *alerts]}
        )
    return {"groups": groups}


def _windows(objectives: Objectives) -> list[str]:
    both = [window for alert in objectives.alerting for window in (alert.shortWindow, alert.lookbackWindow)]
    return list(dict.fromkeys(both))


def _labels(objectives: Objectives, slo: Slo) -> dict[str, str]:
    return {"slo": slo.name, "service": objectives.service}


def _interval_s(slo: Slo) -> int:
    return COUNTING_INTERVAL_S if bad_now(slo) is None else slo.slice_s


def _records(objectives: Objectives, slo: Slo) -> list[Rule]:
    labels = _labels(objectives, slo)
    now = bad_now(slo)
    first = [] if now is None else [{"record": NOW, "expr": now, "labels": labels}]

    def ratio(window: str) -> str | None:
        return (
            error_ratio(slo, window) if now is None else f'avg_over_time({NOW}{{slo="{slo.name}"}}[{window}])'
        )

    return first + [
        {"record": f"slo:sli_error:ratio_rate{window}", "expr": ratio(window), "labels": labels}
        for window in _windows(objectives)
    ]


def _alert(objectives: Objectives, slo: Slo, severity: str) -> Rule:
    chosen = [alert for alert in objectives.alerting if alert.severity == severity]
    return {
        "alert": f"RocketMQ{'Page' if severity == 'page' else 'Ticket'}{_camel(slo.name)}",
        "expr": " or ".join(_burns(slo, alert) for alert in chosen),
        "labels": {**_labels(objectives, slo), "severity": severity},
        "annotations": {
            "summary": f"{slo.name} of {{{{ $labels.group }}}} burns its error budget too fast",
            "description": f"Objective {slo.targetPercent:g} % over {objectives.timeWindow.duration}. Good: "
            f"{slo.measured.says}.",
        },
    }


def _burns(slo: Slo, alert: BurnAlert) -> str:
    def above(window: str) -> str:
        limit = f"{alert.threshold * slo.allowed:.12g}"
        return f'slo:sli_error:ratio_rate{window}{{slo="{slo.name}"}} > {limit}'

    return f"({above(alert.lookbackWindow)} and {above(alert.shortWindow)})"


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
