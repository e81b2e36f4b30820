"""Changes of master, and the marks that belong to each.

Problem: four programs with four clocks report the events around a change of master. Joining by nearness in
time gives a wrong story exactly when two failovers follow each other. Shape: the master epoch is the key:
(cluster, group, epoch) names one change of master, and a mark belongs to it because it carries that epoch.
Only two events lack an epoch, because their observer does not know it: an injected fault, and a route that
the canary saw. Those are looked for inside the change's own bounds (after the election before, before the
election after). A re-election of the same master is not a change of master, but writes stand still during it
as well, so it is found here too, with the booking `reelection`, and answers for its seconds. Where the
operator restarts a master, for a rollout or because a person asked, the broker's end looks to the controllers
like any other. The operator's Event of that restart tells that it was ordered, and makes the change a
switchover. Never: a group's first election is neither.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.transforms.lag import members, set_after
from slo_pipeline.transforms.master_changes.rollouts import handovers_ordered
from slo_pipeline.transforms.timing import US_PER_S, from_nanos_text, plus_us

# Two processes' wall clocks may differ this much before a fault looks like an effect.
CLOCK_SLACK_US: Final = US_PER_S
# A fault that began or was healed longer than this before the master was last seen did not cause the
# election.
FAULT_REACH_US: Final = 30 * US_PER_S
PLANNED_CAUSES: Final = ("Designated",)
# A master ordered to hand over has done so after this, or was lost during it.
HANDOVER_US_MAX: Final = 60 * US_PER_S
REELECTION: Final = "reelection"

KEY: Final = ("cluster", "group", "epoch")


def _attr(name: str) -> Column:
    return F.col("attrs")[name]


def _broker_id(text: Column) -> Column:
    """Return a broker id; null for "", rubbish and the numbers that stand for "no broker"."""
    number = text.try_cast("bigint")
    return F.when(number > 0, number)


def elections(events: DataFrame) -> DataFrame:
    """Find the changes of master, and re-elections of the same one.

    Args:
        events: rows of the events segment, one an event_id.

    Returns:
        One row an election with a master before it: failover_id, cluster, group, epoch, old_epoch, cause,
            booking, old and new master's
        id and address, sync_state_set_before and _after, last_heartbeat_ts, suspected_ts, proposed_ts,
        elected_ts, elected_clock, previous_elected_ts, next_elected_ts.
    """
    elected = events.where((F.col("kind") == "MasterElected") & F.col("epoch").isNotNull())
    order = Window.partitionBy("cluster", "group").orderBy("epoch", "ts")
    new_id = F.coalesce(_broker_id(_attr("new_master_id")), "broker_id")
    told = elected.select(
        F.concat_ws("/", "cluster", "group", F.col("epoch").cast("string")).alias("failover_id"),
        *KEY,
        _attr("old_epoch").try_cast("bigint").alias("old_epoch"),
        F.coalesce(_attr("cause"), F.lit("unknown")).alias("cause"),
        F.when(_attr("cause").isin(*PLANNED_CAUSES), "switchover").otherwise("failover").alias("booking"),
        F.coalesce(_broker_id(_attr("old_master_id")), F.lag(new_id).over(order)).alias("old_master_id"),
        new_id.alias("new_master_id"),
        F.coalesce(_attr("old_master_address"), F.lag(_attr("new_master_address")).over(order)).alias(
            "old_master_address"
        ),
        _attr("new_master_address").alias("new_master_address"),
        F.array_join(members(_attr("sync_state_set_before")), ",").alias("sync_state_set_before"),
        F.array_join(members(set_after()), ",").alias("sync_state_set_after"),
        from_nanos_text(_attr("last_heartbeat_ns")).alias("last_heartbeat_ts"),
        from_nanos_text(_attr("suspected_ns")).alias("suspected_ts"),
        from_nanos_text(_attr("proposed_ns")).alias("proposed_ts"),
        F.col("ts").alias("elected_ts"),
        F.col("clock_id").alias("elected_clock"),
        F.lag("ts").over(order).alias("previous_elected_ts"),
        F.lead("ts").over(order).alias("next_elected_ts"),
    )
    same = F.col("old_master_id") == F.col("new_master_id")
    changed = told.where(F.col("old_master_id").isNotNull())
    booking = F.when(same, REELECTION).when(F.col("ordered"), "switchover").otherwise(F.col("booking"))
    return _with_orders(changed, events).withColumn("booking", booking).drop("ordered")


def _with_orders(changed: DataFrame, events: DataFrame) -> DataFrame:
    """Add `ordered`: the operator had told the old master to end, and its connection ended.

    Who falls silent was lost.
    """
    orders = (
        handovers_ordered(events)
        .groupBy(F.col("group").alias("of_group"))
        .agg(F.collect_list(F.struct("cluster", "ts")).alias("orders"))
    )
    elected_ts = F.col("elected_ts")
    since = F.greatest(plus_us(elected_ts, -HANDOVER_US_MAX), "previous_elected_ts")

    def is_of_it(order: Column) -> Column:
        in_time = (order["ts"] > since) & (order["ts"] <= plus_us(elected_ts, CLOCK_SLACK_US))
        return in_time & order["cluster"].isin(F.lit(""), F.col("cluster"))

    ordered = (F.col("cause") == "ConnectionClosed") & F.exists("orders", is_of_it)
    found = changed.join(F.broadcast(orders), on=F.col("group") == F.col("of_group"), how="left")
    return found.withColumn("ordered", ordered).drop("of_group", "orders")


def _earliest(rows: DataFrame, name: str) -> DataFrame:
    """Reduce (failover_id, ts, clock_id) to the earliest: failover_id, <name>_ts, <name>_clock."""
    first = rows.groupBy("failover_id").agg(F.min(F.struct("ts", "clock_id")).alias("first"))
    return first.select(
        "failover_id",
        F.col("first.ts").alias(f"{name}_ts"),
        F.col("first.clock_id").alias(f"{name}_clock"),
    )


def suspicions(changes: DataFrame, events: DataFrame) -> DataFrame:
    """Find when the old master was first suspected: suspected_event_ts, suspected_event_clock."""
    told = events.where(F.col("kind") == "BrokerSuspected")
    rows = changes.select("failover_id", *KEY, "old_master_id").join(
        told.select(*KEY, "ts", "clock_id", "broker_id"), on=list(KEY), how="inner"
    )
    return _earliest(rows.where(F.col("broker_id") == F.col("old_master_id")), "suspected_event")


def commits(changes: DataFrame, events: DataFrame) -> DataFrame:
    """Find when the election was committed: committed_ts, committed_clock.

    The election's own event carries the time of its proposal; the leader tells the commit with what it saw
    next.
    """
    told = events.where(F.col("kind").isin("MasterElected", "RoleNotified", "RoleTaken")).select(
        *KEY, from_nanos_text(_attr("committed_ns")).alias("ts"), "clock_id"
    )
    rows = changes.select("failover_id", *KEY).join(
        told.where(F.col("ts").isNotNull()), on=list(KEY), how="inner"
    )
    return _earliest(rows, "committed")


def roles_taken(changes: DataFrame, events: DataFrame) -> DataFrame:
    """Find the first sign that the new master acts as master: role_taken_ts, role_taken_clock.

    The controller sees it only at the master's next heartbeat or request. Two others may see it earlier, and
    each is proof: a replica that shook hands with it in the new epoch, and a route that names it, which only
    a master publishes.
    """
    told = events.where(F.col("kind").isin("RoleTaken", "HandshakeDone"))
    rows = changes.select("failover_id", *KEY, "new_master_id").join(
        told.select(*KEY, "ts", "clock_id", "broker_id", "kind"), on=list(KEY), how="inner"
    )
    is_new_master = F.coalesce(F.col("broker_id") == F.col("new_master_id"), F.lit(True))
    signs = rows.where((F.col("kind") == "HandshakeDone") | is_new_master)
    routes = routes_seen(changes, events).select(
        "failover_id", F.col("route_seen_ts").alias("ts"), F.col("route_seen_clock").alias("clock_id")
    )
    return _earliest(signs.select("failover_id", "ts", "clock_id").unionByName(routes), "role_taken")


def redundancies(changes: DataFrame, events: DataFrame) -> DataFrame:
    """Find when the SyncStateSet was as large as before the change: redundancy_ts, redundancy_clock.

    The election itself counts: a planned change that loses no member is redundant at once.
    """
    told = events.where(F.col("kind").isin("SyncStateSetChanged", "MasterElected")).select(
        *KEY, "ts", "clock_id", F.size(members(set_after())).alias("members_now")
    )
    before = F.size(members(F.col("sync_state_set_before")))
    rows = changes.select("failover_id", *KEY, before.alias("members_before")).join(
        told, on=list(KEY), how="inner"
    )
    whole_again = (F.col("members_before") > 0) & (F.col("members_now") >= F.col("members_before"))
    return _earliest(rows.where(whole_again), "redundancy")


def routes_seen(changes: DataFrame, events: DataFrame) -> DataFrame:
    """Find when the canary first saw the new master's route: route_seen_ts, route_seen_clock.

    A name server's route knows no epoch, so the address decides, within the change's own bounds.
    """
    told = events.where(F.col("kind") == "RouteSeen").alias("e")
    address = F.coalesce(F.col("e.attrs")["master_address"], F.col("e.attrs")["address"])
    by_epoch = F.col("e.epoch") == F.col("c.epoch")
    by_address = F.col("e.epoch").isNull() & (address == F.col("c.new_master_address"))
    after = F.col("e.ts") >= plus_us(F.col("c.elected_ts"), -CLOCK_SLACK_US)
    before_next = F.coalesce(F.col("e.ts") < F.col("c.next_elected_ts"), F.lit(True))
    belongs = (F.col("e.group") == F.col("c.group")) & after & before_next & (by_epoch | by_address)
    rows = changes.alias("c").join(told, on=belongs, how="inner")
    return _earliest(rows.select("c.failover_id", "e.ts", "e.clock_id"), "route_seen")


def faults(changes: DataFrame, events: DataFrame) -> DataFrame:
    """Find the injected fault that a change of master answers.

    Returns:
        failover_id, fault, fault_ts, fault_clock, fault_healed_ts (null: never healed). No row without an
        injected fault, where it was healed long before the master was missed, or where it hit another broker.
    """
    marks = with_healing(events).alias("f")
    seen_ts = F.coalesce(F.col("c.last_heartbeat_ts"), F.col("c.suspected_ts"), F.col("c.elected_ts"))
    reach = plus_us(seen_ts, -FAULT_REACH_US)
    here = F.col("f.group").isin("") | (F.col("f.group") == F.col("c.group"))
    this_broker = F.coalesce(F.col("f.broker_id") == F.col("c.old_master_id"), F.lit(True))
    after_previous = F.coalesce(F.col("f.ts") > F.col("c.previous_elected_ts"), F.lit(True))
    before_election = F.col("f.ts") <= plus_us(F.col("c.elected_ts"), CLOCK_SLACK_US)
    still_felt = (F.col("f.ts") >= reach) & F.coalesce(F.col("f.healed_ts") >= reach, F.lit(True))
    belongs = here & this_broker & after_previous & before_election & still_felt
    unplanned = changes.where(F.col("booking") != "switchover").alias("c")
    last = (
        unplanned.join(marks, on=belongs, how="inner")
        .groupBy("c.failover_id")
        .agg(F.max(F.struct("f.ts", "f.clock_id", "f.fault", "f.healed_ts")).alias("last"))
    )
    return last.select(
        "failover_id",
        F.col("last.fault").alias("fault"),
        F.col("last.ts").alias("fault_ts"),
        F.col("last.clock_id").alias("fault_clock"),
        F.col("last.healed_ts").alias("fault_healed_ts"),
    )


def with_healing(events: DataFrame) -> DataFrame:
    """Pair each FaultInjected with the first FaultHealed of the same fault after it.

    The healing must come before the fault strikes again.
    """
    fault = F.coalesce(_attr("fault"), _attr("action"), F.lit("fault"))
    marks = (
        events.where(F.col("kind").isin("FaultInjected", "FaultHealed"))
        .withColumn("fault", fault)
        .withColumn("target", _attr("target"))
    )
    same = Window.partitionBy("cluster", "group", "broker_id", "fault", "target").orderBy("ts")
    following = F.lead(F.struct("kind", "ts")).over(same)
    paired = marks.withColumn("following", following).where(F.col("kind") == "FaultInjected")
    healed = F.when(F.col("following.kind") == "FaultHealed", F.col("following.ts"))
    return paired.select("group", "broker_id", "ts", "clock_id", "fault", healed.alias("healed_ts"))
