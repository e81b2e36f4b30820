"""One fault of a group's master under the load of a Java client, and its cost: the gap and its phases.

All times are UTC nanoseconds. Those of fault, endpoint and client are of clocks that the test reads
itself; on a cluster of several machines they agree as well as the machines' clocks do. The
controllers' are of their leader.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from testkit.kube.failover.client_logs import keep_client_logs
from testkit.kube.failover.phases import EndpointWatch, held_phases, ms, phases_of
from testkit.kube.failover.placement import lost_with, nodes_of_pods, place
from testkit.kube.group import GroupView, KubeGroup
from testkit.kube.kubectl import Cluster
from testkit.kube.outside.listening import OutsideClients
from testkit.kube.outside.outside_load import OutsideLoad
from testkit.kube.plain import NAME_SERVER, PlainGroup
from testkit.kube.pods.consumer_pod import ConsumerPod
from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.stack import harmed, kill_java_of, tool, without_provisioner
from testkit.rocketmq.consumers.consumption import ConsumerCost, Received, consumer_cost
from testkit.rocketmq.load import LoadSettings, LoadStats, ReadBackResult, Send

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
INSIDE: Final = "inside"
"""A client in a pod."""
OUTSIDE: Final = "outside"
"""A client outside any pod, which uses a listener of node ports."""
GRPC: Final = "grpc"
"""A gRPC client outside, which uses a proxy of that listener."""
CLIENTS: Final = (INSIDE, OUTSIDE, GRPC)
NODE_FAULT_S: Final = 12.0
"""How long a node stays harmed: longer than any failover, shorter than an eviction."""
PLAIN_NODE_FAULT_S: Final = 30.0
"""The same beside plain RocketMQ, whose brokers are dead after 10 s and a scan of 5 s."""
PLAIN_AFTER_S: Final = 45.0
"""Until a default client has polled its route, every 30 s, and sends again."""
ROLLED_WITHIN_S: Final = 300.0
BEFORE_S: Final = 4.0
"""How long clients run before a fault, at least: what was sent since then is measured."""
AFTER_S: Final = 8.0
RATE: Final = 200
THREADS: Final = 4
LOAD: Final = LoadSettings(threads=THREADS, rate=RATE)
"""Threads that each wait for their answer."""
_THREADS_KEY: Final = "sendMessageThreadPoolNums"
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
        client: one of `CLIENTS`.
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
    client: str = INSIDE


class ProducerLoad(Protocol):
    """A producer whose ledger can be read, wherever it runs."""

    async def sends(self) -> list[Send]:
        """Return what the ledger holds now."""
        ...

    async def stop(self) -> LoadStats:
        """End it in good order and return its numbers."""
        ...

    async def read_back(self) -> ReadBackResult:
        """Read the whole topic and compare it with the ledger."""
        ...


async def measured(group: KubeGroup, image: str, name_server: str, fault: str, number: int) -> FaultCost:
    """Do one fault to a whole group under the load of a client inside, as `measured_by_clients` does."""
    (cost,) = await measured_by_clients(group, image, name_server, fault, number)
    return cost


async def measured_by_clients(
    group: KubeGroup,
    image: str,
    name_server: str,
    fault: str,
    number: int,
    *,
    placement: str = "",
    settings: LoadSettings = LOAD,
    clients: Collection[str] = (INSIDE,),
    outside: OutsideClients | None = None,
    transactions: bool = True,
    warm_up_s: float = 0.0,
    logs: Path | None = None,
) -> tuple[FaultCost, ...]:
    """Do one fault to a whole group, and return the cost to each of `CLIENTS` once it is whole again.

    Args:
        group: the group.
        image: of the clients in pods.
        name_server: for the clients in pods.
        fault: one of `FAULTS`.
        number: of the run, for the names of its pods and topic.
        placement: the part that runs on the master's node; empty for any.
        settings: of each producer.
        clients: which of `CLIENTS` run.
        outside: where those outside run; None without any.
        transactions: whether the pod with consumers commits transactions, too.
        warm_up_s: how much longer than `BEFORE_S` clients run before the fault.
        logs: the folder that keeps the logs of clients in pods; None for none.

    Raises:
        KubeError: the group, the load or the fault failed, or the placement is not possible.
    """
    if fault == AGAIN:
        await group.until_fresh()
    before = await place(group, placement) if placement else await group.until_at_home()
    nodes, first = await nodes_of_pods(group.cluster), before
    elsewhere = unharmed_node(nodes, before.master, f"{group.name}-log-0")
    beside = await lost_with(group, before.master) if fault in {FREEZE, CUT} else ()
    name = f"load-{fault}-{number}"
    loads: dict[str, AbstractAsyncContextManager[_Clients]] = {}
    if INSIDE in clients:
        inside = (group.cluster, image, name_server, name, elsewhere, settings)
        loads[INSIDE] = _client(*inside, transactions=transactions, logs=logs)
    if outside is not None:
        outside.lead_to(elsewhere)
        loads |= _outside_loads(outside, clients, name, settings)
    async with _all(loads) as running:
        await asyncio.sleep(warm_up_s)
        if fault == AGAIN:
            await asyncio.sleep(BEFORE_S)
            first, before = await group.succeeded(before)
        after, fault_ns, held = await _done(group, before, fault, nodes[before.master])
        found = await _accounts(running, fault, group, fault_ns, before.master)
    if fault == AGAIN:
        await _renew(group.cluster, first.master)
    return tuple(
        [
            replace(
                cost,
                phases_ms=await phases_of(group, after, sends, fault_ns) | held,
                problems=_problems(sends, fault_ns),
                placement=placement,
                lost_with=beside,
            )
            for cost, sends in found
        ]
    )


async def _done(
    group: KubeGroup, before: GroupView, fault: str, node: str
) -> tuple[GroupView, int, dict[str, float]]:
    """Do a fault; return the group after it, its time, and when companion and address moved."""
    watch = EndpointWatch(group.cluster, before.master)
    async with watch.watching(), without_provisioner():
        await asyncio.sleep(BEFORE_S)
        fault_ns = await inject(group, before.master, fault, node, NODE_FAULT_S)
        # Send no requests now: on a small machine they would distort the measurement.
        await asyncio.sleep(AFTER_S)
        if fault == ROLL:
            await group.until_epoch_above(before.epoch, ROLLED_WITHIN_S)
            await asyncio.sleep(AFTER_S)
        after = await group.until_epoch_above(before.epoch)
    held = await held_phases(group, before, fault_ns)
    if watch.moved_ns is not None:
        held["endpoint"] = ms(watch.moved_ns - fault_ns)
    return after, fault_ns, held


def unharmed_node(nodes: dict[str, str], master: str, log_replica: str) -> str:
    """Return the clients' node: that of the log replica, unless the master is there.

    Args:
        nodes: of each pod.
        master: its pod.
        log_replica: its pod.
    """
    free = sorted(set(nodes.values()) - {nodes[master]})
    wanted = nodes.get(log_replica, "")
    return wanted if wanted in free else next(iter(free), nodes[master])


def _problems(sends: list[Send], fault_ns: int) -> tuple[str, ...]:
    return tuple(
        f"{ms(send.start_ns - fault_ns):.0f} to {ms(send.end_ns - fault_ns):.0f} ms: "
        f"{send.status} {send.problem}"
        for send in sends
        if not send.acknowledged
    )


async def measured_plain(
    group: PlainGroup, image: str, fault: str, number: int, warm_up_s: float = 0.0
) -> FaultCost:
    """Do one fault to a whole group of plain RocketMQ and wait until it is whole again.

    Args:
        group: the group.
        image: of the client.
        fault: one of `FAULTS`.
        number: of the run, for the names of its pods and topic.
        warm_up_s: how much longer than `BEFORE_S` the client runs before the fault.

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
        await asyncio.sleep(warm_up_s + BEFORE_S)
        fault_ns = await inject(group, before.master, fault, harmed_node, PLAIN_NODE_FAULT_S)
        await asyncio.sleep(PLAIN_AFTER_S)
        ((cost, _),) = await _accounts({INSIDE: clients}, fault, group, fault_ns, before.master)
    return replace(cost, fault=f"{fault}, plain")


async def _renew(cluster: Cluster, pod: str) -> None:
    """Replace a killed pod: a container that was killed a few times is started again minutes later only."""
    await cluster.kubectl("delete", "pod", pod, "--grace-period=1", timeout_s=60.0)


@dataclass(frozen=True, slots=True)
class _Clients:
    """The producer and the consumers of one topic; None without consumers."""

    load: ProducerLoad
    consumers: ConsumerPod | None


@contextlib.asynccontextmanager
async def _all(loads: dict[str, AbstractAsyncContextManager[_Clients]]) -> AsyncIterator[dict[str, _Clients]]:
    """Start the clients in their order."""
    async with contextlib.AsyncExitStack() as stack:
        yield {client: await stack.enter_async_context(load) for client, load in loads.items()}


def _outside_loads(
    outside: OutsideClients, clients: Collection[str], name: str, settings: LoadSettings
) -> dict[str, AbstractAsyncContextManager[_Clients]]:
    """Return the loads outside, not started, on topics of their own."""
    loads: dict[str, AbstractAsyncContextManager[_Clients]] = {}
    if OUTSIDE in clients:
        loads[OUTSIDE] = _outside(outside.load(f"{name}-outside", settings))
    if GRPC in clients:
        loads[GRPC] = _outside(outside.grpc_load(f"{name}-grpc", settings))
    return loads


@contextlib.asynccontextmanager
async def _outside(load: AbstractAsyncContextManager[OutsideLoad]) -> AsyncIterator[_Clients]:
    """Run a load outside."""
    async with load as running:
        yield _Clients(running, None)


@contextlib.asynccontextmanager
async def _client(
    cluster: Cluster,
    image: str,
    name_server: str,
    name: str,
    node: str,
    settings: LoadSettings = LOAD,
    *,
    transactions: bool = True,
    logs: Path | None = None,
) -> AsyncIterator[_Clients]:
    """Run the load and the consumers, in pods and on a topic of this name, on a node."""
    pods = (name, f"{name}-consumers")
    load = LoadPod(cluster, pods[0], image, name_server, name)
    consumers = ConsumerPod(cluster, pods[1], image, name_server, name)
    selector = {"kubernetes.io/hostname": node}
    try:
        await load.start(settings, node_selector=selector)
        await consumers.start(selector, jvm=settings.jvm, transactions=transactions)
        yield _Clients(load, consumers)
    finally:
        if logs is not None:
            await keep_client_logs(cluster, pods, logs)
        await load.remove()
        await consumers.remove()


async def _accounts(
    clients: Mapping[str, _Clients], fault: str, group: KubeGroup | PlainGroup, fault_ns: int, master: str
) -> list[tuple[FaultCost, list[Send]]]:
    """End all producers, renew a killed master's pod, and read back from the whole group.

    Return the cost to each client without phases, and its sends.
    """
    stopped_ns = time.time_ns()
    stats = {client: await one.load.stop() for client, one in clients.items()}
    if fault in {KILL, AGAIN}:
        await _renew(group.cluster, master)
    found = []
    for client, one in clients.items():
        cost, sends = await _account(one, stats[client], fault, group.until_whole, fault_ns, stopped_ns)
        found.append((replace(cost, client=client), sends))
    return found


async def _account(
    clients: _Clients,
    stats: LoadStats,
    fault: str,
    until_whole: Callable[[], Awaitable[object]],
    fault_ns: int,
    stopped_ns: int,
) -> tuple[FaultCost, list[Send]]:
    """Read back from the whole group, return the cost without phases, and all sends of an ended load."""
    sends = await clients.load.sends()
    await until_whole()
    read = await clients.load.read_back()
    noticed = None
    if clients.consumers is not None:
        transactions = await clients.consumers.transactions_until(stopped_ns)
        received: list[Received] = await clients.consumers.received()
        noticed = consumer_cost(sends, received, fault_ns - round(BEFORE_S * _NS_PER_S), transactions)
    gap_ms = stats.longest_gap_s * 1_000
    cost = FaultCost(fault, gap_ms, stats.failed, stats.acknowledged, len(read.lost), consumers=noticed)
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
