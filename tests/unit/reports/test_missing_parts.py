"""Whatever is missing of a report's values, there is a page: every healthy group is on it."""

from dataclasses import fields, replace
from typing import Any
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from slo_pipeline.reports.files.folder import summary
from slo_pipeline.reports.files.outcome import outcome
from slo_pipeline.reports.page.document import render, render_failover
from slo_pipeline.reports.values.model import Failover, GroupReport, Latency, Report
from testkit.generators.sample_report import report, sample_failover

OPTIONAL_OF_FAILOVER = (
    "old_epoch", "old_master_id", "new_master_id", "old_master_address", "new_master_address", "fault",
    "fault_us", "fault_healed_us", "first_ack_us", "redundancy_us", "gap_start_us", "write_gap_ms",
    "lost_acknowledged",
)  # fmt: skip


@st.composite
def some_of(draw: st.DrawFn, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Draw a subset of a tuple, in its order; often nothing or all of it."""
    how = draw(st.sampled_from(("none", "all", "some")))
    if how != "some":
        return values if how == "all" else ()
    kept = draw(st.sets(st.integers(0, len(values) - 1), max_size=3)) if values else set()
    return tuple(values[index] for index in sorted(kept))


def _tuples_of(value: object) -> list[str]:
    return [one.name for one in fields(value) if isinstance(getattr(value, one.name), tuple)]  # type: ignore[arg-type]


@st.composite
def poorer(draw: st.DrawFn, value: Any, optional: tuple[str, ...]) -> Any:
    """Draw a value with some of its tuples' items and of its optional fields missing."""
    changes: dict[str, Any] = {name: draw(some_of(getattr(value, name))) for name in _tuples_of(value)}
    changes |= dict.fromkeys(draw(st.sets(st.sampled_from(optional))))
    return replace(value, **changes)


@st.composite
def group_without(draw: st.DrawFn, group: GroupReport) -> GroupReport:
    """Draw a group of which parts were not measured, or of which every send failed."""
    poor: GroupReport = draw(poorer(group, ("latency", "durability", "availability")))
    if draw(st.booleans()):
        # A total outage: sends, none acknowledged.
        poor = replace(
            poor,
            good_s=0,
            bad_s=group.good_s + group.bad_s,
            availability=0.0,
            latency=Latency(0, 6_000, None, None, None, None, None),
            histogram=tuple((bound, 0) for bound, _ in group.histogram),
            series=tuple(replace(one, p50_ms=None, p99_ms=None, max_ms=None) for one in poor.series),
        )
    elif draw(st.booleans()):
        poor = replace(poor, good_s=0, bad_s=0, unknown_s=0, availability=None)
    return poor


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Draw a report of which anything may be missing."""
    whole = report()
    groups = draw(some_of(tuple(draw(group_without(one)) for one in whole.groups)))
    failovers = draw(some_of((draw(poorer(sample_failover(), OPTIONAL_OF_FAILOVER)),)))
    rest: Report = draw(poorer(whole, ("late_rows",)))
    return replace(rest, groups=groups, failovers=failovers)


def _parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!doctype html>\n"))  # noqa: S314 - our own page


@settings(max_examples=30, deadline=None)
@given(reports())
def test_a_report_that_lacks_anything_is_a_page_with_every_group_that_is_there(shown: Report) -> None:
    page = render(shown)
    _parsed(page)
    assert all(f">{group.name}</td>" in page for group in shown.groups)
    assert outcome(shown, "index.html")["verdict"] == summary(shown)["verdict"]


@settings(max_examples=30, deadline=None)
@given(poorer(sample_failover(), OPTIONAL_OF_FAILOVER))
def test_a_failover_that_lacks_any_mark_has_a_page(failover: Failover) -> None:
    _parsed(render_failover(report(), failover))


def test_a_group_without_an_acknowledged_send_is_told_beside_a_healthy_one() -> None:
    shown = report()
    down = replace(
        shown.groups[1],
        good_s=0,
        bad_s=600,
        availability=0.0,
        latency=Latency(0, 6_000, None, None, None, None, None),
        series=tuple(
            replace(one, p50_ms=None, p99_ms=None, max_ms=None, failed=100) for one in shown.groups[1].series
        ),
    )
    page = render(replace(shown, groups=(shown.groups[0], down)))
    assert "Sends to orders" in page
    assert "Sends to payments" in page
