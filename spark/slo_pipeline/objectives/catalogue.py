"""The indicators that exist: what each measures, in which method, and what its threshold means.

Problem: an objective is only as good as its formula, so formulas are not written in YAML. The YAML chooses an
indicator by name and states the promise. Shape: one entry an indicator. `slo_pipeline.transforms.sli` has the
formula of each, `prometheus` its query. Never: two entries measure the same thing.

Source: OpenSLO v1, SLO.spec.budgetingMethod (Occurrences counts events, Timeslices counts good stretches of
time).
"""

from typing import Final, Literal, NamedTuple

Method = Literal["Occurrences", "Timeslices"]
Op = Literal["lte", "gte"]


class Indicator(NamedTuple):
    """One thing that is measured.

    Attributes:
        method: how good and bad are counted.
        says: the condition for good, for people.
        op, unit: of the threshold; None without a threshold.
        slice_s: width of a slice if the YAML does not say; for Occurrences the width in which events are
            added up.
        fixed_slice: whether the YAML may choose another width.
    """

    method: Method
    says: str
    op: Op | None = None
    unit: str | None = None
    slice_s: int = 10
    fixed_slice: bool = False


INDICATORS: Final[dict[str, Indicator]] = {
    "write_availability": Indicator(
        "Timeslices",
        "all sends that the canary intended in the second were acknowledged",
        slice_s=1,
        fixed_slice=True,
    ),
    "send_latency": Indicator(
        "Occurrences", "an acknowledged send took at most the threshold, from its intended time", "lte", "ms"
    ),
    "replication_lag": Indicator(
        "Timeslices",
        "no replica that counts as in sync was further behind than the threshold",
        "lte",
        "bytes",
    ),
    "in_sync_ratio": Indicator(
        "Timeslices", "at least this share of the registered members was in the SyncStateSet", "gte", "ratio"
    ),
    "controller_leader": Indicator(
        "Timeslices", "a controller led, and never two in one term", slice_s=5
    ),
    "failover_duration": Indicator(
        "Occurrences", "a failover's write gap, by the canary's clock, was at most the threshold", "lte", "ms"
    ),
    "durability": Indicator("Occurrences", "an acknowledged message was read back"),
    "election_health": Indicator("Occurrences", "an election found a master"),
}  # fmt: skip
