"""OpenSLO v1: the export follows its specification and can be read again.

Documents of others are read, or refused by name.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_pipeline.objectives import openslo
from slo_pipeline.objectives.file import DEFAULT_FILE, load
from slo_pipeline.objectives.model import BurnAlert, Objectives, ObjectivesError
from testkit.generators.json_schema import violations

DATA = Path(__file__).parents[2] / "testdata" / "openslo"
ORDERS = list(yaml.safe_load_all((DATA / "orders.yaml").read_text()))
PLACES = {f"{one['kind']} {one['metadata']['name']}": place for place, one in enumerate(ORDERS)}
Change = Callable[[dict[str, Any]], Any]


def _objectives(**changes: Any) -> Objectives:
    whole = yaml.safe_load(DEFAULT_FILE.read_text()) | changes
    return Objectives.model_validate(whole)


def _own(indicator: str, method: str, **fields: Any) -> dict[str, Any]:
    return {"name": "one", "indicator": indicator, "budgetingMethod": method, "targetPercent": 99.0} | fields


def _alert(**changes: Any) -> dict[str, Any]:
    return {"severity": "page", "threshold": 14.4, "lookbackWindow": "1h", "shortWindow": "5m"} | changes


EXPORTED = [
    pytest.param(_objectives(), id="the default file"),
    pytest.param(_objectives(alerting=[]), id="no alerts"),
    pytest.param(
        _objectives(slos=[_own("write_availability", "Timeslices", targetPercent=100.0)]),
        id="100 % of seconds",
    ),
    pytest.param(
        _objectives(slos=[_own("controller_leader", "Timeslices", timeSliceWindow="1m")]), id="whole minutes"
    ),
    pytest.param(
        _objectives(slos=[_own("durability", "Occurrences", targetPercent=99.999_999_95)]),
        id="nearly 100 %",
    ),
    pytest.param(
        _objectives(alerting=[_alert(threshold=rate, shortWindow="7m") for rate in (14.4, 10.0)]),
        id="two burn rates of one window",
    ),
    pytest.param(
        _objectives(alerting=[_alert(), _alert(shortWindow="7m")]), id="two short windows of one burn rate"
    ),
    pytest.param(
        _objectives(alerting=[_alert(threshold=rate) for rate in (1e-7, 1e6, 1e300)]), id="odd burn rates"
    ),
    pytest.param(
        _objectives(slos=[_own("write_availability", "Timeslices", description="é" * 1_050)]),
        id="the longest description",
    ),
]
IN_SECONDS = _objectives(
    timeWindow={"duration": "86400s", "isRolling": True},
    alerting=[_alert(lookbackWindow="3600s", shortWindow="300s")],
)


@pytest.mark.parametrize("objectives", [*EXPORTED, pytest.param(IN_SECONDS, id="windows in seconds")])
def test_the_export_follows_the_specification(objectives: Objectives) -> None:
    schema = json.loads((DATA / "v1.schema.json").read_text())
    found = openslo.documents(objectives)
    assert [wrong for one in found for wrong in violations(one, schema, place=one["metadata"]["name"])] == []
    assert len({(one["kind"], one["metadata"]["name"]) for one in found}) == len(found)


@pytest.mark.parametrize("objectives", EXPORTED)
def test_the_export_can_be_read_again(tmp_path: Path, objectives: Objectives) -> None:
    path = tmp_path / "openslo.yaml"
    path.write_text(yaml.safe_dump_all(openslo.documents(objectives), sort_keys=False))
    assert load(path) == objectives


def test_windows_in_seconds_are_read_again_as_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "openslo.yaml"
    path.write_text(yaml.safe_dump_all(openslo.documents(IN_SECONDS), sort_keys=False))
    again = load(path)
    assert (again.timeWindow.days, again.alerting[0].lookbackWindow) == (1, "60m")


def test_a_description_that_openslo_does_not_allow_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1050 characters"):
        _objectives(slos=[_own("write_availability", "Timeslices", description="x" * 1_051)])


def test_what_prometheus_cannot_see_is_no_query_that_is_always_0() -> None:
    (slo,) = [
        one for one in openslo.documents(_objectives()) if one["metadata"]["name"] == "failover-duration"
    ]
    source = slo["spec"]["indicator"]["spec"]["ratioMetric"]["raw"]["metricSource"]
    assert source == {
        "type": "slo-pipeline",
        "spec": {"indicator": "failover_duration", "op": "lte", "value": 15_000.0},
    }
    assert "vector(" not in yaml.safe_dump_all(openslo.documents(_objectives()))


def test_documents_of_others_are_read_where_they_map_to_an_indicator() -> None:
    found = load(DATA / "orders.yaml")
    fast, replicated = found.slos
    assert (found.service, found.timeWindow.days) == ("orders", 28)
    assert (fast.name, fast.indicator, fast.targetPercent) == ("orders-are-fast", "send_latency", 99.5)
    assert (fast.op, fast.value) == ("lte", 20.0)
    assert (replicated.indicator, replicated.value, replicated.slice_s) == ("replication_lag", 1_048_576, 60)
    assert found.alerting == (
        BurnAlert(severity="page", threshold=14.4, lookbackWindow="1h", shortWindow="5m"),
    )


def test_a_list_in_one_document_and_inline_parts_are_read_too(tmp_path: Path) -> None:
    by_name = {f"{one['kind']} {one['metadata']['name']}": one for one in json.loads(json.dumps(ORDERS))}
    slo, policy = by_name["SLO orders-are-fast"], by_name["AlertPolicy on-call"]
    condition = by_name["AlertCondition fast-burn"]
    policy["spec"]["conditions"] = [{part: condition[part] for part in ("kind", "metadata", "spec")}]
    slo["spec"]["alertPolicies"] = [{part: policy[part] for part in ("kind", "metadata", "spec")}]
    sli = by_name["SLI fast-sends"]
    slo["spec"]["indicator"] = {part: sli[part] for part in ("metadata", "spec")}
    del slo["spec"]["indicatorRef"]
    (tmp_path / "slo.yaml").write_text(yaml.safe_dump([slo]))
    assert load(tmp_path / "slo.yaml").slos == load(DATA / "orders.yaml").slos[:1]


def _refused(directory: Path, documents: list[Any]) -> str:
    path = directory / "slo.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    with pytest.raises(ObjectivesError) as raised:
        load(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


SPOILED: list[tuple[str, Change, str]] = [
    (
        "Service orders",
        lambda one: one.update(apiVersion="openslo/v1alpha"),
        "document 1 (Service 'orders'): apiVersion: 'openslo/v1alpha' (expected openslo/v1)",
    ),
    (
        "Service orders",
        lambda one: one.update(kind="Servise"),
        "document 1 (Servise 'orders'): kind: 'Servise' (expected one of Service, SLO, SLI,",
    ),
    (
        "Service orders",
        lambda one: one.update(status={}),
        "document 1 (Service 'orders'): status: unknown field",
    ),
    (
        "SLI fast-sends",
        lambda one: one["spec"]["ratioMetric"].pop("total"),
        "document 3 (SLI 'fast-sends'): spec.ratioMetric: neither given (expected exactly one of total, raw)",
    ),
    (
        "SLI fast-sends",
        lambda one: one["metadata"].update(name="Fast sends"),
        "document 3 (SLI 'Fast sends'): metadata.name: 'Fast sends': String should match pattern",
    ),
    (
        "SLI replication-lag",
        lambda one: one["metadata"].update(name="cpu"),
        "document 8 (SLO 'orders-are-replicated'): spec.indicatorRef: 'replication-lag' (expected the name "
        "of a document of kind SLI in this file)",
    ),
    (
        "SLI fast-sends",
        lambda one: one["spec"].update(
            ratioMetric={
                "raw": {"metricSource": {"spec": {"query": "cpu"}}},
                "rawType": "failure",
            }
        ),
        "document 7 (SLO 'orders-are-fast'): indicator: 'fast-sends' measures nothing "
        "that slo-pipeline knows (expected metricSource.spec.indicator to be one of write_availability,",
    ),
    (
        "AlertCondition fast-burn",
        lambda one: one["spec"].update(severity="sev1"),
        "document 5 (AlertCondition 'fast-burn'): condition: severity: 'sev1': "
        "Input should be 'page' or 'ticket'",
    ),
    (
        "AlertCondition fast-burn",
        lambda one: one["spec"]["condition"].update(op="lte"),
        "document 5 (AlertCondition 'fast-burn'): condition.op: 'lte' (expected gt or gte)",
    ),
    (
        "AlertCondition fast-burn",
        lambda one: one["spec"]["condition"].update(alertAfter="5m"),
        "document 5 (AlertCondition 'fast-burn'): condition.alertAfter: '5m' (expected 0m:",
    ),
    (
        "AlertPolicy on-call",
        lambda one: one["spec"].update(notificationTargets=[]),
        "document 6 (AlertPolicy 'on-call'): spec.notificationTargets: List should have at least 1 item",
    ),
    (
        "SLO orders-are-fast",
        lambda one: one["spec"].update(
            timeWindow=[
                {
                    "duration": "1M",
                    "calendar": {"startTime": "2026-01-01 00:00:00", "timeZone": "UTC"},
                }
            ]
        ),
        "document 7 (SLO 'orders-are-fast'): spec.timeWindow[0].calendar: windows are rolling "
        "(expected isRolling: true)",
    ),
    (
        "SLO orders-are-fast",
        lambda one: one["spec"]["objectives"].append({"target": 0.9}),
        "document 7 (SLO 'orders-are-fast'): spec.objectives: 2 items (expected 1;",
    ),
    (
        "SLO orders-are-fast",
        lambda one: one["spec"].pop("service"),
        "document 7 (SLO 'orders-are-fast'): spec.service: Field required",
    ),
    (
        "SLO orders-are-fast",
        lambda one: one["spec"]["objectives"][0].update(target=1.0),
        "document 7 (SLO 'orders-are-fast'): spec.objectives[0].target: 1.0: Input should be less than 1",
    ),
    (
        "SLO orders-are-fast",
        lambda one: one["spec"].update(budgetingMethod="Timeslices"),
        "document 7 (SLO 'orders-are-fast'): spec.objectives[0].timeSliceWindow: missing "
        "(expected a duration such as 1m",
    ),
    (
        "SLO orders-are-replicated",
        lambda one: one["spec"]["objectives"][0].update(timeSliceTarget=0.99),
        "document 8 (SLO 'orders-are-replicated'): spec.objectives[0].timeSliceTarget: 0.99 (expected 1:",
    ),
    (
        "SLO orders-are-replicated",
        lambda one: one["spec"]["objectives"][0].update(timeSliceWindow="10s"),
        "document 8 (SLO 'orders-are-replicated'): spec.objectives[0].timeSliceWindow",
    ),
    (
        "SLO orders-are-replicated",
        lambda one: one["spec"]["objectives"][0].update(op="gt"),
        "document 8 (SLO 'orders-are-replicated'): op: 'gt': Input should be 'lte' or 'gte'",
    ),
    (
        "SLO orders-are-replicated",
        lambda one: one["spec"].update(service="stock"),
        "document 8 (SLO 'orders-are-replicated'): spec.service: differs from that of SLO 'orders-are-fast'",
    ),
    (
        "SLO orders-are-replicated",
        lambda one: one["metadata"].update(name="orders-are-fast"),
        "document 8 (SLO 'orders-are-fast'): metadata.name: another document of this kind has it",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("which", "change", "said"), SPOILED, ids=[said for _, _, said in SPOILED])
def test_a_document_that_does_not_map_is_refused_by_document_field_and_what_is_expected(
    tmp_path: Path, which: str, change: Change, said: str
) -> None:
    documents = json.loads(json.dumps(ORDERS))
    change(documents[PLACES[which]])
    assert _refused(tmp_path, documents).startswith(said)


def test_a_file_without_an_slo_is_refused(tmp_path: Path) -> None:
    assert _refused(tmp_path, ORDERS[:1]) == "no document of kind SLO (expected at least one)"


def test_several_documents_that_are_not_openslo_are_refused(tmp_path: Path) -> None:
    own = yaml.safe_load(DEFAULT_FILE.read_text())
    said = "2 YAML documents (expected one, or OpenSLO documents with apiVersion: openslo/v1)"
    assert _refused(tmp_path, [own, own]) == said


@pytest.mark.parametrize("rubbish", [7, "text", {"kind": "SLO"}, {"apiVersion": "openslo/v1", "kind": []}])
def test_rubbish_among_documents_is_one_line(tmp_path: Path, rubbish: object) -> None:
    assert _refused(tmp_path, [*ORDERS, rubbish]).startswith("document 9")
