"""What a replica keeps besides what it receives.

Its masters' metadata, and its disk from running full. Two loops.
"""

import asyncio
import logging
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.numbers import whole_number
from ha_sidecar.address import AddressError, host_port
from ha_sidecar.commitlog.retention import RetentionRule
from ha_sidecar.commitlog.room import NO_SPACE
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common import metadata
from ha_sidecar.decisions.broker_facts import settings
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.replica.follower import Follower
from ha_sidecar.replica.group_view import FollowedGroup
from ha_sidecar.replica.retention import LogRetention
from ha_sidecar.replica.slave_server import HaServer

METADATA_S: Final = 3.0
"""Between two looks at the master's metadata; as long as a Java slave waits."""
RETAIN_S: Final = 5.0
"""Between two looks at the disk.

The log itself asks before it writes, and what it refuses brings the next look forward.
"""
RETENTION_HOURS_DEFAULT: Final = 72
"""Source: RocketMQ 5.5.0 MessageStoreConfig.java, fileReservedTime."""
_NO_AGE_HOURS: Final = 1 << 40
_DIGITS_MAX: Final = 9
_MS_PER_HOUR: Final = 3_600_000

_log = logging.getLogger(__name__)


async def keep_metadata(config: ReplicaConfig, view: FollowedGroup) -> None:
    """Keep what the master knows and its log does not hold, for the day when no broker is left to ask."""
    asker: Asker | None = None
    try:
        while True:
            await asyncio.sleep(METADATA_S)
            try:
                address = host_port(view.role.master_address or "")
                if asker is None or asker.address != address:
                    if asker is not None:
                        asker.close()
                    asker = Asker(address, config.credentials)
                snapshot = await metadata.fetch(asker)
                await asyncio.to_thread(metadata.keep, config.store, snapshot)
                view.retention_hours = await _ask_retention_hours(asker, view.retention_hours)
            except (AskError, AddressError, RemotingProtocolError) as error:
                _log.debug("metadata: %s", error)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                # The last stored copy still exists; wait for a full disk, as the log does.
                _log.warning("metadata is not kept: %s", error)
    finally:
        if asker is not None:
            asker.close()


async def _ask_retention_hours(asker: Asker, known: int | None) -> int:
    """Return the master's `fileReservedTime`, which mqadmin may change while it runs.

    RocketMQ's default for a master that refuses to tell it, unless it has told one before.
    """
    try:
        answer = await asker.ask(RequestCode.GET_BROKER_CONFIG)
    except AskError as error:
        if error.is_refusal:
            return known or RETENTION_HOURS_DEFAULT
        raise
    told = settings(answer.body.decode(errors="replace")).get("fileReservedTime", "")
    hours = whole_number(told, _DIGITS_MAX)
    return known or RETENTION_HOURS_DEFAULT if hours is None else max(1, hours)


def retention_rule(config: ReplicaConfig, view: FollowedGroup) -> RetentionRule:
    """Return the rule of now; without a known age only the use of the disk counts."""
    hours = config.retention_hours or view.retention_hours or _NO_AGE_HOURS
    return RetentionRule(
        hours * _MS_PER_HOUR, config.disk_drop_percent / 100, config.disk_refuse_percent / 100
    )


async def retain(
    config: ReplicaConfig, view: FollowedGroup, store: ReplicaStore, server: HaServer, follower: Follower
) -> None:
    """Drop the oldest files as the settings say; receive nothing more while the disk is full."""

    def slaves_offset() -> int | None:
        return min((max(0, slave.ack_offset) for slave in server.slaves()), default=None)

    refused_before = False
    while True:
        retaining = LogRetention(store, retention_rule(config, view), slaves_offset)
        dropped_bytes, refused = await asyncio.to_thread(retaining.look)
        if dropped_bytes:
            _log.info("%d bytes dropped, the log begins at %d", dropped_bytes, store.log.min_offset)
        if refused != refused_before:
            refused_before = refused
            _log.warning(
                "the disk %s", "lacks room: nothing more is received" if refused else "has room again"
            )
        follower.set_room(not refused)
        await follower.wait_refused(RETAIN_S)
