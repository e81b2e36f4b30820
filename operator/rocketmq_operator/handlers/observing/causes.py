"""Ask why a pod is missing or not ready, before a status is made: companions, Events, the pods of proxies.

Why not in each look: only the status tells of it. A member without trouble costs nothing here; one whose pod
or volume is missing costs a call for the Events about its StatefulSet or its claim, once a pass, and none in
its first seconds.
"""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime
from typing import Final

from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.api.conditions import Condition
from rocketmq_operator.api.names import CLUSTER_LABEL, COMPONENT_LABEL
from rocketmq_operator.clients.api import PeerUnavailableError, RequestRefusedError
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.proxies import PROXY
from rocketmq_operator.plan.cluster.trouble import cluster_members, proxies_lack_pods
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import ObjectKey
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.observed import (
    MissingMetadata,
    ObservedGroup,
    parse_missing_metadata,
    parse_refusal,
    parse_users_in_sync,
)
from rocketmq_operator.plan.group.pod_sets.live_settings import ToldSettings, parse_settings
from rocketmq_operator.plan.group.trouble import group_members
from rocketmq_operator.plan.pods.events import ObservedEvent, parse_events
from rocketmq_operator.plan.pods.member_trouble import NeededMembers, event_queries
from rocketmq_operator.plan.pods.observed import ObservedPod, parse_pod

_LOG: Final = logging.getLogger(__name__)
_Told = tuple[MissingMetadata | None, str, bool | None, ToldSettings | None]


async def cluster_with_causes(environment: Environment, observed: ObservedCluster) -> ObservedCluster:
    """Return the look with what tells why pods are missing or not ready.

    Raises:
        PeerUnavailableError: the API server does not answer.
    """
    events = await _events(environment, observed, cluster_members(observed))
    pods = await _proxy_pods(environment, observed) if proxies_lack_pods(observed) else {}
    return replace(observed, events=events, proxy_pods=pods)


async def group_with_causes(environment: Environment, observed: ObservedGroup) -> ObservedGroup:
    """Return the look with the causes of missing pods, and with what companions say of their brokers.

    The operator asks all companions at the same time and omits those that do not answer.

    Raises:
        PeerUnavailableError: the API server does not answer.
    """
    group, pods = observed.owner.name, observed.pods.values()
    brokers = [pod for pod in pods if pod.ip and not pod.deleting and names.is_member(pod.name, group)]
    statuses = await asyncio.gather(*(_companion_status(environment, pod.ip) for pod in brokers))
    by_name = {pod.name: one for pod, one in zip(brokers, statuses, strict=True) if one is not None}
    return replace(
        observed,
        events=await _events(environment, observed, group_members(observed)),
        missing_metadata={name: lacking for name, (lacking, *_) in by_name.items() if lacking is not None},
        refusals={name: refusal for name, (_, refusal, *_) in by_name.items() if refusal},
        users_in_sync={name: holds for name, (_, _, holds, _) in by_name.items() if holds is not None},
        told_settings={name: told for name, (*_, told) in by_name.items() if told is not None},
    )


async def _companion_status(environment: Environment, ip: str) -> _Told | None:
    try:
        status = await environment.companions.status(join_host_port(ip, names.COMPANION_HTTP_PORT))
        missing, refusal = parse_missing_metadata(status), parse_refusal(status)
        return missing, refusal, parse_users_in_sync(status), parse_settings(status)
    except (PeerUnavailableError, ObservationError) as error:
        _LOG.debug("%s", error)
        return None


async def _proxy_pods(environment: Environment, observed: ObservedCluster) -> dict[str, ObservedPod]:
    labels = {CLUSTER_LABEL: observed.owner.name, COMPONENT_LABEL: PROXY}
    found = await environment.kube.find("Pod", observed.owner.namespace, labels)
    return {pod.name: pod for pod in map(parse_pod, found)}


async def _events(
    environment: Environment, observed: ObservedCluster | ObservedGroup, members: NeededMembers
) -> dict[ObjectKey, tuple[ObservedEvent, ...]]:
    queries = event_queries(members, _progressing_since(observed.status.conditions))
    found = await asyncio.gather(
        *(_events_about(environment, observed.owner.namespace, key) for key in queries)
    )
    return dict(zip(queries, found, strict=True))


async def _events_about(
    environment: Environment, namespace: str, key: ObjectKey
) -> tuple[ObservedEvent, ...]:
    try:
        return parse_events(await environment.kube.events(key.kind, namespace, key.name))
    except RequestRefusedError as error:
        # Why not an error: roles of an older chart do not allow it, and all else can be told.
        _LOG.info("events about %s %s/%s: %s", key.kind, namespace, key.name, error)
        return ()


def _progressing_since(conditions: tuple[Condition, ...]) -> datetime | None:
    found = (one for one in conditions if (one.type, one.status) == ("Progressing", "True"))
    return next((one.last_transition_time for one in found), None)
