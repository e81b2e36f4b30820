"""The times in which nothing was sent to a group: its canary was dead, or its data did not arrive.

Problem: half of a window without a canary still gives a verdict, and a share of seconds does not say which
days are missing. Shape: a silence is a run of a group's stretches without a send, or the time before its
first send. It is rounded inward to the width of the stretches, so the report never claims more than was
missing. Never: a silence of a group that the report does not judge.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import GroupReport, Report

# Shorter ones are in the unknown seconds only.
SILENCE_S_MIN: Final = 21_600
US_PER_S: Final = 1_000_000
S_PER_DAY: Final = 86_400
NAME_CHARACTERS_MAX: Final = 60


class Silence(NamedTuple):
    """A half-open time without a send, microseconds."""

    start_us: int
    end_us: int


def silences(report: Report, group: GroupReport) -> list[Silence]:
    """Return the long times of the period in which no send of a group was measured, in their order."""
    if not group.is_judged:
        return []
    found = [Silence(report.start_us, report.end_us)]
    if group.measured_s:
        width_us = round(report.bucket_s * US_PER_S)
        found = [Silence(report.start_us, group.start_us), *_runs(group, width_us, report.end_us)]
    return [one for one in found if one.end_us - one.start_us >= SILENCE_S_MIN * US_PER_S]


def _runs(group: GroupReport, width_us: int, end_us: int) -> Iterator[Silence]:
    """Yield the runs of stretches that have unknown seconds only."""
    start_us = None
    for stretch in group.strip:
        if stretch.good_s + stretch.bad_s:
            if start_us is not None:
                yield Silence(start_us, stretch.us)
            start_us = None
        elif start_us is None:
            start_us = max(stretch.us, group.start_us)
    if start_us is not None:
        yield Silence(start_us, min(group.strip[-1].us + width_us, end_us))


def silent_groups(report: Report) -> list[tuple[GroupReport, list[Silence]]]:
    """Return the groups with a silence, those with the least measured first."""
    found = [(group, silent) for group in report.groups if (silent := silences(report, group))]
    return sorted(found, key=lambda one: (one[0].measured_s, one[0].name))


def said(silence: Silence) -> str:
    """Return when a silence was and how long it lasted."""
    lasted = words.span((silence.end_us - silence.start_us) / US_PER_S)
    return f"{words.iso(silence.start_us)} to {words.iso(silence.end_us)} ({lasted})"


def line(report: Report, group: GroupReport, silent: list[Silence]) -> str:
    """Name a group with its longest silence and how much of the window was measured.

    The text is for the page and for its summaries.
    """
    longest = max(silent, key=lambda one: one.end_us - one.start_us)
    more = f" and {words.count(len(silent) - 1, 'other time')}" if len(silent) > 1 else ""
    window_s = report.window_days * S_PER_DAY
    text = (
        f"{words.clipped(group.name, NAME_CHARACTERS_MAX)}: no send was measured from "
        f"{words.iso(longest.start_us)} to {words.iso(longest.end_us)} UTC{more}; "
        f"{words.span(group.measured_s)} of {words.span(window_s)} measured"
    )
    # It also leaves the page, for terminals and logs.
    return text.replace(words.NBSP, " ")
