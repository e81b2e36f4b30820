"""How much must be measured before a report calls an objective successful.

Problem: without bad seconds every budget holds, even for a group without measurements. Shape: two bounds.
Below either, the answer is "unknown", unless the budget is overspent already: that needs no more time.
"""

from typing import Final

# Fewer seconds than this say nothing about a window of days.
MEASURED_S_MIN: Final = 60
# Of the seconds between a group's first send and the period's end.
MEASURED_SHARE_MIN: Final = 0.5


def enough(good: int, bad: int, unknown: int, slice_s: int | None = 1) -> bool:
    """Tell whether slices are enough to judge by.

    Args:
        good: slices, or events of Occurrences.
        bad: likewise.
        unknown: slices in which nothing was measured.
        slice_s: width of a slice; None for events, of which one is enough.
    """
    measured = good + bad
    if slice_s is None:
        return measured > 0
    return measured * slice_s >= MEASURED_S_MIN and measured >= MEASURED_SHARE_MIN * (measured + unknown)
