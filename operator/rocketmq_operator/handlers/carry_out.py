"""Carry out one step of a plan, and write statuses.

These are the only writes that a pass makes, each only while the Lease is held.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from controller_core.access.signing import Credentials
from rocketmq_operator.api.names import API_VERSION, CLUSTER_KIND, FAILOVER_KIND
from rocketmq_operator.clients.api import Json, KubeApi, RequestRefusedError, RetryLaterError
from rocketmq_operator.clients.certificates import CertificateError
from rocketmq_operator.handlers.certificates import authority_secret, issued_secret
from rocketmq_operator.handlers.kinds import ObservedResource
from rocketmq_operator.handlers.leadership import NotLeadingError
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment, controllers_for
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common.actions import (
    Apply,
    ApplyStatus,
    ChangeMembers,
    Delete,
    DeleteMetadata,
    DeleteRoute,
    Designate,
    IssueCertificates,
    RotateCredentials,
    Step,
    Wait,
    WriteAuthority,
    WriteMetadata,
)
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.metadata.observed import ObservedMetadata

_EFFECT_ELSEWHERE: Final = frozenset({"StatefulSet", "Deployment", FAILOVER_KIND.kind, CLUSTER_KIND.kind})
"""Kinds whose change shows in more than the answer to the write: pods come and go; a record, and the cluster
itself, are not children."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass needs beside the world.

    Attributes:
        may_act: whether this operator holds the Lease now; asked before every write.
        on_group: called with each observed group, for components that must act faster than a pass.
        on_step: called with each step that was done.
    """

    environment: Environment
    may_act: Callable[[], bool] = lambda: True
    on_group: Callable[[ObservedGroup], None] = lambda _: None
    on_step: Callable[[Step], None] = lambda _: None


async def carry_out(
    context: PassContext, observed: ObservedResource, step: Step
) -> tuple[Json | None, Wait | None]:
    """Do one step, and return a child as it was written.

    The second value says why a peer refused, which a person must read in the status.
    """
    if not context.may_act():
        raise NotLeadingError
    owner = observed.owner
    _LOG.info("%s %s/%s: %s", owner.kind, owner.namespace, owner.name, step)
    try:
        written = await _execute(context, observed, step)
    except RequestRefusedError as error:
        _LOG.warning("%s %s/%s: %s: %s", owner.kind, owner.namespace, owner.name, step, error)
        return None, Wait("StepRefused", f"{step}: {error}")
    except RetryLaterError as error:
        if not isinstance(step, ChangeMembers):
            raise
        return None, Wait("ControllersBusy", f"{step}: {error}")
    context.on_step(step)
    return written, None


async def _execute(context: PassContext, observed: ObservedResource, step: Step) -> Json | None:
    """Do one step; return a child as it is then, if one was written."""
    kube = context.environment.kube
    match step:
        case RotateCredentials(body=body):
            await kube.apply(body)
        case Apply(body=body):
            written = await kube.apply(body)
            return None if body["kind"] in _EFFECT_ELSEWHERE else written
        case ApplyStatus(body=body):
            await kube.apply_status(body)
        case Delete(key=key, uid=uid, by_force=by_force):
            await kube.delete(key.kind, observed.owner.namespace, key.name, uid, by_force=by_force)
        case Designate(broker_id=broker_id):
            await _designate(context, observed, broker_id)
        case ChangeMembers(action=action, member=member):
            await _change_members(context, observed, action, member)
        case WriteMetadata(kind=kind, address=address, config=config):
            await context.environment.brokers.write(address, kind, config, _credentials(observed))
        case DeleteMetadata(kind=kind, name=name, address=address):
            await context.environment.brokers.delete(address, kind, name, _credentials(observed))
        case WriteAuthority() | IssueCertificates():
            await kube.apply(_certificates(observed, step))
        case DeleteRoute(cluster=cluster, topic=topic, address=address):
            await context.environment.brokers.delete_route(address, cluster, topic)
    return None


def _credentials(observed: ObservedResource) -> Credentials | None:
    if isinstance(observed, ObservedCluster):
        return observed.secrets.users.current
    return observed.credentials if isinstance(observed, ObservedMetadata) else None


def _certificates(observed: ObservedResource, step: WriteAuthority | IssueCertificates) -> Json:
    if not isinstance(observed, ObservedCluster):
        raise TypeError(f"cannot make certificates of a {observed.owner.kind}")
    try:
        if isinstance(step, WriteAuthority):
            return authority_secret(observed, step)
        return issued_secret(observed, step)
    except CertificateError as error:
        raise RequestRefusedError(str(error)) from error


async def _designate(context: PassContext, observed: ObservedResource, broker_id: int) -> None:
    if not isinstance(observed, ObservedGroup):
        raise TypeError(f"cannot designate a master of a {observed.owner.kind}")
    controllers = await controllers_for(context.environment, observed)
    await controllers.designate(observed.spec.cluster, observed.owner.name, broker_id)


async def _change_members(context: PassContext, observed: ObservedResource, action: str, member: str) -> None:
    if not isinstance(observed, ObservedCluster):
        raise TypeError(f"cannot change controllers of a {observed.owner.kind}")
    owner = observed.owner
    controllers = context.environment.controllers_of(owner.namespace, owner.name, observed.secrets.token)
    await controllers.change_members(action, member)


async def write_status(context: PassContext, observed: ObservedResource, status: BaseModel) -> None:
    """Write a resource's status if it says something new."""
    new = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    previous = observed.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    if new != previous:
        if not context.may_act():
            raise NotLeadingError
        await apply_status(
            context.environment.kube, observed.owner.kind, observed.owner.namespace, observed.owner.name, new
        )


async def apply_status(kube: KubeApi, kind: str, namespace: str, name: str, status: Json) -> None:
    """Write a status as it is."""
    metadata = {"name": name, "namespace": namespace}
    await kube.apply_status({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status})
