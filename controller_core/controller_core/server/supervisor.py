"""Runs a node for as long as the process lives, over disks that fail and logs that begin empty.

    open the log --ok--> run the node --stop signal---------------------> end, 0
         ^  |                 |--no node has a log: this one founds-----> again, with the first snapshot
         |  |                 |--the log failed: serve the known state--> again, when the disk works
         |  |                 +--anything else--------------------------> end, 3
         |  +--the disk fails: say so on the HTTP port, wait, open again
         +--damaged, locked, or another node's: end, 3

A supervisor outside that restarts a process whose disk fails only adds noise. So this one stays, reports the
error (the log, `/readyz`, `/v1/status`), answers reads from its applied state, and goes on when the disk is
back. That is safe after a failed fsync too: the open files get no more writes; the log is read again and its
last segment is rewritten before it counts (`log.wal`).
"""

import asyncio
import errno
import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from controller_core.log.errors import LogFailedError, LogFullError
from controller_core.log.files import TEMPORARY_SUFFIX, Files, OsFiles
from controller_core.log.memory import MemoryStore
from controller_core.log.store import DiskStore
from controller_core.raft.types import ConfState, LogIndex, NodeId, Snapshot, Term
from controller_core.server.clock import Clock
from controller_core.server.controller import Controller
from controller_core.server.http_api.trouble_page import TroublePage
from controller_core.server.logs import bind
from controller_core.server.membership.changes import MembershipChanges
from controller_core.server.membership.founding import Founding
from controller_core.server.membership.members import ControllerMembers
from controller_core.server.node.raft_node import Node
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import NodeConfig
from controller_core.server.peers.codec import Greeting, GreetingReply
from controller_core.server.peers.greeting_rules import Identity
from controller_core.server.peers.identity_probe import ask
from controller_core.server.peers.transport import PeerTransport
from controller_core.server.settings.certificates import Tls
from controller_core.server.settings.config import Settings
from controller_core.server.settings.java_stores import java_store
from controller_core.server.settings.live_config import LiveConfig
from controller_core.server.settings.peer_list import Peer

EXIT_LOG: Final = 3
DISK_PAUSE_MIN_S: Final = 0.5
DISK_PAUSE_S_MAX: Final = 10.0
INCARNATION_BYTES: Final = 16
"""A store's incarnation is what a member proves itself by: too long to be guessed, or found from its
fingerprint."""
_PROBE_BYTES: Final = 4_096
_PASSING: Final = frozenset(
    {errno.EIO, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ETIMEDOUT, errno.ESTALE}
)

_log = logging.getLogger(__name__)

OpenedStore = DiskStore | MemoryStore


@dataclass(slots=True)
class _Run:
    """One life of the node."""

    node: Node
    controller: Controller
    transport: PeerTransport
    founding: Founding | None


class Supervisor:
    """Runs one node again and again until a signal stops it, or it cannot go on."""

    def __init__(self, live: LiveConfig, files: Files | None = None) -> None:
        """Take the settings; `files` is the file system of the log, the operating system's when None.

        Raises:
            InvalidSettingError: a certificate cannot be used.
        """
        self._live = live
        self._tls = Tls(live.settings)
        self._files = files or OsFiles()
        self._clock = Clock(f"controller-{live.settings.self_id}")
        self._may_found = False
        self._memory: MemoryStore | None = None
        """The store of a node whose log is in memory, over all its lives in this process."""

    async def run(self, stop: asyncio.Event) -> int:
        """Run until `stop` is set; return the exit status.

        Raises:
            LogCorruptError: the log is damaged.
            LogLockedError: another process has it.
            LogMisuseError: it belongs to another node.
            LogFailedError: it cannot be opened, for a reason that does not pass.
            OSError: a port cannot be had.
        """
        while (store := await self._open(stop)) is not None:
            run = self._prepare(store)
            try:
                await run.controller.start()
                status = await self._until_ended(run, stop)
            finally:
                await run.controller.stop()
            if status is not None:
                return status
        return 0

    # Opening the log.

    async def _open(self, stop: asyncio.Event) -> OpenedStore | None:
        """Return the opened log, waiting for the disk while it fails; None when told to stop."""
        pause_s = DISK_PAUSE_MIN_S
        page = TroublePage(self._live.settings)
        try:
            while not stop.is_set():
                try:
                    return await asyncio.to_thread(self._open_now)
                except (LogFailedError, LogFullError) as error:
                    if not _passes(error):
                        raise
                    _log.error("the log cannot be opened; it is tried again", extra=bind(error=str(error)))
                    await page.show(str(error))
                await _wait(stop, pause_s)
                pause_s = min(pause_s * 2, DISK_PAUSE_S_MAX)
        finally:
            await page.close()
        return None

    def _open_now(self) -> OpenedStore:
        settings = self._live.settings
        store = self._from_memory() if settings.store_type == "memory" else self._from_disk()
        try:
            if store.is_empty and (self._may_found or len(settings.peers) == 1):
                store.found(_first_snapshot(settings))
        except BaseException:
            store.close()
            raise
        return store

    def _from_memory(self) -> MemoryStore:
        if self._memory is None:
            _log.warning(
                "controllerStoreType=memory is for tests: the log is lost when this process ends, and with a "
                "majority of the controllers all groups are"
            )
            self._memory = MemoryStore(incarnation=secrets.token_hex(INCARNATION_BYTES))
        self._memory.reopen()
        return self._memory

    def _from_disk(self) -> DiskStore:
        settings = self._live.settings
        for directory in (settings.store_directory.parent, settings.store_directory):
            if text := java_store(directory):
                _log.warning(text)
        store = DiskStore.open(
            settings.store_directory,
            owner=f"{settings.group}/{settings.self_id}",
            new_incarnation=secrets.token_hex(INCARNATION_BYTES),
            files=self._files,
        )
        if store.cut is not None:
            _log.warning("a torn end of the log was cut off", extra=bind(cut=str(store.cut)))
        return store

    # One life of the node.

    def _prepare(self, store: OpenedStore) -> _Run:
        settings = self._live.settings
        own = Identity(
            settings.group, settings.self_peer.raft_id, store.incarnation, settings.self_peer.address
        )
        members = ControllerMembers(settings)
        transport = PeerTransport(
            own.cluster,
            own.node_id,
            {peer.raft_id: members.raft_address(peer) for peer in settings.peers},
            incarnation=own.incarnation,
            address=own.address,
            bind_host=settings.listen_host,
            tls=self._tls.peers(),
        )
        machine = GroupsMachine()
        node = Node(_node_config(settings), store, machine, transport)

        async def ask_peer(peer: Peer, greeting: Greeting) -> GreetingReply | None:
            where, tls = members.raft_address(peer), self._tls.peers()
            reply = await ask(where, greeting, None if tls is None else tls.client)
            if reply is None and tls is not None and tls.plain_allowed:
                reply = await ask(where, greeting)
            return reply

        membership = MembershipChanges(node, members, own, transport, ask_peer)
        controller = Controller(self._live, self._clock, node, machine, membership, self._tls)
        founding = None
        if store.is_empty:
            others = tuple(peer for peer in settings.peers if peer.raft_id != own.node_id)
            founding = Founding(
                others,
                lambda peer: ask_peer(peer, own.greeting(peer.raft_id, "", asks=True)),
                with_majority=settings.found_with_majority,
            )
        controller.set_hindrance(lambda: _hindrance(members, founding, transport))
        controller.set_controller_hosts(transport.peer_hosts)
        controller.set_peer_refusals(lambda: transport.refusals.counts)
        return _Run(node, controller, transport, founding)

    async def _until_ended(self, run: _Run, stop: asyncio.Event) -> int | None:
        """Wait for the end of this life; return the exit status, or None for another one."""
        stopped = asyncio.ensure_future(stop.wait())
        founds = asyncio.ensure_future(self._founds(run))
        try:
            await asyncio.wait((stopped, run.controller.failed, founds), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            founds.cancel()
        if stop.is_set():
            return 0
        if not run.controller.failed.done():
            founds.result()
            self._may_found = True
            return None
        if not isinstance(run.controller.failed.result(), LogFailedError):
            return EXIT_LOG
        await self._disk_works(stop)
        return 0 if stop.is_set() else None

    async def _founds(self, run: _Run) -> None:
        """Return when this node is to found the cluster; never if it is a member of one."""
        if run.founding is None:
            await asyncio.Event().wait()
            return
        added = asyncio.Event()
        run.node.on_members(added.set)
        asking = asyncio.ensure_future(run.founding.run())
        member = asyncio.ensure_future(added.wait())
        try:
            await asyncio.wait((asking, member), return_when=asyncio.FIRST_COMPLETED)
            if added.is_set():
                await asyncio.Event().wait()
            asking.result()
        finally:
            asking.cancel()
            member.cancel()

    async def _disk_works(self, stop: asyncio.Event) -> None:
        """Wait until the disk takes a file."""
        pause_s = DISK_PAUSE_MIN_S
        while not stop.is_set():
            await _wait(stop, pause_s)
            pause_s = min(pause_s * 2, DISK_PAUSE_S_MAX)
            try:
                await asyncio.to_thread(self._probe)
            except OSError as error:
                _log.error("the disk still fails", extra=bind(error=str(error)))
            else:
                _log.warning("the disk works again; the log is opened again")
                return

    def _probe(self) -> None:
        path = self._live.settings.store_directory / f"probe{TEMPORARY_SUFFIX}"
        file = self._files.create(path)
        try:
            file.write(bytes(_PROBE_BYTES))
            file.sync()
        finally:
            file.close()
            with suppress(OSError):
                self._files.remove(path)


async def _wait(stop: asyncio.Event, pause_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await stop.wait()


def _passes(error: Exception) -> bool:
    """Say whether a failure to open may go away without a change of settings."""
    cause = error.__cause__
    return isinstance(error, LogFullError) or (isinstance(cause, OSError) and cause.errno in _PASSING)


def _hindrance(members: ControllerMembers, founding: Founding | None, transport: PeerTransport) -> str | None:
    if members.is_empty and founding is not None:
        return founding.problem
    if transport.exclusion is not None:
        return f"a peer refuses this node: {transport.exclusion}"
    return None


def _first_snapshot(settings: Settings) -> Snapshot:
    voters = tuple(sorted(NodeId(peer.raft_id) for peer in settings.peers))
    return Snapshot(LogIndex(1), Term(1), ConfState(voters=voters), GroupsMachine().snapshot())


def _node_config(settings: Settings) -> NodeConfig:
    return NodeConfig(
        node_id=settings.self_peer.raft_id,
        election_timeout_ms=settings.raft_election_timeout_ms,
        heartbeat_interval_ms=settings.raft_heartbeat_interval_ms,
        snapshot_entries=settings.snapshot_entries,
    )
