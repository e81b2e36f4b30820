"""Before a master that may live is replaced: the log replica of its set leaves it, in a way that it cannot misread.

Why: since 5.4.0 a broker takes a slave out of its own SyncStateSet the moment the slave's connection ends. A master that
is silent towards the controllers, but alive to its slaves and clients (starved of processor time, or cut off from here
only), sees them leave for its successor one after the other; when the last has gone, all sends that wait are acknowledged
by it alone. (Seen once, on a cluster at a load average of 35: one message lost.)

So the log replica goes first: it is asked to part (see `ha_sidecar.transfer.slave`), which leaves its id in the old
master's set and nobody to acknowledge in its name. Only then is the election proposed. Nothing that the old master
acknowledged before lacks the next master's copy: until then all of the set were connected to it.

What it costs: one question to a process that answers in a millisecond or so, and up to 0.2 s if the old master does not
notice, which a frozen one cannot. A replica that does not answer within `ANSWER_WITHIN_S` is not waited for.

The master itself is asked nothing: whether it would answer, refuse or be silent makes no difference here. A replica that refuses
is logged with its words and not waited for, as one that is dead.

Never here: switchovers of a master that lives; `write_guard` drains it, or refuses them. A group without a log replica is not protected.
"""

import asyncio
import logging
from typing import Final

from controller_core.groups.commands import ElectMaster
from controller_core.groups.elections import would_end
from controller_core.groups.group import Group
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.headers import NotifyBrokerRoleChangedRequestHeader
from controller_core.server.logs import bind
from controller_core.server.masters.broker_questions import ASK_ERRORS, Ask, ask_or_raise

ANSWER_WITHIN_S: Final = 0.4

_log = logging.getLogger(__name__)


class ReplicaDetacher:
    """Has log replicas leave a master before it is replaced."""

    def __init__(self, state: GroupsState, ask: Ask) -> None:
        self._state = state
        self._ask = ask

    async def detach_before(self, command: ElectMaster) -> None:
        """Return when every living log replica of the set has parted, or has had its time."""
        group = self._state.find_one(command.broker_name, command.cluster)
        if group is None:
            return
        alive = {broker.id for broker in command.alive}
        replicas = [
            replica.address
            for broker_id, replica in sorted(group.replicas.items())
            if not replica.electable and broker_id in alive and broker_id in group.sync_state_set
        ]
        if replicas and would_end(group, command):
            await asyncio.gather(*(self._detach(group, address) for address in replicas))

    async def _detach(self, group: Group, address: str) -> None:
        header = NotifyBrokerRoleChangedRequestHeader(master_epoch=group.master_epoch)
        who = {"broker_group": str(group.key), "epoch": group.master_epoch, "address": address}
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                answer = await ask_or_raise(
                    self._ask, address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header.to_ext()
                )
        except ASK_ERRORS as error:
            _log.warning("a log replica has not parted from its master", extra=bind(**who, error=str(error)))
            return
        if answer.remark:
            _log.warning(
                "a log replica was asked to part from its master", extra=bind(**who, remark=answer.remark)
            )
