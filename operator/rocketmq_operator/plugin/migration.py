"""Carries a migration out: looks at the world, asks the plan, writes what it says, and looks again.

This module makes no decisions. It stores only how long the logs have been unchanged, and each call restarts
that count. A new pod replaces a pod of the same name from an earlier call: its work is repeatable.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from controller_core import bounded_json
from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.api.names import CLUSTER_KIND, GROUP_KIND
from rocketmq_operator.clients.api import Json, KubeConflictError
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.migration import pods as migration_pods
from rocketmq_operator.plan.migration.observed import (
    BrokerRecord,
    BrokerReport,
    MigrationRequest,
    ObservedMigration,
    OldMember,
    StoreInClaim,
    locate_store,
    stateful_set_of,
)
from rocketmq_operator.plan.migration.step_types import MigrationPlan
from rocketmq_operator.plan.migration.steps import migration_plan
from rocketmq_operator.plan.migration.undo import undo_plan
from rocketmq_operator.plan.migration.writes import CreateObject, DeleteObject, PatchObject, RunPod, Write
from rocketmq_operator.plugin.queries import RequestError

POLL_S: Final = 2.0
WRITES_MAX: Final = 60
"""Of one step: far more than any has."""
_COLLIDING_KINDS: Final = ("StatefulSet", "Service", "ConfigMap")
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class MigrationServer(Protocol):
    """The required part of the API server's client; `clients.kube.KubeClient` implements it."""

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, None if it does not exist; without a namespace, one that is in none."""
        ...

    async def create(self, body: Json) -> Json:
        """Create an object; raise `KubeConflictError` if it exists."""
        ...

    async def patch(self, kind: str, namespace: str, name: str, body: Json) -> Json:
        """Write these fields and no other; None removes one."""
        ...

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete that very object."""
        ...


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """How it is gone about.

    Attributes:
        say: takes a line for the person.
        confirm: asks the person; None to go on without.
        dry_run: say what would be done, and do nothing.
        one_step: end after one step.
        undo: go back.
        timeout_s: how long a step may wait.
        poll_s: between two looks while something is waited for.
    """

    say: Callable[[str], None]
    confirm: Callable[[str], Awaitable[bool]] | None = None
    dry_run: bool = False
    one_step: bool = False
    undo: bool = False
    timeout_s: float = 600.0
    poll_s: float = POLL_S


class MigrationRun:
    """One call of the command."""

    def __init__(self, server: MigrationServer, request: MigrationRequest, options: MigrationOptions) -> None:
        """Store the API server, the request, and the options."""
        self._server: Final = server
        self._request: Final = request
        self._options: Final = options
        self._ends: dict[str, int] = {}
        self._ends_since_s = time.monotonic()

    async def run(self) -> MigrationPlan:
        """Continue to the end or to the requested step; return the final state.

        Raises:
            RequestError: something is in the way, or did not come in time; the text says what.
            PeerUnavailableError: the API server is.
        """
        step: str | None = None
        confirmed = waited_for = ""
        writes = 0
        since_s = time.monotonic()
        while True:
            plan = await self.observe()
            if step is None:
                self._list_steps(plan)
            elif step != plan.step:
                self._options.say(f"done: {_title(plan, step)}")
            if step != plan.step:
                if self._options.one_step and step is not None:
                    return plan
                step, writes, waited_for, since_s = plan.step, 0, "", time.monotonic()
            if not plan.step or self._options.dry_run:
                return self._describe_next(plan)
            if plan.action.obstacle:
                raise RequestError(plan.action.obstacle)
            if plan.action.writes:
                confirmed = await self._confirmed(plan, confirmed)
                for write in plan.action.writes:
                    await self._write(write)
                writes += len(plan.action.writes)
            if writes > WRITES_MAX or not (plan.action.writes or plan.action.wait):
                raise RequestError(f"{plan.title}: {writes} writes did not bring it about")
            if plan.action.wait:
                waited_for = await self._wait_a_moment(plan.action.wait, waited_for, since_s)

    async def _wait_a_moment(self, wait: str, previous: str, since_s: float) -> str:
        """Wait a moment for something, and say so when it is another thing than before; return what it is."""
        if wait != previous:
            self._options.say(f"  waits: {wait}")
        if time.monotonic() - since_s > self._options.timeout_s:
            raise RequestError(f"not in {self._options.timeout_s:g} s: {wait}")
        await asyncio.sleep(self._options.poll_s)
        return wait

    def _list_steps(self, plan: MigrationPlan) -> None:
        for number, (_, title, is_done) in enumerate(plan.steps, 1):
            self._options.say(f"{number:>2} {'done' if is_done else 'left'}  {title}")

    def _describe_next(self, plan: MigrationPlan) -> MigrationPlan:
        """Say what would come next; nothing if all is done."""
        if not plan.step:
            return plan
        self._options.say(f"next: {plan.title}")
        if plan.action.obstacle or plan.action.wait:
            self._options.say(f"  in the way: {plan.action.obstacle or plan.action.wait}")
        for write in plan.action.writes:
            self._options.say(f"  {write}")
        return plan

    async def _confirmed(self, plan: MigrationPlan, previous: str) -> str:
        """Ask before the first write of each step; return the step."""
        if plan.step == previous:
            return previous
        self._options.say(f"next: {plan.title}")
        for write in plan.action.writes:
            self._options.say(f"  {write}")
        if self._options.confirm is not None and not await self._options.confirm(f"{plan.step}?"):
            raise RequestError(f"{plan.title}: not confirmed, nothing of it was done")
        return plan.step

    async def observe(self) -> MigrationPlan:
        """Look at everything and return where it stands."""
        observed = await self._observed()
        return undo_plan(observed) if self._options.undo else migration_plan(observed)

    async def _observed(self) -> ObservedMigration:
        request = self._request
        spec = request.spec
        cluster, group, colliding = await asyncio.gather(
            self._server.get(CLUSTER_KIND.kind, request.namespace, spec.cluster),
            self._server.get(GROUP_KIND.kind, request.namespace, request.group),
            self._colliding_objects(),
        )
        members = [await self._member(number, pod) for number, pod in enumerate(request.pods)]
        observed = ObservedMigration(
            request=request,
            cluster=cluster,
            group=group,
            colliding_objects=() if group is not None else colliding,
            members=tuple(members),
        )
        if cluster is None or observed.is_migrated:
            return observed
        if any(one.address for one in observed.surveyed):
            observed = await self._surveyed(observed)
        elif migration_plan(observed).step == "prove":
            observed = replace(observed, new_master_report=await self._new_master(observed))
        return await self._with_volumes(observed)

    async def _colliding_objects(self) -> tuple[str, ...]:
        request = self._request
        found = [
            (kind, await self._server.get(kind, request.namespace, request.group))
            for kind in _COLLIDING_KINDS
        ]
        return tuple(f"{kind} {request.group}" for kind, live in found if live is not None)

    async def _member(self, number: int, pod: str) -> OldMember:
        namespace = self._request.namespace
        member = names.member(self._request.group, number)
        stateful_set, live, new_claim = await asyncio.gather(
            self._server.get("StatefulSet", namespace, stateful_set_of(pod)),
            self._server.get("Pod", namespace, pod),
            self._server.get("PersistentVolumeClaim", namespace, names.claim(member)),
        )
        found = OldMember(
            pod=pod,
            member=member,
            namespace=namespace,
            stateful_set=stateful_set,
            live=live,
            new_claim=new_claim,
        )
        return await self._with_volume(found)

    async def _with_volumes(self, observed: ObservedMigration) -> ObservedMigration:
        """Find the volumes of brokers that reported where their stores lie.

        A broker that is not asked has its master's paths.
        """
        members = []
        for one in observed.members:
            report = one.report or observed.first.report
            if report is not None and one.stateful_set is not None:
                location = locate_store(one.stateful_set, one.pod, report.store, report.commit_log)
                members.append(await self._with_volume(replace(one, store_location=location)))
            else:
                members.append(one)
        return replace(observed, members=tuple(members))

    async def _with_volume(self, member: OldMember) -> OldMember:
        """Find the volume by the note, else by the broker's report."""
        location: BrokerRecord | StoreInClaim | str | None = member.record or member.store_location
        if location is None or isinstance(location, str):
            return member
        claim = await self._server.get("PersistentVolumeClaim", member.namespace, location.claim)
        name = (
            location.volume
            if isinstance(location, BrokerRecord)
            else (claim or {}).get("spec", {}).get("volumeName", "")
        )
        volume = await self._server.get("PersistentVolume", "", name) if name else None
        return replace(member, old_claim=claim, volume=volume)

    async def _surveyed(self, observed: ObservedMigration) -> ObservedMigration:
        """Ask the old brokers that run."""
        running = {
            join_host_port(one.address, self._request.port): one for one in observed.surveyed if one.address
        }
        by_dledger = self._request.old_kind.value == "dledger"
        body = migration_pods.survey_pod(
            observed, tuple(running), unread=by_dledger and not self._options.undo
        )
        survey = _parse_message(body, await self._run_pod(body, (0,)))
        reports, problems = {}, {}
        for one in survey["brokers"]:
            pod = running[one["address"]].pod
            if "problem" in one:
                problems[pod] = one["problem"]
            else:
                reports[pod] = BrokerReport.of(one)
        ends = {pod: one.max_offset for pod, one in reports.items()}
        if ends != self._ends:
            self._ends, self._ends_since_s = ends, time.monotonic()
        members = tuple(
            replace(one, report=reports.get(one.pod), no_report_reason=problems.get(one.pod, ""))
            for one in observed.members
        )
        unread = tuple(map(_unread_text, survey["unread"])) if "unread" in survey else None
        unchanged_s = time.monotonic() - self._ends_since_s
        return replace(observed, members=members, unread=unread, unchanged_s=unchanged_s)

    async def _new_master(self, observed: ObservedMigration) -> BrokerReport | None:
        host = names.pod_host(self._request.group, 0, self._request.namespace)
        body = migration_pods.new_master_pod(observed, f"{host}:{names.BROKER_PORT}")
        (answer,) = _parse_message(body, await self._run_pod(body, (0,)))["brokers"]
        return None if "problem" in answer else BrokerReport.of(answer)

    async def _write(self, write: Write) -> None:
        match write:
            case PatchObject():
                await self._server.patch(write.kind, write.namespace, write.name, write.body)
            case CreateObject():
                await self._server.create(write.body)
            case DeleteObject():
                await self._server.delete(write.kind, write.namespace, write.name, write.uid)
            case RunPod():
                message = _parse_message(write.body, await self._run_pod(write.body, write.statuses))
                if write.volume:
                    text = json.dumps(message, separators=(",", ":"))
                    body = {"metadata": {"annotations": {write.key: text}}}
                    await self._server.patch("PersistentVolume", "", write.volume, body)

    async def _run_pod(self, body: Json, statuses: Sequence[int]) -> str:
        """Run a pod to its end, remove it, and return what it said.

        Raises:
            RequestError: it ended otherwise, or does not begin.
        """
        await self._remove_pod(body)
        try:
            made = await self._server.create(body)
        except KubeConflictError as error:
            name = body["metadata"]["name"]
            raise RequestError(
                f"somebody else migrates {self._request.group}: pod {name} appeared during this call"
            ) from error
        began_s = time.monotonic()
        while True:
            pod = await self._server.get("Pod", self._request.namespace, body["metadata"]["name"]) or made
            phase = pod.get("status", {}).get("phase")
            if phase in _ENDED:
                break
            if phase != "Running" and time.monotonic() - began_s > self._options.timeout_s:
                raise RequestError(f"pod {body['metadata']['name']} does not begin: {_why_not(pod)}")
            await asyncio.sleep(min(self._options.poll_s, 0.5))
        await self._remove_pod(body)
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        text = str(ended.get("message", ""))
        if ended["exitCode"] not in statuses:
            raise RequestError(f"{body['metadata']['name']} ended with {ended['exitCode']}: {text.strip()}")
        return text

    async def _remove_pod(self, body: Json) -> None:
        """Remove a pod of that name and wait until it is gone.

        Raises:
            RequestError: it does not go.
        """
        name = body["metadata"]["name"]
        began_s = time.monotonic()
        while (live := await self._server.get("Pod", self._request.namespace, name)) is not None:
            if not live["metadata"].get("deletionTimestamp"):
                await self._server.delete("Pod", self._request.namespace, name, live["metadata"]["uid"])
            if time.monotonic() - began_s > self._options.timeout_s:
                raise RequestError(f"pod {name} does not go: its node does not answer")
            await asyncio.sleep(min(self._options.poll_s, 0.5))


def _parse_message(body: Json, text: str) -> Json:
    """Return what a pod said; of a message Kubernetes keeps 4,096 bytes.

    Raises:
        RequestError: it is not a JSON object, or its end is missing.
    """
    try:
        return bounded_json.decode_object(text)
    except ValueError as error:
        name = body["metadata"]["name"]
        raise RequestError(f"{name} sent an unreadable answer: {text.strip()[:200]!r}: {error}") from error


def _title(plan: MigrationPlan, name: str) -> str:
    return next((title for its_name, title, _ in plan.steps if its_name == name), name)


def _unread_text(one: Mapping[str, Any]) -> str:
    if one["group"]:
        return f"{one['group']} has not read {one['messages']:,} messages of {one['topic']}"
    return f"nobody reads {one['topic']}, which holds {one['messages']:,} messages"


def _why_not(pod: Json) -> str:
    conditions = pod.get("status", {}).get("conditions") or []
    texts = [one["message"] for one in conditions if one.get("status") == "False" and one.get("message")]
    waiting = [
        one.get("state", {}).get("waiting", {})
        for one in pod.get("status", {}).get("containerStatuses") or []
    ]
    texts += [f"{one.get('reason', '')} {one.get('message', '')}".strip() for one in waiting if one]
    return "; ".join(texts) or "Kubernetes does not say why"
