"""One fault of a group's master under the load of a Java client, and its cost: the gap and its phases.

All times are UTC nanoseconds. Those of fault, endpoint and client are of clocks that the test reads
itself; on a cluster of several machines they agree as well as the machines' clocks do. The
controllers' are of their leader.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from testkit.kube.group import GroupView, KubeGroup
from testkit.kube.kubectl import Cluster, Json, KubeError, program
from testkit.kube.placement import lost_with, nodes_of_pods, place
from testkit.kube.plain import NAME_SERVER, PlainGroup
from testkit.kube.pods.consumer_pod import ConsumerPod
from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.stack import harmed, kill_java_of, tool, without_provisioner
from testkit.rocketmq.consumption import ConsumerCost, Received, consumer_cost
from testkit.rocketmq.load import LoadSettings, Send, summarise

KILL: Final = "kill"
DELETE: Final = "delete"
FREEZE: Final = "freeze"
CUT: Final = "cut"
AGAIN: Final = "again"
"""The master is killed, and as soon as the group is whole its successor is too: by then the first one's
address still leads to it."""
ROLL: Final = "roll"
"""No fault: a setting is changed, for which every broker is replaced, the master last."""
FAULTS: Final = (KILL, DELETE, FREEZE, CUT, AGAIN, ROLL)
NODE_FAULT_S: Final = 12.0
"""How long a node stays harmed: longer than any failover, shorter than an eviction."""
PLAIN_NODE_FAULT_S: Final = 30.0
"""The same beside plain RocketMQ, whose brokers are dead after 10 s and a scan of 5 s."""
PLAIN_AFTER_S: Final = 45.0
"""Until a default client has polled its route, every 30 s, and sends again."""
ROLLED_WITHIN_S: Final = 300.0
BEFORE_S: Final = 4.0
AFTER_S: Final = 8.0
RATE: Final = 200
THREADS: Final = 4
_THREADS_KEY: Final = "sendMessageThreadPoolNums"
_CONTROLLER_PORT: Final = 9880
_COMPANION_PORT: Final = 9882
_NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FaultCost:
    """What one fault cost.

    Attributes:
        fault: one of `FAULTS`.
        gap_ms: the longest time between two acknowledged sends; of two kills, the longer one.
        failed: sends that failed after the client's own retries.
        acknowledged: sends that were promised.
        lost: promised sends that could not be read afterwards.
        phases_ms: milliseconds after the fault by phase, those that were seen.
        problems: of each failed send, when it began and ended in milliseconds after
            the fault, and what it said.
        consumers: what the push consumers of the topic noticed.
        placement: the part that was brought to the master's node; empty for none.
        lost_with: other parts that ran on the master's node when a node was harmed.
    """

    fault: str
    gap_ms: float
    failed: int
    acknowledged: int
    lost: int
    phases_ms: dict[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    consumers: ConsumerCost | None = None
    placement: str = ""
    lost_with: tuple[str, ...] = ()


class EndpointWatch:
    """Notes when a member's address was given to another."""

    def __init__(self, cluster: Cluster, member: str) -> None:
        """Take whose address is watched."""
        self._cluster: Final = cluster
        self._member: Final = member
        self.moved_ns: int | None = None

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch for as long as the context lasts."""
        process = await asyncio.create_subprocess_exec(
            *(program("kubectl") or "kubectl", f"--kubeconfig={self._cluster.kubeconfig}"),
            *(f"--namespace={self._cluster.namespace}", "get", "endpointslice", self._member, "--watch"),
            *("-o", r'jsonpath={.metadata.labels.rocketmq-ha\.dev/served-by}{"\n"}'),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        task = asyncio.create_task(self._read(process))
        try:
            yield
        finally:
            process.terminate()
            await process.wait()
            await task

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            raise KubeError("kubectl has no output")
        async for line in process.stdout:
            server = line.decode().strip()
            if server and server != self._member and self.moved_ns is None:
                self.moved_ns = time.time_ns()


async def measured(
    group: KubeGroup,
    image: str,
    name_server: str,
    fault: str,
    number: int,
    *,
    placement: str = "",
    threads: int = THREADS,
) -> FaultCost:
    """Do one fault to a whole group, addressed with its members, and wait until it is whole again.

    Args:
        group: the group.
        image: of the clients.
        name_server: for the clients.
        fault: one of `FAULTS`.
        number: of the run, for the names of its pods and topic.
        placement: the part that runs on the master's node; empty for any.
        threads: of the producer, each waiting for its answer.

    Raises:
        KubeError: the group, the load or the fault failed, or the placement is not possible.
    """
    if fault == AGAIN:
        await group.until_fresh()
    before = await place(group, placement) if placement else await group.until_at_home()
    nodes = await nodes_of_pods(group.cluster)
    # The clients' node is not harmed: that of the log replica, unless the master was placed there.
    free = sorted(set(nodes.values()) - {nodes[before.master]})
    elsewhere = nodes.get(f"{group.name}-log-0", "")
    elsewhere = elsewhere if elsewhere in free else next(iter(free), nodes[before.master])
    first = before
    beside = await lost_with(group, before.master) if fault in {FREEZE, CUT} else ()
    name = f"load-{fault}-{number}"
    async with _client(group.cluster, image, name_server, name, elsewhere, threads) as clients:
        if fault == AGAIN:
            await asyncio.sleep(BEFORE_S)
            first, before = await group.succeeded(before)
        harmed_node = nodes[before.master]
        watch = EndpointWatch(group.cluster, before.master)
        async with watch.watching(), without_provisioner():
            await asyncio.sleep(BEFORE_S)
            fault_ns = await inject(group, before.master, fault, harmed_node, NODE_FAULT_S)
            # Send no requests now: on a small machine they would distort the measurement.
            await asyncio.sleep(AFTER_S)
            if fault == ROLL:
                await group.until_epoch_above(before.epoch, ROLLED_WITHIN_S)
                await asyncio.sleep(AFTER_S)
            after = await group.until_epoch_above(before.epoch)
        held = await _held(group, before, fault_ns)
        if fault in {KILL, AGAIN}:
            await _renew(group.cluster, before.master)
        cost, sends = await _account(clients, fault, group.until_whole, fault_ns)
    if fault == AGAIN:
        await _renew(group.cluster, first.master)
    phases = await _phases(group, after, sends, fault_ns) | held
    if watch.moved_ns is not None:
        phases["endpoint"] = _ms(watch.moved_ns - fault_ns)
    problems = tuple(
        f"{_ms(send.start_ns - fault_ns):.0f} to {_ms(send.end_ns - fault_ns):.0f} ms: "
        f"{send.status} {send.problem}"
        for send in sends
        if not send.acknowledged
    )
    return replace(cost, phases_ms=phases, problems=problems, placement=placement, lost_with=beside)


async def measured_plain(group: PlainGroup, image: str, fault: str, number: int) -> FaultCost:
    """Do one fault to a whole group of plain RocketMQ and wait until it is whole again.

    Raises:
        KubeError: the group, the load or the fault failed.
    """
    before = await group.until_whole()
    nodes = await nodes_of_pods(group.cluster)
    harmed_node = nodes[before.master]
    free = {node["metadata"]["name"] for node in await group.cluster.find("nodes")}
    free -= {nodes[f"broker-{member}"] for member in range(2)}
    elsewhere = min(free, default=harmed_node)
    async with _client(group.cluster, image, NAME_SERVER, f"load-{fault}-{number}", elsewhere) as clients:
        await asyncio.sleep(BEFORE_S)
        fault_ns = await inject(group, before.master, fault, harmed_node, PLAIN_NODE_FAULT_S)
        await asyncio.sleep(PLAIN_AFTER_S)
        if fault == KILL:
            await _renew(group.cluster, before.master)
        cost, _ = await _account(clients, f"{fault}, plain", group.until_whole, fault_ns)
    return cost


async def _renew(cluster: Cluster, pod: str) -> None:
    """Replace a killed pod: a container that was killed a few times is started again minutes later only."""
    await cluster.kubectl("delete", "pod", pod, "--grace-period=1", timeout_s=60.0)


@dataclass(frozen=True, slots=True)
class _Clients:
    """The producer and the consumers of one topic."""

    load: LoadPod
    consumers: ConsumerPod


@contextlib.asynccontextmanager
async def _client(
    cluster: Cluster, image: str, name_server: str, name: str, node: str, threads: int = THREADS
) -> AsyncIterator[_Clients]:
    """Run the load and the consumers, in pods and on a topic of this name, on a node."""
    load = LoadPod(cluster, name, image, name_server, name)
    consumers = ConsumerPod(cluster, f"{name}-consumers", image, name_server, name)
    settings = LoadSettings(threads=threads, rate=RATE)
    selector = {"kubernetes.io/hostname": node}
    try:
        await load.start(settings, node_selector=selector)
        await consumers.start(selector)
        yield _Clients(load, consumers)
    finally:
        await load.remove()
        await consumers.remove()


async def _account(
    clients: _Clients, fault: str, until_whole: Callable[[], Awaitable[object]], fault_ns: int
) -> tuple[FaultCost, list[Send]]:
    """End the load, read back from the whole group, return the cost without phases, and all sends."""
    stopped_ns = time.time_ns()
    stats = await clients.load.stop()
    sends = await clients.load.sends()
    await until_whole()
    read = await clients.load.read_back()
    transactions = await clients.consumers.transactions_until(stopped_ns)
    received: list[Received] = await clients.consumers.received()
    cost = FaultCost(
        fault,
        stats.longest_gap_s * 1_000,
        stats.failed,
        stats.acknowledged,
        len(read.lost),
        consumers=consumer_cost(sends, received, fault_ns - round(BEFORE_S * _NS_PER_S), transactions),
    )
    return cost, sends


async def inject(
    group: KubeGroup | PlainGroup, master: str, fault: str, node: str, node_fault_s: float
) -> int:
    """Do the fault, and for nodes undo it; return when it was done."""
    if fault in {KILL, AGAIN}:
        return kill_java_of(master) if tool() else await group.kill_java(master)
    now_ns = time.time_ns()
    if fault == ROLL and isinstance(group, KubeGroup):
        await _change(group)
        return now_ns
    if fault == DELETE:
        await group.cluster.kubectl("delete", "pod", master, "--wait=false")
        return now_ns
    async with harmed(fault, node):
        now_ns = time.time_ns()
        await asyncio.sleep(node_fault_s)
    return now_ns


async def _change(group: KubeGroup) -> None:
    """Give the group another number of threads than it has."""
    config = (await group.cluster.get("brokergroup", group.name))["spec"].get("config", {})
    threads = "7" if config.get(_THREADS_KEY) == "6" else "6"
    patch = json.dumps({"spec": {"config": {_THREADS_KEY: threads}}})
    await group.cluster.kubectl("patch", "brokergroup", group.name, "--type=merge", f"--patch={patch}")


async def _phases(group: KubeGroup, after: GroupView, sends: list[Send], fault_ns: int) -> dict[str, float]:
    """Return the moments of a failover in milliseconds after the fault."""
    events = [event for event in await events_of(group) if event.get("epoch") == after.epoch]
    first: dict[str, int] = {}
    for event in events:
        first.setdefault(str(event["kind"]), int(event["ts_ns"]))
        if event["kind"] == "SyncStateSetChanged" and "," in str(
            event["attrs"].get("sync_state_set_after", "")
        ):
            first.setdefault("two copies", int(event["ts_ns"]))
        if event["kind"] == "MasterElected" and event["attrs"].get("suspected_ns"):
            first.setdefault("suspected", int(event["attrs"]["suspected_ns"]))
    kept = any(
        "," in event["attrs"].get("sync_state_set_after", "")
        for event in events
        if event["kind"] == "MasterElected"
    )
    if kept and "RoleTaken" in first:
        first["two copies"] = first["RoleTaken"]
    acknowledged = [send.end_ns for send in sends if send.acknowledged and send.start_ns > fault_ns]
    gap_start_ns = summarise(sends).gap_start_ns
    moments = {
        "suspected": first.get("suspected"),
        "elected": first.get("MasterElected"),
        "role taken": first.get("RoleTaken"),
        "two copies": first.get("two copies"),
        "first ack": min((end for end in acknowledged if gap_start_ns and end > gap_start_ns), default=None),
    }
    return {name: _ms(at - fault_ns) for name, at in moments.items() if at is not None}


async def _held(group: KubeGroup, before: GroupView, fault_ns: int) -> dict[str, float]:
    """Return when the dead master's companion held clients and let them go; empty for a replaced pod."""
    try:
        events = await events_at(group, f"{before.master}:{_COMPANION_PORT}")
    except KubeError:
        return {}
    phases = {"ClientsHeld": "held", "ClientsReleased": "released"}
    return {
        phases[event["kind"]]: _ms(int(event["ts_ns"]) - fault_ns)
        for event in events
        if event["kind"] in phases and event["epoch"] == before.epoch and int(event["ts_ns"]) > fault_ns
    }


async def events_of(group: KubeGroup) -> list[Json]:
    """Return the controllers' events of a group, asked through the API server."""
    return await events_at(group, f"main-controller-0:{_CONTROLLER_PORT}")


async def events_at(group: KubeGroup, place: str) -> list[Json]:
    """Return the events of a group that a pod tells at its port, asked through the API server."""
    path = f"/api/v1/namespaces/{group.cluster.namespace}/pods/{place}/proxy/v1/events?after=0&follow=false"
    lines = (await group.cluster.kubectl("get", "--raw", path)).splitlines()
    events = [json.loads(line) for line in lines if line.strip()]
    return [event for event in events if event.get("group") == group.name]


def _ms(nanoseconds: int) -> float:
    return nanoseconds / 1e6
