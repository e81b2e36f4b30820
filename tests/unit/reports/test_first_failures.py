"""The exported rules see the first failure of each kind.

promtool judges them over histories in which a series appears late.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_pipeline.cli import main
from testkit.processes.prometheus import PrometheusUnavailableError, programs

AT = "14m"
SCRAPES_BEFORE = 20
SENDS = 'rmqha_canary_send_total{group="orders",instance="c",result="'
READS = 'rmqha_canary_read_total{group="orders",instance="c",result="'
HIBERNATED = 'rmqha_operator_group_hibernated{exported_namespace="shop",group="orders"}'
ELECTIONS = 'rmqha_elections_total{cluster="c",group="orders",instance="l",result="'
OK_SENDS = "0+600x20 12000 12300+600x20"
"""20 sends per second, scraped every 30 s; none succeeds for 45 s from minute 10 on."""

Series = dict[str, str]


def _slo(indicator: str, method: str, target: float) -> dict[str, Any]:
    name = indicator.replace("_", "-")
    return {"name": name, "indicator": indicator, "budgetingMethod": method, "targetPercent": target}


OBJECTIVES: dict[str, Any] = {
    "service": "rocketmq",
    "alerting": [{"severity": "page", "threshold": 14.4, "lookbackWindow": "10m", "shortWindow": "5m"}],
    "slos": [
        _slo("write_availability", "Timeslices", 99.95),
        _slo("durability", "Occurrences", 100.0),
        _slo("election_health", "Occurrences", 100.0),
        _slo("controller_leader", "Timeslices", 99.95) | {"timeSliceWindow": "30s"},
    ],
}


def _history(name: str, series: Series, *, pages: str | None, error: float | None = None) -> dict[str, Any]:
    """Return a promtool test: which objective pages at `AT`, and what share of its events or time was bad."""
    alerts = (
        '{__name__="ALERTS",alertname="RocketMQPage%s",alertstate="firing"%s,'
        'service="rocketmq",severity="page",slo="%s"}'
    )
    fires = []
    if pages is not None:
        camel = "".join(part.capitalize() for part in pages.split("-"))
        group = "" if pages == "controller-leader" else ',group="orders"'
        fires = [{"labels": alerts % (camel, group, pages), "value": 1}]
    expectations: list[dict[str, Any]] = [{"expr": "ALERTS", "eval_time": AT, "exp_samples": fires}]
    if error is not None:
        labels = '{group="orders"}' if pages != "controller-leader" else "{}"
        found = f'sum by (group) (slo:sli_error:ratio_rate5m{{slo="{pages or "write-availability"}"}})'
        # Prometheus 2 and 3 differ in whether a sample at a window's start belongs to it.
        near = {"expr": f"abs({found} - {error:.6f}) < bool 0.02", "eval_time": AT}
        expectations.append(near | {"exp_samples": [{"labels": labels, "value": 1}]})
    inputs = [{"series": one, "values": values} for one, values in series.items()]
    return {"name": name, "interval": "30s", "input_series": inputs, "promql_expr_test": expectations}


HISTORIES = [
    _history(
        "the series appears with the first failed send",
        {f'{SENDS}ok"}}': OK_SENDS, f'{SENDS}timeout"}}': "_x20 600 900x20"},
        pages="write-availability",
        error=0.15,
    ),
    _history(
        "the series was at 0 before the same failed sends",
        {f'{SENDS}ok"}}': OK_SENDS, f'{SENDS}timeout"}}': "0x19 600 900x20"},
        pages="write-availability",
        error=0.15,
    ),
    _history(
        "an outage of 20 s between two scrapes",
        {f'{SENDS}ok"}}': "0+600x20 12200+600x20", f'{SENDS}not_master"}}': "_x20 400x20"},
        pages="write-availability",
        error=400 / 6000,
    ),
    _history(
        "two kinds of failure, one of them for the first time",
        {
            f'{SENDS}ok"}}': "0+600x20 12000 12300+600x20",
            f'{SENDS}timeout"}}': "0x20 300x20",
            f'{SENDS}refused"}}': "_x21 600x20",
        },
        pages="write-availability",
        error=0.15,
    ),
    _history(
        "the series appeared and its process started again",
        {
            f'{SENDS}ok"}}': "0+600x20 12000 300+600x20",
            f'{SENDS}timeout"}}': "_x20 600 900 0x20",
        },
        pages="write-availability",
    ),
    _history(
        "a process with old failures is scraped for the first time",
        {f'{SENDS}ok"}}': "_x20 900000+600x20", f'{SENDS}timeout"}}': "_x20 50000x20"},
        pages=None,
        error=0.0,
    ),
    _history(
        "a process with old failures is scraped again after a gap",
        {f'{SENDS}ok"}}': "900000+600x10 _x9 912000+600x20", f'{SENDS}timeout"}}': "50000x10 _x9 50000x20"},
        pages=None,
        error=0.0,
    ),
    _history(
        "no sends",
        {f'{SENDS}ok"}}': "9000x40", f'{SENDS}timeout"}}': "5x40"},
        pages=None,
    ),
    _history(
        "a group that hibernates",
        {
            f'{SENDS}ok"}}': OK_SENDS,
            f'{SENDS}timeout"}}': "0x19 600 900x20",
            HIBERNATED: "_x19 1x21",
        },
        pages=None,
        error=0.15,
    ),
    _history(
        "a group that woke up within the short window",
        {
            f'{SENDS}ok"}}': OK_SENDS,
            f'{SENDS}timeout"}}': "0x19 600 900x20",
            HIBERNATED: "1x20 stale",
        },
        pages=None,
        error=0.15,
    ),
    _history(
        "a group that woke up long ago",
        {
            f'{SENDS}ok"}}': OK_SENDS,
            f'{SENDS}timeout"}}': "0x19 600 900x20",
            HIBERNATED: "1x10 stale",
        },
        pages="write-availability",
        error=0.15,
    ),
    _history(
        "another group hibernates",
        {
            f'{SENDS}ok"}}': OK_SENDS,
            f'{SENDS}timeout"}}': "0x19 600 900x20",
            HIBERNATED.replace("orders", "prices"): "1x40",
        },
        pages="write-availability",
        error=0.15,
    ),
    _history(
        "controllers die while a group hibernates",
        {'rmqha_controller_role{instance="a"}': "3x20 stale", HIBERNATED: "1x40"},
        pages="controller-leader",
        error=8 / 11,
    ),
    _history(
        "the first lost message",
        {f'{READS}ok"}}': "0+600x40", f'{READS}missing"}}': "_x22 1x20"},
        pages="durability",
    ),
    _history(
        "the first failed election",
        {
            f'{ELECTIONS}elected",cause="BrokerRequest"}}': "3x40",
            f'{ELECTIONS}failed",cause="HeartbeatTimeout"}}': "_x22 1x20",
        },
        pages="election-health",
        error=1.0,
    ),
    _history(
        "the first election of all failed",
        {f'{ELECTIONS}failed",cause="MasterMissing"}}': "_x22 1x20"},
        pages="election-health",
        error=1.0,
    ),
    _history(
        "all controllers died",
        {
            'rmqha_controller_role{instance="a"}': "3x20 stale",
            'rmqha_controller_role{instance="b"}': "2x20 stale",
        },
        pages="controller-leader",
        error=8 / 11,
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export the objectives; return the directory."""
    directory = tmp_path_factory.mktemp("rules")
    (directory / "slo.yaml").write_text(yaml.safe_dump(OBJECTIVES))
    assert main(["export", "--slo", str(directory / "slo.yaml"), "--out", str(directory)]) == 0
    return directory


def _judged(directory: Path, histories: list[dict[str, Any]]) -> None:
    try:
        promtool = programs().promtool
    except PrometheusUnavailableError as error:
        pytest.skip(f"no promtool: {error}")
    test = {"rule_files": ["prometheus-rules.yaml"], "evaluation_interval": "30s", "tests": histories}
    (directory / "test.yaml").write_text(yaml.safe_dump(test))
    command = [promtool, "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history["name"])
def test_what_pages_and_how_much_was_bad(exported: Path, history: dict[str, Any]) -> None:
    _judged(exported, [history])


@pytest.mark.parametrize(
    ("series", "summary"),
    [
        (
            {'rmqha_elections_total{result="failed"}': "0x20 1x20"},
            "election-health burns its error budget too fast",
        ),
        (
            {'rmqha_elections_total{group="orders",result="failed"}': "0x20 1x20"},
            "election-health of orders burns its error budget too fast",
        ),
    ],
)
def test_a_page_names_a_group_only_where_the_series_have_one(
    exported: Path, series: Series, summary: str
) -> None:
    labels = {"service": "rocketmq", "severity": "page", "slo": "election-health"}
    labels |= {"group": "orders"} if "orders" in summary else {}
    said = "Objective 100 % over 30d. Good: an election found a master."
    alert = {"exp_labels": labels, "exp_annotations": {"summary": summary, "description": said}}
    inputs = [{"series": one, "values": values} for one, values in series.items()]
    expected = [{"eval_time": "12m", "alertname": "RocketMQPageElectionHealth", "exp_alerts": [alert]}]
    _judged(exported, [{"interval": "30s", "input_series": inputs, "alert_rule_test": expected}])
