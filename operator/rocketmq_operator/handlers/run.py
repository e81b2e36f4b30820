"""Start everything and keep it running: `rocketmq-operator run`."""

import asyncio
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import kopf

from rocketmq_operator.api.names import GROUP_KIND
from rocketmq_operator.clients.api import Controllers, UnavailableError
from rocketmq_operator.clients.brokers import BrokersClient
from rocketmq_operator.clients.bystanders import CanariesClient, CompanionsClient
from rocketmq_operator.clients.controllers import ControllersClient
from rocketmq_operator.clients.kube import KubeClient, connect
from rocketmq_operator.clients.resolver import ServiceResolver
from rocketmq_operator.handlers.leadership import Leadership
from rocketmq_operator.handlers.metrics import HealthServer, Metrics
from rocketmq_operator.handlers.observe import InvalidSpecError, World, cluster_spec, observe_group
from rocketmq_operator.handlers.operator import Watched, registry_for
from rocketmq_operator.handlers.reconcile import Shell, reconcile
from rocketmq_operator.handlers.takeover import Takeover
from rocketmq_operator.handlers.work import Resource, Work
from rocketmq_operator.plan import names

TAKEOVER_THREADS: Final = 4
TOKEN_BYTES: Final = 32
HEARD_MAX_S: Final = 60.0
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How an operator is started.

    Attributes:
        namespaces: those that are watched; empty for all.
        lease_namespace: where the Lease is.
        http_host: where health and metrics are served.
        http_port: 0 for any.
    """

    namespaces: Sequence[str]
    lease_namespace: str
    http_host: str
    http_port: int


class Following:
    """Follows the events of every controller of every cluster that there is.

    Why every one, and not one that answers: each tells the same, the first to tell is soonest, and one that froze with
    an open stream is not missed.
    """

    def __init__(self, takeover: Takeover, session: aiohttp.ClientSession) -> None:
        """Take who is told of events, and what connects."""
        self._takeover: Final = takeover
        self._session: Final = session
        self._tasks: Final[dict[tuple[str, str], list[asyncio.Task[None]]]] = {}

    def there(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """Follow a cluster's controllers, once; a spec that cannot be read has none."""
        try:
            count = cluster_spec(dict(body)).controllers.replicas
        except InvalidSpecError:
            return
        if len(self._tasks.get((namespace, name), ())) == count:
            return
        self.gone(namespace, name)
        self._tasks[namespace, name] = [
            asyncio.create_task(
                self._takeover.follow(namespace, ControllersClient(self._session, [host])),
                name=f"events of {host}",
            )
            for host in _http_hosts(namespace, name, count)
        ]

    def gone(self, namespace: str, name: str) -> None:
        """Stop following."""
        for task in self._tasks.pop((namespace, name), ()):
            task.cancel()

    def stop(self) -> None:
        """Stop following all."""
        for namespace, name in list(self._tasks):
            self.gone(namespace, name)


class Operator:
    """The parts of one operator process, connected."""

    def __init__(
        self, kube: KubeClient, fast_kube: KubeClient, session: aiohttp.ClientSession, options: Options
    ) -> None:
        """Connect the parts; nothing runs yet."""
        self._options: Final = options
        self._clients: Final[dict[tuple[str, str, str], Controllers]] = {}
        self._session: Final = session
        identity = f"{socket.gethostname()}_{os.getpid()}"
        self.leadership: Final = Leadership(kube, options.lease_namespace, identity, _now, time.monotonic)
        self.metrics: Final = Metrics(self.leadership.may_act)
        self.work: Final = Work(self._pass, self.leadership.may_act, self._look)
        self.takeover: Final = Takeover(
            fast_kube,
            self.leadership.may_act,
            self._wake_group,
            self.metrics.takeover_duration.observe,
            hold=self._hold_group,
        )
        self.following: Final = Following(self.takeover, session)
        world = World(
            kube,
            self._controllers,
            _now,
            lambda: secrets.token_urlsafe(TOKEN_BYTES),
            CanariesClient(session),
            CompanionsClient(session),
            BrokersClient(),
        )
        self._shell: Final = Shell(
            world,
            self.leadership.may_act,
            self.takeover.note_group,
            lambda step: self.metrics.steps.labels(step=type(step).__name__).inc(),
        )
        # Why the Lease and not the passes: an operator that stands by, or has nothing to operate, makes none.
        self.health: Final = HealthServer(self.metrics, lambda: self.leadership.silence_s < HEARD_MAX_S)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`; then give the Lease away."""
        port = await self.health.start(self._options.http_host, self._options.http_port)
        _LOG.info("health and metrics on port %d", port)
        lease = asyncio.create_task(self.leadership.run(), name="lease")
        # Why: an operator that no longer asks for the Lease is of no use; Kubernetes starts another.
        lease.add_done_callback(lambda _: stop.set())
        try:
            await kopf.operator(
                registry=registry_for(Watched(self.work, self.takeover, self.following)),
                standalone=True,
                clusterwide=not self._options.namespaces,
                namespaces=tuple(self._options.namespaces),
                stop_flag=stop,
            )
        finally:
            lease.cancel()
            self.following.stop()
            await self.work.stop()
            await self.leadership.release()
            await self.health.stop()

    async def _pass(self, resource: Resource) -> float | None:
        started_s = time.monotonic()
        result = "failed"
        try:
            delay = await reconcile(self._shell, *resource)
            result = "done"
            return delay
        finally:
            self.metrics.passes.labels(kind=resource.kind, result=result).inc()
            self.metrics.pass_duration.labels(kind=resource.kind).observe(time.monotonic() - started_s)

    async def _look(self, resource: Resource) -> None:
        """Keep what a group looks like now, for a takeover in the acting operator's place."""
        if resource.kind != GROUP_KIND.kind:
            return
        observed = await observe_group(self._shell.world, resource.namespace, resource.name)
        if observed is not None:
            self.takeover.note_group(observed)

    def _controllers(self, namespace: str, name: str, token: str) -> Controllers:
        key = (namespace, name, token)
        if key not in self._clients:
            hosts = _http_hosts(namespace, name, names.CONTROLLERS_MAX)
            self._clients[key] = ControllersClient(self._session, hosts, token)
        return self._clients[key]

    def _hold_group(self, namespace: str, group: str, hold_s: float) -> None:
        self.work.hold(Resource(GROUP_KIND.kind, namespace, group), hold_s)

    def _wake_group(self, namespace: str, group: str) -> None:
        self.work.wake(Resource(GROUP_KIND.kind, namespace, group))


async def run(options: Options) -> int:
    """Run an operator until a signal; return the exit code."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        dynamic = await asyncio.to_thread(connect)
    except UnavailableError as error:
        _LOG.error("%s", error)
        return 1
    kube, fast_kube = KubeClient(dynamic), KubeClient(dynamic, TAKEOVER_THREADS)
    connector = aiohttp.TCPConnector(resolver=ServiceResolver(kube, aiohttp.ThreadedResolver()))
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            await Operator(kube, fast_kube, session, options).run(stop)
        finally:
            kube.close()
            fast_kube.close()
    return 0


def _http_hosts(namespace: str, cluster: str, count: int) -> list[str]:
    return [
        f"{host}:{names.CONTROLLER_HTTP_PORT}" for host in names.controller_hosts(cluster, namespace, count)
    ]


def _now() -> datetime:
    return datetime.now(UTC)
