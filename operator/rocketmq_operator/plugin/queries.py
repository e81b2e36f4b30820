"""What the plugin asks of the API server about groups.

The one thing that it writes there is the request for a switchover.

Whoever types has their own rights: nothing here goes past them, and nothing speaks to a controller or a
broker.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from rocketmq_operator.api.broker_group import BrokerGroupStatus, MemberStatus
from rocketmq_operator.api.names import (
    CLUSTER_KIND,
    FAILOVER_KIND,
    GROUP_KIND,
    GROUP_LABEL,
    SWITCHOVER_ANNOTATION,
)
from rocketmq_operator.clients.api import Json, RequestRefusedError
from rocketmq_operator.plan.group.switchover import SwitchoverRequest
from rocketmq_operator.plugin.rendering import GroupOverview, is_reelection, newest_first

POLL_S: Final = 0.2


class RequestError(Exception):
    """The request is invalid here; the text names the value and the reason."""


class GroupServer(Protocol):
    """The required part of the API server's client; `clients.kube.KubeClient` implements it."""

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, None if it does not exist."""
        ...

    async def find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the objects of a kind with these labels."""
        ...

    async def create(self, body: Json) -> Json:
        """Create an object."""
        ...

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> Json:
        """Write these annotations; None removes one."""
        ...


@dataclass(frozen=True, slots=True)
class SwitchoverResult:
    """A switchover that was done; `took_s` from the wish to the status that tells of it."""

    group: str
    old_master: str
    new_master: str
    epoch: int
    took_s: float


async def list_groups(server: GroupServer, namespace: str) -> list[GroupOverview]:
    """Return every group of a namespace, without related objects."""
    now = datetime.now(UTC)
    groups = await server.find(GROUP_KIND.kind, namespace, {})
    return [GroupOverview(resource=group, nodes={}, failover=None, events=(), now=now) for group in groups]


async def observe_group(server: GroupServer, namespace: str, name: str) -> GroupOverview:
    """Return a group and its related objects.

    Raises:
        RequestError: no such group.
    """
    group = await _group(server, namespace, name)
    mine = {GROUP_LABEL: name}
    cluster, pods, failovers, events = await asyncio.gather(
        server.get(CLUSTER_KIND.kind, namespace, group["spec"]["cluster"]),
        server.find("Pod", namespace, mine),
        server.find(FAILOVER_KIND.kind, namespace, mine),
        server.find("Event", namespace, {}),
    )
    uid = group["metadata"].get("uid")
    return GroupOverview(
        resource=group,
        nodes={pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods},
        failover=next((one for one in newest_first(failovers) if not is_reelection(one)), None),
        events=[event for event in events if event.get("regarding", {}).get("uid") == uid],
        now=datetime.now(UTC),
        cluster=cluster,
    )


async def check_namespace(server: GroupServer, namespace: str) -> None:
    """Refuse a namespace that does not exist: the API server answers for one as if it were empty.

    A user without permission to read namespaces gets no error.

    Raises:
        RequestError: no such namespace.
    """
    try:
        found = await server.get("Namespace", "", namespace)
    except RequestRefusedError:
        return
    if found is None:
        raise RequestError(f"namespace {namespace} does not exist")


async def failovers_of(server: GroupServer, namespace: str, name: str | None) -> list[Json]:
    """Return the Failovers of a group, or of all.

    Those of a deleted group are listed for as long as they exist.

    Raises:
        RequestError: there is neither such a group nor a Failover of it.
    """
    if name is None:
        return await server.find(FAILOVER_KIND.kind, namespace, {})
    found = await server.find(FAILOVER_KIND.kind, namespace, {GROUP_LABEL: name})
    if not found:
        await _group(server, namespace, name)
    return found


async def switch_over(
    server: GroupServer, namespace: str, name: str, to: str, timeout_s: float
) -> SwitchoverResult | None:
    """Ask for a switchover and wait until it is done; None if `to` is master already.

    After the timeout the command withdraws the request, so that the operator does not fulfil it later.

    Raises:
        RequestError: no such group or member, it cannot be master now, or it did not come in time.
    """
    group = await _group(server, namespace, name)
    status = _status(group)
    previous = status.master
    if to and to == previous.name:
        return None
    _check(group, status, to)
    annotations = {SWITCHOVER_ANNOTATION: str(SwitchoverRequest(previous.epoch, to))}
    started_s = time.monotonic()
    await server.annotate(GROUP_KIND.kind, namespace, name, annotations)
    while time.monotonic() - started_s < timeout_s:
        status = _status(await _group(server, namespace, name))
        if status.master.epoch > previous.epoch and status.master.name:
            took_s = time.monotonic() - started_s
            return SwitchoverResult(name, previous.name, status.master.name, status.master.epoch, took_s)
        await asyncio.sleep(POLL_S)
    await server.annotate(GROUP_KIND.kind, namespace, name, {SWITCHOVER_ANNOTATION: None})
    why = f": {status.plan.waiting_for}" if status.plan.waiting_for else ""
    raise RequestError(f"{name} was not switched over within {timeout_s:g} s, the wish is taken back{why}")


def _check(group: Json, status: BrokerGroupStatus, to: str) -> None:
    """Refuse what the operator could not do now either."""
    name = group["metadata"]["name"]
    if group["spec"].get("paused"):
        raise RequestError(f"{name} is paused (spec.paused): the operator changes nothing")
    if not status.master.name:
        raise RequestError(f"no master of {name} to switch over from: {status.reason or 'unknown why'}")
    known = {member.name: member for member in status.members}
    if to and to not in known:
        raise RequestError(f"--to {to}: not a member of {name}; its members are {', '.join(known)}")
    if to:
        if problem := _why_unfit(known[to]):
            raise RequestError(f"--to {to}: {problem}")
    elif all(map(_why_unfit, status.members)):
        raise RequestError(f"no other broker of {name} is ready and in sync")


def _why_unfit(member: MemberStatus) -> str:
    """Say why a member cannot be made master; empty if it can."""
    if member.role == "Log":
        return "a log replica cannot be master"
    if member.role != "Slave":
        return f"it is {member.role.lower()}, not a slave"
    if not member.in_sync:
        return "it is not in the SyncStateSet"
    return "" if member.ready else "its pod is not ready"


async def _group(server: GroupServer, namespace: str, name: str) -> Json:
    group = await server.get(GROUP_KIND.kind, namespace, name)
    if group is None:
        raise RequestError(f"BrokerGroup {name} does not exist in namespace {namespace}")
    return group


def _status(group: Json) -> BrokerGroupStatus:
    return BrokerGroupStatus.model_validate(group.get("status") or {})
