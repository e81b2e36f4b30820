"""The steps for learners: their sets get the spec at once, and pods of an older revision go one at a time.

No promise of the group depends on a learner, so these steps ask neither the controllers nor other members.
A group that hibernates has no pods of learners.
"""

from rocketmq_operator.api.members.learners import LearnerKind
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NO_STEPS, Delete, ResourcePlan, Wait, child_steps
from rocketmq_operator.plan.common.objects import ObjectKey
from rocketmq_operator.plan.common.parts import with_live_claim_templates
from rocketmq_operator.plan.credentials.inner_users import marked
from rocketmq_operator.plan.group.learners.learner_children import learner_set, learner_set_name
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.observed_pods import known_hosts
from rocketmq_operator.plan.pods.observed import ObservedPod, of_older_revision


def learner_plan(observed: ObservedGroup) -> ResourcePlan:
    """Return what brings the learners to the spec."""
    sets = _sets(observed)
    if observed.spec.hibernated or sets.wait is not None or sets.steps:
        return sets
    return _roll(observed)


def _sets(observed: ObservedGroup) -> ResourcePlan:
    if observed.cluster is None:
        return NO_STEPS
    learners, wanted = observed.spec.learners, []
    for kind in LearnerKind:
        live = observed.child("StatefulSet", learner_set_name(observed.owner.name, kind))
        count = learners.count if kind is learners.kind and not observed.spec.hibernated else 0
        if live is None and not count:
            continue
        body = learner_set(
            observed.owner,
            observed.spec,
            observed.cluster,
            kind,
            count,
            known_hosts(observed),
            observed.clients_stage,
        )
        if kind is LearnerKind.BROKER:
            body = marked(body, observed.signer_mark)
        wanted.append(with_live_claim_templates(body, live))
    return child_steps(observed.owner, wanted, observed.children)


def _roll(observed: ObservedGroup) -> ResourcePlan:
    pods = _pods(observed)
    outdated = [
        pod
        for kind in LearnerKind
        for pod in of_older_revision(
            observed.child("StatefulSet", learner_set_name(observed.owner.name, kind)), pods[kind]
        )
    ]
    if not outdated:
        return NO_STEPS
    wait = Wait("RollingOut", f"{len(outdated)} pods of learners are of an older revision")
    every = [pod for found in pods.values() for pod in found]
    if any(pod.deleting or (not pod.ready and pod not in outdated) for pod in every):
        return ResourcePlan((), wait)
    pod = min(outdated, key=lambda one: (one.ready, one.name))
    return ResourcePlan((Delete(ObjectKey("Pod", pod.name), pod.uid, "older revision"),), wait)


def _pods(observed: ObservedGroup) -> dict[LearnerKind, list[ObservedPod]]:
    return {
        kind: [
            pod
            for name, pod in sorted(observed.pods.items())
            if names.is_member(name, learner_set_name(observed.owner.name, kind))
        ]
        for kind in LearnerKind
    }
