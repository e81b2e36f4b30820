"""How many members have a message, and how many must be in sync: what the numbers of a group may be."""

from rocketmq_operator.api.base import Rule

COPIES_OF_A_QUORUM = Rule(
    name="CopiesWithoutQuorum",
    expression="!has(self.inSyncReplicas) || self.durability == 'Quorum'",
    message="'inSyncReplicas is %d with durability %s: only Quorum takes it'"
    ".format([self.inSyncReplicas, self.durability])",
    holds=lambda spec: spec.in_sync_replicas is None or spec.durability == "Quorum",
    problem=lambda spec: (
        f"inSyncReplicas is {spec.in_sync_replicas} with durability {spec.durability}: only Quorum takes it"
    ),
)

COPIES_IN_REACH = Rule(
    name="TooManyCopies",
    expression="!has(self.inSyncReplicas) || self.inSyncReplicas <= self.replicas",
    message="'inSyncReplicas is %d with replicas %d: it must be 2 to replicas'"
    ".format([self.inSyncReplicas, self.replicas])",
    holds=lambda spec: spec.in_sync_replicas is None or spec.in_sync_replicas <= spec.replicas,
    problem=lambda spec: (
        f"inSyncReplicas is {spec.in_sync_replicas} with replicas {spec.replicas}: it must be 2 to replicas"
    ),
)

SET_FOR_WRITES = Rule(
    name="SetOutOfReach",
    expression="!has(self.minInSyncReplicas) || self.minInSyncReplicas <= self.replicas + self.logReplicas",
    message="'minInSyncReplicas is %d with replicas %d and logReplicas %d: it must be at most their sum'"
    ".format([self.minInSyncReplicas, self.replicas, self.logReplicas])",
    holds=lambda spec: (
        spec.min_in_sync_replicas is None or spec.min_in_sync_replicas <= spec.replicas + spec.log_replicas
    ),
    problem=lambda spec: (
        f"minInSyncReplicas is {spec.min_in_sync_replicas} with replicas {spec.replicas} and logReplicas "
        f"{spec.log_replicas}: it must be at most their sum"
    ),
)

SET_FOR_COPIES = Rule(
    name="SetTooSmall",
    expression="!has(self.minInSyncReplicas) || self.durability == 'Async' || self.minInSyncReplicas >= "
    "(has(self.inSyncReplicas) ? self.inSyncReplicas : 2)",
    message="'minInSyncReplicas is %d with durability %s: it must be at least the copies of a message = %d'"
    ".format([self.minInSyncReplicas, self.durability, has(self.inSyncReplicas) ? self.inSyncReplicas : 2])",
    holds=lambda spec: (
        spec.min_in_sync_replicas is None
        or spec.durability == "Async"
        or spec.min_in_sync_replicas >= spec.copies
    ),
    problem=lambda spec: (
        f"minInSyncReplicas is {spec.min_in_sync_replicas} with durability {spec.durability}: it must be at "
        f"least the copies of a message = {spec.copies}"
    ),
)

SET_OF_ELECTIONS = Rule(
    name="SetWithStaticRoles",
    expression="!has(self.minInSyncReplicas) || self.mode != 'Static'",
    message="'minInSyncReplicas is %d with mode Static: brokers with static roles lack a SyncStateSet and "
    "would ignore it; remove it or take Controllers'.format([self.minInSyncReplicas])",
    holds=lambda spec: spec.min_in_sync_replicas is None or spec.mode != "Static",
    problem=lambda spec: (
        f"minInSyncReplicas is {spec.min_in_sync_replicas} with mode Static: brokers with static roles lack "
        "a SyncStateSet and would ignore it; remove it or take Controllers"
    ),
)
