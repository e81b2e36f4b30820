"""Following the master: one HA link at a time, the right one, and what to do when it ends.

    new role        part from the old master, then connect to the new one at once
    asked to part   the same, before a new role is known: a controller is about to replace this master, which
                    may live; it is not followed again until another role is known, or `STAY_AWAY_S` are over
    link ended      poll the controllers quickly: its end comes before the notice of a new master; if the role
                    stays the same, try the same master again after `SAME_ROLE_WAIT_S`
    disk is full    follow no master until it has room, see `upkeep.retain`
    log diverged    move it aside (or end, as configured) and start over; `store.archive` keeps `ARCHIVES_MAX`

The role is what a majority of the controllers confirmed (`master_watch`). A log is cut or moved aside only by
what that master's own handshake shows, and a handshake that shows an epoch later than the confirmed one is
not used.

The wait is for the master's sake: while it has not noticed that the old connection is gone, a second one with
the same id would hold the confirm offset back and let the SyncStateSet shrink when the first times out. A
socket closed here is seen there within one round of its select, at most a second.

The HA address is asked from the master itself (request 906), which gives none until it has become master; so
the first answer with an address is also the sign to connect. A master that refuses (access control) is asked
ever less often, and its refusal is shown to a person. The controllers know the address of the master's own
process: where addresses move between brokers, the one that a new master announced may lead to its dead
predecessor, as long as no member has joined the new one. A log replica's answer promises TLS (`ha_socket`).

Source: AutoSwitchHAClient.java, AdminBrokerProcessor (906) 5.4.0.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from controller_core import bounded_json
from controller_core.channel import ChannelError, Connection, connect
from controller_core.channel.refusals import RefusalLog, refusal
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader
from controller_core.remoting.numbers import LogOffset
from ha_sidecar.address import AddressError, host_port
from ha_sidecar.commitlog.disk import write_atomically
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.events import EventLog, now_ns
from ha_sidecar.common.ha_link import NO_ROOM, DivergedError, HaLink, LinkEnd, starts_below_first_epoch
from ha_sidecar.common.ha_socket import HaEnd, told_end
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.replica.group_view import FollowedGroup, MasterRole
from ha_sidecar.replica.metrics import ReplicaMetrics
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import SlaveConfig

ASK_ADDRESS_S: Final = 0.01
CONNECT_TIMEOUT_S: Final = 0.5
REDIAL_S: Final = 0.2
"""How long the first question may take, the second twice as long and so on.

Where addresses move between brokers, a connection stays with its first peer; and a busy JVM may need longer
for one answer.
"""
REDIAL_S_MAX: Final = 2.0
REFUSED_PAUSE_S_MAX: Final = 1.0
LOOK_AGAIN_S: Final = 0.2
"""Between two questions for a master's own address: a thousand groups may look for theirs at once."""
SAME_ROLE_WAIT_S: Final = 1.0
CONNECT_AGAIN_S: Final = 0.1
STAY_AWAY_S: Final = 3.0
"""Longer than an election takes; one that did not come about must not keep the log from its master."""
PARTED_WITHIN_S: Final = 0.3
FOLLOWED_FILE: Final = "followedMaster"

_log = logging.getLogger(__name__)


class Follower:
    """Keeps the log following the group's master.

    Attributes:
        link: the HA link now, None between links.
        refusal: code and remark with which the master refused to tell its HA address last; empty if it did
            not.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        store: ReplicaStore,
        view: FollowedGroup,
        events: EventLog,
        metrics: ReplicaMetrics,
        wake_syncer: Callable[[], None] | None,
        before_link: Callable[[], Awaitable[None]],
        link_ended: Callable[[], None],
        met_at: Callable[[MasterRole], Awaitable[str]],
        ask_unclean: Callable[[], Awaitable[bool | None]],
    ) -> None:
        """Take the parts.

        `before_link` must be done before a master may receive an ack, `link_ended` hurries polls, and
        `met_at` returns the address of a master's own process, as the controllers know it. `ask_unclean` asks
        the controllers whether they allow unclean elections; None if they do not tell.
        """
        self.link: HaLink | None = None
        self.refusal = ""
        self._config: Final = config
        self._store: Final = store
        self._view: Final = view
        self._events: Final = events
        self._metrics: Final = metrics
        self._wake_syncer: Final = wake_syncer
        self._before_link: Final = before_link
        self._direct_address: Final = met_at
        self._ask_unclean: Final = ask_unclean
        self._unclean_elections = config.unclean_election
        self._room: Final = asyncio.Event()
        self._refused: Final = asyncio.Event()
        self._link_ended: Final = link_ended
        self._refusals: Final = RefusalLog(_log)
        self._loop: Final = asyncio.get_running_loop()
        self._ended: asyncio.Future[LinkEnd] | None = None
        self._start_at_file = False
        self._parted_epoch: int | None = None
        self._away_until_s = 0.0

    async def run(self) -> None:
        """Follow until cancelled.

        Raise `DivergedError` if configured to, and `OSError` if the disk failed.
        """
        try:
            while True:
                await self._room.wait()
                role = self._view.role
                if role.master_address is None or role.master_id == self._view.broker_id:
                    await self._view.wait_role(role)
                    continue
                await self._cancel_on_role_change(role, self._follow(role))
        finally:
            await self._end_link(HaLink.stop)

    async def part(self, epoch: int, wait_ms: int | None = None) -> bool:
        """Leave the master of this epoch, which is about to be replaced; it gets no ack after that.

        Args:
            epoch: of the master.
            wait_ms: for how long to wait until it has noticed; at most, and by default, `PARTED_WITHIN_S`.

        Returns:
            whether it is known to have noticed; a frozen one cannot have.
        """
        self._parted_epoch = epoch
        self._away_until_s = self._loop.time() + STAY_AWAY_S
        link, ended = self.link, self._ended
        if link is None or ended is None or self._view.role.epoch != epoch:
            return True
        within_s = PARTED_WITHIN_S if wait_ms is None else min(wait_ms / 1000, PARTED_WITHIN_S)
        link.part(None if wait_ms is None else within_s)
        try:
            async with asyncio.timeout(within_s):
                end = await asyncio.shield(ended)
        except TimeoutError:
            return False
        return not end.lingers

    @property
    def has_room(self) -> bool:
        """Say whether the disk has room; False before the first look."""
        return self._room.is_set()

    async def wait_refused(self, timeout_s: float) -> None:
        """Return as soon as the log refuses what a master sends, or after `timeout_s`."""
        self._refused.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._refused.wait()

    def set_room(self, has_room: bool) -> None:
        """Learn whether the disk has room; without it the link ends and no other one begins."""
        if has_room:
            self._room.set()
        elif self._room.is_set():
            self._room.clear()
            if self.link is not None:
                self.link.stop()

    async def _cancel_on_role_change(self, role: MasterRole, work: Awaitable[None]) -> None:
        """Do the work until it is done or the role is another one; never leave a link behind."""
        task = asyncio.ensure_future(work)
        changed = asyncio.ensure_future(self._view.wait_role(role))
        try:
            await asyncio.wait({task, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, changed, return_exceptions=True)
        await self._end_link(HaLink.part)
        if not task.cancelled():
            task.result()

    async def _follow(self, role: MasterRole) -> None:
        master = await self._ask_ha_end(role)
        await self._before_link()
        restarted_epoch = await self._restarted_epoch(role)
        await self._wait_until_allowed(role)
        ended: asyncio.Future[LinkEnd] = self._loop.create_future()
        observer = _Observer(self, role, ended)
        config = SlaveConfig(
            self._view.broker_id,
            self._config.mapped_file_bytes,
            restarted_epoch,
            self._start_at_file,
            async_learner=self._config.learner,
            sync_from_last_file=self._config.sync_from_last_file,
            confirmed_epoch=role.epoch,
        )
        self.link = HaLink(master.address, self._store, config, observer, self._wake_syncer, tls=master.tls)
        self.link.set_in_sync(not self._view.is_joining)
        self._ended = ended
        self.link.start()
        end = await asyncio.shield(ended)
        self.link = None
        self._link_ended()
        if end.disk_error is not None:
            raise end.disk_error
        if end.reason == NO_ROOM:
            _log.warning("nothing more is received: %s", end.detail)
            self._room.clear()
            self._refused.set()
        self._start_at_file = starts_below_first_epoch(end) or (self._start_at_file and not end.connected)
        if end.diverged is not None:
            await self._start_over(role, end)
        await asyncio.sleep(SAME_ROLE_WAIT_S if end.connected else CONNECT_AGAIN_S)

    async def _wait_until_allowed(self, role: MasterRole) -> None:
        """Wait until this master may be followed.

        Nothing may be awaited between this and the link's start.
        """
        left_s = self._away_until_s - self._loop.time()
        if role.epoch == self._parted_epoch and left_s > 0:
            await asyncio.sleep(left_s)
            await self._wait_until_allowed(role)  # it may have been asked again in between

    async def _end_link(self, how: Callable[[HaLink], None]) -> None:
        link, self.link = self.link, None
        if link is None:
            return
        how(link)
        # A link without a socket will never send its handshake; a dead host must not delay the next one.
        if link.is_connected and self._ended is not None:
            end = await asyncio.shield(self._ended)
            if end.disk_error is not None:
                raise end.disk_error

    async def _ask_ha_end(self, role: MasterRole) -> HaEnd:
        command = RemotingCommand.request(
            RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader().to_ext()
        )
        patience_s, looked_s, address = REDIAL_S, -LOOK_AGAIN_S, ""
        self.refusal = ""
        while True:
            if self._loop.time() - looked_s >= LOOK_AGAIN_S:
                looked_s, address = self._loop.time(), await self._direct_address(role)
            try:
                connection = await connect(
                    *host_port(address), CONNECT_TIMEOUT_S, sign=self._config.credentials
                )
            except (ChannelError, AddressError) as error:
                _log.debug("906 to %s: %s", address, error)
            else:
                try:
                    async with asyncio.timeout(patience_s):
                        return await self._ask_until_answered(connection, command, role)
                except (TimeoutError, ChannelError, RemotingProtocolError, AddressError) as error:
                    _log.debug("906 to %s: %s", address, error)
                finally:
                    connection.close()
                patience_s = min(REDIAL_S_MAX, 2 * patience_s)
            await asyncio.sleep(ASK_ADDRESS_S)

    async def _ask_until_answered(
        self, connection: Connection, command: RemotingCommand, role: MasterRole
    ) -> HaEnd:
        pause_s, master = ASK_ADDRESS_S, f"the master at {connection.peer}"
        while True:
            answer = await connection.call(command, REDIAL_S_MAX)
            if answer.code != ResponseCode.SUCCESS:
                self.refusal = refusal("request 906", answer)
                self._refusals.refused(master, self.refusal)
                pause_s = min(REFUSED_PAUSE_S_MAX, 2 * pause_s)
            else:
                self.refusal, pause_s = "", ASK_ADDRESS_S
                self._refusals.answered(master)
                header = ExchangeHAInfoResponseHeader.from_ext(answer.ext)
                end = told_end(header, role.master_address or "", self._config.tls)
                if end is not None:
                    return end
            await asyncio.sleep(pause_s)

    async def _start_over(self, role: MasterRole, end: LinkEnd) -> None:
        self._metrics.divergences.inc()
        if self._config.on_divergence == "stop":
            raise DivergedError(f"{end.diverged}: {end.detail}")
        target = await asyncio.to_thread(self._store.archive)
        _log.warning("log diverged (%s): %s; it lies in %s now", end.diverged, end.detail, target)

    # The one epoch for which a rewritten start is understood: the epoch of a master that was followed in it.

    async def _restarted_epoch(self, role: MasterRole) -> int | None:
        path = self._followed_path()
        if not path.exists():
            return None
        followed = bounded_json.decode(path.read_bytes())
        if followed != {"epoch": role.epoch, "master_id": role.master_id}:
            return None
        told = await self._ask_unclean()
        if told is not None:
            self._unclean_elections = told
        return None if self._unclean_elections else role.epoch

    def _note_followed(self, role: MasterRole) -> None:
        text = json.dumps({"epoch": role.epoch, "master_id": role.master_id})
        write_atomically(self._followed_path(), text.encode())

    def _followed_path(self) -> Path:
        return self._store.directory / FOLLOWED_FILE

    # What a link reports, on the event loop.

    def report(self, kind: str, role: MasterRole, at_ns: tuple[int, int], attrs: dict[str, str]) -> None:
        """Record an event of a link that followed `role`."""
        self._events.add(kind, role.epoch, attrs, at_ns)
        if kind == "Truncated":
            self._metrics.truncations.inc()
            self._metrics.truncated_bytes.inc(int(attrs["bytes"]))
        elif kind == "Disconnected":
            self._metrics.reconnects.inc()


class _Observer:
    """Carries a link's reports from its thread to the event loop."""

    def __init__(self, follower: Follower, role: MasterRole, ended: "asyncio.Future[LinkEnd]") -> None:
        self._follower: Final = follower
        self._role: Final = role
        self._ended: Final = ended

    def on_handshake(self, done: HandshakeDone) -> None:
        # On the link's thread: the followed master is on disk before the first byte is taken.
        self._follower._note_followed(self._role)
        attrs = {
            "master_id": str(self._role.master_id),
            "master_max_offset": str(done.master_max_offset),
            "start_offset": str(done.start_offset),
            "rule": "" if done.rule is None else done.rule.value,
            "epochs": ",".join(f"{entry.epoch}-{entry.start_offset}" for entry in done.master_epochs),
        }
        self._report("HandshakeDone", attrs)

    def on_truncate(self, from_offset: LogOffset, to_offset: LogOffset) -> None:
        attrs = {
            "from_offset": str(from_offset),
            "to_offset": str(to_offset),
            "bytes": str(from_offset - to_offset),
        }
        self._report("Truncated", attrs)

    def on_caught_up(self, offset: LogOffset) -> None:
        _log.info("caught up at %d", offset)

    def on_end(self, end: LinkEnd) -> None:
        _log.info("HA link of epoch %d ended: %s %s", self._role.epoch, end.reason, end.detail)
        if end.connected:
            self._report("Disconnected", {"reason": end.reason, "detail": end.detail})
        self._call(self._finish, end)

    def _finish(self, end: LinkEnd) -> None:
        if not self._ended.done():
            self._ended.set_result(end)

    def _report(self, kind: str, attrs: dict[str, str]) -> None:
        self._call(self._follower.report, kind, self._role, now_ns(), attrs)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        loop = self._follower._loop
        if not loop.is_closed():
            loop.call_soon_threadsafe(function, *arguments)
