"""Find planned changes: the rollouts, and the members restarted for them.

Problem: a restart that the operator makes looks like a fault to a canary, and the reader of the report must
tell them apart. Shape: two sources, one table of intervals.

- `RolloutStarted` and the first `RolloutFinished` of its group after it: whoever rolls something out may tell
  so.
- The operator's own Kubernetes Event `MemberRestarted`: from its time until the SyncStateSet, which loses the
  member, has as many members again as it had before. No event reports that end; the set shows it, by the
  controllers' clock.

An interval without a reported end lasts UNENDED_US.
Never: an Event of a pod alone makes no rollout: a kubelet says `Killing` of a pod that was evicted as well.

Source: operator, `handlers.events` (reason and note).
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.transforms.lag import in_sync_steps
from slo_pipeline.transforms.timing import US_PER_S, plus_us

KUBERNETES_EVENT: Final = "KubernetesEvent"
RESTARTED: Final = "MemberRestarted"
# The assumed length of an interval without a reported end.
UNENDED_US: Final = 60 * US_PER_S
# A member that is not back after this keeps the rollout from going on; what then fails is another matter.
RESTART_US_MAX: Final = 600 * US_PER_S
# The operator's words for a master that it restarts.
HANDS_OVER: Final = "; it hands over first)"
_NOTE: Final = r"^delete Pod (\S+) \((.*)\)$"
_COLUMNS: Final = ("group", "detail", "interval_start", "interval_end")


def rollouts(events: DataFrame) -> DataFrame:
    """List the intervals of everything that was rolled out.

    Args:
        events: rows of the events segment, one an event_id.

    Returns:
        group, detail, interval_start, interval_end (after the start).
    """
    return _told(events).unionByName(_restarts(events))


def handovers_ordered(events: DataFrame) -> DataFrame:
    """Find the operator's restarts of masters: group, cluster ("" where not known), ts."""
    return (
        _restarted(events)
        .where(F.col("attrs")["message"].endswith(HANDS_OVER))
        .select("group", "cluster", "ts")
    )


def _told(events: DataFrame) -> DataFrame:
    """Pair each RolloutStarted with the first RolloutFinished of its group after it."""
    told = events.where(F.col("kind").isin("RolloutStarted", "RolloutFinished"))
    order = Window.partitionBy("cluster", "group").orderBy("ts", "event_id")
    following = F.lead(F.struct("kind", "ts")).over(order)
    started = told.withColumn("following", following).where(F.col("kind") == "RolloutStarted")
    ended = F.when(F.col("following.kind") == "RolloutFinished", F.col("following.ts"))
    return (
        started.withColumn("detail", F.coalesce(F.col("attrs")["reason"], F.lit("rollout")))
        .withColumn("interval_start", F.col("ts"))
        .withColumn("interval_end", F.coalesce(ended, plus_us(F.col("ts"), UNENDED_US)))
        .select(*_COLUMNS)
    )


def _restarts(events: DataFrame) -> DataFrame:
    """Find how long each restart of a member lasted."""
    detail = _member(F.col("attrs")["message"]).alias("detail")
    restarts = _restarted(events).select("group", "cluster", F.col("ts").alias("interval_start"), detail)
    steps = (
        in_sync_steps(events)
        .groupBy(F.col("group").alias("of_group"), F.col("cluster").alias("of_cluster"))
        .agg(F.array_sort(F.collect_list(F.struct("ts", "size"))).alias("steps"))
    )
    # Which cluster a group is of is not known before the first list of its pods.
    same = (F.col("group") == F.col("of_group")) & F.col("cluster").isin(F.lit(""), F.col("of_cluster"))
    return (
        restarts.join(F.broadcast(steps), on=same, how="left")
        .withColumn("interval_end", _back(F.col("steps"), F.col("interval_start")))
        .select(*_COLUMNS)
    )


def _restarted(events: DataFrame) -> DataFrame:
    """Keep the operator's Events of restarts."""
    attrs = F.col("attrs")
    is_restart = (F.col("kind") == KUBERNETES_EVENT) & (attrs["reason"] == RESTARTED)
    return events.where(is_restart & (attrs["object_kind"] == "BrokerGroup"))


def _member(note: Column) -> Column:
    """Say which member was restarted and why.

    `delete Pod orders-1 (older revision)` is the operator's note.
    """
    name, why = F.regexp_extract(note, _NOTE, 1), F.regexp_extract(note, _NOTE, 2)
    said = F.concat(F.lit("restart of "), name, F.lit(": "), why)
    return F.when(name != "", said).otherwise(F.lit("restart of a member"))


def _back(steps: Column, start: Column) -> Column:
    """Return when the SyncStateSet, smaller since `start`, had its former size again."""
    before = F.try_element_at(F.filter(steps, lambda one: one["ts"] <= start), F.lit(-1))["size"]
    shrunk = _first(
        steps,
        lambda one: (one["ts"] > start) & (one["ts"] <= plus_us(start, UNENDED_US)) & (one["size"] < before),
    )
    back = _first(
        steps,
        lambda one: (
            (one["ts"] > shrunk) & (one["ts"] <= plus_us(start, RESTART_US_MAX)) & (one["size"] >= before)
        ),
    )
    return F.coalesce(back, plus_us(start, UNENDED_US))


def _first(steps: Column, wanted: Callable[[Column], Column]) -> Column:
    return F.array_min(F.transform(F.filter(steps, wanted), lambda one: one["ts"]))
