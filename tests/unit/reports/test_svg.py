"""Scales, ticks and marks."""

from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.reports.drawing.markup import Markup, tag
from slo_pipeline.reports.drawing.svg import Linear, Log, crosses, dots, nice_ticks, steps, time_ticks

BOUND = st.floats(-1e9, 1e9, allow_nan=False)


@given(low=BOUND, width=st.floats(1e-3, 1e9), about=st.integers(2, 12))
def test_ticks_are_inside_and_about_as_many_as_asked(low: float, width: float, about: int) -> None:
    ticks = nice_ticks(low, low + width, about)
    slack = width * 1e-6 + abs(low) * 1e-9
    assert all(low - slack <= tick <= low + width + slack for tick in ticks)
    assert len(ticks) <= about + 1


@given(start=st.integers(0, 2**50), span=st.integers(1_000_000, 10**14))
def test_time_ticks_are_round_and_few(start: int, span: int) -> None:
    ticks = time_ticks(start, start + span)
    assert len(ticks) <= 128
    assert all(us % 1_000_000 == 0 and start <= us <= start + span for us, _ in ticks)


def test_a_step_line_keeps_its_value_until_the_next_point() -> None:
    assert steps([(0, 3), (5, 1)], 9) == [(0, 3), (5, 3), (5, 1), (9, 1)]
    assert steps([], 9) == []


def test_scales_meet_their_ends_and_clamp_outside() -> None:
    straight, log = Linear(0, 10, 100, 200), Log(1, 1000, 0, 30)
    assert (straight(5), straight.clamp(-3), straight.clamp(30)) == (150, 100, 200)
    assert (log(1), round(log(10), 6), log(0.001), log(1e9)) == (0, 10, 0, 30)


def test_failures_differ_from_successes_in_shape() -> None:
    ok, no = dots([(1, 1)], "a"), crosses([(1, 1)], "a")
    assert ok is not None
    assert no is not None
    assert ok != no
    assert dots([], "a") is None


def test_text_and_attributes_are_escaped_and_markup_is_not_twice() -> None:
    inner = tag("b", "<&>", title='"')
    assert inner == '<b title="&quot;">&lt;&amp;&gt;</b>'
    assert tag("p", inner) == f"<p>{inner}</p>"
    assert isinstance(inner, Markup)
