"""Look at everything that the plan of a Topic, a ConsumerGroup or a User needs, once.

It queries all masters at the same time, and for a User the slaves too.

Masters and controllers that do not answer are part of the observation: work on other broker groups continues.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from controller_core.access.signing import Credentials
from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.api.access.user import OWN_USER_PREFIX, UserSpec, UserStatus
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import DeletionPolicy
from rocketmq_operator.api.consumer_group import ConsumerGroupSpec
from rocketmq_operator.api.metadata import MetadataStatus
from rocketmq_operator.api.names import (
    BROKERS_FINALIZER,
    CLUSTER_KIND,
    CLUSTER_LABEL,
    COMPONENT_LABEL,
    CONSUMER_GROUP_KIND,
    GROUP_KIND,
    TOPIC_KIND,
    USER_KIND,
)
from rocketmq_operator.api.topic import TopicSpec
from rocketmq_operator.clients.api import ControllerApi, Json, PeerUnavailableError
from rocketmq_operator.handlers.observing.clusters_and_groups import (
    Environment,
    InvalidSpecError,
    broker_credentials,
    cluster_spec,
    get_unless_deleted,
    owner_of,
    parse_spec,
)
from rocketmq_operator.handlers.observing.user_accounts import observe_account
from rocketmq_operator.plan.cluster.children import NAME_SERVER
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.endpoints import controllers_home
from rocketmq_operator.plan.common.objects import cluster_ip
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.observed import ReportedGroup, parse_group
from rocketmq_operator.plan.metadata.observed import (
    NO_ACCOUNT,
    GroupMetadata,
    MetadataSpec,
    ObservedMetadata,
    SlaveCopy,
)

_NO_TOKEN: Final = ""
"""Reads need none."""
_MODELS: Final[Mapping[str, type[MetadataSpec]]] = {
    TOPIC_KIND.kind: TopicSpec,
    CONSUMER_GROUP_KIND.kind: ConsumerGroupSpec,
    USER_KIND.kind: UserSpec,
}


async def observe_metadata(
    environment: Environment, kind: str, namespace: str, name: str
) -> ObservedMetadata | None:
    """Return the observed state of a Topic, a ConsumerGroup or a User.

    Return None if it is gone, or going without waiting for us.

    Raises:
        InvalidSpecError: its spec or its cluster's breaks a rule.
        PeerUnavailableError: the API server does not answer.
    """
    resource = await environment.kube.get(kind, namespace, name)
    if resource is None:
        return None
    metadata = resource["metadata"]
    has_finalizer = BROKERS_FINALIZER in metadata.get("finalizers", [])
    deleting = metadata.get("deletionTimestamp")
    if deleting is not None and not has_finalizer:
        return None
    spec = _spec(kind, resource, going=deleting is not None)
    name_in_brokers = spec.name_in_brokers(name)
    rival, cluster = await asyncio.gather(
        environment.claims.older_owner(environment.kube, kind, resource, environment.now()),
        get_unless_deleted(environment, CLUSTER_KIND.kind, namespace, spec.cluster),
    )
    credentials: Credentials | None = None
    groups: tuple[GroupMetadata, ...] = ()
    name_servers: tuple[str, ...] = ()
    account, owner = NO_ACCOUNT, owner_of(resource, kind)
    status_model = UserStatus if isinstance(spec, UserSpec) else MetadataStatus
    if cluster is not None and not rival:
        found = cluster_spec(cluster)
        if isinstance(spec, UserSpec) and deleting is None:
            account = await observe_account(environment, owner, spec, found, name_in_brokers)
        credentials = await broker_credentials(environment, namespace, spec.cluster, found)
        what = (kind, name_in_brokers)
        if found.has_users or kind != USER_KIND.kind:
            groups = await _groups(environment, namespace, what, spec, (found, credentials))
        if deleting is not None:
            external = found.name_servers.external
            name_servers = external or await _name_servers(environment, namespace, spec.cluster)
    return ObservedMetadata(
        now=environment.now(),
        owner=owner,
        generation=metadata.get("generation", 0),
        spec=spec,
        status=status_model.model_validate(resource.get("status") or {}),
        name=name_in_brokers,
        has_finalizer=has_finalizer,
        deleting_since=None if deleting is None else datetime.fromisoformat(deleting),
        older_owner=rival,
        cluster_found=cluster is not None,
        credentials=credentials,
        groups=groups,
        name_servers=name_servers,
        account=account,
    )


def _spec(kind: str, resource: Json, *, going: bool) -> MetadataSpec:
    model = _MODELS[kind]
    try:
        spec = parse_spec(model, resource)
        if kind == USER_KIND.kind:
            _check_own(spec.name_in_brokers(resource["metadata"]["name"]))
    except InvalidSpecError:
        if not going:
            raise
        # A spec that breaks a rule says nothing that a deletion could go by, and must not keep it waiting.
        cluster = str(resource.get("spec", {}).get("cluster", ""))
        return model.model_construct(cluster=cluster, deletion_policy=DeletionPolicy.RETAIN)
    return spec


def _check_own(username: str) -> None:
    """Check that a User is not one of the operator's own.

    Raises:
        InvalidSpecError: it is.
    """
    if username.startswith(OWN_USER_PREFIX):
        problem = f"the user would be {username}: the operator has names like this for itself"
        raise InvalidSpecError("SystemName", problem)


async def _groups(
    environment: Environment,
    namespace: str,
    what: tuple[str, str],
    spec: MetadataSpec,
    access: tuple[RocketMQClusterSpec, Credentials | None],
) -> tuple[GroupMetadata, ...]:
    """Return what the master of each chosen broker group has.

    `what` is the kind, and the name in the brokers.
    """
    cluster, credentials = access
    found = await environment.kube.find(GROUP_KIND.kind, namespace, {})
    paused = {
        one["metadata"]["name"]: cluster.paused or bool(one["spec"].get("paused"))
        for one in found
        if one["spec"]["cluster"] == spec.cluster and "deletionTimestamp" not in one["metadata"]
    }
    home = controllers_home(spec.cluster, namespace, cluster)
    controllers = environment.controllers_of(*home, _NO_TOKEN)

    async def one(group: str) -> GroupMetadata:
        if group not in paused:
            return GroupMetadata(group, exists=False)
        reported, problem = await _reported(controllers, spec.cluster, group)
        address = "" if reported is None else reported.master_address
        config = None
        slaves: tuple[SlaveCopy, ...] = ()
        if not problem:
            try:
                config = await read(address)
            except PeerUnavailableError as error:
                problem = str(error)
        if isinstance(spec, UserSpec) and reported is not None and not problem:
            copies = await asyncio.gather(*map(of_slave, _slaves(reported)))
            slaves = tuple(copy for copy in copies if copy is not None)
        return GroupMetadata(
            group,
            paused=paused[group],
            address=address,
            problem=problem,
            config=config,
            slaves=slaves,
        )

    async def read(address: str) -> Json | None:
        return await environment.brokers.read(address, *what, credentials)

    async def of_slave(address: str) -> SlaveCopy | None:
        try:
            return SlaveCopy(address, await read(address))
        except PeerUnavailableError:
            return None

    return tuple(await asyncio.gather(*map(one, spec.broker_groups or sorted(paused))))


def _slaves(group: ReportedGroup) -> list[str]:
    """Return the addresses of the brokers that may become master, but for the one that is."""
    candidates = [one.address for one in group.members if one.electable and one.alive]
    return sorted(set(candidates) - {group.master_address})


async def _reported(controllers: ControllerApi, cluster: str, group: str) -> tuple[ReportedGroup | None, str]:
    """Return a group with a master, or else why none is known."""
    try:
        value = await controllers.group(cluster, group)
        reported = None if value is None else parse_group(value)
    except (PeerUnavailableError, ObservationError) as error:
        return None, str(error)
    if reported is None or reported.master_id is None:
        return None, "the controllers name no master"
    return reported, ""


async def _name_servers(environment: Environment, namespace: str, cluster: str) -> tuple[str, ...]:
    services = await environment.kube.find(
        "Service", namespace, {CLUSTER_LABEL: cluster, COMPONENT_LABEL: NAME_SERVER}
    )
    return tuple(
        join_host_port(cluster_ip(one), names.NAME_SERVER_PORT)
        for one in services
        if names.is_member(one["metadata"]["name"], names.name_servers(cluster)) and cluster_ip(one)
    )
