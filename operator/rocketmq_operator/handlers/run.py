"""Start everything and keep it running: `rocketmq-operator run`."""

import asyncio
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import aiohttp

from controller_core.tls.dialling import dial_in_tls
from rocketmq_operator.api.names import GROUP_KIND
from rocketmq_operator.clients.api import ControllerApi, PeerUnavailableError
from rocketmq_operator.clients.brokers import BrokersClient
from rocketmq_operator.clients.canaries_and_companions import CanariesClient, CompanionsClient
from rocketmq_operator.clients.controllers import ControllersClient
from rocketmq_operator.clients.controllers_trust import ControllersTrust
from rocketmq_operator.clients.kube import KubeClient, connect, missing_kinds
from rocketmq_operator.clients.reflection import OURS, SILENT_MAX_S, Reflections
from rocketmq_operator.clients.resolver import ServiceResolver
from rocketmq_operator.clients.stream import HttpStream, Stream
from rocketmq_operator.handlers.carry_out import PassContext
from rocketmq_operator.handlers.changes import ChangeReceivers, ChangeRouter
from rocketmq_operator.handlers.leadership import HEARD_MAX_S, LeaseHolder
from rocketmq_operator.handlers.metrics import HealthServer, OperatorMetrics
from rocketmq_operator.handlers.observing.clusters_and_groups import (
    Environment,
    InvalidSpecError,
    cluster_spec,
    observe_group,
)
from rocketmq_operator.handlers.other_operators import OtherOperators
from rocketmq_operator.handlers.quiet import quiet_delay_s
from rocketmq_operator.handlers.reconcile import reconcile
from rocketmq_operator.handlers.scheduler import PassScheduler, ResourceName
from rocketmq_operator.handlers.takeover import Takeover
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.endpoints import controllers_home
from rocketmq_operator.plan.report.allowed import NOTHING_ALLOWED, AllowedInReports

TAKEOVER_THREADS: Final = 4
TOKEN_BYTES: Final = 32
WATCH_DEAD_S: Final = 2 * SILENT_MAX_S
"""Twice what it takes a watch to be renewed: nothing but a restart will mend it."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How an operator is started.

    Attributes:
        namespaces: those that are watched; empty for all.
        lease_namespace: where the Lease is.
        http_host: where health and metrics are served.
        http_port: 0 for any.
        allowed_in_reports: images, claims and accounts that SLOReports may name.
    """

    namespaces: Sequence[str]
    lease_namespace: str
    http_host: str
    http_port: int
    allowed_in_reports: AllowedInReports = NOTHING_ALLOWED


class ControllerFollowers:
    """Follows the events of every controller of every cluster that there is.

    Why every one, and not one that answers: each tells the same, the first to tell is soonest, and one that
    froze with an open stream is not missed.
    """

    def __init__(self, takeover: Takeover, session: aiohttp.ClientSession, trust: ControllersTrust) -> None:
        """Store the receiver of the events, the HTTP session and how controllers are reached."""
        self._trust: Final = trust
        self._takeover: Final = takeover
        self._session: Final = session
        self._tasks: Final[dict[tuple[str, str], list[asyncio.Task[None]]]] = {}

    def cluster_exists(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """Follow a cluster's controllers, once; an unreadable spec yields no controllers."""
        try:
            spec = cluster_spec(dict(body))
        except InvalidSpecError:
            return
        home = controllers_home(name, namespace, spec)
        # How many another cluster has, its own spec says: one that is not there costs an attempt every 5 s.
        count = spec.controllers.replicas if spec.controllers.ref is None else names.CONTROLLERS_MAX
        if len(self._tasks.get((namespace, name), ())) == count:
            return
        self.cluster_gone(namespace, name)
        self._tasks[namespace, name] = [
            asyncio.create_task(
                self._takeover.follow(
                    namespace,
                    name,
                    ControllersClient(self._session, [host], ways=partial(self._trust.ways, *home)),
                ),
                name=f"events of {host}",
            )
            for host in _http_hosts(*home, count)
        ]

    def cluster_gone(self, namespace: str, name: str) -> None:
        """Stop following."""
        for task in self._tasks.pop((namespace, name), ()):
            task.cancel()

    def stop(self) -> None:
        """Stop following all."""
        for namespace, name in list(self._tasks):
            self.cluster_gone(namespace, name)


class Operator:
    """The parts of one operator process, connected."""

    def __init__(
        self,
        kube: KubeClient,
        fast_kube: KubeClient,
        stream: Stream,
        session: aiohttp.ClientSession,
        options: Options,
    ) -> None:
        """Connect the parts; nothing runs yet."""
        self._options: Final = options
        self._clients: Final[dict[tuple[str, str, str], ControllerApi]] = {}
        self._session: Final = session
        identity = f"{socket.gethostname()}_{os.getpid()}"
        self.leadership: Final = LeaseHolder(kube, options.lease_namespace, identity, _now, time.monotonic)
        self.others: Final = OtherOperators(
            kube, options.lease_namespace, whole_cluster=not options.namespaces
        )
        self.metrics: Final = OperatorMetrics(self._may_act)
        self.work: Final = PassScheduler(self._pass, self._may_act, self._observe_group, self._quiet)
        self.takeover: Final = Takeover(
            fast_kube,
            self._may_act,
            self._wake_group,
            self.metrics.takeover_duration.observe,
            hold=self._hold_group,
        )
        self._trust: Final = ControllersTrust(dial_in_tls)
        self.following: Final = ControllerFollowers(self.takeover, session, self._trust)
        receivers = ChangeReceivers(self.work, self.takeover, self.following, self.metrics.note_group)
        changes = ChangeRouter(receivers)
        self.reflections: Final = Reflections(
            kube, stream, options.namespaces, time.monotonic, on_change=changes.route
        )
        environment = Environment(
            kube,
            self._controllers,
            _now,
            lambda: secrets.token_urlsafe(TOKEN_BYTES),
            CanariesClient(session),
            CompanionsClient(session),
            BrokersClient(),
            allowed_in_reports=options.allowed_in_reports,
            trust=self._trust,
            note_certificates=self.metrics.note_certificates,
        )
        self._cached: Final = replace(environment, kube=self.reflections)
        self._context: Final = PassContext(
            environment,
            self._may_act,
            self.takeover.note_group,
            lambda step: self.metrics.steps.labels(step=type(step).__name__).inc(),
        )
        # Why the Lease and not the passes: a standby operator, or one without resources, makes no passes.
        self.health: Final = HealthServer(
            self.metrics,
            lambda: self.leadership.silence_s < HEARD_MAX_S,
            lambda: not are_watches_dead(self.reflections.silence_s, self.leadership.heard_for_s),
            lambda: self.reflections.missing,
            lambda: self.others.problem,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`; then give the Lease away."""
        port = await self.health.start(self._options.http_host, self._options.http_port)
        _LOG.info("health and metrics on port %d", port)
        lease = asyncio.create_task(self.leadership.run(), name="lease")
        # Why: an operator that no longer asks for the Lease is of no use; Kubernetes starts another.
        lease.add_done_callback(lambda _: stop.set())
        reflecting = asyncio.create_task(self.reflections.run(), name="reflections")
        reflecting.add_done_callback(lambda _: stop.set())
        watching_others = asyncio.create_task(self.others.run(), name="other operators")
        try:
            await stop.wait()
        finally:
            await self._hand_over(lease)
            reflecting.cancel()
            watching_others.cancel()
            self.following.stop()
            await self.work.stop()
            await self.health.stop()
            for ended in await asyncio.gather(lease, reflecting, watching_others, return_exceptions=True):
                if isinstance(ended, Exception):
                    _LOG.error("the operator ended because a part of it broke", exc_info=ended)

    def _may_act(self) -> bool:
        return self.leadership.may_act() and self.others.may_act()

    async def _hand_over(self, lease: asyncio.Task[None]) -> None:
        """Give the Lease away: the first thing that a stopping operator does."""
        lease.cancel()
        # First stop the passes: this operator must not write after another one takes the Lease.
        await self.work.stop()
        await self.leadership.release()

    async def _pass(self, resource: ResourceName) -> float | None:
        started_s = time.monotonic()
        result = "failed"
        try:
            delay = await reconcile(self._context, *resource)
            result = "done"
            return delay
        finally:
            self.metrics.passes.labels(kind=resource.kind, result=result).inc()
            self.metrics.pass_duration.labels(kind=resource.kind).observe(time.monotonic() - started_s)

    async def _quiet(self, resource: ResourceName) -> float | None:
        started_s = time.monotonic()
        delay = await quiet_delay_s(self._cached, *resource)
        if delay is not None:
            self.metrics.passes.labels(kind=resource.kind, result="quiet").inc()
            self.metrics.pass_duration.labels(kind=resource.kind).observe(time.monotonic() - started_s)
        return delay

    async def _observe_group(self, resource: ResourceName) -> None:
        """Keep what a group looks like now, for a takeover in the acting operator's place."""
        if resource.kind != GROUP_KIND.kind:
            return
        observed = await observe_group(self._cached, resource.namespace, resource.name)
        if observed is not None:
            self.takeover.note_group(observed)

    def _controllers(self, namespace: str, name: str, token: str) -> ControllerApi:
        key = (namespace, name, token)
        if key not in self._clients:
            hosts = _http_hosts(namespace, name, names.CONTROLLERS_MAX)
            ways = partial(self._trust.ways, namespace, name)
            self._clients[key] = ControllersClient(self._session, hosts, token, ways)
        return self._clients[key]

    def _hold_group(self, namespace: str, group: str, hold_s: float) -> None:
        self.work.hold(ResourceName(GROUP_KIND.kind, namespace, group), hold_s)

    def _wake_group(self, namespace: str, group: str) -> None:
        # Every pass reads the same data from the controllers.
        self.work.wake(ResourceName(GROUP_KIND.kind, namespace, group), changed=False)


def are_watches_dead(silence_s: float, heard_for_s: float) -> bool:
    """Tell whether a watch is dead.

    A dead watch was silent for long, while the API server answered requests for the same time.

    Why as long: when an API server comes back, watches come back after it; and while it is down, a restart
    does not help.
    """
    return min(silence_s, heard_for_s) > WATCH_DEAD_S


def _stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def run(options: Options) -> int:
    """Run an operator until a signal; return the exit code."""
    stop = asyncio.Event()
    _stop_on_signals(stop)
    try:
        dynamic = await asyncio.to_thread(connect)
        missing = await asyncio.to_thread(missing_kinds, dynamic)
    except PeerUnavailableError as error:
        _LOG.error("%s", error)
        return 1
    if others := [kind for kind in missing if kind not in OURS]:
        _LOG.error("this Kubernetes does not know %s: it is too old", ", ".join(others))
        return 1
    if missing:
        _LOG.warning("no kind %s yet: apply the chart's definitions (crds/)", ", ".join(missing))
    kube, fast_kube = KubeClient(dynamic), KubeClient(dynamic, TAKEOVER_THREADS)
    resolver = ServiceResolver(kube, aiohttp.ThreadedResolver())
    connector = aiohttp.TCPConnector(resolver=resolver)
    async with aiohttp.ClientSession(connector=connector) as session:
        stream = HttpStream(dynamic)
        try:
            operator = Operator(kube, fast_kube, stream, session, options)
            resolver.prefer(operator.reflections)
            await operator.run(stop)
        finally:
            await stream.close()
            kube.close()
            fast_kube.close()
    return 0


def _http_hosts(namespace: str, cluster: str, count: int) -> list[str]:
    return [
        f"{host}:{names.CONTROLLER_HTTP_PORT}" for host in names.controller_hosts(cluster, namespace, count)
    ]


def _now() -> datetime:
    return datetime.now(UTC)
