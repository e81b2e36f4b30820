"""Why members of a BrokerGroup are not as asked."""

from rocketmq_operator.api.members.learners import LearnerKind
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.group.children import member_names
from rocketmq_operator.plan.group.learners.learner_children import learner_names, learner_set_name
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.pods.member_trouble import (
    CLAIM,
    MemberSet,
    MemberTrouble,
    NeededMembers,
    troubles_of,
)


def group_troubles(observed: ObservedGroup) -> tuple[MemberTrouble, ...]:
    """Return the troubles of a group's members, in the order of their names."""
    return troubles_of(group_members(observed))


def group_members(observed: ObservedGroup) -> NeededMembers:
    """Return the brokers, log replicas and learners that the spec asks for, with their pods and claims."""
    claims = {key.name: live for key, live in observed.children.items() if key.kind == CLAIM}
    group, spec = observed.owner.name, observed.spec
    members = () if spec.hibernated else (*member_names(group, spec), *learner_names(group, spec))
    set_names = (group, names.log_set(group), *(learner_set_name(group, kind) for kind in LearnerKind))
    sets = tuple(
        MemberSet(
            observed.child("StatefulSet", set_name),
            [name for name in members if names.is_member(name, set_name)],
            observed.pods,
            claims,
            refusals=observed.refusals,
        )
        for set_name in set_names
    )
    return NeededMembers(observed.now, sets, observed.events)
