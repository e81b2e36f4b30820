"""The addresses that members of an observed group know, and the refusal of their pods."""

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import Wait
from rocketmq_operator.plan.common.objects import Json
from rocketmq_operator.plan.common.shaping.shaped import refusal
from rocketmq_operator.plan.group.children import (
    broker_set,
    broker_shape,
    hosts_needed,
    log_replica_set,
    log_shape,
)
from rocketmq_operator.plan.group.learners.learner_children import learner_set
from rocketmq_operator.plan.group.observed import ObservedGroup


def known_hosts(observed: ObservedGroup) -> dict[str, str]:
    """Return ClusterIP by DNS name of all that members are configured with; empty until one exists."""
    if observed.cluster is None:
        return {}
    hosts = hosts_needed(observed.owner, observed.spec, observed.cluster)
    return {host: observed.cluster_addresses.get(names.pod_of(host), "") for host in hosts}


def pod_refusal(observed: ObservedGroup) -> Wait | None:
    """Return why the operator refuses to make the pods of the spec; None if it does not."""
    cluster, spec, stage = observed.cluster, observed.spec, observed.clients_stage
    if cluster is None:
        return None

    def rendered() -> tuple[Json, ...]:
        hosts = {host: address for host, address in known_hosts(observed).items() if address}
        return (
            broker_set(observed.owner, spec, cluster, spec.replicas, hosts, stage),
            log_replica_set(observed.owner, spec, cluster, spec.log_replicas, hosts, stage),
            learner_set(observed.owner, spec, cluster, spec.learners.kind, spec.learners.count, hosts, stage),
        )

    return refusal((broker_shape(spec), log_shape(spec)), rendered)
