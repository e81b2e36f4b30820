"""Registrations (1003) of ids that the state does not know.

Which of them are taken up, and which are refused.

A broker has its id on disk and only registers with it. Controllers with a new store, or that replace others,
do not know that id; RocketMQ's own controller refuses it for ever. The rules here:

    the first request                                    ->  refused (2010), as RocketMQ does
    the same address asks again after `TAKE_UP_AFTER_MS`  ->  taken up: the log entry and the state record it
    two addresses ask for one id                         ->  both are refused (2014): a copied disk or file
    a living broker elsewhere has the id                 ->  refused (2014), whether the id is recorded or not

Why not at once: the wait shows whether somebody else asks for the same id. A Java broker that starts asks
five times within 5 s and again after 5 s; one that runs asks every 5 s, once its poll (1004) is answered with
2008.

So a broker that runs, and beats with an id that is not recorded, is answered 2008, also when its group is
known: another member may have registered first, and a broker whose poll succeeds never registers again.

1003 carries no check code. What tells a broker that has moved from an impostor is that the one at the old
address is dead: its connection is closed, or it has been silent for its timeout.

Source: ReplicasManager.java 5.5.0, startBasicService, registerBrokerToController,
schedulingSyncBrokerMetadata.
"""

from dataclasses import dataclass
from typing import Final

from controller_core.groups.group import group_ext
from controller_core.groups.keys import BrokerId, ReplicaKey
from controller_core.groups.liveness.table import LivenessTable
from controller_core.groups.replies import GroupReply
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.headers import RegisterBrokerToControllerRequestHeader

TAKE_UP_AFTER_MS: Final = 2_000
ASKED_WITHIN_MS: Final = 30_000
"""How long a request is remembered; a later one counts as the first."""
UNKNOWN_MEMBERS_MAX: Final = 1_000
"""How many ids are remembered; the oldest is forgotten, and its broker asks for the first time again."""


@dataclass(slots=True)
class _UnknownMember:
    """The address that asked for an id, with its first and last time.

    `rival` is another address that asked in between.
    """

    address: str
    first_ms: int
    last_ms: int
    rival: str = ""
    rival_ms: int = 0


class UnknownMembers:
    """Remembers registrations of unknown ids, and decides which ids are taken up."""

    def __init__(self, state: GroupsState, table: LivenessTable, unregistered: LivenessTable) -> None:
        """Take the applied groups, the living members and the unregistered senders; all are read only."""
        self._state = state
        self._table = table
        self._unregistered = unregistered
        self._asked: dict[ReplicaKey, _UnknownMember] = {}

    def may_take_up(self, header: RegisterBrokerToControllerRequestHeader, now_ms: int) -> bool:
        """Note a registration.

        Return whether its id is unknown and only one address has asked for it for long enough.
        """
        key = _key_of(header)
        group = self._state.get(key.group)
        if group is not None and key.broker_id in group.replicas:
            self._asked.pop(key, None)
            return False
        asked = self._noted(key, header.broker_address, now_ms)
        return not _has_rival(asked, now_ms) and now_ms - asked.first_ms >= TAKE_UP_AFTER_MS

    def refusal(
        self, header: RegisterBrokerToControllerRequestHeader, channel_id: int, now_ms: int
    ) -> GroupReply | None:
        """Return why a registration must not be served: its id is another broker's.

        None if nothing is known against it.
        """
        key = _key_of(header)
        living = self._table.get(key) or self._unregistered.get(key)
        if (
            living is not None
            and living.address not in {"", header.broker_address}
            and living.channel_id != channel_id
        ):
            return _refused(header, f"is held by the living broker at {living.address}")
        asked = self._asked.get(key)
        if asked is not None and _has_rival(asked, now_ms):
            return _refused(header, f"is claimed by {asked.address} and by {asked.rival}")
        return None

    def beats_unregistered(self, channel_id: int, broker_name: str) -> bool:
        """Say whether a connection carries heartbeats of a member of this group that is not recorded."""
        for key in self._unregistered.keys_of(channel_id, broker_name):
            group = self._state.get(key.group)
            if group is not None and key.broker_id not in group.replicas:
                return True
        return False

    def _noted(self, key: ReplicaKey, address: str, now_ms: int) -> _UnknownMember:
        asked = self._asked.get(key)
        if asked is None or now_ms - asked.last_ms > ASKED_WITHIN_MS:
            self._asked.pop(key, None)
            asked = self._asked[key] = _UnknownMember(address, now_ms, now_ms)
            if len(self._asked) > UNKNOWN_MEMBERS_MAX:
                del self._asked[next(iter(self._asked))]
        elif asked.address == address:
            asked.last_ms = now_ms
        else:
            asked.rival, asked.rival_ms = address, now_ms
        return asked


def _has_rival(asked: _UnknownMember, now_ms: int) -> bool:
    return bool(asked.rival) and now_ms - asked.rival_ms <= ASKED_WITHIN_MS


def _key_of(header: RegisterBrokerToControllerRequestHeader) -> ReplicaKey:
    return ReplicaKey(header.cluster_name, header.broker_name, BrokerId(header.broker_id))


def _refused(header: RegisterBrokerToControllerRequestHeader, why: str) -> GroupReply:
    remark = (
        f"BrokerId: {header.broker_id} of broker-set: {header.broker_name} {why}; "
        f"a broker at {header.broker_address} must not use it: "
        "stop one of them, or remove its brokerIdentity file to have it apply for another id"
    )
    ext = group_ext(header.cluster_name, header.broker_name)
    return GroupReply(ResponseCode.CONTROLLER_BROKER_ID_INVALID, ext, remark)
