"""Answers of the controllers about a group's state, read once for actors and for the history."""

from dataclasses import dataclass

from controller_core.remoting import headers
from controller_core.remoting.bodies import ElectMasterResponseBody, SyncStateSet
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from testkit.check.registers import Read


@dataclass(frozen=True, slots=True)
class ToldMaster:
    """What an answer or a notice tells of a group's master.

    Attributes:
        seen: the same for the history.
    """

    master_id: int | None
    address: str | None
    epoch: int | None
    body: SyncStateSet
    seen: Read


def of_replica_info(answer: RemotingCommand) -> ToldMaster | None:
    """Read the answer to 1004; None for a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        return None
    found = headers.GetReplicaInfoResponseHeader.from_ext(answer.ext)
    return _told(
        found.master_broker_id,
        found.master_address,
        found.master_epoch,
        SyncStateSet.decode(answer.body),
        "1004",
    )


def of_registration(answer: RemotingCommand) -> ToldMaster | None:
    """Read the answer to 1003, which names the master only while it lives; None for a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        return None
    found = headers.RegisterBrokerToControllerResponseHeader.from_ext(answer.ext)
    return _told(
        found.master_broker_id,
        found.master_address,
        found.master_epoch,
        SyncStateSet.decode(answer.body),
        "1003",
    )


def of_election(answer: RemotingCommand) -> ToldMaster | None:
    """Read the answer to 1002, also the one that says that the master stays; None for a refusal."""
    if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
        return None
    found = headers.ElectMasterResponseHeader.from_ext(answer.ext)
    members = ElectMasterResponseBody.decode(answer.body).sync_state_set
    body = SyncStateSet.of(members, found.sync_state_set_epoch or 0)
    return _told(found.master_broker_id, found.master_address, found.master_epoch, body, "1002")


def of_notice(request: RemotingCommand) -> ToldMaster:
    """Read a notice (1008)."""
    found = headers.NotifyBrokerRoleChangedRequestHeader.from_ext(request.ext)
    body = SyncStateSet.decode(request.body)
    return _told(found.master_broker_id, found.master_address, found.master_epoch, body, "1008")


def _told(
    master_id: int | None, address: str | None, epoch: int | None, body: SyncStateSet, what: str
) -> ToldMaster:
    seen = Read(
        epoch,
        body.sync_state_set_epoch,
        body.sync_state_set,
        master_id,
        tells_master=what != "1003" or master_id is not None,
        what=what,
    )
    return ToldMaster(master_id, address, epoch, body, seen)
