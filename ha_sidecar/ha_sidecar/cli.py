"""The command `ha-sidecar`: the processes beside and in place of brokers, and tools for a closed store.

    ha-sidecar replica ...              run a log-only replica until SIGTERM
    ha-sidecar companion ...            show what a broker does not say, until SIGTERM
    ha-sidecar node-agent ...           end connections of its node to silent masters, until SIGTERM
    ha-sidecar handover ...             if the broker is master, hand over to another; or exit with 1
    ha-sidecar seed ...                 fill an empty broker's store before the broker starts
    ha-sidecar verify DIR               what a store holds; exit status 1 if a record is damaged
    ha-sidecar epochs DIR               its epoch list
    ha-sidecar truncate DIR --offset N  cut its log and epoch list
    ha-sidecar survey, permission, adopt   the steps of a migration inside the cluster (`migration.cli`)

Exit status: 0 done, 1 damage found or the work failed, 2 misused.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Final

from controller_core.channel.asking import AskError
from controller_core.command_line.completion import add_completion
from controller_core.command_line.log_level import follow_log_level
from controller_core.command_line.output import add_output, show
from controller_core.command_line.program import Parser, program, run
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.numbers import BrokerId
from controller_core.tls.certificates import UnusableCertificatesError
from controller_core.tls.serving import dial_as
from ha_sidecar.address import AddressError
from ha_sidecar.commitlog.files import CommitLog, CommitLogUsageError
from ha_sidecar.commitlog.layout import LogLayoutError
from ha_sidecar.commitlog.records import RecordKind
from ha_sidecar.commitlog.recovery import walk
from ha_sidecar.commitlog.store import (
    ReplicaStore,
    StoreError,
    existing_layout,
    lock_store,
    read_epochs,
    write_epochs,
)
from ha_sidecar.common.ha_link import DivergedError
from ha_sidecar.common.identity import NO_ID, IdentityError
from ha_sidecar.common.options import ConfigError, read_file
from ha_sidecar.companion import config as companion_config
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.handover import HandoverError, HandoverResult
from ha_sidecar.epoch import EpochFileError, EpochList
from ha_sidecar.migration.cli import add_commands
from ha_sidecar.node_agent import config as node_agent_config
from ha_sidecar.node_agent.config import NodeAgentConfig
from ha_sidecar.replica import config as replica_config
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.seed import config as seed_config
from ha_sidecar.seed.config import SeedConfig
from ha_sidecar.seed.seed import Seed, SeedError, claim
from ha_sidecar.seed.source import GroupAnswer, find_metadata, find_outlook, find_source
from ha_sidecar.setting_options import add_settings

SWITCH_S = 0.0005

_FAILURES: Final = (
    AskError,
    RemotingProtocolError,
    LogLayoutError,
    StoreError,
    EpochFileError,
    IdentityError,
    CommitLogUsageError,
    DivergedError,
    HandoverError,
    SeedError,
)

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run(
        parser(),
        arguments,
        misuses=(ConfigError, AddressError, UnusableCertificatesError),
        failures=_FAILURES,
    )


def parser() -> Parser:
    """Return the parser of all commands."""
    whole = program("ha-sidecar", "AutoSwitchHA for RocketMQ brokers.", "rocketmq-ha-sidecar")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name, command, settings, text in (
        ("replica", _replica, ReplicaConfig, "run a log-only replica of a broker group"),
        ("companion", _companion, CompanionConfig, "show what the broker beside it does not say"),
        ("seed", _seed, SeedConfig, "fill an empty broker's store before the broker starts"),
        (
            "node-agent",
            _node_agent,
            NodeAgentConfig,
            "end connections of its node to masters that were replaced for silence",
        ),
        ("handover", _handover, CompanionConfig, "hand the broker's mastership over before it stops"),
    ):
        process = commands.add_parser(name, help=text)
        process.set_defaults(carry_out=command, keys=add_settings(process, settings))
        if name in {"seed", "handover"}:
            add_output(process)
    for name, command, text in (
        ("verify", _verify, "check every record of a store"),
        ("epochs", _epochs, "print a store's epoch list"),
        ("truncate", _truncate, "cut a store's log and epoch list"),
    ):
        tool = commands.add_parser(name, help=text)
        tool.add_argument("directory", type=Path, metavar="DIR", help="directory of the store")
        tool.add_argument(
            "--mapped-file-bytes",
            type=int,
            metavar="BYTES",
            help="length of a log file, if none is there to tell",
        )
        if name == "truncate":
            tool.add_argument(
                "--offset", type=int, required=True, metavar="OFFSET", help="offset at which the log must end"
            )
        add_output(tool)
        tool.set_defaults(carry_out=command)
    add_commands(commands)
    add_completion(commands, parser)
    return whole


def _texts(options: argparse.Namespace) -> Mapping[str, str]:
    texts = read_file(options.config_file, options.keys) if options.config_file else {}
    texts.update({key: getattr(options, key) for key in options.keys if getattr(options, key) is not None})
    return texts


def _replica(options: argparse.Namespace) -> int:
    config = replica_config.from_texts(_texts(options))
    _log_to_stderr()
    follow_log_level()
    refuse_above = config.disk_refuse_percent / 100
    store = ReplicaStore(config.store, config.mapped_file_bytes, refuse_above=refuse_above)
    log = store.log
    _log.info("log [%d, %d), %s, %s", log.min_offset, log.max_offset, store.epochs, store.recovered)
    try:
        asyncio.run(_replicate(config, store))
    except OSError as error:
        # What the disk holds after a failed sync is unknown to this process; a fresh one recovers it.
        _log.critical("stopping: %s", error)
        return 1
    finally:
        with contextlib.suppress(OSError):
            store.close()
    return 0


def _companion(options: argparse.Namespace) -> int:
    config = companion_config.from_texts(_texts(options), serves=True)
    _log_to_stderr()
    follow_log_level()
    # A thread that waits for the broker's end waits for the interpreter too: by default up to 5 ms, which is
    # all that clients give.
    sys.setswitchinterval(SWITCH_S)
    try:
        asyncio.run(_accompany(config))
    except OSError as error:
        _log.critical("stopping: %s", error)
        return 1
    return 0


def _node_agent(options: argparse.Namespace) -> int:
    config = node_agent_config.from_texts(_texts(options))
    _log_to_stderr()
    follow_log_level()
    try:
        asyncio.run(_watch_node(config))
    except OSError as error:
        _log.critical("stopping: %s", error)
        return 1
    return 0


def _handover(options: argparse.Namespace) -> int:
    config = companion_config.from_texts(_texts(options), serves=False)
    _log_to_stderr()
    dial_as(config.tls, config.tls_mode)
    show(options.output, asyncio.run(_hand_over(config)))
    return 0


def _seed(options: argparse.Namespace) -> int:
    config = seed_config.from_texts(_texts(options))
    _log_to_stderr()
    dial_as(config.tls, config.tls_mode)
    if config.advertise and not _outlook(config).known:
        reason = f"the controllers know no group {config.group}: it begins"
        show(options.output, {"seeded": False, "reason": reason})
        return 0
    nothing = claim(config)
    if nothing is not None:
        show(options.output, {"seeded": False, "reason": nothing})
        return 0
    store = ReplicaStore(config.store, config.mapped_file_bytes)
    try:
        seed = Seed(
            config,
            store,
            lambda: find_source(config),
            lambda: find_metadata(config),
            lambda: _former_id(config),
        )
        show(options.output, seed.run())
    except OSError as error:
        _log.critical("stopping: %s", error)
        return 1
    finally:
        with contextlib.suppress(OSError):
            store.close()
    return 0


def _outlook(config: SeedConfig) -> GroupAnswer:
    """Return what the controllers say of the group.

    Wait for their answer, as a guess could cost the store its former id.

    Raises:
        SeedError: no controller answered `attempts` questions.
    """
    for _ in range(config.attempts):
        if (outlook := find_outlook(config)) is not None:
            return outlook
        _log.warning("no controller answers")
    raise SeedError(f"no controller answered {config.attempts} times: what this store had been is not known")


def _former_id(config: SeedConfig) -> BrokerId:
    return _outlook(config).former_id if config.reclaim else NO_ID


async def _replicate(config: ReplicaConfig, store: ReplicaStore) -> None:
    # Imported here: an HTTP server takes longer to load than a small log takes to seed.
    from ha_sidecar.replica.replica import LogReplica

    await _until_signal(LogReplica(config, store).run())


async def _accompany(config: CompanionConfig) -> None:
    from ha_sidecar.companion.companion import Companion

    await _until_signal(Companion(config).run())


async def _watch_node(config: NodeAgentConfig) -> None:
    from ha_sidecar.node_agent.agent import NodeAgent

    await _until_signal(NodeAgent(config).run())


async def _hand_over(config: CompanionConfig) -> HandoverResult:
    from ha_sidecar.companion.settling import hand_over_and_settle

    return await hand_over_and_settle(config)


async def _until_signal(work: Coroutine[None, None, None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s - %(message)s")


def _verify(options: argparse.Namespace) -> int:
    layout = existing_layout(options.directory, options.mapped_file_bytes)
    found = walk(layout)
    damaged = found.end.stopped_by.kind is RecordKind.DAMAGED
    show(
        options.output,
        {
            "directory": str(layout.directory),
            "file_bytes": layout.file_bytes,
            "files": len(layout.starts()),
            "min_offset": found.end.min_offset,
            "max_offset": found.end.max_offset,
            "messages": found.messages,
            "message_bytes": found.bytes_in_messages,
            "epochs": _pairs(read_epochs(options.directory)),
            "end": found.end.stopped_by.kind.value,
            "first_damage": {"offset": found.end.max_offset, "problem": found.end.stopped_by.problem}
            if damaged
            else None,
        },
    )
    return 1 if damaged else 0


def _epochs(options: argparse.Namespace) -> int:
    epochs = _pairs(read_epochs(options.directory))
    show(options.output, {"epochs": epochs}, rows=epochs)
    return 0


def _truncate(options: argparse.Namespace) -> int:
    lock_fd = lock_store(options.directory)
    try:
        log, _ = CommitLog.open(existing_layout(options.directory, options.mapped_file_bytes))
        from_offset = log.max_offset
        if not log.can_cut_at(options.offset):
            raise CommitLogUsageError(
                f"no record starts at {options.offset} of [{log.min_offset}, {from_offset})"
            )
        log.truncate(options.offset)
        log.close()
        epochs = read_epochs(options.directory).starting_up_to(options.offset)
        write_epochs(options.directory, epochs)
    finally:
        os.close(lock_fd)
    done = {"from_offset": from_offset, "max_offset": options.offset, "epochs": _pairs(epochs)}
    show(options.output, done)
    return 0


def _pairs(epochs: EpochList) -> list[dict[str, int]]:
    return [{"epoch": entry.epoch, "start_offset": entry.start_offset} for entry in epochs]
