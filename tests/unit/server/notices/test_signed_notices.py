"""Notices and questions of controllers that have credentials."""

import asyncio
from pathlib import Path

from controller_core.access.signing import SIGNATURE, Credentials, signed
from controller_core.channel import Connection
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from testkit.fakes.answering_broker import AnsweringBroker
from testkit.processes.credentials import write_credentials
from testkit.products.one_controller import one_node

USER = Credentials("rocketmq-ha", "inner-password")
WAIT_S = 30.0


class RecordingBroker(AnsweringBroker):
    """A broker that remembers the requests of the controllers."""

    asked: tuple[RemotingCommand, ...] = ()

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.asked = (*self.asked, request)
        return super()._on_request(connection, request)


async def _requests_of_a_failover(directory: Path, settings: dict[str, str]) -> list[RemotingCommand]:
    """Return the requests that a slave gets when its master dies."""
    async with one_node(directory / "controller", settings) as node:
        brokers = [RecordingBroker([node.remoting], "b1", beat_interval_s=0.05) for _ in range(2)]
        for broker in brokers:
            await broker.start()
        master, slave = brokers
        await master.elect()
        master.become_master(1)
        await master.alter([1, 2], set_epoch=1)
        await master.die()
        async with asyncio.timeout(WAIT_S):
            while slave.epoch < 2:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.01)
        await slave.die()
        return list(slave.asked)


async def test_each_request_to_a_broker_is_signed(tmp_path: Path) -> None:
    path = write_credentials(tmp_path / "user", USER)
    asked = await _requests_of_a_failover(tmp_path, {"credentialsPath": str(path)})
    assert RequestCode.NOTIFY_BROKER_ROLE_CHANGED in {request.code for request in asked}
    assert [request.code for request in asked if request.ext != signed(request, USER).ext] == []


async def test_without_credentials_no_request_is_signed(tmp_path: Path) -> None:
    asked = await _requests_of_a_failover(tmp_path, {"credentialsPath": str(tmp_path / "none")})
    assert asked
    assert [request.code for request in asked if SIGNATURE in (request.ext or {})] == []
