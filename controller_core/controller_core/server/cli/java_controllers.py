"""Read the groups of RocketMQ's own controllers, and tell when these can decide nothing any more.

Name servers know the names of groups and clusters (106). The leading controller knows masters, epochs and
SyncStateSets (1006) and the next ids (1012).

RocketMQ's controllers decide by majority: a change counts once a majority has its log entry. While a majority
of them refuses connections, nothing can change. The leader among the others still answers reads for a while
(DLedger's gives up leading after about 6 s, JRaft's after 1 s). What it tells then is final.

Source: RocketMQ 5.5.0 DLedgerController.java; DLedger 0.3.2 DLedgerLeaderElector.java, maintainAsLeader.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ConnectError, PortClosedError
from controller_core.groups.commands import ImportedGroup, ImportedMember
from controller_core.groups.keys import BrokerId, GroupKey
from controller_core.remoting.bodies import BrokerReplicasInfo, ReplicasInfo, encode_names
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.header import Header
from controller_core.remoting.headers import (
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
)
from controller_core.remoting.host_port import split_host_port
from controller_core.remoting.routes import ClusterInfo

CONNECT_TIMEOUT_S: Final = 0.5
SETTLE_S: Final = 0.5
"""Between two equal reads of the last state: the leader applies entries that were committed just before."""
_POLL_S: Final = 0.2
_TRIES_MAX: Final = 5
"""A JVM may take longer for its first answers than a question waits."""


class JavaControllersError(Exception):
    """RocketMQ's controllers or name servers do not answer as needed; the text is for a person."""


class JavaControllerGroup:
    """RocketMQ's controllers at these addresses."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """Take all of them, as host:port.

        Raises:
            JavaControllersError: one is not an address.
        """
        self._askers = {address: Asker(host_port(address)) for address in addresses}

    async def leader(self) -> str:
        """Return the address of the one that leads.

        Raises:
            JavaControllersError: none does, or they are more than were named.
        """
        problems = []
        for address, asker in self._askers.items():
            try:
                answer = await asker.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
                told = GetMetaDataResponseHeader.from_ext(answer.ext)
            except (AskError, RemotingProtocolError) as error:
                problems.append(str(error))
                continue
            peers = [peer for peer in (told.peers or "").split(";") if peer]
            if len(peers) != len(self._askers):
                raise JavaControllersError(
                    f"{address} is one of {len(peers)} controllers ({told.peers}), name all of them"
                )
            if told.is_leader:
                return address
        raise JavaControllersError("; ".join(problems) or "none of RocketMQ's controllers leads")

    async def groups(self, names: Iterable[GroupKey]) -> list[ImportedGroup]:
        """Return those of these groups that the controllers have; `alive` is their view.

        Raises:
            JavaControllersError: no controller leads, or it does not answer.
        """
        wanted = sorted(set(names))
        asker = self._askers[await self.leader()]
        body = encode_names(key.broker_name for key in wanted)
        answer = await _patiently(asker, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, body)
        try:
            table = BrokerReplicasInfo.decode(answer.body).replicas_info_table
        except RemotingProtocolError as error:
            raise JavaControllersError(f"its answer cannot be read: {error}") from error
        return [
            _group(key, table[key.broker_name], await _next_id(asker, key))
            for key in wanted
            if key.broker_name in table
        ]

    async def stopped(self) -> list[str]:
        """Return the addresses that refuse connections: no process listens there."""
        found = await asyncio.gather(*map(_is_closed, self._askers))
        return [address for address, is_closed in zip(self._askers, found, strict=True) if is_closed]

    async def _is_frozen(self) -> bool:
        """Say whether fewer than a majority may run."""
        return len(self._askers) - len(await self.stopped()) <= len(self._askers) // 2

    async def until_frozen(self, timeout_s: float) -> None:
        """Wait until so many are stopped that the others decide nothing.

        Raises:
            JavaControllersError: they are not in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._is_frozen():  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise JavaControllersError(f"not stopped within {timeout_s:g} s, nothing was changed") from error

    async def last_groups(self, names: Iterable[GroupKey]) -> list[ImportedGroup]:
        """Return the groups after the controllers can decide nothing any more.

        Raises:
            JavaControllersError: none of them tells, or a stopped one came back.
        """
        keys = list(names)
        found = await self.groups(keys)
        while True:
            await asyncio.sleep(SETTLE_S)
            again = await self.groups(keys)
            if [_decided(group) for group in again] == [_decided(group) for group in found]:
                break
            found = again
        if not await self._is_frozen():
            raise JavaControllersError("a stopped controller came back, nothing was changed")
        return again

    def close(self) -> None:
        """Close the connections."""
        for asker in self._askers.values():
            asker.close()


def host_port(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`.

    Raises:
        JavaControllersError: it is something else.
    """
    if (found := split_host_port(address)) is None or not found[0]:
        raise JavaControllersError(f"invalid address {address!r} (expected host:port)")
    return found


async def known_groups(name_servers: Sequence[str]) -> set[GroupKey]:
    """Return the groups that name servers list, of every cluster.

    Raises:
        JavaControllersError: one of them does not answer.
    """
    keys: set[GroupKey] = set()
    for address in name_servers:
        asker = Asker(host_port(address))
        try:
            answer = await _patiently(asker, RequestCode.GET_BROKER_CLUSTER_INFO)
            clusters: Mapping[str, Iterable[str]] = ClusterInfo.decode(answer.body).cluster_addr_table
        except RemotingProtocolError as error:
            raise JavaControllersError(f"name server {address}: {error}") from error
        finally:
            asker.close()
        keys |= {GroupKey(cluster, name) for cluster, names in clusters.items() for name in names}
    return keys


async def _patiently(
    asker: Asker, code: RequestCode, header: Header | None = None, body: bytes = b""
) -> RemotingCommand:
    for tried in range(1, _TRIES_MAX + 1):
        try:
            return await asker.ask(code, header, body)
        except AskError as error:
            if error.is_refusal or tried == _TRIES_MAX:
                raise JavaControllersError(str(error)) from error
    raise JavaControllersError(f"{code} was never asked")


async def _is_closed(address: str) -> bool:
    try:
        connection = await connect(*host_port(address), CONNECT_TIMEOUT_S)
    except PortClosedError:
        return True
    except ConnectError:
        return False
    connection.close()
    return False


async def _next_id(asker: Asker, key: GroupKey) -> int:
    header = GetNextBrokerIdRequestHeader(key.cluster, key.broker_name)
    answer = await _patiently(asker, RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)
    return GetNextBrokerIdResponseHeader.from_ext(answer.ext).next_broker_id or 1


def _group(key: GroupKey, told: ReplicasInfo, next_id: int) -> ImportedGroup:
    members = sorted(
        (*told.in_sync_replicas, *told.not_in_sync_replicas), key=lambda member: member.broker_id
    )
    ids = [BrokerId(member.broker_id) for member in members]
    return ImportedGroup(
        cluster=key.cluster,
        broker_name=key.broker_name,
        # RocketMQ counts claims: after the ids 1, 2 and 7 its next one is 4.
        next_broker_id=BrokerId(max([next_id, *(broker_id + 1 for broker_id in ids)])),
        members=tuple(
            ImportedMember(BrokerId(member.broker_id), member.broker_address or "") for member in members
        ),
        master_id=None if told.master_broker_id is None else BrokerId(told.master_broker_id),
        master_epoch=told.master_epoch,
        set_epoch=told.sync_state_set_epoch,
        sync_state_set=tuple(sorted(BrokerId(member.broker_id) for member in told.in_sync_replicas)),
        alive=tuple(BrokerId(member.broker_id) for member in members if member.alive),
    )


def _decided(group: ImportedGroup) -> tuple[object, ...]:
    """Return what controllers decide of a group; `alive` is what one of them hears."""
    return tuple(getattr(group, name) for name in group.__struct_fields__ if name != "alive")
