"""A canary in this process against a name server and a broker that answer, fall silent, or are not there."""

import asyncio
import contextlib
import itertools
import json
import struct
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller_core.channel import ConnectError, Connection, Server, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from slo_pipeline.canary import reader, sender
from slo_pipeline.canary.canary import Canary, CanarySettings
from slo_pipeline.canary.command import GAPS_PATH
from slo_pipeline.canary.link import Link
from slo_pipeline.canary.metrics import CanaryMetrics
from slo_pipeline.canary.read_plan import ReadPlan
from slo_pipeline.shell.clock import AnchoredClock
from slo_pipeline.shell.http_port import served
from slo_pipeline.writing.segment_store import SegmentStore
from slo_pipeline.writing.sink import SegmentSink
from testkit.clocks.patient_loop import patient_clocks
from testkit.processes.ports import free_port

RATE = 50
WAIT_S = 30.0


class OneQueueGroup:
    """A broker with one queue and the name server that lists it, as far as a canary can tell."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.topic_known = False
        self.master = ""
        self.answer: Callable[[RemotingCommand], RemotingCommand | None] = self.store
        self.broker: Server | None = None
        self.frozen: set[Connection] = set()
        self.clients: set[Connection] = set()
        self.late_s = 0.0
        self.metrics = CanaryMetrics("orders")

    def sent(self, result: str) -> float:
        """Return how many of the canary's sends came to this result."""
        labels = {"group": "orders", "result": result}
        return self.metrics.registry.get_sample_value("rmqha_canary_send_total", labels) or 0.0

    def store(self, request: RemotingCommand) -> RemotingCommand:
        """Keep a message, as a healthy broker."""
        self.log.append(request.body)
        ext = {"msgId": "m", "queueId": "0", "queueOffset": str(len(self.log) - 1)}
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, ext)

    def serve_client(self, client: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer as broker or name server."""
        match request.code:
            case RequestCode.SEND_MESSAGE_V2 if client in self.frozen:
                return None
            case RequestCode.SEND_MESSAGE_V2 if self.late_s:
                asyncio.get_running_loop().call_later(self.late_s, client.send, self.store(request))
                return None
            case RequestCode.SEND_MESSAGE_V2:
                self.clients.add(client)
                return self.answer(request)
            case RequestCode.PULL_MESSAGE:
                return self._pull(request)
            case RequestCode.UPDATE_AND_CREATE_TOPIC:
                self.topic_known = True
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS)
            case RequestCode.GET_ROUTEINFO_BY_TOPIC if self.topic_known:
                queues = [{"brokerName": "orders", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}]
                return self._json(request, {"brokerDatas": [self._data()], "queueDatas": queues})
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                return RemotingCommand.response_to(request, ResponseCode.TOPIC_NOT_EXIST)
            case _:
                return self._json(
                    request, {"brokerAddrTable": {"orders": self._data()}, "clusterAddrTable": {}}
                )

    def _data(self) -> dict[str, object]:
        addresses = {"0": self.master} if self.master else {}
        return {"brokerName": "orders", "cluster": "main", "brokerAddrs": addresses}

    def _json(self, request: RemotingCommand, body: object) -> RemotingCommand:
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=json.dumps(body).encode())

    def _pull(self, request: RemotingCommand) -> RemotingCommand:
        offset = int((request.ext or {})["queueOffset"])
        batch = self.log[offset : offset + 32]
        if not batch:
            return RemotingCommand.response_to(request, ResponseCode.PULL_NOT_FOUND)
        body = b"".join(_stored(at, data) for at, data in enumerate(batch, offset))
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)


def _stored(offset: int, body: bytes) -> bytes:
    fixed = struct.pack(">IIiiqqi", 0xDAA320A7, 0, 0, 0, offset, 0, 0) + bytes(32 + 12)
    rest = struct.pack(">i", len(body)) + body + b"\x01T\x00\x00"
    return struct.pack(">i", 4 + len(fixed) + len(rest)) + fixed + rest


@pytest.fixture
async def group() -> AsyncIterator[OneQueueGroup]:
    one = OneQueueGroup()
    # Not a port that the kernel may give to somebody else while a test has it closed.
    port = free_port()
    one.broker = await serve("127.0.0.1", port, lambda made: setattr(made, "on_request", one.serve_client))
    one.master = f"127.0.0.1:{one.broker.port}"
    yield one
    await one.broker.close()


@contextlib.asynccontextmanager
async def probing(
    group: OneQueueGroup, directory: Path, made: list[Canary] | None = None
) -> AsyncIterator[SegmentSink]:
    """Run a canary against the group (put into `made`); on exit it reads the rest and syncs its segments."""
    name_server = await serve("127.0.0.1", 0, lambda made: setattr(made, "on_request", group.serve_client))
    settings = CanarySettings([("127.0.0.1", name_server.port)], "orders", "Canary", rate=RATE)
    with SegmentStore(directory, "canary-orders") as store:
        sink = SegmentSink(store)
        canary = Canary(settings, sink, group.metrics)
        if made is not None:
            made.append(canary)
        task = asyncio.create_task(canary.run())
        try:
            yield sink
        finally:
            canary.stop()
            await task
            assert await sink.flush()
            await name_server.close()


async def until_rows(sink: SegmentSink, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while sink.buffered()["probe_ops"] < count:  # noqa: ASYNC110 - a buffer signals nothing
            await asyncio.sleep(0.01)


async def until_sent(group: OneQueueGroup, result: str, more: int) -> None:
    """Wait until so many more sends came to this result."""
    wanted = group.sent(result) + more
    async with asyncio.timeout(WAIT_S):
        while group.sent(result) < wanted:  # noqa: ASYNC110 - a counter signals nothing
            await asyncio.sleep(0.01)


def all_rows(directory: Path, table: str) -> list[dict[str, Any]]:
    tables = [pq.ParquetFile(path).read() for path in directory.glob(f"{table}/day=*/[!.]*.parquet")]
    found: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    return found


def rows(directory: Path, op: str) -> list[dict[str, Any]]:
    found = [row for row in all_rows(directory, "probe_ops") if row["op"] == op]
    return sorted(found, key=lambda row: row["seq"])


async def test_a_healthy_group_is_all_ok_and_all_read(group: OneQueueGroup, tmp_path: Path) -> None:
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 10)
    sends, reads = rows(tmp_path, "send"), rows(tmp_path, "read")
    assert {row["result"] for row in sends + reads} == {"ok"}
    assert [row["seq"] for row in sends] == [row["seq"] for row in reads]
    assert [row["queue_offset"] for row in sends] == list(range(len(sends)))
    assert {row["broker_addr"] for row in sends} == {group.master}
    assert all(row["intended_ts"] <= row["start_ts"] <= row["end_ts"] for row in sends)


async def test_a_silent_broker_delays_no_later_send(
    group: OneQueueGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE_NS", 200_000_000)
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 5)
        group.answer = lambda _: None
        await until_sent(group, "timeout", 10)
        group.answer = group.store
        await until_sent(group, "ok", 10)
    sends = rows(tmp_path, "send")
    results = [row["result"] for row in sends]
    assert {"ok", "timeout"} == set(results)
    assert {row["end_ts"] for row in sends if row["result"] == "timeout"} == {None}
    steps = {
        round((later["intended_ts"] - earlier["intended_ts"]).total_seconds() * RATE, 3)
        for earlier, later in itertools.pairwise(sends)
    }
    assert steps == {1.0}
    # Each began at its own time, not when the previous one was over.
    assert max((row["start_ts"] - row["intended_ts"]).total_seconds() for row in sends) < 0.15


async def test_a_connection_that_went_silent_is_replaced_though_the_address_stays(
    group: OneQueueGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE_NS", 200_000_000)
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 5)
        group.frozen = set(group.clients)
        await until_sent(group, "timeout", 1)
        await until_sent(group, "ok", 25)
    results = [row["result"] for row in rows(tmp_path, "send")]
    assert "timeout" in results
    assert results[-20:] == ["ok"] * 20


async def test_sends_that_the_canary_itself_is_late_for_are_not_recorded_as_failed(
    group: OneQueueGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled_ns = 0
    monotonic_ns, utc_ns = patient_clocks()
    clock = AnchoredClock(lambda: monotonic_ns() + stalled_ns, lambda: utc_ns() + stalled_ns)
    monkeypatch.setattr("slo_pipeline.canary.canary.AnchoredClock", lambda: clock)
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 5)
        for stall_ms in (550, 900, 990, 1_500):
            stalled_ns += stall_ms * 1_000_000
            await until_sent(group, "ok", 5)
        name = "rmqha_canary_missed_slots_total"
        missed = group.metrics.registry.get_sample_value(name, {"group": "orders"})
    sends = rows(tmp_path, "send")
    assert {row["result"] for row in sends} == {"ok"}
    assert max((row["start_ts"] - row["intended_ts"]).total_seconds() for row in sends) <= 0.5
    assert missed


async def test_an_operation_without_time_spoils_the_dial_of_none_that_has_some(group: OneQueueGroup) -> None:
    link = Link()
    with pytest.raises(ConnectError, match="did not accept within 0"):
        await link.get(group.master, 0.0)
    connection = await link.get(group.master, 1.0)
    assert (connection.is_closed, link.dialled) == (False, 1)
    await link.close()


async def test_an_answer_after_the_deadline_is_a_timeout(
    group: OneQueueGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE_NS", 100_000_000)
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 3)
        before = sink.buffered()["probe_ops"]
        group.late_s = 0.3
        await until_rows(sink, before + 15)
    results = [row["result"] for row in rows(tmp_path, "send")]
    assert set(results[before + 5 :]) == {"timeout"}


async def test_a_port_that_nobody_listens_on_is_a_refusal(group: OneQueueGroup, tmp_path: Path) -> None:
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 3)
        assert group.broker is not None
        await group.broker.close()
        await until_sent(group, "refused", 3)
        group.broker = await serve(
            "127.0.0.1",
            group.broker.port or int(group.master.rpartition(":")[2]),
            lambda made: setattr(made, "on_request", group.serve_client),
        )
        await until_sent(group, "ok", 3)
    results = [row["result"] for row in rows(tmp_path, "send")]
    assert "refused" in results
    assert (results[0], results[-1]) == ("ok", "ok")
    assert {row["result"] for row in rows(tmp_path, "read")} == {"ok"}


async def test_without_a_master_there_is_no_route_and_no_waiting(
    group: OneQueueGroup, tmp_path: Path
) -> None:
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 3)
        master, group.master = group.master, ""
        await until_sent(group, "no_route", 5)
        group.master = master
        await until_sent(group, "ok", 5)
    sends = rows(tmp_path, "send")
    assert {row["result"] for row in sends} == {"ok", "no_route"}
    assert {row["broker_addr"] for row in sends if row["result"] == "no_route"} == {""}
    seen = [dict(row["attrs"])["master_address"] for row in all_rows(tmp_path, "events")]
    assert seen == [master, master]


async def test_what_the_broker_says_no_with_is_kept(group: OneQueueGroup, tmp_path: Path) -> None:
    async with probing(group, tmp_path) as sink:
        await until_rows(sink, 3)
        group.answer = lambda request: RemotingCommand.response_to(
            request, ResponseCode.SYSTEM_ERROR, remark="in-sync replicas not enough"
        )
        await until_sent(group, "in_sync_replicas_not_enough", 3)
    refused = [row for row in rows(tmp_path, "send") if row["result"] != "ok"]
    assert {(row["result"], row["remark"]) for row in refused} == {
        ("in_sync_replicas_not_enough", "code 1: in-sync replicas not enough")
    }


async def test_an_acknowledged_message_that_the_log_lost_is_missing(
    group: OneQueueGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "ReadPlan", lambda: ReadPlan(grace_ns=200_000_000))
    made: list[Canary] = []
    async with probing(group, tmp_path, made) as sink:
        await until_rows(sink, 5)
        lost = group.log[-1]
        group.log[-1] = lost[:-1] + bytes([lost[-1] ^ 1])
        place = len(group.log) - 1
    missing = [row for row in rows(tmp_path, "read") if row["result"] == "missing"]
    assert [row["queue_offset"] for row in missing] == [place]
    (sent,) = [row for row in rows(tmp_path, "send") if row["seq"] == missing[0]["seq"]]
    assert made[0].gaps()["lost"] == [_text(sent["end_ts"])]


async def test_a_gap_is_served_with_its_length_while_the_canary_runs(
    group: OneQueueGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE_NS", 100_000_000)
    made: list[Canary] = []
    async with probing(group, tmp_path, made) as sink:
        await until_rows(sink, 5)
        group.answer = lambda _: None
        await until_sent(group, "timeout", 10)
        group.answer = group.store
        await until_sent(group, "ok", 10)
        (canary,) = made
        async with (
            served("127.0.0.1:0", CanaryMetrics("orders").registry, {GAPS_PATH: canary.gaps}) as host,
            aiohttp.ClientSession() as session,
            session.get(f"http://{host}{GAPS_PATH}") as answer,
        ):
            told = await answer.json()
    sends = [row for row in rows(tmp_path, "send") if row["result"] == "ok"]
    ends = sorted(row["end_ts"] for row in sends)
    before, after = max(itertools.pairwise(ends), key=lambda pair: pair[1] - pair[0])
    gap = {"start": _text(before), "end": _text(after)}
    assert gap in told["gaps"]
    assert told["since"] == _text(ends[0])
    assert told["until"] <= _text(ends[-1]), "the newest is younger than what the reader waits for"
    assert (told["group"], told["gap_min_ms"], told["lost"]) == ("orders", 50, [])


def _text(utc: datetime) -> str:
    return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
