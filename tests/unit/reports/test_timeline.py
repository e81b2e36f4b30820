"""The swim lanes: every phase has its row, nothing unknown is drawn, nothing is negative."""

from dataclasses import replace
from xml.etree import ElementTree

from slo_pipeline.reports.drawing.timeline import timeline
from slo_pipeline.reports.values.model import Failover
from testkit.generators.sample_report import sample_failover

SVG = "{http://www.w3.org/2000/svg}"


def _drawn(failover: Failover) -> ElementTree.Element:
    return ElementTree.fromstring(timeline(failover, "t"))  # noqa: S314 - our own picture


def _bars(failover: Failover) -> list[str]:
    classes = [element.get("class", "") for element in _drawn(failover).iter(f"{SVG}rect")]
    return sorted(one for one in classes if one.startswith("p") and one[1:].isdecimal())


def _texts(failover: Failover) -> list[str]:
    return [(element.text or "").replace("\u00a0", " ") for element in _drawn(failover).iter(f"{SVG}text")]


def test_each_phase_with_a_time_has_one_bar_and_its_time_beside_it() -> None:
    assert _bars(sample_failover()) == ["p1", "p2", "p3", "p4", "p5", "p6"]
    assert {"4 ms", "5 ms", "51 ms", "150 ms", "170 ms"} <= set(_texts(sample_failover()))


def test_a_phase_that_nobody_reported_has_words_and_no_bar() -> None:
    whole = sample_failover()
    gone = replace(whole.phases[3], start_us=None, end_us=None, duration_ms=None, order="absent")
    failover = replace(whole, phases=(*whole.phases[:3], gone, *whole.phases[4:]))
    assert "p3" not in _bars(failover)
    assert "not reported" in _texts(failover)


def test_redundancy_far_away_is_cut_at_the_border_and_told() -> None:
    assert any(text == "2.02 s, until +2.4 s" for text in _texts(sample_failover()))


def test_no_bar_leaves_the_picture_or_runs_backwards() -> None:
    for element in _drawn(sample_failover()).iter(f"{SVG}rect"):
        x, width = float(element.get("x", "0")), float(element.get("width", "0"))
        assert x >= 0
        assert width >= 0
        assert x + width <= 1_040


def test_an_outage_without_an_end_is_drawn_to_the_border() -> None:
    assert "no acknowledged send since" in _texts(
        replace(sample_failover(), first_ack_us=None, write_gap_ms=None)
    )


def test_an_uncertain_order_is_said_and_not_drawn_as_a_time() -> None:
    whole = sample_failover()
    end = whole.phases[2].end_us
    odd = replace(whole.phases[3], start_us=end, end_us=end, duration_ms=0.0, skew_ms=12.0, order="uncertain")
    failover = replace(whole, phases=(*whole.phases[:3], odd, *whole.phases[4:]))
    assert "12 ms earlier by another clock: order uncertain" in _texts(failover)
