"""Numbers and facts in words: what a person reads aloud.

Problem: "3150.229" and "0.0023148" are data, not answers.
Shape: one function a quantity; units always stand beside the number, joined by a no-break space.
Never: no rounding that turns something into nothing: a spent second is never shown as 0.
"""

import math
from datetime import UTC, datetime
from typing import Final

from slo_pipeline.reports.values.model import Failover

NBSP: Final = "\u00a0"
NONE: Final = "–"
UNKNOWN: Final = "unknown"
# The first second of the year 1 and the last one of the year 9999.
SECOND_MIN: Final = -62_135_596_800
SECOND_MAX: Final = 253_402_300_799

# What a bad second may be booked to, in the order in which pictures stack them.
BOOKINGS: Final = {
    "failover": "failovers",
    "switchover": "planned switchovers",
    "reelection": "re-elections of the same master",
    "rollout": "rollouts",
    "fault": "known faults that moved no master",
    "unexplained": "no known cause",
}
OTHER_KNOWN: Final = ("reelection", "rollout", "fault")

CAUSES: Final = {
    "ConnectionClosed": "its connection to the controller closed",
    "HeartbeatTimeout": "its heartbeats stopped",
    "NodeLost": "its heartbeats and those of its node's agent stopped",
    "BrokerRequest": "a broker asked for an election",
    "Designated": "the new master was designated",
    "MasterMissing": "the group had no master",
}


def ms(value: float | None) -> str:
    """Return a duration given in milliseconds: 4.1 ms, 380 ms, 3.15 s, 2 min 5 s."""
    if value is None:
        return NONE
    if value >= 60_000:
        minutes, seconds = divmod(round(value / 1_000), 60)
        return f"{minutes}{NBSP}min" + (f" {seconds}{NBSP}s" if seconds else "")
    if value >= 999.5:
        return f"{plain(value / 1_000, 2)}{NBSP}s"
    return f"{plain(value, 0 if value >= 20 else 1)}{NBSP}ms"


def seconds(value: float) -> str:
    """Return whole or fractional seconds: 1 s, 1,296 s, 0.4 s."""
    return f"{plain(value, 1)}{NBSP}s"


def clipped(text: str, characters_max: int) -> str:
    """Return a text for a picture, which cannot wrap it; an ellipsis replaces the cut part."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def plain(value: float, decimals: int = 0) -> str:
    """Return a number with thousands separators and no trailing zeros."""
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None, *, decimals: int = 3) -> str:
    """Return a share as a percentage, cut and not rounded up.

    So 99.9996 % does not read as 100 %.
    """
    if share is None:
        return NONE
    scale = 10.0**decimals
    cut = math.floor(share * 100.0 * scale + 1e-9) / scale
    return f"{plain(cut, decimals)}{NBSP}%"


def spent(share: float) -> str:
    """Return the spent part of a budget; something spent is never 0 %."""
    if 0.0 < share < 0.001:
        return f"<{NBSP}0.1{NBSP}%"
    return f"{plain(share * 100.0, 1)}{NBSP}%"


def octets(value: float) -> str:
    """Return an amount of bytes with a decimal prefix: 512 B, 14.3 kB, 3.8 MB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{plain(value / size, 1)}{NBSP}{unit}"
    return f"{plain(value)}{NBSP}B"


def clock(us: int | None, *, decimals: int = 3) -> str:
    """Return the time of day in UTC, to the millisecond unless told otherwise."""
    if us is None:
        return NONE
    when = moment(us)
    fraction = f".{us % 1_000_000:06d}"[: decimals + 1] if decimals else ""
    return f"{when:%H:%M:%S}{fraction}"


def day(us: int) -> str:
    """Return the date in UTC: 20 November 2026."""
    when = moment(us)
    return f"{when.day}{NBSP}{when:%B}{NBSP}{when:%Y}"


def iso(us: int) -> str:
    """Return date and time in UTC to the second, as in 2026-11-20 12:05:02."""
    return f"{moment(us):%Y-%m-%d %H:%M:%S}"


def moment(us: int) -> datetime:
    """Return microseconds since 1970 as a moment in UTC, to the second.

    A clock may be beyond the years 1 and 9999.
    """
    return datetime.fromtimestamp(min(max(us // 1_000_000, SECOND_MIN), SECOND_MAX), tz=UTC)


def span(seconds_: float) -> str:
    """Return a stretch of time in its two largest units: 10 s, 9 min 54 s, 7 h 12 min, 30 d."""
    left, parts = round(seconds_), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{plain(amount)}{NBSP}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or f"0{NBSP}s"


def period(start_us: int, end_us: int) -> str:
    """Return the report's period, naming the day once where one is enough."""
    if day(start_us) == day(end_us):
        return f"{day(start_us)}, {clock(start_us, decimals=0)} to {clock(end_us, decimals=0)} UTC"
    return f"{day(start_us)} {clock(start_us, decimals=0)} to {day(end_us)} {clock(end_us, decimals=0)} UTC"


def count(amount: int, noun: str) -> str:
    """Return "1 failover", "2 failovers"."""
    return f"{plain(amount)} {noun}" + ("" if amount == 1 else "s")


def broker(broker_id: int | None, address: str | None) -> str:
    """Return how the page names a broker: its id and, if known, its address."""
    name = "an unknown broker" if broker_id is None else f"broker {broker_id}"
    return f"{name} ({address})" if address else name


def cause(failover: Failover) -> str:
    """Return why the master changed, as half a sentence that follows "because"."""
    known = CAUSES.get(failover.cause, f"of {failover.cause}")
    if failover.fault is None:
        return known
    return f"{known} after an injected fault: {failover.fault}"


def gap(failover: Failover) -> str:
    """Return what writers felt."""
    if failover.gap_start_us is None:
        return "No canary watched the writes."
    if failover.write_gap_ms is None:
        return "After it began, no send was acknowledged any more."
    return f"For {ms(failover.write_gap_ms)} no send was acknowledged."


def lost(amount: int | None) -> str:
    """Return the verdict on acknowledged messages."""
    if amount is None:
        return "No message was read back, so message loss is unknown."
    if amount == 0:
        return "No acknowledged message was lost."
    return f"{count(amount, 'acknowledged message')} {'was' if amount == 1 else 'were'} lost."


def redundancy(failover: Failover) -> str:
    """Return when the SyncStateSet was whole again."""
    before = failover.sync_state_set_before
    size = len(before.split(",")) if before else 0
    if failover.redundancy_us is None:
        return "Its SyncStateSet has not been whole since."
    took = ms(max(0.0, (failover.redundancy_us - failover.begin_us) / 1_000))
    return f"All {size} replicas were in sync again after {took}." if size else ""
