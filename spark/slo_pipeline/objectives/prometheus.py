"""Objectives as Prometheus recording and alerting rules.

Problem: the report judges from single sends and events; Prometheus has scraped series only. Its rules page
people within minutes, the report counts. Shape: for each objective one recording rule a window
(`slo:sli_error:ratio_rate5m` and so on, by group where the series have one), and one alert a severity that is
the union of its burn alerts. A gauge is first recorded as "bad now", slice by slice, so that a window of days
is an average of recorded series and not a subquery. Counters are first recorded as bad and good events. An
outage between two scrapes leaves gauges as they were; the canary's counters hold its failed sends. A window
without events yields no ratio: 0/0 is neither success nor failure. What Prometheus cannot see (a failover's
write gap, which is measured by the canary's single sends) cannot become a rule, and `without_rules` names it.
Never: a `query_range` of ours; these are rules for somebody's Prometheus.

The first failure of a kind. `increase()` of a series that appears with its first failure is 0, since it
compares samples. Our processes show every kind at 0 from their start; older versions do not. So a bad series
that was absent when the window began counts with its whole value, unless good series of the same process lack
an earlier sample too: then the process itself is new to Prometheus, and when it counted is unknown.

Alerts do not fire for a group that hibernates. After it wakes up, an alert can fire as soon as its short
window lies after the sleep.

Source: metric names of docs/reference; Site Reliability Workbook, "Alerting on SLOs", multiwindow,
multi-burn-rate alerts.
"""

from typing import Any, Final, NamedTuple

from slo_pipeline.objectives.model import BurnAlert, Objectives, ObjectivesError, Slo

# The canary's histogram has these bounds; another threshold cannot be read from it.
BOUNDS_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0)
LEADER_ROLE: Final = 3
LEADER: Final = f"on (instance) group_left () (rmqha_controller_role == {LEADER_ROLE})"
COUNTING_INTERVAL_S: Final = 30
CONTROLLERS_KNOWN_FOR: Final = "1d"
"""For so long after their last scrape, controllers that do not answer count as not leading."""
HIBERNATED: Final = "rmqha_operator_group_hibernated"
"""1 for each group whose spec.hibernated is true; other groups lack such a series."""
NOW: Final = "slo:sli_error:now"
Rule = dict[str, Any]


class _Events(NamedTuple):
    """Two halves of a counter family.

    Attributes:
        bad: selector of the series that count bad events.
        good: selector of those that count good ones.
        kinds: labels that tell one series of a process from another.
    """

    bad: str
    good: str
    kinds: str

    def good_in(self, window: str) -> str:
        """Return the query for the good events of a window."""
        return f"sum by (group) (increase({self.good}[{window}]))"

    def bad_in(self, window: str) -> str:
        """Return the query for the bad events of a window, including events before a series' first sample."""
        samples = f"count_over_time({self.bad}[{window}])"
        samples_of_good = f"max without ({self.kinds}) (count_over_time({self.good}[{window}]))"
        new_process = f"{samples} >= ignoring ({self.kinds}) group_left () {samples_of_good}"
        appeared = (
            f"max_over_time({self.bad}[{window}]) unless {self.bad} offset {window} unless ({new_process})"
        )
        return f"sum by (group) ({appeared} or increase({self.bad}[{window}]))"


_EVENTS: Final = {
    "write_availability": _Events(
        'rmqha_canary_send_total{result!="ok"}',
        'rmqha_canary_send_total{result="ok"}',
        "result",
    ),
    "durability": _Events(
        'rmqha_canary_read_total{result="missing"}',
        'rmqha_canary_read_total{result="ok"}',
        "result",
    ),
    "election_health": _Events(
        'rmqha_elections_total{result="failed"}',
        'rmqha_elections_total{result!="failed"}',
        "result, cause",
    ),
}
OF_GROUP: Final = "{{ with $labels.group }} of {{ . }}{{ end }}"
"""Empty for series without a group."""


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
            none_leads = f"0 * count(max_over_time(rmqha_controller_role[{CONTROLLERS_KNOWN_FOR}]))"
            return f"(count(rmqha_controller_role == {LEADER_ROLE}) or {none_leads}) < bool 1"
        case _:
            return None


def error_ratio(slo: Slo, window: str) -> str | None:
    """Return the recorded series of the bad share of a window; None where Prometheus cannot see it."""
    if slo.indicator == "failover_duration":
        return None
    return f'slo:sli_error:ratio_rate{window}{{slo="{slo.name}"}}'


def _bound(slo: Slo) -> str:
    if slo.value not in BOUNDS_MS:
        bounds = ", ".join(f"{bound:g}" for bound in BOUNDS_MS)
        raise ObjectivesError(
            f"{slo.name}: value: {slo.value!r}: Prometheus can only answer at a bound of the histogram: "
            f"{bounds} ms"
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
    made = [] if now is None else [(NOW, now)]
    for window in _windows(objectives):
        made += _ratio(slo, window)
    return [{"record": name, "expr": query, "labels": labels} for name, query in made]


def _ratio(slo: Slo, window: str) -> list[tuple[str, str]]:
    """Return names and queries that end in the bad share of a window."""
    ratio, of_slo = f"slo:sli_error:ratio_rate{window}", f'{{slo="{slo.name}"}}'
    if bad_now(slo) is not None:
        return [(ratio, f"avg_over_time({NOW}{of_slo}[{window}])")]
    events = _EVENTS.get(slo.indicator)
    if events is None:
        seconds = "rmqha_canary_send_duration_seconds"
        fast = f'sum by (group) (rate({seconds}_bucket{{le="{_bound(slo)}"}}[{window}]))'
        return [(ratio, f"1 - {fast} / (sum by (group) (rate({seconds}_count[{window}])) > 0)")]
    bad, good = f"slo:sli_bad:increase{window}", f"slo:sli_good:increase{window}"
    return [
        (bad, f"{events.bad_in(window)} or 0 * {events.good_in(window)}"),
        (good, f"{events.good_in(window)} or 0 * sum by (group) ({bad}{of_slo})"),
        (ratio, f"{bad}{of_slo} / ({bad}{of_slo} + {good}{of_slo} > 0)"),
    ]


def _alert(objectives: Objectives, slo: Slo, severity: str) -> Rule:
    chosen = [alert for alert in objectives.alerting if alert.severity == severity]
    return {
        "alert": f"RocketMQ{'Page' if severity == 'page' else 'Ticket'}{_camel(slo.name)}",
        "expr": " or ".join(_burns(slo, alert) for alert in chosen),
        "labels": {**_labels(objectives, slo), "severity": severity},
        "annotations": {
            "summary": f"{slo.name}{OF_GROUP} burns its error budget too fast",
            "description": f"Objective {slo.targetPercent:g} % over {objectives.timeWindow.duration}. Good: "
            f"{slo.measured.says}.",
        },
    }


def _burns(slo: Slo, alert: BurnAlert) -> str:
    def above(window: str) -> str:
        return f"{error_ratio(slo, window)} > {alert.threshold * slo.allowed:.12g}"

    burns = f"{above(alert.lookbackWindow)} and {above(alert.shortWindow)}"
    if slo.indicator == "controller_leader":
        return f"({burns})"
    asleep = f"max by (group) (max_over_time({HIBERNATED}[{alert.shortWindow}]))"
    return f"({burns} unless on (group) {asleep})"


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
