"""A modelled broker's answers to controllers and people.

They are its HA address (906), its settings (25, 26), its slaves (907), its epochs (1007).

Two settings of it change: `minInSyncReplicas`, and the time before which it refuses all sends. A file holds
them, so they outlive the process; a controller stops the writes of a living master with both, and must never
leave the first behind.

Source: RocketMQ 5.4.0 AdminBrokerProcessor.java, AutoSwitchHAService.getRuntimeInfo.
"""

from typing import Protocol

from msgspec.structs import replace

from controller_core.broker_settings import MIN_IN_SYNC, SENDS_FROM
from controller_core.channel.connection import Connection, refuse
from controller_core.remoting import headers
from controller_core.remoting.bodies import (
    EpochEntryBody,
    EpochEntryCache,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.proposals.log_ends import VERSION_V5_2_0
from controller_core.server.settings import properties
from testkit.sim.brokers.broker_log import BrokerLog
from testkit.sim.brokers.broker_set import MasterView
from testkit.sim.controllers.controller_parts import UTC_START_S


class Administered(Protocol):
    """What these answers need of a broker."""

    address: str
    cluster: str
    group: str
    broker_id: int
    log: BrokerLog
    in_sync_min: int
    sends_from_ms: int
    view: MasterView | None


def refuses_sends(broker: Administered, now_s: float) -> bool:
    """Say whether a send is refused at a time of the simulation."""
    if broker.view is None or len(broker.view.members) < broker.in_sync_min:
        return True
    return (UTC_START_S + now_s) * 1_000 < broker.sends_from_ms


def answer(broker: Administered, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Answer one request."""
    match request.code:
        case RequestCode.EXCHANGE_BROKER_HA_INFO:
            address = None if broker.view is None else broker.address
            header = headers.ExchangeHAInfoResponseHeader(address, broker.log.end, address)
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext())
        case RequestCode.GET_BROKER_CONFIG:
            settings = {
                MIN_IN_SYNC: str(broker.in_sync_min),
                SENDS_FROM: str(broker.sends_from_ms),
                "allAckInSyncStateSet": "true",
            }
            body = properties.write(settings).encode()
            told = RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)
            return replace(told, version=VERSION_V5_2_0)
        case RequestCode.UPDATE_BROKER_CONFIG:
            values = properties.parse(request.body.decode())
            broker.in_sync_min = int(values.get(MIN_IN_SYNC, broker.in_sync_min))
            broker.sends_from_ms = int(values.get(SENDS_FROM, broker.sends_from_ms))
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS)
        case RequestCode.GET_BROKER_HA_STATUS:
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=_status(broker).encode())
        case RequestCode.GET_BROKER_EPOCH_CACHE:
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=_epochs(broker).encode())
        case _:
            return refuse(connection, request)


def _epochs(broker: Administered) -> EpochEntryCache:
    epochs = broker.log.epochs
    entries = tuple(
        EpochEntryBody(epochs.end_offset(one.epoch), one.epoch, one.start_offset) for one in epochs
    )
    broker_id = broker.broker_id if broker.view is None else 0
    return EpochEntryCache(broker_id, broker.group, broker.cluster, entries, broker.log.end)


def _status(broker: Administered) -> HARuntimeInfo:
    view = broker.view
    if view is None:
        return HARuntimeInfo()
    slaves = tuple(
        HAConnectionRuntimeInfo(
            addr=f"slave {slave}", slave_ack_offset=view.acked.get(slave, 0), in_sync=slave in view.members
        )
        for slave in sorted(view.linked)
    )
    return HARuntimeInfo(ha_connection_info=slaves, master=True, master_commit_log_max_offset=broker.log.end)
