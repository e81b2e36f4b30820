"""Counters whose truth is known, as OpenMetrics text: the input of every test that compares sums.

Each series counts events at its own pace and is scraped on a fixed beat. Scrapes are lost, instances are out
for minutes, and processes restart: a restart hides the counts after the last scrape before it, and nothing
else may be lost in an account.
"""

import random
from dataclasses import dataclass
from typing import Final

METRIC: Final = "demo_events_total"
BEGIN_S: Final = 1_790_000_100


@dataclass(frozen=True, slots=True)
class CounterHistory:
    """A text and the facts it contains.

    Attributes:
        text: OpenMetrics, ended by its mark.
        samples: how many samples it holds.
        visible: what all series counted between their first and last sample, without what restarts hid.
        end_s: the last second of the history.
    """

    text: str
    samples: int
    visible: int
    end_s: int


def history(
    *, series: int = 24, hours: int = 6, interval_s: int = 15, seed: int = 11, begin_s: int = BEGIN_S
) -> CounterHistory:
    """Make a history. A third of the series is scraped on round seconds, where windows have their borders.

    Args:
        series: how many, spread over four instances and three paths.
        hours: its length.
        interval_s: the beat of scrapes.
        seed: of everything.
        begin_s: its first second, UTC.
    """
    chance = random.Random(seed)
    lines = [f"# TYPE {METRIC.removesuffix('_total')} counter"]
    visible = samples = 0
    for number in range(series):
        labels = f'instance="i{number % 4}",path="/{number % 3}",part="{number}"'
        offset_ms = 0 if number % 3 == 0 else chance.randrange(1, interval_s * 1_000)
        values, seen = _walk(chance, hours * 3_600 // interval_s, interval_s)
        visible += seen
        for step, value in values:
            at_ms = (begin_s + step * interval_s) * 1_000 + offset_ms
            lines.append(f"{METRIC}{{{labels}}} {value} {at_ms / 1_000:.3f}")
            samples += 1
    return CounterHistory("\n".join([*lines, "# EOF\n"]), samples, visible, begin_s + hours * 3_600)


def _walk(chance: random.Random, steps: int, interval_s: int) -> tuple[list[tuple[int, int]], int]:
    """Return one series' samples (step, value), and what an account can know of its growth."""
    rate = chance.choice((0.02, 0.5, 7.0))
    outage = range(start := chance.randrange(steps), start + chance.randrange(20, 60))
    value = chance.randrange(0, 1_000)
    kept: list[tuple[int, int]] = []
    visible = 0
    for step in range(steps):
        if chance.random() < 0.004:
            value = 0
        value += sum(chance.random() < 0.5 for _ in range(int(rate * interval_s * 2))) or (
            chance.random() < rate
        )
        if step in outage or chance.random() < 0.01:
            continue
        if kept:
            # A restart whose new value has outgrown the old one cannot be seen without knowing the process.
            grown = value if value < kept[-1][1] else value - kept[-1][1]
            visible += grown
        kept.append((step, value))
    return kept, visible
