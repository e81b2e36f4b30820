"""The cache of the API server's objects: always current, or no answer.

The tests move its clock.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rocketmq_operator.clients.api import BusyError, PeerUnavailableError
from rocketmq_operator.clients.reflection import (
    BACKOFF_MAX_S,
    MISSING_POLL_S,
    RELIST_S,
    SECRET_S,
    SILENT_MAX_S,
    ReadOnlyError,
    Reflection,
    Reflections,
    StaleError,
)
from rocketmq_operator.clients.stream import KindMissingError, VersionGoneError
from testkit.memory.kubernetes import MemoryKube

Json = dict[str, Any]
OUTAGE_S = 600.0
LABELS = {"rocketmq-ha.dev/cluster": "main", "rocketmq-ha.dev/group": "orders"}


def _pod(name: str, version: int, labels: dict[str, str] = LABELS) -> Json:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata | {"managedFields": [{"manager": "kubelet"}]}}


class _Server:
    """Lists and watches as an API server that a test commands; time passes when somebody sleeps."""

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.now_s = 0.0
        self.version = 1
        self.lists = 0
        self.watches: list[str] = []
        self.slept: list[float] = []
        self.failures: list[Exception] = []
        self.events: asyncio.Queue[tuple[str, Json] | Exception | None] = asyncio.Queue()

    async def list(self, kind: str, namespace: str, label: str) -> tuple[list[Json], str]:
        self.lists += 1
        if self.failures:
            raise self.failures.pop(0)
        return list(self.pods.values()), str(self.version)

    async def watch(
        self, kind: str, namespace: str, label: str, version: str
    ) -> AsyncIterator[tuple[str, Json]]:
        self.watches.append(version)
        while (event := await self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    def put(self, type_: str, pod: Json) -> None:
        self.events.put_nowait((type_, pod))

    def end_watch(self, error: Exception | None = None) -> None:
        self.events.put_nowait(error)

    def clock(self) -> float:
        return self.now_s


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> _Server:
    server, real_sleep = _Server(), asyncio.sleep

    async def sleep(delay_s: float) -> None:
        server.slept.append(delay_s)
        server.now_s += delay_s
        await real_sleep(0)

    monkeypatch.setattr("rocketmq_operator.clients.reflection.asyncio.sleep", sleep)
    return server


class _Running:
    """A reflection of pods that runs for as long as the context lasts."""

    def __init__(self, server: _Server, kind: str = "Pod") -> None:
        self.told: list[tuple[str, bool]] = []
        self.kept = Reflection(server, kind, "shop", server.clock, self._told)

    def _told(self, kind: str, found: Json, gone: bool) -> None:
        name = found["metadata"]["name"]
        self.told.append((name, self.kept.get("shop", name) is not None))

    async def __aenter__(self) -> Reflection:
        self._task = asyncio.create_task(self.kept.run())
        await _until(lambda: self.kept.fresh)
        return self.kept

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def _until(holds: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        while not holds():
            step = loop.create_future()
            loop.call_soon(step.set_result, None)
            await step


def _names(kept: Reflection, labels: dict[str, str] = LABELS) -> list[str]:
    return [pod["metadata"]["name"] for pod in kept.find("shop", labels)]


async def test_what_is_listed_and_what_changes_is_kept(server: _Server) -> None:
    server.pods["orders-0"] = _pod("orders-0", 1)
    async with _Running(server) as kept:
        assert _names(kept) == ["orders-0"]
        server.put("ADDED", _pod("orders-1", 2))
        await _until(lambda: len(_names(kept)) == 2)
        server.put("MODIFIED", _pod("orders-1", 3, {"rocketmq-ha.dev/cluster": "main"}))
        await _until(lambda: _names(kept) == ["orders-0"])
        assert len(_names(kept, {"rocketmq-ha.dev/cluster": "main"})) == 2
        server.put("DELETED", _pod("orders-0", 4))
        await _until(lambda: _names(kept) == [])
        assert kept.get("shop", "orders-0") is None
        assert kept.get("elsewhere", "orders-1") is None
        found = kept.get("shop", "orders-1")
        assert found is not None
        assert (found["kind"], found["apiVersion"], "managedFields" in found["metadata"]) == (
            "Pod",
            "v1",
            False,
        )


async def test_who_is_told_of_a_change_finds_it_kept_already(server: _Server) -> None:
    running = _Running(server)
    async with running:
        server.put("ADDED", _pod("orders-0", 2))
        server.put("BOOKMARK", _pod("", 3, {}))
        server.put("DELETED", _pod("orders-0", 4))
        await _until(lambda: len(running.told) == 2)
        assert running.told == [("orders-0", True), ("orders-0", False)]


async def test_a_watch_that_ends_goes_on_from_the_newest_version_without_a_list(server: _Server) -> None:
    async with _Running(server):
        server.put("BOOKMARK", _pod("", 7, {}))
        server.end_watch()
        await _until(lambda: len(server.watches) == 2)
        assert (server.watches, server.lists, server.slept) == (["1", "7"], 1, [])


async def test_a_version_that_is_gone_is_listed_anew_and_what_was_missed_is_seen(server: _Server) -> None:
    server.pods["orders-0"] = _pod("orders-0", 1)
    async with _Running(server) as kept:
        server.pods = {"orders-1": _pod("orders-1", 9)}
        server.end_watch(VersionGoneError("410 Gone"))
        await _until(lambda: server.lists == 2)
        assert _names(kept) == ["orders-1"], "a deletion without an event"
        assert kept.get("shop", "orders-0") is None


async def test_from_time_to_time_all_is_listed_anew(server: _Server) -> None:
    async with _Running(server):
        server.now_s += RELIST_S
        server.end_watch()
        await _until(lambda: server.lists == 2)


async def test_while_the_api_server_is_gone_nothing_is_answered_and_it_is_asked_ever_less(
    server: _Server,
) -> None:
    async with _Running(server) as kept:
        server.failures = [PeerUnavailableError("gone")] * 100
        server.end_watch(PeerUnavailableError("the connection broke"))
        await _until(lambda: server.now_s > OUTAGE_S)
        assert not kept.fresh
        assert server.lists < 1 + OUTAGE_S / (BACKOFF_MAX_S / 2) + 8
        assert max(server.slept) <= BACKOFF_MAX_S
        server.failures.clear()
        await _until(lambda: kept.fresh)


async def test_an_api_server_that_asks_for_time_is_given_it(server: _Server) -> None:
    async with _Running(server) as kept:
        server.failures = [BusyError("429 Too Many Requests", 17.0)]
        server.end_watch(PeerUnavailableError("the connection broke"))
        await _until(lambda: server.lists == 3 and kept.fresh)
        assert server.slept[1] == 17.0


async def test_a_watch_that_gives_no_sign_is_dead_though_its_connection_is_open(server: _Server) -> None:
    async with _Running(server) as kept:
        server.now_s += SILENT_MAX_S - 1
        assert kept.fresh
        server.now_s += 1
        assert not kept.fresh
        assert kept.silence_s == SILENT_MAX_S


async def _all(server: _Server, kube: MemoryKube) -> tuple[Reflections, asyncio.Task[None]]:
    kept = Reflections(kube, server, ["shop"], server.clock, ["Pod"])
    task = asyncio.create_task(kept.run())
    await _until(lambda: server.lists == 1 and kept.silence_s == 0)
    return kept, task


async def test_what_is_not_followed_is_not_answered(server: _Server) -> None:
    server.pods["orders-0"] = _pod("orders-0", 1)
    kept, task = await _all(server, MemoryKube())
    await _until(lambda: bool(server.watches))
    assert len(await kept.find("Pod", "shop", LABELS)) == 1
    for asked in (
        kept.find("Service", "shop", LABELS),
        kept.find("Pod", "elsewhere", LABELS),
        # The cache holds only objects of a cluster: it cannot say that others do not exist.
        kept.find("Pod", "shop", {"rocketmq-ha.dev/canary": "orders"}),
        kept.get("CronJob", "shop", "weekly"),
    ):
        with pytest.raises(StaleError):
            await asked
    task.cancel()


async def test_nothing_can_be_written_by_what_is_kept(server: _Server) -> None:
    kube = MemoryKube()
    kept, task = await _all(server, kube)
    for write in (
        kept.apply({"kind": "Service"}),
        kept.apply_status({"kind": "BrokerGroup"}),
        kept.create({"kind": "Event"}),
        kept.replace({"kind": "Lease"}),
        kept.delete("Pod", "shop", "orders-0", "uid-1"),
    ):
        with pytest.raises(ReadOnlyError):
            await write
    assert kube.writes == []
    task.cancel()


class _Counting(MemoryKube):
    """Counts questions for one object."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        self.asked += 1
        return await super().get(kind, namespace, name)


async def test_a_secret_is_asked_for_by_name_and_remembered_for_a_while(server: _Server) -> None:
    kube = _Counting()
    kept, task = await _all(server, kube)
    assert await kept.get("Secret", "shop", "token") is None
    kube.put({"kind": "Secret", "metadata": {"name": "token", "namespace": "shop"}})
    for _ in range(5):
        assert await kept.get("Secret", "shop", "token") is not None
    assert kube.asked == 2, "the operator requests an absent one again"
    server.now_s += SECRET_S
    await kept.get("Secret", "shop", "token")
    assert kube.asked == 3
    task.cancel()


async def test_a_kind_that_is_deleted_is_forgotten_and_found_when_it_is_applied_again(
    server: _Server,
) -> None:
    server.pods["prices"] = _pod("prices", 1)
    running = _Running(server, "Topic")
    async with running as kept:
        assert running.told == [("prices", True)], "the first list causes notifications"
        server.pods.clear()
        server.failures += [KindMissingError("404")] * 100
        server.end_watch(KindMissingError("404"))
        await _until(lambda: server.lists == 50)
        assert running.told[1:] == [("prices", False)], "the objects went with their kind"
        assert (kept.missing, kept.fresh) == (True, False)
        assert kept.silence_s <= MISSING_POLL_S, "an answer ends the silence: a restart would not help"
        assert set(server.slept) == {MISSING_POLL_S}
        server.failures.clear()
        server.pods["prices"] = _pod("prices", 9)
        await _until(lambda: kept.fresh)
        assert (running.told[2:], kept.missing) == ([("prices", True)], False)
        server.put("ADDED", _pod("rates", 10))
        await _until(lambda: ("rates", True) in running.told)


async def test_a_kind_that_was_missing_at_the_start_is_found_when_it_comes(server: _Server) -> None:
    server.failures += [KindMissingError("404")] * 3
    server.pods["prices"] = _pod("prices", 1)
    running = _Running(server, "Topic")
    async with running as kept:
        assert (running.told, kept.missing) == ([("prices", True)], False)


@pytest.mark.parametrize("kind", ["Topic", "Pod", "Job"])
async def test_a_change_during_a_gap_of_the_watch_is_told_once(server: _Server, kind: str) -> None:
    server.pods |= {name: _pod(name, 1) for name in ("kept", "changed", "gone", "heard")}
    running = _Running(server, kind)
    async with running:
        assert sorted(running.told) == [(name, True) for name in sorted(server.pods)], (
            "the first list is news"
        )
        running.told.clear()
        server.put("MODIFIED", _pod("heard", 2))
        server.pods |= {"changed": _pod("changed", 3), "new": _pod("new", 4), "heard": _pod("heard", 2)}
        del server.pods["gone"]
        for _ in range(2):
            server.end_watch(VersionGoneError("410"))
        await _until(lambda: server.lists == 3 and len(server.watches) == 3)
        assert running.told[0] == ("heard", True), "by the watch, and not again by the list"
        assert sorted(running.told[1:]) == [("changed", True), ("gone", False), ("new", True)]


async def test_a_receiver_that_breaks_does_not_end_the_watch(server: _Server) -> None:
    told: list[str] = []

    def break_once(_kind: str, found: Json, _gone: bool) -> None:
        told.append(found["metadata"]["name"])
        if len(told) == 1:
            raise KeyError("spec")

    kept = Reflection(server, "Pod", "shop", server.clock, break_once)
    task = asyncio.create_task(kept.run())
    for name in ("odd", "orders-0"):
        server.put("ADDED", _pod(name, 2))
    await _until(lambda: len(told) == 2 or task.done())
    assert told == ["odd", "orders-0"]
    assert _names(kept) == ["odd", "orders-0"]
    task.cancel()


@pytest.mark.parametrize(
    ("kind", "label"),
    [("Topic", ""), ("Pod", "rocketmq-ha.dev/cluster"), ("Job", "rocketmq-ha.dev/slo-report")],
)
def test_of_foreign_kinds_only_objects_with_our_label_are_followed(
    server: _Server, kind: str, label: str
) -> None:
    assert Reflection(server, kind, "shop", server.clock).label == label


async def test_a_watch_that_is_refused_after_each_list_is_begun_more_and_more_rarely(server: _Server) -> None:
    async with _Running(server):
        for _ in range(12):
            server.end_watch(VersionGoneError("410"))
        await _until(lambda: server.lists == 13)
        assert server.slept[-1] >= BACKOFF_MAX_S / 2


async def test_certificates_are_asked_for_rarely_while_all_are_issued_and_bring_their_secrets() -> None:
    kube, now = MemoryKube(), [0.0]
    cached = Reflections(kube, _Server(), [], lambda: now[0])
    labels = {"rocketmq-ha.dev/cluster": "main"}
    metadata = {"name": "main-issued-n0", "namespace": "shop"}
    kube.put({"kind": "Secret", "metadata": metadata, "data": {"tls.crt": "MQ=="}})
    spec = {"secretName": "main-issued-n0"}
    kube.put({"kind": "Certificate", "metadata": metadata | {"labels": labels}, "spec": spec})
    ready = {"type": "Ready", "status": "False"}
    kube.objects["Certificate", "shop", "main-issued-n0"]["status"] = {"conditions": [ready]}
    assert (await cached.find("Certificate", "shop", labels))[0]["status"]["conditions"] == [ready]
    assert await cached.get("Secret", "shop", "main-issued-n0")
    kube.objects["Secret", "shop", "main-issued-n0"]["data"] = {"tls.crt": "Mg=="}
    ready["status"] = "True"
    (found,) = await cached.find("Certificate", "shop", labels)
    assert found["status"]["conditions"][0]["status"] == "True"
    secret = await cached.get("Secret", "shop", "main-issued-n0")
    assert secret is not None
    assert secret["data"] == {"tls.crt": "Mg=="}
    kube.objects.clear()
    assert await cached.find("Certificate", "shop", labels) == [found]
    now[0] += SECRET_S
    assert await cached.find("Certificate", "shop", labels) == []
