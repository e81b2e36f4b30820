"""A load generator against running controllers: how many requests a second, and how long each takes.

Closed loop: `in_flight` workers share some connections, each sends its next request when the last one was answered. So
the numbers tell capacity at that concurrency, not behaviour under an arrival rate; latencies are those of the client's
own clock, its event loop included.

It registers groups of its own (`bench-<run>-<i>`, three brokers each, alive for as long as it runs) and cleans them up
afterwards. Run it against controllers that serve nothing else.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand

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
    """What to run against what."""

    controllers: tuple[str, ...]
    workload: str
    duration_s: float
    in_flight: int
    connections: int
    groups: int


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What came out; latencies in milliseconds."""

    workload: str
    requests: int
    errors: int
    elapsed_s: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(slots=True)
class _Group:
    """One group of the run: what its master knows."""

    name: str
    master_epoch: int
    set_epoch: int
    small: bool = True


async def run_bench(plan: BenchPlan) -> BenchResult:
    """Prepare, measure, clean up.

    Raises:
        BenchError: no controller leads, or a preparation was refused.
    """
    connections = await _connect_leader(plan)
    try:
        names = [f"bench-{os.getpid()}-{index}" for index in range(plan.groups)]
        groups = list(await asyncio.gather(*(_prepare(connections[0], name) for name in names)))
        result = await _measure(plan, connections, groups)
        await asyncio.gather(*(_clean(connections[0], name) for name in names))
    finally:
        for connection in connections:
            connection.close()
    return result


async def _connect_leader(plan: BenchPlan) -> list[Connection]:
    for address in plan.controllers:
        first = await _dial(address)
        answer = await first.call(
            RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO), CALL_TIMEOUT_S
        )
        first.close()
        leader = headers.GetMetaDataResponseHeader.from_ext(answer.ext).controller_leader_address
        if leader:
            return [await _dial(leader) for _ in range(plan.connections)]
    raise BenchError(f"none of {', '.join(plan.controllers)} knows a leader")


async def _dial(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    return await connect(host.strip("[]"), int(port), CALL_TIMEOUT_S)


async def _prepare(connection: Connection, name: str) -> _Group:
    for broker_id in range(1, BROKERS_PER_GROUP + 1):
        claim = headers.ApplyBrokerIdRequestHeader(CLUSTER, name, broker_id, f"{_address(broker_id)};1")
        await _must(connection, RequestCode.CONTROLLER_APPLY_BROKER_ID, claim.to_ext())
        await _must(connection, RequestCode.BROKER_HEARTBEAT, _beat(name, broker_id))
    elect = headers.ElectMasterRequestHeader(broker_name=name, cluster_name=CLUSTER, broker_id=1)
    answer = await _must(connection, RequestCode.CONTROLLER_ELECT_MASTER, elect.to_ext())
    header = headers.ElectMasterResponseHeader.from_ext(answer.ext)
    return _Group(name, header.master_epoch or 0, header.sync_state_set_epoch or 0)


async def _clean(connection: Connection, name: str) -> None:
    header = headers.CleanControllerBrokerDataRequestHeader(
        broker_name=name, cluster_name=CLUSTER, is_clean_living_broker=True
    )
    await _must(connection, RequestCode.CLEAN_BROKER_DATA, header.to_ext())


async def _must(connection: Connection, code: int, ext: dict[str, str]) -> RemotingCommand:
    answer = await connection.call(RemotingCommand.request(code, ext), CALL_TIMEOUT_S)
    if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
        raise BenchError(f"request {int(code)} was answered {answer.code}: {answer.remark}")
    return answer


def _address(broker_id: int) -> str:
    return f"127.0.0.1:{broker_id}"  # port 1, 2, 3: nobody listens there, so notices go nowhere


def _beat(name: str, broker_id: int) -> dict[str, str]:
    return headers.BrokerHeartbeatRequestHeader(
        CLUSTER,
        _address(broker_id),
        name,
        broker_id,
        epoch=0,
        max_offset=0,
        heartbeat_timeout_mills=_ALIVE_MS,
    ).to_ext()


async def _measure(plan: BenchPlan, connections: Sequence[Connection], groups: list[_Group]) -> BenchResult:
    latencies_ns: list[int] = []
    errors = 0
    started_ns = time.monotonic_ns()
    deadline_ns = started_ns + int(plan.duration_s * 1_000 * _NS_PER_MS)

    async def work(send: Callable[[], Awaitable[RemotingCommand]]) -> None:
        nonlocal errors
        while (begin_ns := time.monotonic_ns()) < deadline_ns:
            answer = await send()
            latencies_ns.append(time.monotonic_ns() - begin_ns)
            errors += answer.code != ResponseCode.SUCCESS

    await asyncio.gather(*(work(send) for send in _senders(plan, connections, groups)))
    elapsed_s = (time.monotonic_ns() - started_ns) / (1_000 * _NS_PER_MS)
    latencies_ns.sort()
    return BenchResult(
        workload=plan.workload,
        requests=len(latencies_ns),
        errors=errors,
        elapsed_s=round(elapsed_s, 3),
        requests_per_s=round(len(latencies_ns) / elapsed_s, 1),
        p50_ms=_quantile_ms(latencies_ns, 0.5),
        p99_ms=_quantile_ms(latencies_ns, 0.99),
        max_ms=_quantile_ms(latencies_ns, 1.0),
    )


def _quantile_ms(ordered_ns: list[int], share: float) -> float:
    if not ordered_ns:
        return 0.0
    return round(ordered_ns[min(len(ordered_ns) - 1, int(share * len(ordered_ns)))] / _NS_PER_MS, 3)


def _senders(
    plan: BenchPlan, connections: Sequence[Connection], groups: list[_Group]
) -> list[Callable[[], Awaitable[RemotingCommand]]]:
    """Return one sender a worker; a worker of `alter` owns its group, whose epochs follow from one another."""
    count = min(plan.in_flight, len(groups)) if plan.workload == "alter" else plan.in_flight
    pairs = zip(range(count), itertools.cycle(connections), itertools.cycle(groups), strict=False)
    return [_sender(plan.workload, connection, group) for _, connection, group in pairs]


def _sender(workload: str, connection: Connection, group: _Group) -> Callable[[], Awaitable[RemotingCommand]]:
    match workload:
        case "get-replica-info":
            request = RemotingCommand.request(
                RequestCode.CONTROLLER_GET_REPLICA_INFO,
                headers.GetReplicaInfoRequestHeader(group.name).to_ext(),
            )
        case "heartbeat":
            request = RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, _beat(group.name, 1))
        case "register":
            register = headers.RegisterBrokerToControllerRequestHeader(CLUSTER, group.name, 2, _address(2))
            request = RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, register.to_ext())
        case "alter":
            return lambda: _alter(connection, group)
        case _:
            raise BenchError(f"unknown workload {workload!r}; known are {', '.join(WORKLOADS)}")
    return lambda: connection.call(request, CALL_TIMEOUT_S)


async def _alter(connection: Connection, group: _Group) -> RemotingCommand:
    header = headers.AlterSyncStateSetRequestHeader(group.name, 1, group.master_epoch)
    wanted = SyncStateSet.of((1, 2) if group.small else (1,), group.set_epoch)
    request = RemotingCommand.request(
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header.to_ext(), wanted.encode()
    )
    answer = await connection.call(request, CALL_TIMEOUT_S)
    if answer.code == ResponseCode.SUCCESS:
        group.set_epoch += 1
        group.small = not group.small
    return answer
