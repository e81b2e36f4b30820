"""`controller-core serve`: read the settings, open the log, run until a signal, stop in good order.

SIGTERM and SIGINT hand leadership over and end with 0; a second one ends at once. A bad setting ends with 2, a log that
is damaged, locked or failing with 3: a supervisor that restarts the process helps in the last case only.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from controller_core.log.errors import (
    LogCorruptError,
    LogFailedError,
    LogFullError,
    LogLockedError,
    LogMisuseError,
)
from controller_core.log.store import DiskStore
from controller_core.raft.types import ConfState, LogIndex, NodeId, Snapshot, Term
from controller_core.server import config, logs
from controller_core.server.clock import Clock
from controller_core.server.config import ConfigError, Settings
from controller_core.server.controller import Controller
from controller_core.server.live_config import LiveConfig, read_file
from controller_core.server.logs import bind
from controller_core.server.machine import GroupsMachine
from controller_core.server.node import Node
from controller_core.server.node_types import NodeConfig
from controller_core.server.peers import PeerTransport

EXIT_FAILED: Final = 1
EXIT_LOG: Final = 3

_LOG_ERRORS: Final = (LogCorruptError, LogFailedError, LogFullError, LogLockedError, LogMisuseError)

_log = logging.getLogger(__name__)


def serve_until_signalled(path: Path | None, overrides: Sequence[str]) -> int:
    """Run a node until it is told to stop; return the exit status.

    Raises:
        ConfigError: a setting is missing or bad.
    """
    given = read_file(path) if path is not None else {}
    given |= _parse_overrides(overrides)
    settings, warnings = config.load(given)
    logs.configure(settings.log_level, node=settings.self_id, group=settings.group)
    for warning in warnings:
        _log.warning(warning)
    live = LiveConfig(settings, given)
    live.restore()
    try:
        return asyncio.run(_serve(live))
    except _LOG_ERRORS as error:
        _log.critical("the log cannot be used", extra=bind(error=str(error)))
        sys.stderr.write(f"controller-core: {error}\n")
        return EXIT_LOG
    except OSError as error:
        _log.critical("a port cannot be had", extra=bind(error=str(error)))
        sys.stderr.write(f"controller-core: {error}\n")
        return EXIT_FAILED


def _parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise ConfigError("--set", override, "must be of the form KEY=VALUE")
        values[key.strip()] = value
    return values


async def _serve(live: LiveConfig) -> int:
    settings = live.settings
    machine = GroupsMachine()
    store = await asyncio.to_thread(_open_store, settings)
    if store.cut is not None:
        _log.warning("a torn end of the log was cut off", extra=bind(cut=str(store.cut)))
    controller = Controller(
        live, Clock(f"controller-{settings.self_id}"), _make_node(settings, store, machine), machine
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop, number)
    try:
        await controller.start()
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait((stopped, controller.failed), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
    finally:
        await controller.stop()
    return EXIT_LOG if controller.failed.done() else 0


def _on_signal(stop: asyncio.Event, number: signal.Signals) -> None:
    _log.info("told to stop", extra=bind(signal=number.name))
    if stop.is_set():
        # Why: whoever asks twice does not want to wait for an orderly end.
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    stop.set()


def _make_node(settings: Settings, store: DiskStore, machine: GroupsMachine) -> Node:
    node_config = NodeConfig(
        node_id=settings.self_peer.raft_id,
        election_timeout_ms=settings.raft_election_timeout_ms,
        heartbeat_interval_ms=settings.raft_heartbeat_interval_ms,
        snapshot_entries=settings.snapshot_entries,
    )
    peers = {peer.raft_id: (peer.host, settings.raft_port(peer)) for peer in settings.peers}
    transport = PeerTransport(
        settings.group, settings.self_peer.raft_id, peers, bind_host=settings.bind_address
    )
    return Node(node_config, store, machine, transport)


def _open_store(settings: Settings) -> DiskStore:
    voters = tuple(sorted(NodeId(peer.raft_id) for peer in settings.peers))
    initial = Snapshot(LogIndex(1), Term(1), ConfState(voters=voters), GroupsMachine().snapshot())
    owner = f"{settings.group}/{settings.self_id}"
    return DiskStore.open(settings.store_directory, initial, owner=owner)
