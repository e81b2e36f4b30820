"""Objectives: a bad file is one line, and both exports follow from one source."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_pipeline.cli import main
from slo_pipeline.objectives import openslo, prometheus
from slo_pipeline.objectives.catalogue import INDICATORS
from slo_pipeline.objectives.file import DEFAULT_FILE, load
from slo_pipeline.objectives.model import Objectives, ObjectivesError
from testkit.processes.prometheus import PrometheusUnavailableError, programs

GOOD: dict[str, Any] = {
    "service": "rocketmq",
    "slos": [
        {
            "name": "fast",
            "indicator": "send_latency",
            "budgetingMethod": "Occurrences",
            "targetPercent": 99.0,
            "op": "lte",
            "value": 20,
        }
    ],
}


def _written(directory: Path, **changes: Any) -> Path:
    """Write GOOD with changes of its one objective, or of the file where the key holds a dot."""
    slo = GOOD["slos"][0] | changes
    path = directory / "slo.yaml"
    path.write_text(yaml.safe_dump(GOOD | {"slos": [slo]}))
    return path


def test_the_default_file_promises_something_for_every_indicator() -> None:
    assert [slo.indicator for slo in load().slos] == list(INDICATORS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"targetPercent": 101.0}, "slos[0].targetPercent: 101.0: Input should be less than or equal to 100"),
        ({"targetPercent": "99"}, "slos[0].targetPercent: '99': Input should be a valid number"),
        (
            {"indicator": "send_latensy"},
            "slos[0]: indicator: 'send_latensy' is unknown (expected one of write_availability",
        ),
        (
            {"budgetingMethod": "Timeslices"},
            "slos[0]: budgetingMethod: 'Timeslices', but send_latency is Occurrences",
        ),
        (
            {"value": None},
            "slos[0]: op, value: 'lte', None, but send_latency needs op: lte and a value in ms",
        ),
        ({"tagret": 1}, "slos[0].tagret: 1: Extra inputs are not permitted"),
        ({"name": "Not A Name"}, "slos[0].name: 'Not A Name': String should match pattern"),
        ({"timeSliceWindow": "1x"}, "slos[0].timeSliceWindow: '1x': write a duration such as 10s"),
    ],
)
def test_a_bad_objective_is_named_with_field_and_value(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = _written(tmp_path, **changes)
    with pytest.raises(ObjectivesError) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: {said}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", "slos: {", "service: a\nslos: []\n", "- 1\n", "\x00"])
def test_a_file_that_holds_no_objectives_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "slo.yaml").write_text(text)
    with pytest.raises(ObjectivesError) as raised:
        load(tmp_path / "slo.yaml")
    assert "\n" not in str(raised.value)


def test_the_budget_of_slices_is_a_time_and_that_of_events_a_share() -> None:
    slos = {slo.name: slo for slo in load().slos}
    assert slos["write-availability"].budget(0, 30) == 1_296.0
    assert slos["replication-lag"].budget(0, 30) == 259.2  # slices of 10 s
    assert slos["send-latency"].budget(5_000, 30) == 50.0
    assert slos["durability"].budget(5_000, 30) == 0.0


def _exported(directory: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    assert main(["export", "--out", str(directory)]) == 0
    rules = yaml.safe_load((directory / "prometheus-rules.yaml").read_text())
    return rules, list(yaml.safe_load_all((directory / "openslo.yaml").read_text()))


def test_every_rule_reads_only_what_another_one_records_or_a_process_exposes(tmp_path: Path) -> None:
    rules, _ = _exported(tmp_path)
    flat = [rule for group in rules["groups"] for rule in group["rules"]]
    recorded = {(rule["record"], rule["labels"]["slo"]) for rule in flat if "record" in rule}
    assert len({slo for _, slo in recorded}) == len(INDICATORS) - 1  # no scrape contains write gaps
    for rule in flat:
        if "alert" in rule:
            read = [part.split("{")[0] for part in rule["expr"].replace("(", " ").split() if "slo:" in part]
            assert {(name, rule["labels"]["slo"]) for name in read} <= recorded


def test_promtool_accepts_the_rules_and_they_page_on_an_outage(tmp_path: Path) -> None:
    try:
        promtool = programs().promtool
    except PrometheusUnavailableError as error:
        pytest.skip(f"no promtool: {error}")
    _exported(tmp_path)
    test = {
        "rule_files": ["prometheus-rules.yaml"],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [
                    {
                        "series": 'rmqha_canary_send_total{group="orders",result="ok"}',
                        "values": "0+300x40 12000x20",
                    },
                    {
                        "series": 'rmqha_canary_send_total{group="orders",result="timeout"}',
                        "values": "0x40 0+300x20",
                    },
                ],
                "promql_expr_test": [
                    {
                        "expr": 'slo:sli_error:ratio_rate5m{slo="write-availability"} > bool 0.4',
                        "eval_time": "25m",
                        "exp_samples": [
                            {
                                "labels": '{group="orders",service="rocketmq",slo="write-availability"}',
                                "value": 1,
                            }
                        ],
                    }
                ],
                "alert_rule_test": [
                    {
                        "eval_time": eval_time,
                        "alertname": "RocketMQPageWriteAvailability",
                        "exp_alerts": alerts,
                    }
                    for eval_time, alerts in (("15m", []), ("28m", [_page()]))
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    for words in (["check", "rules", "prometheus-rules.yaml"], ["test", "rules", "test.yaml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _page() -> dict[str, Any]:
    said = (
        "Objective 99.95 % over 30d. "
        "Good: all sends that the canary intended in the second were acknowledged."
    )
    return {
        "exp_labels": {
            "severity": "page",
            "group": "orders",
            "service": "rocketmq",
            "slo": "write-availability",
        },
        "exp_annotations": {
            "summary": "write-availability of orders burns its error budget too fast",
            "description": said,
        },
    }


def test_openslo_documents_refer_only_to_each_other(tmp_path: Path) -> None:
    _, documents = _exported(tmp_path)
    named = {(one["kind"], one["metadata"]["name"]) for one in documents}
    assert len(named) == len(documents)
    slos = [one["spec"] for one in documents if one["kind"] == "SLO"]
    assert len(slos) == len(INDICATORS)
    for spec in slos:
        assert ("Service", spec["service"]) in named
        assert {("AlertPolicy", one["alertPolicyRef"]) for one in spec["alertPolicies"]} <= named
        objective = spec["objectives"][0]
        assert ("timeSliceWindow" in objective) == (spec["budgetingMethod"] == "RatioTimeslices")
    policies = [one["spec"] for one in documents if one["kind"] == "AlertPolicy"]
    assert all(("AlertCondition", one["conditions"][0]["conditionRef"]) in named for one in policies)


def test_a_threshold_between_two_bounds_of_the_histogram_is_refused(tmp_path: Path) -> None:
    objectives = load(_written(tmp_path, value=15))
    with pytest.raises(ObjectivesError, match=r"fast: value: 15\.0: Prometheus can only answer at a bound"):
        prometheus.rules(objectives)


def test_the_same_objectives_make_the_same_documents() -> None:
    again = Objectives.model_validate(yaml.safe_load(DEFAULT_FILE.read_text()))
    assert openslo.documents(again) == openslo.documents(load())
