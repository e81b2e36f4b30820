"""Many broker groups under one operator process.

The API server, etcd, the StatefulSets and the controller are real; nodes do not exist.

Run it: `make bench-operator GROUPS=200`, as root. Pods are said to be ready by a stand-in for kubelets,
brokers are registered with the controller by their Services' addresses, and companions answer that nothing is
missing (`testkit.kube.bare`, `testkit.controller_bench.fleet`).

- *settled*: from the first of the BrokerGroups, all made at once, until each of them is Ready.
- *idle*: nothing changes for a minute; what the operator asks of the API server (its audit log), processor
  and memory. Calls for the Lease and watches that begin again are counted too.
- *one change*: a group is given one broker more, again and again, each time another group; from
  the API server's answer until its StatefulSet is written, with the Service and the EndpointSlice
  of the new broker before it.
"""

import argparse
import asyncio
import contextlib
import functools
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from rocketmq_operator.api.definitions.crds import custom_resource_definitions
from rocketmq_operator.api.names import API_VERSION
from testkit.controller_bench.fleet import CLUSTER, Fleet, find_leader
from testkit.kube.bare import BareKube, Json, Pods, enter_own_network, sent, watched, why_not
from testkit.kube.kubectl import until
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import command_path
from testkit.rocketmq.processes import write_properties

NAMESPACE: Final = "bench"
OPERATOR: Final = "operator"
PREFIX: Final = "group"
CHANGES: Final = 20
IDLE_S: Final = 60.0
QUIET_S: Final = 30.0
"""After the last group is Ready: what the settling left to do is over, and is not counted."""
SETTLED_WITHIN_S: Final = 1_200.0
CHANGED_WITHIN_S: Final = 120.0
SERVED_WITHIN_S: Final = 30.0
_CONTROLLER: Final = "127.0.0.1:9878"
_GROUPS: Final = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/brokergroups"
_SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
_SERVICES: Final = f"/api/v1/namespaces/{NAMESPACE}/services"
_BROKER_PORT: Final = 10911
_COMPANION_PORT: Final = 9882
_BROKERS: Final = 2
_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - of the network namespace of its own


@dataclass(slots=True)
class WatchedObjects:
    """What a watch has told of the groups and their StatefulSets.

    Attributes:
        ready: the groups that are Ready.
        sizes: replicas asked for by StatefulSet.
        changed: set at each news.
    """

    ready: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, session: aiohttp.ClientSession) -> None:
        """Watch until cancelled."""
        await asyncio.gather(self._follow(session, _GROUPS), self._follow(session, _SETS))

    async def _follow(self, session: aiohttp.ClientSession, path: str) -> None:
        while True:
            async for event in watched(session, path):
                self._note(path, event["object"])
                self.changed.set()

    def _note(self, path: str, found: Json) -> None:
        name = found["metadata"]["name"]
        if path == _SETS:
            self.sizes[name] = found["spec"]["replicas"]
            return
        conditions = {one["type"]: one["status"] for one in found.get("status", {}).get("conditions", [])}
        (self.ready.add if conditions.get("Ready") == "True" else self.ready.discard)(name)

    async def until(self, what: str, holds: Callable[["WatchedObjects"], bool], within_s: float) -> float:
        """Wait until something holds; return when it was seen, by the monotonic clock.

        Raises:
            TimeoutError: it did not in time.
        """
        try:
            async with asyncio.timeout(within_s):
                while not holds(self):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError as error:
            raise TimeoutError(f"{what}: not in {within_s} s; {len(self.ready)} groups are Ready") from error
        return time.monotonic()


class BrokerRegistrar:
    """Registers each group's brokers with the controller as soon as both pods are ready, as real ones do."""

    def __init__(self, session: aiohttp.ClientSession, groups: int) -> None:
        """Take a session, and how many groups there are."""
        self._session: Final = session
        self._services: Final[dict[str, str]] = {}
        self._waiting: Final[Counter[int]] = Counter()
        self._ready: Final[asyncio.Queue[int]] = asyncio.Queue()
        self.fleet: Final = Fleet(
            [_CONTROLLER], PREFIX, groups, port=_BROKER_PORT, address_of=self._address_of
        )

    def on_ready(self, pod: str) -> None:
        """Note that a pod is ready."""
        group, _, ordinal = pod.rpartition("-")
        if group in self.fleet.names and int(ordinal) < _BROKERS:
            index = self.fleet.names.index(group)
            self._waiting[index] += 1
            if self._waiting[index] == _BROKERS:
                self._ready.put_nowait(index)

    async def run(self) -> None:
        """Register until cancelled."""
        while True:
            index = await self._ready.get()
            for ordinal in range(_BROKERS):
                name = f"{self.fleet.names[index]}-{ordinal}"
                service = await sent(self._session, "GET", f"{_SERVICES}/{name}")
                self._services[name] = service["spec"]["clusterIP"]
            await self.fleet.prepare_one(index)

    def _address_of(self, index: int, member: int) -> str:
        return self._services[f"{self.fleet.names[index]}-{member - 1}"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used: CPU time in seconds, resident memory in bytes."""

    processor_s: float
    memory_bytes: int


def usage_of(pid: int) -> Usage:
    """Return what a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    ticks = int(fields[11]) + int(fields[12])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), pages * resource.getpagesize())


@contextlib.asynccontextmanager
async def companions() -> AsyncIterator[None]:
    """Answer for every companion that its broker lacks nothing."""

    async def status(_: web.Request) -> web.Response:
        return web.json_response({"metadata_missing": {}})

    application = web.Application()
    application.router.add_get("/v1/status", status)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, _EVERYWHERE, _COMPANION_PORT, backlog=1_024).start()
    try:
        yield
    finally:
        await runner.cleanup()


def controller(folder: Path) -> ManagedProcess:
    """Return the one controller, at the ports that the operator expects, behind every address."""
    values = {
        "controllerDLegerGroup": "controllers",
        "controllerDLegerPeers": f"n0-{_CONTROLLER}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": str(folder / "store"),
        "bindAddress": _EVERYWHERE,
        "httpListenPort": "9880",
    }
    path = write_properties(folder / "controller.conf", values)
    return ManagedProcess(
        "controller", [command_path("controller-core"), "serve", "-c", str(path)], folder / "controller.log"
    )


def operator(folder: Path, kubeconfig: Path, port: int) -> ManagedProcess:
    """Return the operator, as the chart starts it."""
    command = [
        command_path("rocketmq-operator"),
        "run",
        f"--http=127.0.0.1:{port}",
        f"--namespace={NAMESPACE}",
    ]
    environment = {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE, "KUBERNETES_SERVICE_HOST": ""}
    environment["PYTHONWARNINGS"] = (
        "ignore"  # the certificate is self-signed, and a line is logged at each call
    )
    return ManagedProcess("operator", command, folder / f"operator-{port}.log", env=environment)


def group_body(name: str) -> Json:
    """Return a BrokerGroup of two brokers."""
    spec = {"cluster": CLUSTER, "replicas": _BROKERS, "storage": {"size": "1Gi"}}
    return {"apiVersion": API_VERSION, "kind": "BrokerGroup", "metadata": {"name": name}, "spec": spec}


async def prepare(session: aiohttp.ClientSession) -> None:
    """Make the kinds, the namespace, and the cluster that all groups belong to."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in custom_resource_definitions():
        await sent(session, "POST", definitions, definition)
    for definition in custom_resource_definitions():
        path = f"{definitions}/{definition['metadata']['name']}"
        await until(f"{path} is served", functools.partial(established, session, path), SERVED_WITHIN_S)
    await sent(session, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    # The controller of this bench has no TLS.
    tls = {"internal": "Disabled"}
    spec = {"nameServers": {"replicas": 1}, "controllers": {"replicas": 1}, "tls": tls}
    body = {"apiVersion": API_VERSION, "kind": "RocketMQCluster", "metadata": {"name": CLUSTER}, "spec": spec}
    await sent(session, "POST", _GROUPS.replace("brokergroups", "rocketmqclusters"), body)


async def established(session: aiohttp.ClientSession, path: str) -> bool:
    """Tell whether a definition is served."""
    status = (await sent(session, "GET", path)).get("status", {})
    return any(
        (one["type"], one["status"]) == ("Established", "True") for one in status.get("conditions", [])
    )


async def settled_s(session: aiohttp.ClientSession, seen: WatchedObjects, brokers: BrokerRegistrar) -> float:
    """Make all groups; return the seconds until each is Ready."""
    names = brokers.fleet.names
    began_s = time.monotonic()
    await asyncio.gather(*(sent(session, "POST", _GROUPS, group_body(name)) for name in names))
    whole = await seen.until("settled", lambda now: now.ready >= set(names), SETTLED_WITHIN_S)
    return whole - began_s


async def change_s(session: aiohttp.ClientSession, seen: WatchedObjects, name: str) -> float:
    """Ask for one broker more; return the seconds until its group's StatefulSet says so."""
    wanted = _BROKERS + 1
    await sent(session, "PATCH", f"{_GROUPS}/{name}", {"spec": {"replicas": wanted}})
    asked_s = time.monotonic()
    done_s = await seen.until(
        f"{name} is changed", lambda now: now.sizes.get(name) == wanted, CHANGED_WITHIN_S
    )
    return done_s - asked_s


def asked(calls: list[Json]) -> Counter[str]:
    """Return how often each kind of call was made."""
    return Counter(
        f"{call['verb']} {call.get('objectRef', {}).get('resource', call['requestURI'])}" for call in calls
    )


async def measured(kube: BareKube, folder: Path, groups: int) -> dict[str, float]:
    """Measure all; return figures by name."""
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(kube.session())
        await prepare(session)
        await stack.enter_async_context(companions())
        await stack.enter_async_context(controller(folder))
        await find_leader([_CONTROLLER])
        seen, brokers = WatchedObjects(), BrokerRegistrar(session, groups)
        await stack.enter_async_context(brokers.fleet)
        pods = Pods(session, NAMESPACE, brokers.on_ready)
        # Of a group: a stand-in that breaks ends the measurement, which would wait
        # for it until its time is up.
        together = await stack.enter_async_context(asyncio.TaskGroup())
        for work in (seen.follow(session), pods.run(), brokers.run()):
            stack.callback(together.create_task(work).cancel)
        process = operator(folder, kube.kubeconfig(OPERATOR), 8080)
        await stack.enter_async_context(process)
        await process.wait_for_text("this operator acts", 60.0)
        # The second one stands by, as in the chart; its calls are counted with the first one's.
        await stack.enter_async_context(operator(folder, kube.kubeconfig(OPERATOR), 8081))
        started = usage_of(process.pid)
        say(f"settled in {(whole_s := await settled_s(session, seen, brokers)):.1f} s")
        settling = usage_of(process.pid)
        await asyncio.sleep(QUIET_S)
        before, calls_before = usage_of(process.pid), len(kube.calls_of(OPERATOR))
        await asyncio.sleep(IDLE_S)
        after, calls = usage_of(process.pid), kube.calls_of(OPERATOR)[calls_before:]
        say(f"idle: {json.dumps(asked(calls).most_common())}")
        step = max(1, groups // CHANGES)
        took = [await change_s(session, seen, name) for name in brokers.fleet.names[::step][:CHANGES]]
        say(f"changes: {[round(one, 3) for one in took]}")
        return {
            "settled_s": whole_s,
            "settling_processor_s": settling.processor_s - started.processor_s,
            "change_p50_ms": statistics.median(took) * 1_000,
            "change_worst_ms": max(took) * 1_000,
            "idle_calls_s": len(calls) / IDLE_S,
            "idle_processor": (after.processor_s - before.processor_s) / IDLE_S,
            "memory_mib": usage_of(process.pid).memory_bytes / (1 << 20),
        }


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{text}\n")


async def run(options: argparse.Namespace) -> None:
    """Measure each number of groups in a Kubernetes of its own, and print a table."""
    load = os.getloadavg()[0]
    rows = []
    for groups in options.groups:
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            async with BareKube(folder, (OPERATOR,)) as kube:
                rows.append(row_of(groups, await measured(kube, folder, groups)))
    sys.stdout.write(f"{os.cpu_count()} processors, load average {load:.1f} at the start\n\n")
    sys.stdout.write(
        "| groups | all Ready after | processor for that | one change, p50 | worst of 20 "
        "| calls per second, idle | processor, idle | memory |\n|---|---|---|---|---|---|---|---|\n"
    )
    sys.stdout.write("".join(rows))


def row_of(groups: int, found: dict[str, float]) -> str:
    """Return one line of the table."""
    return (
        f"| {groups} | {found['settled_s']:.0f} s | {found['settling_processor_s']:.0f} s "
        f"| {found['change_p50_ms']:.0f} ms | {found['change_worst_ms']:.0f} ms "
        f"| {found['idle_calls_s']:.1f} | {found['idle_processor']:.1%} | {found['memory_mib']:.0f} MiB |\n"
    )


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--groups", type=int, action="append", required=True, help="how many; may be given again"
    )
    options = parser.parse_args()
    if problem := why_not():
        raise SystemExit(problem)
    enter_own_network()
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
