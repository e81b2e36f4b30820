"""Complete the records of failovers with what canaries saw: asked for after a pass, when all else is done.

A canary stands behind a Service of the group's namespace with the labels `rocketmq-ha.dev/cluster: <cluster>`
and `rocketmq-ha.dev/canary: <group>`; the measuring part of the chart makes it. The operator asks it only
while a record lacks a value that it could still provide. An error here leaves the record as it is: the next
pass asks again, for at most an hour. Never: on the way of a takeover, and never for longer than `ASK_S_MAX`.
"""

import asyncio
import logging
from typing import Final

from rocketmq_operator.api.names import CANARY_LABEL, CLUSTER_LABEL
from rocketmq_operator.clients.api import Json, PeerUnavailableError
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment
from rocketmq_operator.plan.common.actions import ApplyStatus
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.write_gaps import CanaryGaps, measured_steps, parse_canary_gaps, unmeasured

ASK_S_MAX: Final = 1.0
CANARIES_MAX: Final = 4
"""Maximum number of canaries to ask for one group; one is usual."""
_LOG: Final = logging.getLogger(__name__)


async def measurement_steps(environment: Environment, observed: ObservedGroup) -> tuple[ApplyStatus, ...]:
    """Return the steps that complete the records of a group's failovers.

    There are none if all are complete or no canary answers.
    """
    if not unmeasured(observed):
        return ()
    try:
        async with asyncio.timeout(ASK_S_MAX):
            canaries = await _canary_gaps(environment, observed)
    except (TimeoutError, PeerUnavailableError) as error:
        _LOG.info("canaries of %s/%s: %r", observed.owner.namespace, observed.owner.name, error)
        return ()
    return tuple(measured_steps(observed, canaries))


async def _canary_gaps(environment: Environment, observed: ObservedGroup) -> list[CanaryGaps]:
    namespace, group = observed.owner.namespace, observed.owner.name
    labels = {CLUSTER_LABEL: observed.spec.cluster, CANARY_LABEL: group}
    services = await environment.kube.find("Service", namespace, labels)
    hosts = [host for service in services if (host := _host(service, namespace))]
    answers = await asyncio.gather(
        *(_gaps_of_canary(environment, host, group) for host in hosts[:CANARIES_MAX])
    )
    return [one for one in answers if one is not None]


async def _gaps_of_canary(environment: Environment, host: str, group: str) -> CanaryGaps | None:
    try:
        return parse_canary_gaps(await environment.canaries.gaps(host), group)
    except (PeerUnavailableError, ObservationError) as error:
        _LOG.info("%s", error)
        return None


def _host(service: Json, namespace: str) -> str:
    ports = service.get("spec", {}).get("ports") or []
    return f"{service['metadata']['name']}.{namespace}.svc:{ports[0]['port']}" if ports else ""
