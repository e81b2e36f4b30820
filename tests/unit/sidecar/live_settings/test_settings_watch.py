"""A companion gives its broker the settings that it takes at run time; see `test_settings_comparison`."""

import asyncio
import contextlib
import hashlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.broker_settings import LIVE_SETTINGS
from controller_core.channel import Connection
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.numbers import BrokerId, LogOffset
from ha_sidecar.address import host_port
from ha_sidecar.companion.companion import Companion
from ha_sidecar.decisions.broker_facts import BrokerFacts, settings
from ha_sidecar.live_settings import watch as settings_watch
from ha_sidecar.live_settings.watch import SettingsWatch
from testkit.fakes.answering_broker import AnsweringBroker
from testkit.processes.ports import free_port

FACTS = BrokerFacts(BrokerId(1), "127.0.0.1:1", True, 1, LogOffset(0), None, ())


class SettableBroker(AnsweringBroker):
    """One that takes settings as Java's does: invalid numbers are answered with success, and ignored."""

    running: dict[str, str]
    updates: int
    compared: int

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if self.access_refusal:
            return super()._on_request(connection, request)
        if request.code == RequestCode.GET_BROKER_CONFIG:
            self.compared += 1
            text = "".join(f"{name}={value}\n" for name, value in self.running.items())
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=text.encode())
        if request.code == RequestCode.UPDATE_BROKER_CONFIG:
            self.updates += 1
            for name, value in settings(request.body.decode()).items():
                if not LIVE_SETTINGS[name].isdigit() or value.isdigit():
                    self.running[name] = value
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS)
        return super()._on_request(connection, request)


class Watched:
    """A broker, its file, and the watch of it."""

    def __init__(self, broker: SettableBroker, file: Path) -> None:
        self.broker, self.file = broker, file
        self.facts: BrokerFacts | None = FACTS
        self.watch = SettingsWatch(file, Asker(host_port(broker.address)), lambda: self.facts)

    async def after(self, text: str) -> dict[str, Any] | None:
        """Look once after the file has this text."""
        self.file.write_text(text)
        await self.watch.look()
        return self.watch.told


@pytest.fixture
async def watched(answering_group: Any, tmp_path: Path) -> Watched:
    broker = await answering_group.add_kind(SettableBroker)
    broker.running, broker.updates, broker.compared = dict(LIVE_SETTINGS), 0, 0
    return Watched(broker, tmp_path / "broker.conf")


def _told(text: str, waiting: tuple[str, ...] = (), **refused: str) -> dict[str, Any]:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"file": digest, "waiting": list(waiting), "refused": refused}


async def test_a_setting_comes_changes_and_goes_without_a_restart(watched: Watched) -> None:
    running = watched.broker.running
    assert await watched.after(text := "listenPort=1\n") == _told(text)
    assert await watched.after(text := "fileReservedTime=48\nlistenPort=1\n") == _told(text)
    assert running["fileReservedTime"] == "48"
    assert await watched.after(text := "fileReservedTime=24\nlistenPort=1\n") == _told(text)
    assert running["fileReservedTime"] == "24"
    assert await watched.after(text := "listenPort=1\n") == _told(text)
    assert (running["fileReservedTime"], watched.broker.updates) == ("72", 3)


async def test_a_file_that_stays_is_compared_again_only_after_a_while(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "fileReservedTime=48\n"
    await watched.after(text)
    watched.broker.running["fileReservedTime"] = "1"
    compared = watched.broker.compared
    assert await watched.after(text) == _told(text)
    assert watched.broker.compared == compared
    monkeypatch.setattr(settings_watch, "CHECK_S", 0.0)
    await watched.after(text + "\n")
    watched.broker.running["fileReservedTime"] = "1"
    await watched.after(text + "\n")
    assert watched.broker.running["fileReservedTime"] == "48"


async def test_a_value_that_the_broker_does_not_take_is_told_and_sent_once(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settings_watch, "CHECK_S", 0.0)
    text = "fileReservedTime=soon\n"
    assert await watched.after(text) == _told(text, fileReservedTime="soon")
    assert await watched.after(text) == _told(text, fileReservedTime="soon")
    assert watched.broker.updates == 1
    assert caplog.text.count("the broker does not take fileReservedTime=soon") == 1
    assert await watched.after(text := "fileReservedTime=9\n") == _told(text)


async def test_other_settings_wait_until_the_broker_starts_again(watched: Watched) -> None:
    await watched.after("sendMessageThreadPoolNums=4\n")
    text = "sendMessageThreadPoolNums=6\n"
    assert await watched.after(text) == _told(text, ("sendMessageThreadPoolNums",))
    watched.facts = None
    assert await watched.after(text) is None
    watched.facts = FACTS
    assert await watched.after(text) == _told(text)
    assert watched.broker.updates == 0


async def test_a_broker_that_refuses_is_told_of_as_before(watched: Watched) -> None:
    before = await watched.after("fileReservedTime=48\n")
    watched.broker.access_refusal = "no"
    with pytest.raises(AskError):
        await watched.after("fileReservedTime=24\n")
    assert watched.watch.told == before


async def test_without_a_file_nothing_is_asked_nor_told(watched: Watched) -> None:
    await watched.watch.look()
    assert (watched.watch.told, watched.broker.compared) == (None, 0)


async def test_a_companion_runs_the_watch_and_tells_of_it(answering_group: Any, tmp_path: Path) -> None:
    broker = await answering_group.add_kind(SettableBroker)
    broker.running, broker.updates, broker.compared = dict(LIVE_SETTINGS), 0, 0
    file = tmp_path / "broker.conf"
    file.write_text("fileReservedTime=48\n")
    port = free_port()
    config = answering_group.config(broker, broker_conf=file, http=("127.0.0.1", port))
    running = asyncio.ensure_future(Companion(config).run())
    try:
        async with asyncio.timeout(30.0), aiohttp.ClientSession() as session:
            while await _settings_told(session, port) is None:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.05)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert broker.running["fileReservedTime"] == "48"


async def _settings_told(session: aiohttp.ClientSession, port: int) -> Any:
    with contextlib.suppress(aiohttp.ClientError):
        async with session.get(f"http://127.0.0.1:{port}/v1/status") as response:
            return (await response.json())["settings"]
    return None
