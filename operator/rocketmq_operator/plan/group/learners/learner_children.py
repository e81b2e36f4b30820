"""The objects of learners: members that copy the log and are never counted nor elected.

Learners are a StatefulSet of their own, of brokers or of log replicas. A learner says so to its master in its
handshake (`asyncLearner`), so that no write waits for it and no SyncStateSet has it. It says so to the
controllers in its heartbeats (`brokerElectionPriority`), so that none is elected.

A learner runs without a companion: it is never master, so it needs neither handover nor fence. Its
Service has a selector, because no other broker answers at its address. A seed fills the volume of a broker,
unless the broker is to begin with the newest file.

Source: RocketMQ 5.5.0 MessageStoreConfig.java (asyncLearner, syncFromLastFile), BrokerConfig.java
(brokerElectionPriority).
"""

from collections.abc import Mapping
from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.members.learners import LearnerKind
from rocketmq_operator.api.pods.storage import GroupStorage
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.objects import Json, Owner
from rocketmq_operator.plan.common.parts import digest
from rocketmq_operator.plan.common.properties import plain_settings, properties
from rocketmq_operator.plan.group.children import (
    BROKER_PORTS,
    broker_conf,
    broker_shape,
    from_last_file,
    log_shape,
    replica_settings,
)
from rocketmq_operator.plan.group.pod_sets.containers import (
    LOG_REPLICA,
    REPLICA_PORTS,
    broker_container,
    log_replica_container,
)
from rocketmq_operator.plan.group.pod_sets.member_sets import PodSet, member_pod, stateful_set
from rocketmq_operator.plan.group.scripts.start_scripts import LEARNER_CONF, LEARNER_START, learner_start
from rocketmq_operator.plan.group.seed_container import seed, seed_conf
from rocketmq_operator.plan.tls.clients import ClientsStage

LEARNER: Final = "learner"
"""Component label of the pods of learners that are brokers; others are log replicas."""
LEARNER_PRIORITY: Final = -(1 << 31)
"""Of a learner's heartbeats. Source: `controller_core.remoting.headers`."""
_SCRIPT: Final = "start-learner.sh"


def learner_set_name(group: str, kind: LearnerKind) -> str:
    """Return the name of the StatefulSet of a group's learners of a kind."""
    return names.learner_set(group) if kind is LearnerKind.BROKER else names.log_learner_set(group)


def learner_names(group: str, spec: BrokerGroupSpec) -> tuple[str, ...]:
    """Return the names of all learners that the spec asks for."""
    set_name = learner_set_name(group, spec.learners.kind)
    return tuple(names.member(set_name, ordinal) for ordinal in range(spec.learners.count))


def is_learner(name: str, group: str) -> bool:
    """Tell whether a pod's or Service's name is that of a learner of the group."""
    return any(names.is_member(name, learner_set_name(group, kind)) for kind in LearnerKind)


def learner_service(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec | None, name: str
) -> Json:
    """Return the Service whose ClusterIP is a learner's address for as long as the group lives."""
    is_broker = names.is_member(name, names.learner_set(owner.name))
    kind = LearnerKind.BROKER if is_broker else LearnerKind.LOG_REPLICA
    ports = BROKER_PORTS if is_broker else REPLICA_PORTS
    made = parts.pod_service(owner, name, _pod_set(owner, spec, kind).labels(owner, spec), ports)
    return parts.in_families(made, cluster)


def learner_files(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    stage: ClientsStage = ClientsStage.DISABLED,
) -> dict[str, str]:
    """Return the files that learners add to the ConfigMap; empty without learners."""
    if not spec.learners.count:
        return {}
    return _files(owner, spec, cluster, spec.learners.kind, stage)


def learner_set(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    kind: LearnerKind,
    replicas: int,
    hosts: Mapping[str, str],
    stage: ClientsStage = ClientsStage.DISABLED,
) -> Json:
    """Return the StatefulSet of a kind of learners; arguments as of `children.broker_set`."""
    learners = spec.learners
    files = _files(owner, spec, cluster, kind, stage)
    if kind is LearnerKind.BROKER:
        resources = learners.resources or spec.resources
        container = broker_container(spec, cluster, resources, _SCRIPT, BROKER_PORTS, stage)
        pod = member_pod(owner, container, parts.ROCKETMQ_USER, hosts)
        if not learners.sync_from_last_file:
            pod["initContainers"] = [seed(cluster, resources)]
            files["seed.conf"] = seed_conf(owner, spec, cluster, stage)
    else:
        container = log_replica_container(cluster, learners.resources or spec.log_resources, _SCRIPT)
        pod = member_pod(owner, container, parts.OUR_USER, hosts)
    pod = parts.with_credentials(pod, spec.cluster) if cluster.has_users else pod
    pod_set, configuration = _pod_set(owner, spec, kind), digest(*files.values())
    return stateful_set(owner, spec, pod_set, replicas, pod, configuration, stage)


def learner_storage(spec: BrokerGroupSpec) -> GroupStorage:
    """Return the volumes of learners: as the group's, with a size and a class of their own if they have them.

    A VolumeAttributesClass belongs to a driver, so it does not follow to volumes of another class.
    """
    own = spec.learners.storage
    if own is None:
        return spec.storage
    changes = {"size": own.size, "storage_class_name": own.storage_class_name}
    return spec.storage.model_copy(update=changes | {"volume_attributes_class_name": None})


def _pod_set(owner: Owner, spec: BrokerGroupSpec, kind: LearnerKind) -> PodSet:
    is_broker, name = kind is LearnerKind.BROKER, learner_set_name(owner.name, kind)
    return PodSet(
        name,
        LEARNER if is_broker else LOG_REPLICA,
        name,
        learner_storage(spec),
        spec.learners.placement or spec.placement,
        broker_shape(spec) if is_broker else log_shape(spec),
    )


def _files(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    kind: LearnerKind,
    stage: ClientsStage,
) -> dict[str, str]:
    from_newest = spec.learners.sync_from_last_file
    if kind is LearnerKind.LOG_REPLICA:
        values = replica_settings(owner, spec, cluster, stage) | {"learner": "true"}
        text = plain_settings(from_last_file(values) if from_newest else values)
        return {LEARNER_CONF: text, _SCRIPT: LEARNER_START}
    # Of equal keys Java takes the last.
    learner = {
        "asyncLearner": "true",
        "brokerElectionPriority": str(LEARNER_PRIORITY),
        "syncFromLastFile": str(from_newest).lower(),
    }
    text = broker_conf(owner, spec, cluster) + properties(learner)
    return {LEARNER_CONF: text, _SCRIPT: learner_start(spec, has_users=cluster.has_users)}
