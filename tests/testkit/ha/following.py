"""The replica's follower at work in a test's own loop.

It has a store, a view of the group, and a broker that tells an HA address.

The HA port itself is whatever the test has: a master by hand, a Java store, a port of ours. No controller
takes part; the test names the master, as a notice would.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from controller_core.channel import Connection, Server, serve
from controller_core.groups.keys import BrokerId
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ExchangeHAInfoResponseHeader
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.events import EventLog
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.replica.follower import Follower
from ha_sidecar.replica.group_view import FollowedGroup, MasterRole
from ha_sidecar.replica.metrics import ReplicaMetrics, ReplicaNumbers

WAIT_S: Final = 60.0
OUR_ID: Final = BrokerId(2)
_POLL_S: Final = 0.01
_NOWHERE: Final = ("127.0.0.1", 1)


async def announced(role: MasterRole) -> str:
    """Return the address that a master announced, for tests without lent addresses."""
    return role.master_address or ""


class Following:
    """A follower that runs; made by `following`.

    Attributes:
        store: where its log goes. Acks follow each write.
        view: what it knows of the group.
        work: ends when the follower does, with its error.
        lent: addresses that lead to a broker other than their own, with that broker's address.
        unclean: whether the controllers allow unclean elections; None while they do not tell.
    """

    def __init__(self, store: ReplicaStore, config: ReplicaConfig) -> None:
        """Make the parts; `following` runs them."""
        self.store: Final = store
        self.view: Final = FollowedGroup()
        self.view.broker_id = OUR_ID
        self._events: Final = EventLog(config.cluster, config.group)
        self._metrics: Final = ReplicaMetrics(
            (config.cluster, config.group, str(OUR_ID)), lambda: ReplicaNumbers(0, 0, 0, False, 0, 0, 0)
        )
        self._servers: Final[list[Server]] = []
        self.lent: Final[dict[str, str]] = {}
        self.unclean: bool | None = None
        self.follower: Final = Follower(
            *(config, store, self.view, self._events, self._metrics),
            wake_syncer=None,
            before_link=_nothing,
            link_ended=lambda: None,
            met_at=self._met_at,
            ask_unclean=self._ask_unclean,
        )
        self.follower.set_room(True)  # no test here looks at the disk
        self.work: Final = asyncio.ensure_future(self.follower.run())

    async def _met_at(self, role: MasterRole) -> str:
        address = await announced(role)
        return self.lent.get(address, address)

    async def _ask_unclean(self) -> bool | None:
        return self.unclean

    async def led_by(
        self, ha_port: int, epoch: int, master_id: int = 1, *, lent: str = "", is_in_tls: bool | None = None
    ) -> None:
        """Learn of a master that has its HA port there; its broker's address is one of its own.

        With `lent` it announced that address, which leads to somebody else. With `is_in_tls` it promises TLS.
        """
        header = ExchangeHAInfoResponseHeader(
            master_ha_address=f"127.0.0.1:{ha_port}", master_ha_tls=is_in_tls
        )

        def answer(_: Connection, request: RemotingCommand) -> RemotingCommand:
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext())

        def accept(connection: Connection) -> None:
            connection.on_request = answer

        server = await serve("127.0.0.1", 0, accept)
        self._servers.append(server)
        met_at = f"127.0.0.1:{server.port}"
        if lent:
            self.lent[lent] = met_at
        if not self.view.learn(epoch, BrokerId(master_id), lent or met_at, None):
            raise AssertionError(f"epoch {epoch} is not a new epoch")

    async def reach(self, offset: int) -> None:
        """Wait until its log ends there."""
        await self.until(lambda: self.store.log.max_offset == offset, f"log up to {offset}")

    async def event(self, kind: str, number: int = 1) -> dict[str, str]:
        """Wait for the so manieth event of this kind; return its facts."""
        await self.until(lambda: len(self.events(kind)) >= number, f"{kind} number {number}")
        return self.events(kind)[number - 1]

    def events(self, kind: str) -> list[dict[str, str]]:
        """Return the facts of all events of this kind so far."""
        return [event["attrs"] for event in self._events.after(0) if event["kind"] == kind]

    def metric(self, name: str) -> float:
        """Return the value of one of its metrics."""
        lines = self._metrics.text().decode().splitlines()
        (line,) = [line for line in lines if line.startswith(name + "{")]
        return float(line.rpartition(" ")[2])

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for something that the follower brings about.

        Raises:
            TimeoutError: it does not come; the text says what.
        """
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    if is_so():
                        return
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise TimeoutError(f"no {what} within {WAIT_S} s") from None

    async def end(self) -> None:
        """End the follower and whatever answers it, whichever way it went."""
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)
        for server in self._servers:
            await server.close()


@contextlib.asynccontextmanager
async def following(directory: Path, file_bytes: int, **config: Any) -> AsyncIterator[Following]:
    """Open a store there and run a follower on it; `config` are fields of `ReplicaConfig`."""
    settings = ReplicaConfig(
        cluster="c",
        group="g",
        controllers=(_NOWHERE,),
        listen=_NOWHERE,
        http=_NOWHERE,
        store=directory,
        mapped_file_bytes=file_bytes,
        **config,
    )
    store = ReplicaStore(directory, file_bytes)
    made = Following(store, settings)
    try:
        yield made
    finally:
        await made.end()
        store.close()


async def _nothing() -> None:
    return
