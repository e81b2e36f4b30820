"""The formulas of the indicators: each derives good, bad and unknown counts from measurements.

Problem: eight promises about very different things must share one budget arithmetic. Shape: every formula
returns the same columns (group, ts, good, bad, unknown). For Timeslices a row is one slice and exactly one of
the three is 1; for Occurrences a row adds up the events of one stretch. Slices between the first and the last
one of a group in which nothing was measured are unknown: neither good nor bad, and shown. Never: carry a
gauge over a missing scrape.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.objectives.model import Objectives, Slo
from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import SLI_COUNTS
from slo_pipeline.transforms.counters import UP
from slo_pipeline.transforms.lag import LAG_METRIC
from slo_pipeline.transforms.timing import US_PER_S, slice_of

CONTROLLERS = "controllers"
LEADER_ROLE = 3.0
IN_SYNC_METRIC: Final = "rmqha_ha_in_sync"
SET_SIZE_METRIC: Final = "rmqha_group_sync_state_set_size"
REGISTERED_METRIC: Final = "rmqha_group_replicas"
ROLE_METRIC: Final = "rmqha_controller_role"
TERM_METRIC: Final = "rmqha_controller_term"
METRICS: Final = frozenset(
    {LAG_METRIC, IN_SYNC_METRIC, SET_SIZE_METRIC, REGISTERED_METRIC, ROLE_METRIC, TERM_METRIC, UP}
)
"""The samples that a report reads; a closed day keeps only these (`sources.extracts`)."""
_COLUMNS = ("group", "ts", "good", "bad", "unknown")


class Measured(NamedTuple):
    """What the formulas read: segments and tables of one period.

    Attributes:
        slices: the SLICES_1S table.
        points: the LATENCY_POINTS table.
        samples: rows of the samples segment.
        failovers: rows with group, elected_ts, booking, write_gap_ms (`failovers.with_gaps` or the FAILOVERS
            table).
        verdicts: result of `durability.verdicts`.
        events: rows of the events segment, one an event_id.
    """

    slices: DataFrame
    points: DataFrame
    samples: DataFrame
    failovers: DataFrame
    verdicts: DataFrame
    events: DataFrame


def counts(measured: Measured, objectives: Objectives) -> DataFrame:
    """Count good, bad and unknown for every objective: the SLI_COUNTS table."""
    table: DataFrame | None = None
    for slo in objectives.slos:
        one = _formula(measured, slo).select(F.lit(slo.name).alias("slo"), *_COLUMNS)
        table = one if table is None else table.unionByName(one)
    if table is None:
        raise ValueError("a file of objectives has at least one")
    return conform(table, SLI_COUNTS, table="sli_counts")


def _formula(measured: Measured, slo: Slo) -> DataFrame:
    match slo.indicator:
        case "write_availability":
            return _judged(measured.slices.withColumnRenamed("slice_start", "ts"))
        case "send_latency":
            return send_latency(measured.points, slo)
        case "replication_lag":
            return replication_lag(measured.samples, slo)
        case "in_sync_ratio":
            return in_sync_ratio(measured.samples, slo)
        case "controller_leader":
            return controller_leader(measured.samples, slo)
        case "failover_duration":
            return failover_duration(measured.failovers, slo)
        case "durability":
            return durability(measured.verdicts, slo)
        case "election_health":
            return election_health(measured.events, slo)
        case _:
            raise ValueError(f"no formula for {slo.indicator}")


def send_latency(points: DataFrame, slo: Slo) -> DataFrame:
    """Count acknowledged sends within and beyond the threshold, milliseconds.

    Failed ones count for availability.
    """
    fast = F.col("latency_ms") <= F.lit(slo.value)
    return _added(points.where(F.col("result") == "ok"), slo, good=fast, bad=~fast)


def replication_lag(samples: DataFrame, slo: Slo) -> DataFrame:
    """Judge slices by the worst lag in bytes of the replicas that count as in sync."""
    labels = F.col("labels")
    seen = _gauges(
        samples.withColumn("group", labels["group"]).withColumn("member", labels["broker_id"]),
        ("group", "member"),
        lag=LAG_METRIC,
        in_sync=IN_SYNC_METRIC,
    )
    # A replica that does not report whether it is in sync counts as in sync.
    counted = seen.where(F.col("lag").isNotNull() & (F.coalesce("in_sync", F.lit(1.0)) == 1.0))
    return _sliced(counted, slo, F.max("lag") <= F.lit(slo.value))


def in_sync_ratio(samples: DataFrame, slo: Slo) -> DataFrame:
    """Judge slices by the smallest share of registered members in the SyncStateSet.

    The share is the one that the leader saw.
    """
    labels = F.col("labels")
    leaders = samples.where((F.col("metric") == ROLE_METRIC) & (F.col("value") == LEADER_ROLE)).select(
        "instance", "ts"
    )
    seen = _gauges(
        samples.withColumn("group", labels["group"]).withColumn("cluster", labels["cluster"]),
        ("cluster", "group"),
        size=SET_SIZE_METRIC,
        registered=REGISTERED_METRIC,
    ).where(F.col("size").isNotNull() & (F.col("registered") > 0))
    of_leader = seen.join(leaders, on=["instance", "ts"], how="left_semi")
    return _sliced(of_leader, slo, F.min(F.col("size") / F.col("registered")) >= F.lit(slo.value))


def controller_leader(samples: DataFrame, slo: Slo) -> DataFrame:
    """Judge slices by whether a controller said that it leads; two leaders of one term are bad too.

    A controller that no longer answers counts as not leading, so that the death of all three is bad and not
    unknown.
    """
    role = F.col("metric") == ROLE_METRIC
    controllers = samples.where(role).select("instance").distinct()
    seen = _gauges(
        samples.join(F.broadcast(controllers), on="instance", how="left_semi").withColumn(
            "group", F.lit(CONTROLLERS)
        ),
        ("group",),
        role=ROLE_METRIC,
        term=TERM_METRIC,
        up=UP,
    )
    answered = seen.where(F.col("role").isNotNull() | (F.col("up") == 0.0))
    leads = F.col("role") == LEADER_ROLE
    of_term = Window.partitionBy("group", slice_of(F.col("ts"), slo.slice_s * US_PER_S), "term")
    rivals = F.size(F.collect_set(F.when(leads, F.col("instance"))).over(of_term))
    return _sliced(
        answered.withColumn("rivals", rivals),
        slo,
        F.bool_or(F.coalesce(leads, F.lit(False))) & (F.max("rivals") <= 1),
    )


def failover_duration(failovers: DataFrame, slo: Slo) -> DataFrame:
    """Count failovers with a write gap within the threshold, milliseconds; switchovers do not count."""
    short = F.col("write_gap_ms") <= F.lit(slo.value)
    rows = failovers.where(F.col("booking") == "failover").withColumn("ts", F.col("elected_ts"))
    return _added(rows, slo, good=short, bad=~short, unknown=F.col("write_gap_ms").isNull())


def durability(verdicts: DataFrame, slo: Slo) -> DataFrame:
    """Count acknowledged messages that were read back, that were lost, and that are too young to say."""
    rows = verdicts.where(F.col("acknowledged_ts").isNotNull()).withColumn("ts", F.col("intended_ts"))
    verdict = F.col("verdict")
    return _added(rows, slo, good=verdict == "read_back", bad=verdict == "lost", unknown=verdict == "pending")


def election_health(events: DataFrame, slo: Slo) -> DataFrame:
    """Count elections that found a master and those that did not."""
    rows = events.where(F.col("kind").isin("MasterElected", "ElectionFailed"))
    failed = F.col("kind") == "ElectionFailed"
    return _added(rows, slo, good=~failed, bad=failed)


def _added(
    rows: DataFrame, slo: Slo, *, good: Column, bad: Column, unknown: Column | None = None
) -> DataFrame:
    """Add up events in stretches of the objective's width."""
    return (
        rows.withColumn("ts", slice_of(F.col("ts"), slo.slice_s * US_PER_S))
        .groupBy("group", "ts")
        .agg(
            F.count_if(good).alias("good"),
            F.count_if(bad).alias("bad"),
            F.count_if(F.lit(False) if unknown is None else unknown).alias("unknown"),
        )
        .select(*_COLUMNS)
    )


def _gauges(samples: DataFrame, key: tuple[str, ...], **metrics: str) -> DataFrame:
    """Lay gauges of one scrape beside each other: instance, ts, the key's columns, one column a metric."""
    named = samples.where(F.col("metric").isin(*metrics.values()) & ~F.isnan("value"))
    columns = [
        F.max(F.when(F.col("metric") == metric, F.col("value"))).alias(name)
        for name, metric in metrics.items()
    ]
    return named.groupBy("instance", "ts", *key).agg(*columns)


def _sliced(rows: DataFrame, slo: Slo, good: Column) -> DataFrame:
    """Judge every slice in which something was measured, and fill the others with unknown ones."""
    seen = (
        rows.where(F.col("group").isNotNull())
        .withColumn("ts", slice_of(F.col("ts"), slo.slice_s * US_PER_S))
        .groupBy("group", "ts")
        .agg(F.when(good, "good").otherwise("bad").alias("state"))
    )
    return _judged(_filled(seen, slo.slice_s * US_PER_S))


def _filled(seen: DataFrame, width_us: int) -> DataFrame:
    following = F.lead("ts").over(Window.partitionBy("group").orderBy("ts"))
    width = F.lit(width_us).cast("bigint")
    missing = (
        seen.withColumn("from_us", F.unix_micros("ts") + width)
        .withColumn("until_us", F.unix_micros(following))
        .where(F.col("from_us") < F.col("until_us"))
        .withColumn("at_us", F.explode(F.sequence("from_us", F.col("until_us") - width, width)))
        .select("group", F.timestamp_micros("at_us").alias("ts"), F.lit("unknown").alias("state"))
    )
    return seen.select("group", "ts", "state").unionByName(missing)


def _judged(slices: DataFrame) -> DataFrame:
    """Turn states into counts."""
    counted = [(F.col("state") == state).cast("bigint").alias(state) for state in ("good", "bad", "unknown")]
    return slices.select("group", "ts", *counted)
