"""Carry out one step of a plan, and write statuses: the only writes that a pass makes, each only while the Lease is held."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from rocketmq_operator.api.names import API_VERSION, FAILOVER_KIND
from rocketmq_operator.clients.api import Json, Kube, NotYetError, RefusedError
from rocketmq_operator.handlers.kinds import Observed
from rocketmq_operator.handlers.leadership import NotLeadingError
from rocketmq_operator.handlers.observe import World, controllers_for
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common.actions import (
    Apply,
    ApplyStatus,
    ChangeMembers,
    Delete,
    DeleteMetadata,
    DeleteRoute,
    Designate,
    Step,
    Wait,
    WriteMetadata,
)
from rocketmq_operator.plan.group.observed import ObservedGroup

_MOVES_MORE: Final = frozenset({"StatefulSet", "Deployment", FAILOVER_KIND.kind})
"""Kinds whose change shows in more than the answer to the write: pods come and go; a record is not a child."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shell:
    """What a pass needs beside the world.

    Attributes:
        may_act: whether this operator holds the Lease now; asked before every write.
        on_group: called with each observed group, for components that must act faster than a pass.
        on_step: called with each step that was done.
    """

    world: World
    may_act: Callable[[], bool] = lambda: True
    on_group: Callable[[ObservedGroup], None] = lambda _: None
    on_step: Callable[[Step], None] = lambda _: None


async def carry_out(shell: Shell, observed: Observed, step: Step) -> tuple[Json | None, Wait | None]:
    """Do one step; return a child as it was written, and why a peer would not have it, which a person must read in the status."""
    if not shell.may_act():
        raise NotLeadingError
    owner = observed.owner
    _LOG.info("%s %s/%s: %s", owner.kind, owner.namespace, owner.name, step)
    try:
        written = await _do(shell, observed, step)
    except RefusedError as error:
        _LOG.warning("%s %s/%s: %s: %s", owner.kind, owner.namespace, owner.name, step, error)
        return None, Wait("StepRefused", f"{step}: {error}")
    except NotYetError as error:
        if not isinstance(step, ChangeMembers):
            raise
        return None, Wait("ControllersBusy", f"{step}: {error}")
    shell.on_step(step)
    return written, None


async def _do(shell: Shell, observed: Observed, step: Step) -> Json | None:
    """Do one step; return a child as it is then, if one was written."""
    kube = shell.world.kube
    match step:
        case Apply(body=body):
            written = await kube.apply(body)
            return None if body["kind"] in _MOVES_MORE else written
        case ApplyStatus(body=body):
            await kube.apply_status(body)
        case Delete(key=key, uid=uid, by_force=by_force):
            await kube.delete(key.kind, observed.owner.namespace, key.name, uid, by_force=by_force)
        case Designate(broker_id=broker_id):
            await _designate(shell, observed, broker_id)
        case ChangeMembers(action=action, member=member):
            await _change_members(shell, observed, action, member)
        case WriteMetadata(kind=kind, address=address, config=config):
            await shell.world.brokers.write(address, kind, config)
        case DeleteMetadata(kind=kind, name=name, address=address):
            await shell.world.brokers.delete(address, kind, name)
        case DeleteRoute(cluster=cluster, topic=topic, address=address):
            await shell.world.brokers.delete_route(address, cluster, topic)
    return None


async def _designate(shell: Shell, observed: Observed, broker_id: int) -> None:
    if not isinstance(observed, ObservedGroup):
        raise TypeError(f"cannot designate a master of a {observed.owner.kind}")
    controllers = await controllers_for(shell.world, observed)
    await controllers.designate(observed.spec.cluster, observed.owner.name, broker_id)


async def _change_members(shell: Shell, observed: Observed, action: str, member: str) -> None:
    if not isinstance(observed, ObservedCluster):
        raise TypeError(f"cannot change controllers of a {observed.owner.kind}")
    owner = observed.owner
    controllers = shell.world.controllers_of(owner.namespace, owner.name, observed.token)
    await controllers.change_members(action, member)


async def write_status(shell: Shell, observed: Observed, status: BaseModel) -> None:
    """Write a resource's status if it says something new."""
    new = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    before = observed.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    if new != before:
        if not shell.may_act():
            raise NotLeadingError
        await apply_status(
            shell.world.kube, observed.owner.kind, observed.owner.namespace, observed.owner.name, new
        )


async def apply_status(kube: Kube, kind: str, namespace: str, name: str, status: Json) -> None:
    """Write a status as it is."""
    metadata = {"name": name, "namespace": namespace}
    await kube.apply_status({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status})
