"""A load generator against running controllers: how many requests per second, and how long each takes.

Closed loop: `in_flight` workers share some connections, each sends its next request when the last one was
answered. So the numbers tell capacity at that concurrency, not behaviour under an arrival rate; latencies are
those of the client's own clock, its event loop included. `cli.load_connection` keeps a request cheap for the
generator; `client_share` says how busy its one processor was, so that a reader sees whether the figure is the
controllers' or the generator's.

It registers groups of its own (`bench-<run>-<i>`, three brokers each, alive for as long as it runs, all in
the SyncStateSet) and cleans them up afterwards. What controllers tell these brokers goes to a port that it
listens on, at addresses 127.x.y.z; on another host it reaches no listener. Run it against controllers that
serve nothing else.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Final

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect, serve
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import encode
from controller_core.remoting.host_port import read_host_port
from controller_core.server.cli.load_connection import LoadConnection
from controller_core.tls.dialling import process_tls

WORKLOADS: Final = ("get-replica-info", "heartbeat", "register", "alter")
CLUSTER: Final = "bench"
BROKERS_PER_GROUP: Final = 3
CALL_TIMEOUT_S: Final = 5.0
_ALIVE_MS: Final = 600_000
_NS_PER_MS: Final = 1_000_000


class BenchError(Exception):
    """The controllers cannot be measured: not reached, or they refused the preparations."""


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What to run against what.

    Attributes:
        controllers: remoting addresses of all controllers
        workload: the requests to send
        duration_s: how long requests are counted
        in_flight: requests under way at a time
        connections: number of connections
        groups: broker groups to work on
        warm_up_s: how long the same requests are sent before any is counted; a JVM needs it
        spread: send requests to all controllers in turn, not to the leader alone
    """

    controllers: tuple[str, ...]
    workload: str
    duration_s: float
    in_flight: int
    connections: int
    groups: int
    warm_up_s: float = 0.0
    spread: bool = False


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The result of a run; latencies in milliseconds."""

    workload: str
    requests: int
    errors: int
    elapsed_s: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    client_share: float
    """Of one processor, what the generator itself used while it measured."""
    warm_up_requests: int
    """Requests before any was counted."""


@dataclass(frozen=True, slots=True)
class _LoadedGroup:
    """One group's name, and where its members are reached."""

    name: str
    index: int
    port: int

    def address(self, member: int) -> str:
        """Return a member's own address: controllers tell each address one thing at a time."""
        return f"127.{member}.{self.index >> 8 & 255}.{self.index & 255}:{self.port}"


@dataclass(slots=True)
class _GroupState:
    """One group of the run: what its master knows."""

    place: _LoadedGroup
    master_epoch: int
    set_epoch: int
    small: bool = False


async def run_bench(plan: BenchPlan) -> BenchResult:
    """Prepare, measure, clean up.

    Raises:
        BenchError: no controller leads, or a preparation was refused.
    """
    leader = await _find_leader(plan.controllers)
    connection = await _dial(leader)
    try:
        names = [f"bench-{os.getpid()}-{index}" for index in range(plan.groups)]
        brokers = await serve("0.0.0.0", 0, lambda _connection: None)  # noqa: S104 - all of 127.0.0.0/8, a port of our own
        places = [_LoadedGroup(name, index, brokers.port) for index, name in enumerate(names)]
        groups = list(await asyncio.gather(*(_prepare(connection, place) for place in places)))
        result = await _measure(plan, leader, groups)
        await asyncio.gather(*(_clean(connection, name) for name in names))
    finally:
        connection.close()
    await brokers.close()
    return result


async def _find_leader(controllers: tuple[str, ...]) -> str:
    for address in controllers:
        first = await _dial(address)
        answer = await first.call(
            RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO), CALL_TIMEOUT_S
        )
        first.close()
        leader = headers.GetMetaDataResponseHeader.from_ext(answer.ext).controller_leader_address
        if leader:
            return leader
    raise BenchError(f"none of {', '.join(controllers)} knows a leader")


async def _dial(address: str) -> Connection:
    return await connect(*read_host_port(address), CALL_TIMEOUT_S)


async def _prepare(connection: Connection, place: _LoadedGroup) -> _GroupState:
    members = range(1, BROKERS_PER_GROUP + 1)
    for member in members:
        claim = headers.ApplyBrokerIdRequestHeader(CLUSTER, place.name, member, f"{place.address(member)};1")
        await _must(connection, RequestCode.CONTROLLER_APPLY_BROKER_ID, claim.to_ext())
        await _must(connection, RequestCode.BROKER_HEARTBEAT, _beat(place, member, 0))
    elect = headers.ElectMasterRequestHeader(broker_name=place.name, cluster_name=CLUSTER, broker_id=1)
    answer = await _must(connection, RequestCode.CONTROLLER_ELECT_MASTER, elect.to_ext())
    header = headers.ElectMasterResponseHeader.from_ext(answer.ext)
    epoch, set_epoch = header.master_epoch or 0, header.sync_state_set_epoch or 0
    for member in members:  # They report the new epoch, so the controllers stop sending notices.
        await _must(connection, RequestCode.BROKER_HEARTBEAT, _beat(place, member, epoch))
    alter = headers.AlterSyncStateSetRequestHeader(place.name, 1, epoch)
    wanted = SyncStateSet.of(tuple(members), set_epoch).encode()
    await _must(connection, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, alter.to_ext(), wanted)
    return _GroupState(place, epoch, set_epoch + 1)


async def _clean(connection: Connection, name: str) -> None:
    header = headers.CleanControllerBrokerDataRequestHeader(
        broker_name=name, cluster_name=CLUSTER, is_clean_living_broker=True
    )
    await _must(connection, RequestCode.CLEAN_BROKER_DATA, header.to_ext())


async def _must(connection: Connection, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
    answer = await connection.call(RemotingCommand.request(code, ext, body), CALL_TIMEOUT_S)
    if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
        raise BenchError(f"request {int(code)} was answered {answer.code}: {answer.remark}")
    return answer


def _beat(place: _LoadedGroup, member: int, epoch: int) -> dict[str, str]:
    return headers.BrokerHeartbeatRequestHeader(
        CLUSTER,
        place.address(member),
        place.name,
        member,
        epoch=epoch,
        max_offset=0,
        confirm_offset=0,
        heartbeat_timeout_mills=_ALIVE_MS,
    ).to_ext()


class _Run:
    """The workers of one measurement, each known by its place in the list, which is its requests' opaque."""

    def __init__(self, plan: BenchPlan, groups: list[_GroupState], lanes: list[LoadConnection]) -> None:
        # A worker of `alter` owns its group, whose epochs follow from one another.
        count = min(plan.in_flight, len(groups)) if plan.workload == "alter" else plan.in_flight
        self.latencies_ns: list[int] = []
        self.errors = 0
        self.ended = asyncio.Event()
        self._lanes = [lanes[worker % len(lanes)] for worker in range(count)]
        self._makers = [
            _maker(plan.workload, groups[worker % len(groups)], worker) for worker in range(count)
        ]
        self._begun_ns = [0] * count
        self._running = count
        self._workload = plan.workload
        self._deadline_ns = 0

    async def measure(self, warm_up_s: float, duration_s: float) -> BenchResult:
        """Run until the time is over and the last answer came; return the measurements after the warm-up."""
        begun_ns = time.monotonic_ns()
        self._deadline_ns = begun_ns + int((warm_up_s + duration_s) * 1_000 * _NS_PER_MS)
        for worker in range(len(self._makers)):
            self._begin(worker, ResponseCode.SUCCESS)
        await asyncio.sleep(warm_up_s)
        warm_up_requests = len(self.latencies_ns)
        self.latencies_ns.clear()
        started_ns, used_s = time.monotonic_ns(), time.process_time()
        try:
            async with asyncio.timeout(duration_s + CALL_TIMEOUT_S):
                await self.ended.wait()
        except TimeoutError:
            self.errors += self._running
        elapsed_s = (time.monotonic_ns() - started_ns) / (1_000 * _NS_PER_MS)
        ordered_ns = sorted(self.latencies_ns)
        return BenchResult(
            workload=self._workload,
            requests=len(ordered_ns),
            errors=self.errors,
            elapsed_s=round(elapsed_s, 3),
            requests_per_s=round(len(ordered_ns) / elapsed_s, 1),
            p50_ms=_quantile_ms(ordered_ns, 0.5),
            p99_ms=_quantile_ms(ordered_ns, 0.99),
            max_ms=_quantile_ms(ordered_ns, 1.0),
            client_share=round((time.process_time() - used_s) / elapsed_s, 3),
            warm_up_requests=warm_up_requests,
        )

    def on_answer(self, worker: int, code: int) -> None:
        """Take an answer and send that worker's next request, or none after the deadline."""
        now_ns = time.monotonic_ns()
        self.latencies_ns.append(now_ns - self._begun_ns[worker])
        self.errors += code != ResponseCode.SUCCESS
        if now_ns < self._deadline_ns:
            self._begin(worker, code)
            return
        self._running -= 1
        if not self._running:
            self.ended.set()

    def lost(self) -> None:
        """Learn that a connection is gone: its workers will not end."""
        self.errors += 1
        self.ended.set()

    def _begin(self, worker: int, code: int) -> None:
        frame = self._makers[worker](code)
        self._begun_ns[worker] = time.monotonic_ns()
        self._lanes[worker].send(frame)


async def _measure(plan: BenchPlan, leader: str, groups: list[_GroupState]) -> BenchResult:
    loop, tls = asyncio.get_running_loop(), process_tls()
    context = None if tls is None else tls.context
    lanes = [LoadConnection() for _ in range(plan.connections)]
    for lane, address in zip(lanes, cycle(plan.controllers if plan.spread else (leader,)), strict=False):
        await loop.create_connection(partial(_given, lane), *read_host_port(address), ssl=context)
    run = _Run(plan, groups, lanes)
    for lane in lanes:
        lane.on_answer, lane.on_lost = run.on_answer, run.lost
    result = await run.measure(plan.warm_up_s, plan.duration_s)
    for lane in lanes:
        lane.close()
    return result


def _given(lane: LoadConnection) -> LoadConnection:
    return lane


def _quantile_ms(ordered_ns: list[int], share: float) -> float:
    if not ordered_ns:
        return 0.0
    return round(ordered_ns[min(len(ordered_ns) - 1, int(share * len(ordered_ns)))] / _NS_PER_MS, 3)


def _maker(workload: str, group: _GroupState, opaque: int) -> Callable[[int], bytes]:
    """Return what makes a worker's next frame, given the code of the answer before."""
    match workload:
        case "get-replica-info":
            ext = headers.GetReplicaInfoRequestHeader(group.place.name).to_ext()
            request = RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, ext)
        case "heartbeat":
            request = RemotingCommand.request(
                RequestCode.BROKER_HEARTBEAT, _beat(group.place, 1, group.master_epoch)
            )
        case "register":
            name, address = group.place.name, group.place.address(2)
            register = headers.RegisterBrokerToControllerRequestHeader(CLUSTER, name, 2, address)
            request = RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, register.to_ext())
        case "alter":
            return _alterations(group, opaque)
        case _:
            raise BenchError(f"unknown workload {workload!r}; known are {', '.join(WORKLOADS)}")
    frame = encode(request.with_opaque(opaque))
    return lambda _code: frame


def _alterations(group: _GroupState, opaque: int) -> Callable[[int], bytes]:
    ext = headers.AlterSyncStateSetRequestHeader(group.place.name, 1, group.master_epoch).to_ext()
    begun = False

    def make(code: int) -> bytes:
        """Return the next request; an answer that was a success has changed what the next one must name."""
        nonlocal begun
        if begun and code == ResponseCode.SUCCESS:
            group.set_epoch += 1
            group.small = not group.small
        begun = True
        wanted = SyncStateSet.of((1, 2, 3) if group.small else (1, 2), group.set_epoch)
        request = RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, ext, wanted.encode())
        return encode(request.with_opaque(opaque))

    return make
