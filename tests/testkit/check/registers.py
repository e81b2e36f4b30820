"""A broker group as a register: what its requests may see and do, said a second time and in other words.

The state is what every broker builds on: master, master epoch, SyncStateSet and its epoch. Calls are the
requests to the controllers and what they answered; and transitions that no caller sees whole (elections,
forgotten members), taken from the log with the time between their proposal and their first application.

This knows nothing of the state machine's code: it is the table of the protocol, for the checker.

Source: RocketMQ 5.4.0 ReplicasInfoManager.java for the order of the checks of 1001.
"""

from dataclasses import dataclass
from typing import NamedTuple

from controller_core.remoting.codes import ResponseCode


class Register(NamedTuple):
    """A group as its API shows it; before it exists all is empty."""

    master_id: int | None = None
    master_epoch: int = 0
    members: tuple[int, ...] = ()
    set_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """An answer that tells the state: 1004, 1003, 1002; None for what it did not tell."""

    master_epoch: int | None = None
    set_epoch: int | None = None
    members: tuple[int, ...] | None = None
    master_id: int | None = None
    tells_master: bool = True
    what: str = "1004"


@dataclass(frozen=True, slots=True)
class Alter:
    """A request 1001; `code` None when its fate is not known."""

    master_id: int
    master_epoch: int
    set_epoch: int
    wanted: tuple[int, ...]
    code: int | None
    new_set_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Transition:
    """What an entry of the log other than a 1001 did."""

    before: Register
    after: Register
    what: str


Call = Read | Alter | Transition


def step(state: Register, call: Call) -> Register | None:
    """Return the state after a call; None if it cannot have been answered like this in this state."""
    match call:
        case Read():
            return state if _shows(state, call) else None
        case Transition():
            return call.after if state == call.before else None
        case Alter():
            return _alter(state, call)


def _shows(state: Register, read: Read) -> bool:
    return (
        read.master_epoch in (None, state.master_epoch)
        and read.set_epoch in (None, state.set_epoch)
        and read.members in (None, state.members)
        and (not read.tells_master or read.master_id == state.master_id)
    )


def _alter(state: Register, call: Alter) -> Register | None:
    refusal = _refusal(state, call)
    done = state._replace(members=call.wanted, set_epoch=state.set_epoch + 1)
    match call.code:
        case None:
            return None if refusal else done  # left out of the order when it had no effect
        case ResponseCode.SUCCESS:
            return done if refusal is None and call.new_set_epoch == done.set_epoch else None
        case ResponseCode.NO_PERMISSION:
            return state  # a sender that is not the master, whatever the state is
        case ResponseCode.CONTROLLER_INVALID_REPLICAS | ResponseCode.CONTROLLER_BROKER_NOT_ALIVE:
            # Registrations and liveness are not part of the register; the fences come first.
            return state if refusal in (None, _NO_MASTER) else None
        case code:
            # A group that controllers without a store do not know yet is answered so, too.
            may_fail = refusal == _NO_MASTER or state == Register()
            return state if refusal == code or (may_fail and code == _FAILED) else None


_FAILED = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
_NO_MASTER = -1
"""The wanted set lacks the master: answered 2013, but only after the members were looked at."""


def _refusal(state: Register, call: Alter) -> int | None:
    if call.wanted == state.members:
        return _FAILED
    if state.master_id is None or state.master_id != call.master_id:
        return ResponseCode.CONTROLLER_INVALID_MASTER
    if state.master_epoch != call.master_epoch:
        return ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    if state.set_epoch != call.set_epoch:
        return ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    return _NO_MASTER if state.master_id not in call.wanted else None
