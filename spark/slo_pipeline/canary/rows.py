"""The canary's rows: one a send, one a verdict, and the event of a new route.

Pure; times come in as monotonic nanoseconds and leave as UTC through the clock given.
"""

from dataclasses import dataclass

from slo_pipeline.canary.route import Route
from slo_pipeline.shell.clock import NS_PER_US, AnchoredClock


@dataclass(frozen=True, slots=True)
class Operation:
    """One send or read as it went; times are monotonic nanoseconds.

    Attributes:
        op: `send` or `read`.
        sequence: of the message.
        intended_ns: when the schedule wanted it.
        start_ns: when it began.
        end_ns: when the answer came, None if none did.
        result: a word of `probe_ops.result`.
        address: of the master asked, "" without a master.
        queue_id: where the message lies, None if not known.
        queue_offset: its offset there, None if not known.
        remark: the broker's words, or ours.
    """

    op: str
    sequence: int
    intended_ns: int
    start_ns: int
    end_ns: int | None
    result: str
    address: str
    queue_id: int | None = None
    queue_offset: int | None = None
    remark: str | None = None


def probe_row(operation: Operation, group: str, clock: AnchoredClock) -> tuple[object, ...]:
    """Return the row of an operation in the order of the `probe_ops` schema."""
    end_ns = operation.end_ns
    return (
        operation.op,
        group,
        operation.sequence,
        clock.utc_ns_of(operation.intended_ns) // NS_PER_US,
        clock.utc_ns_of(operation.start_ns) // NS_PER_US,
        None if end_ns is None else clock.utc_ns_of(end_ns) // NS_PER_US,
        operation.result,
        operation.address,
        operation.queue_id,
        operation.queue_offset,
        operation.remark,
        clock.clock_id,
    )


def route_seen_row(
    before: Route, now: Route, group: str, number: int, now_ns: int, clock: AnchoredClock
) -> tuple[object, ...]:
    """Return the row of RouteSeen in the order of the `events` schema; `number` counts them in this process.

    A name server's route carries no epoch, so the event lacks one; `master_address` identifies the route.
    """
    utc_ns = clock.utc_ns_of(now_ns)
    return (
        number,
        f"canary/{group}/{clock.clock_id}/{number}",
        utc_ns // NS_PER_US,
        utc_ns,
        now_ns,
        clock.clock_id,
        "canary",
        "RouteSeen",
        "",
        now.cluster or before.cluster,
        group,
        0,
        None,
        None,
        None,
        None,
        [("master_address", now.master), ("old_master_address", before.master)],
    )
