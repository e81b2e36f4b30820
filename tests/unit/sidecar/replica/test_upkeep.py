"""A replica keeps its master's metadata, and follows no master while its disk is full."""

import asyncio
import contextlib
import errno
from pathlib import Path
from typing import Any

import pytest

from controller_core.channel import Connection, serve
from controller_core.channel.asking import Asker
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common import metadata
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.metadata import read
from ha_sidecar.decisions.metadata_tables import BY_CODE
from ha_sidecar.replica import upkeep as upkeep
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.replica.follower import Follower
from ha_sidecar.replica.group_view import FollowedGroup, MasterRole
from ha_sidecar.replica.metrics import ReplicaMetrics, ReplicaNumbers
from ha_sidecar.replica.retention import LogRetention
from ha_sidecar.replica.upkeep import keep_metadata, retain, retention_rule
from testkit.ha.following import announced

WAIT_S = 30.0
TOPICS = b'{"topicConfigTable":{"T":{}}}'
FILE_BYTES = 4096


def config_of(directory: Path) -> ReplicaConfig:
    nowhere = ("127.0.0.1", 1)
    return ReplicaConfig(
        cluster="c", group="g", controllers=(nowhere,), listen=nowhere, http=nowhere, store=directory
    )


class FakeLink:
    """A link that only counts calls of `stop`."""

    stops = 0

    def stop(self) -> None:
        """Count."""
        self.stops += 1


def follower_of(directory: Path, store: ReplicaStore, view: FollowedGroup) -> Follower:
    async def nothing() -> None:
        return

    metrics = ReplicaMetrics(("c", "g", "2"), lambda: ReplicaNumbers(0, 0, 0, False, 0, 0, 0))
    config, events = config_of(directory), EventLog("c", "g")
    parts = (config, store, view, events, metrics, None, nothing, lambda: None, announced)
    return Follower(*parts, ask_unclean=nothing)


async def test_without_room_the_link_ends_and_none_begins_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, view = ReplicaStore(tmp_path, FILE_BYTES), FollowedGroup()
    view.role = MasterRole(1, 1, "127.0.0.1:1")
    follower, link = follower_of(tmp_path, store, view), FakeLink()
    followed = asyncio.Event()

    async def follow(_role: MasterRole) -> None:
        followed.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(follower, "_follow", follow)
    assert not follower.has_room, "the disk check has not run yet"
    follower.set_room(True)
    follower.link = link  # type: ignore[assignment]  # the test only stops it
    follower.set_room(False)
    follower.set_room(False)
    assert link.stops == 1
    follower.link = None
    running = asyncio.ensure_future(follower.run())
    await asyncio.sleep(0.05)
    assert not followed.is_set()
    follower.set_room(True)
    await asyncio.wait_for(followed.wait(), WAIT_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    store.close()


async def test_a_disk_that_fills_and_empties_stops_and_starts_the_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [(0, False), (4096, True), (0, False)]

    def look(_: LogRetention) -> tuple[int, bool]:
        if not looks:
            raise OSError
        return looks.pop(0)

    monkeypatch.setattr(LogRetention, "look", look)
    store, told = ReplicaStore(tmp_path, FILE_BYTES), []

    class Told:
        def set_room(self, has_room: bool) -> None:
            told.append(has_room)

        async def wait_refused(self, _timeout_s: float) -> None:
            return

    fakes: Any = Told()
    with contextlib.suppress(OSError):  # the looks are over
        await asyncio.wait_for(retain(config_of(tmp_path), FollowedGroup(), store, fakes, fakes), WAIT_S)
    assert told == [True, False, True]
    store.close()


async def test_a_full_disk_keeps_no_metadata_until_it_has_room_and_other_errors_are_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "METADATA_S", 0.001)
    numbers = [errno.ENOSPC, errno.EDQUOT, errno.EIO]

    async def fetch(_asker: Asker) -> dict[int, bytes]:
        raise OSError(numbers.pop(0), "the disk")

    monkeypatch.setattr(metadata, "fetch", fetch)
    view = FollowedGroup()
    view.role = MasterRole(1, 1, "127.0.0.1:1")
    with pytest.raises(OSError, match="the disk") as raised:
        await asyncio.wait_for(keep_metadata(config_of(tmp_path), view), WAIT_S)
    assert raised.value.errno == errno.EIO
    assert numbers == []


async def test_what_the_master_knows_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "METADATA_S", 0.01)

    def answer(_: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.GET_ALL_TOPIC_CONFIG:
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=TOPICS)
        return RemotingCommand.response_to(request, ResponseCode.SYSTEM_ERROR)

    def accept(connection: Connection) -> None:
        connection.on_request = answer

    server = await serve("127.0.0.1", 0, accept)
    view = FollowedGroup()
    view.role = MasterRole(1, 1, f"127.0.0.1:{server.port}")
    running = asyncio.ensure_future(keep_metadata(config_of(tmp_path), view))
    async with asyncio.timeout(WAIT_S):
        while True:
            if read(tmp_path, BY_CODE[RequestCode.GET_ALL_TOPIC_CONFIG]) == TOPICS:
                break
            await asyncio.sleep(0.01)
    assert read(tmp_path, BY_CODE[RequestCode.GET_ALL_CONSUMER_OFFSET]) is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await server.close()


@pytest.mark.parametrize(
    ("told", "before", "hours"),
    [
        (b"fileReservedTime=48\n", None, 48),
        (b"fileReservedTime=48\n", 96, 48),
        (b"fileReservedTime=0\n", None, 1),
        (b"fileReservedTime=-3\n", 96, 96),
        (b"other=1\n", None, 72),
        (None, None, 72),
        (None, 96, 96),
    ],
)
async def test_files_are_kept_for_as_long_as_the_master_says_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bytes | None, before: int | None, hours: int
) -> None:
    monkeypatch.setattr(upkeep, "METADATA_S", 0.01)
    asked = asyncio.Event()

    def answer(_: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code != RequestCode.GET_BROKER_CONFIG:
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS)
        asked.set()
        if told is None:
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="no right")
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=told)

    def accept(connection: Connection) -> None:
        connection.on_request = answer

    server = await serve("127.0.0.1", 0, accept)
    view = FollowedGroup()
    view.role, view.retention_hours = MasterRole(1, 1, f"127.0.0.1:{server.port}"), before
    running = asyncio.ensure_future(keep_metadata(config_of(tmp_path), view))
    async with asyncio.timeout(WAIT_S):
        await asked.wait()
        while view.retention_hours != hours:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await server.close()


def test_no_file_goes_by_its_age_before_the_master_has_told_one(tmp_path: Path) -> None:
    view, years_ms = FollowedGroup(), 100 * 365 * 24 * 3_600_000
    assert retention_rule(config_of(tmp_path), view).keep_ms > years_ms
    view.retention_hours = 48
    assert retention_rule(config_of(tmp_path), view).keep_ms == 48 * 3_600_000
