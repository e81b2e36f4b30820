"""Who decides which broker of a group is master."""

from enum import StrEnum

from rocketmq_operator.api.base import Rule


class RoleMode(StrEnum):
    """What gives the brokers of a group their roles."""

    CONTROLLERS = "Controllers"
    """The controllers elect the master."""
    STATIC = "Static"
    """The name of the pod: the first broker is master, for ever."""


NOTHING_BESIDE_STATIC_ROLES = Rule(
    name="StaticRolesAlone",
    expression="self.mode != 'Static' || self.logReplicas + self.learners.count == 0",
    message="'mode is Static with logReplicas %d and learners.count %d: they follow masters that "
    "controllers elect; set both to 0 or take Controllers'.format([self.logReplicas, self.learners.count])",
    holds=lambda spec: spec.mode != RoleMode.STATIC or spec.log_replicas + spec.learners.count == 0,
    problem=lambda spec: (
        f"mode is Static with logReplicas {spec.log_replicas} and learners.count {spec.learners.count}: they "
        "follow masters that controllers elect; set both to 0 or take Controllers"
    ),
)
SWITCH_WITH_ONE_BROKER = Rule(
    name="SwitchWithOneBroker",
    expression="self.mode == oldSelf.mode || (self.mode == 'Controllers' && self.replicas == 1 && "
    "oldSelf.replicas == 1)",
    message="self.mode == 'Static' ? 'mode cannot change from Controllers to Static: the log has epochs that "
    "static roles would not continue; make another group' : 'mode cannot change from Static to Controllers "
    "with replicas %d, then %d: set replicas to 1 first, because the logs of slaves lack the epochs "
    "by which logs are compared'"
    ".format([oldSelf.replicas, self.replicas])",
    reason="FieldValueForbidden",
)
