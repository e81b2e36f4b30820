"""The plan of a Topic, a ConsumerGroup or a User.

It creates missing ones in masters, corrects differences, and deletes by policy.

The operator writes a new spec under any drift policy; later differences are drift. It always creates missing
ones: a new broker group, and a master that lost its copy, would refuse clients.

Deletion waits for masters that do not answer, but not for ever, and not for a cluster that is gone: an object
that cannot be deleted is worse than a topic that is left behind.

A User is written to the master and then to each slave that answers, so that no failover comes between. The
Secret that the operator makes for it comes first: a password that only brokers had would be lost.
"""

from collections.abc import Collection, Iterator
from typing import Final

from controller_core.access.users import ENABLED, SUPER
from rocketmq_operator.api.common import DeletionPolicy
from rocketmq_operator.api.metadata import DriftPolicy, GroupState
from rocketmq_operator.api.names import BROKERS_FINALIZER, TOPIC_KIND
from rocketmq_operator.plan.common.actions import (
    Apply,
    DeleteMetadata,
    DeleteRoute,
    ResourcePlan,
    Step,
    Wait,
    WriteMetadata,
)
from rocketmq_operator.plan.metadata.observed import ObservedMetadata

_KNOWN_THERE: Final = frozenset({GroupState.APPLIED, GroupState.DRIFTED})


def metadata_plan(observed: ObservedMetadata) -> ResourcePlan:
    """Return the plan for a Topic, a ConsumerGroup or a User."""
    if observed.deleting_since is not None:
        return _deletion(observed)
    wants_hold = observed.spec.deletion_policy is DeletionPolicy.DELETE
    hold = () if wants_hold == observed.has_finalizer else (_finalizer(observed, has_finalizer=wants_hold),)
    if (wait := _blocked(observed)) is not None:
        return ResourcePlan(hold, wait)
    secret = () if observed.account.secret is None else (Apply(observed.account.secret, "its credentials"),)
    return ResourcePlan((*hold, *secret, *_writes(observed)), _waits_for(observed))


def left_behind(observed: ObservedMetadata, failed: Collection[Step]) -> tuple[str, ...]:
    """Return where it may still be when an overdue deletion ends.

    These are groups that could not be asked, and failed steps.
    """
    silent = {one.group for one in observed.groups if one.exists and (one.problem or one.paused)}
    refused = {one.group for one in failed if isinstance(one, DeleteMetadata)}
    routes = {one.address for one in failed if isinstance(one, DeleteRoute)}
    return (*sorted(silent | refused), *sorted(routes))


def _deletion(observed: ObservedMetadata) -> ResourcePlan:
    """Return how brokers forget it, and last how Kubernetes does."""
    release = _finalizer(observed, has_finalizer=False)
    if (
        observed.spec.deletion_policy is DeletionPolicy.RETAIN
        or observed.older_owner
        or not observed.cluster_found
    ):
        return ResourcePlan((release,))
    if observed.signs_for_all:
        text = f"operator and members sign as {observed.name}: brokers must keep it"
        return ResourcePlan((), Wait("SignsForMembers", text))
    kind = observed.owner.kind
    deletes = tuple(
        DeleteMetadata(kind, observed.name, one.group, copy.address)
        for one in observed.groups
        if one.answered and not one.paused
        for copy in one.copies
        if copy.config is not None
    )
    waits_for = [one for one in observed.groups if one.exists and (one.problem or one.paused)]
    if waits_for and not observed.is_overdue:
        text = "; ".join(f"{one.group}: {one.problem or 'it is paused'}" for one in waits_for)
        return ResourcePlan(deletes, Wait("Deleting", f"still to be forgotten in {text}"))
    routes = tuple(DeleteRoute(observed.spec.cluster, observed.name, one) for one in observed.name_servers)
    # Why no check between: a client that is still connected may make a broker recreate it at once.
    return ResourcePlan((*deletes, *(routes if kind == TOPIC_KIND.kind else ()), release))


def _finalizer(observed: ObservedMetadata, *, has_finalizer: bool) -> Apply:
    """Return what puts our finalizer on the object, or takes it away.

    Server-side apply keeps everybody else's.
    """
    owner = observed.owner
    metadata = {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid}
    finalizers = {"finalizers": [BROKERS_FINALIZER]} if has_finalizer else {}
    body = {"apiVersion": owner.api_version, "kind": owner.kind, "metadata": metadata | finalizers}
    return Apply(body, "hold until brokers forgot it" if has_finalizer else "let go")


def _blocked(observed: ObservedMetadata) -> Wait | None:
    """Return why the operator sends no request to brokers."""
    cluster = observed.spec.cluster
    if not observed.cluster_found:
        return Wait("NoCluster", f"RocketMQCluster {cluster} does not exist")
    if observed.older_owner:
        return Wait(
            "Conflict",
            f"{observed.name} of cluster {cluster} is that of {observed.owner.kind} {observed.older_owner}",
        )
    return observed.account.problem or _locked_out(observed)


def _locked_out(observed: ObservedMetadata) -> Wait | None:
    """Return why a change of the user that signs for operator and members would shut them out."""
    signer = observed.credentials
    if signer is None or not observed.signs_for_all:
        return None
    wanted = observed.config_to_write(None)
    if wanted == wanted | {"password": signer.password, "userType": SUPER, "userStatus": ENABLED}:
        return None
    text = f"operator and members sign as {observed.name}: its password, type and status must stay"
    return Wait("SignsForMembers", text)


def _writes(observed: ObservedMetadata) -> Iterator[WriteMetadata]:
    known = {one.group for one in observed.status.groups if one.state in _KNOWN_THERE}
    corrects = observed.spec.drift_policy is DriftPolicy.CORRECT or not observed.acted_on
    for one in observed.groups:
        if not one.answered or one.paused:
            continue
        for copy in one.copies:
            found = observed.differences(copy.config or {})
            if copy.config is not None and not (found and corrects):
                continue
            why = "; ".join(
                f"{drift.field} {drift.found or 'absent'} -> {drift.wanted or 'absent'}" for drift in found
            )
            yield WriteMetadata(
                kind=observed.owner.kind,
                name=observed.name,
                group=one.group,
                address=copy.address,
                config=observed.config_to_write(copy.config),
                why="missing" if copy.config is None else why,
                drifted=observed.acted_on and one.group in known,
            )


def _waits_for(observed: ObservedMetadata) -> Wait | None:
    """Return a problem in some broker group that the operator cannot correct now."""
    unknown = [one.group for one in observed.groups if not one.exists]
    if unknown or not observed.groups:
        named = f"BrokerGroup {', '.join(unknown)}" if unknown else "BrokerGroup"
        return Wait("NoGroup", f"cluster {observed.spec.cluster} lacks {named}")
    silent = [f"{one.group}: {one.problem}" for one in observed.groups if one.problem]
    if silent:
        return Wait("BrokerUnreachable", "; ".join(silent))
    paused = [
        one.group
        for one in observed.groups
        if one.paused and (one.config is None or observed.differences(one.config))
    ]
    if paused:
        return Wait("Paused", f"{', '.join(paused)} or the cluster is paused: nothing is written")
    return None
