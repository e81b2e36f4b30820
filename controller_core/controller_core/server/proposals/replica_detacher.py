"""Detach log replicas from a master that may live before its successor is elected: it must not ack alone.

Why: since 5.4.0 a broker takes a slave out of its own SyncStateSet the moment the slave's connection ends.
Consider a master that is silent towards the controllers but alive to its slaves and clients (CPU starvation,
or a partition). Its slaves leave for its successor one after the other. When the last has gone, it
acknowledges all waiting sends alone. (One message was lost that way on a cluster at a load average of 35.)

So the log replica leaves first: it detaches on request (see `ha_sidecar.transfer.slave`). Its id stays in the
old master's set, and no process acknowledges in its name. Only then is the election proposed. The next master
has every message that the old master acknowledged before, because until then the whole set was connected.

What it costs: one question to a process that answers in a millisecond or so, and up to 0.2 s if the old
master does not notice, which a frozen one cannot. The wait for an answer ends after `ANSWER_WITHIN_S`.
If the master's node is lost, the replica waits for `LOST_NODE_WAIT_MS` only: a master that was silent
together with its node for longer than that will hardly notice in the next 0.2 s.

The master itself gets no question, because its answer would change nothing. A refusal of a replica is logged
with its remark; like a dead replica, it does not delay the election.

Never here: switchovers of a master that lives; `write_guard` drains it, or refuses them. A group without a
log replica is not protected.
"""

import asyncio
import itertools
import logging
from typing import Final

from controller_core.groups.commands import Cause, ElectMaster
from controller_core.groups.elections.election import would_end
from controller_core.groups.elections.policy import log_replicas_in_sync
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.headers import NotifyBrokerRoleChangedRequestHeader
from controller_core.server.common.broker_questions import ASK_ERRORS, Ask, ask_or_raise
from controller_core.server.logs import bind

ANSWER_WITHIN_S: Final = 0.4
LOST_NODE_WAIT_MS: Final = 50

_log = logging.getLogger(__name__)


class ReplicaDetacher:
    """Has log replicas leave a master before the election of its successor."""

    def __init__(self, state: GroupsState, ask: Ask) -> None:
        self._state = state
        self._ask = ask

    async def detach_before(self, command: ElectMaster) -> tuple[BrokerId, ...]:
        """Return the living log replicas of the set that answered, when all have or their time is over."""
        group = self._state.group_of(command)
        if group is None:
            return ()
        alive = {broker.id for broker in command.alive}
        replicas = {
            broker_id: group.replicas[broker_id].address
            for broker_id in log_replicas_in_sync(group)
            if broker_id in alive
        }
        if not replicas or not would_end(group, command):
            return ()
        header = NotifyBrokerRoleChangedRequestHeader(
            master_epoch=group.master_epoch,
            part_wait_ms=LOST_NODE_WAIT_MS if command.cause is Cause.NODE_LOST else None,
        )
        questions = [self._detach(group, address, header) for address in replicas.values()]
        answered = await asyncio.gather(*questions)
        return tuple(itertools.compress(replicas, answered))

    async def _detach(self, group: Group, address: str, header: NotifyBrokerRoleChangedRequestHeader) -> bool:
        """Ask one replica; return whether it answered."""
        who = {"broker_group": str(group.key), "epoch": group.master_epoch, "address": address}
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                answer = await ask_or_raise(
                    self._ask, address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header.to_ext()
                )
        except ASK_ERRORS as error:
            _log.warning("a log replica did not detach from its master", extra=bind(**who, error=str(error)))
            return False
        if answer.remark:
            _log.warning(
                "a log replica detached from its master with a remark",
                extra=bind(**who, remark=answer.remark),
            )
        return True
