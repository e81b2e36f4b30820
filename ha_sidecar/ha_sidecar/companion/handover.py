"""Hands a broker's mastership over before the broker is stopped: what a pod's preStop runs.

    1  this broker is not master, or is gone already      nothing to do
    2  find a successor: alive, in the SyncStateSet, a broker and not a log replica, and not behind
    3  designate it at the controllers (1002)             refused: try the next one, or look again
    4  wait until the controllers, the successor itself and every name server say that it is master

"Not behind" means that the successor's log reaches the end that this one's had a moment before; under load
that is the most that can be said from outside. The controllers elect only members of the SyncStateSet in any
case, so acknowledged messages are safe whoever is designated; waiting only shortens the switch.

A log replica would be refused by the controllers of this project, but RocketMQ's own would elect it. Request
28 tells it from a broker, as it does not answer that one.

Everything happens within the deadline. A handover that gives up does little harm: the controllers elect a
master when the connection of this one ends.

Source: ReplicasInfoManager.electMaster (designate), RouteInfoManager (106) 5.4.0.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.refusals import RefusalLog, refusal
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import ElectMasterRequestHeader
from controller_core.remoting.host_port import join_host_port
from controller_core.remoting.numbers import BrokerId
from controller_core.remoting.routes import ClusterInfo
from ha_sidecar.address import AddressError, host_port
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.common.questions import ask_broker, ask_electable, ask_group_until_answered
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, living_members, with_controller_id

LOOK_AGAIN_S: Final = 0.05
ELECT_AGAIN_S: Final = 0.25
"""After an election that the controllers refused: they may have refused the sends of all clients for it."""
BROKER_ATTEMPTS_MAX: Final = 3
"""A broker that does not answer so many times is gone; one late answer is a pause of its JVM."""

_log = logging.getLogger(__name__)


class HandoverError(Exception):
    """The mastership was not handed over within the deadline; the text names the missing step."""


class _NotYetError(Exception):
    """A broker cannot succeed yet; the text completes "waiting for"."""


class _NotElectedError(_NotYetError):
    """The controllers refused an election; to ask at once again would only be refused again."""


@dataclass(frozen=True, slots=True)
class HandoverResult:
    """What a handover did.

    Attributes:
        handed_over: False if there was nothing to hand over.
        reason: for a person: why the handover was not needed, or how it went.
        old_master_id: this broker, None if it did not answer.
        new_master_id: the group's master now, as far as is known.
        epoch: its master epoch.
        took_ms: from the first question to the end.
        pop_revives_owed: whether checkpoints of POP consumers are still owed; None if that is unknown.
    """

    handed_over: bool
    reason: str
    old_master_id: BrokerId | None
    new_master_id: BrokerId | None
    epoch: int | None
    took_ms: int
    pop_revives_owed: bool | None = None


class Handover:
    """One handover."""

    def __init__(self, config: CompanionConfig) -> None:
        """Take the settings."""
        self._config: Final = config
        self._controllers: Final = Controllers(config.controllers)
        self._broker: Final = Asker(config.broker, config.credentials)
        self._askers: Final[dict[str, Asker]] = {}
        self._own: BrokerFacts | None = None
        self._refusals: Final = RefusalLog(_log)
        self._waits_for = "the controllers"

    async def run(self) -> HandoverResult:
        """Hand over if there is something to hand over.

        Raises:
            HandoverError: not done within the deadline.
        """
        started_s = time.monotonic()
        self._controllers.start()
        try:
            async with asyncio.timeout(self._config.deadline_s):
                result = await self._hand_over(started_s)
        except TimeoutError as error:
            raise HandoverError(
                f"{self._config.deadline_s} s are over, waiting for {self._waits_for}"
            ) from error
        finally:
            await self._controllers.stop()
            for asker in (self._broker, *self._askers.values()):
                asker.close()
        return result

    async def _hand_over(self, started_s: float) -> HandoverResult:
        try:
            own = await self._own_facts()
        except AskError as error:
            if error.is_refusal:
                # It lives and may be master: the handover may still be needed.
                raise HandoverError(f"the broker refuses: {error}") from error
            return _result(started_s, f"the broker does not answer: {error}", None, None)
        except RemotingProtocolError as error:
            return _result(started_s, f"the broker does not answer: {error}", None, None)
        group = await self._group()
        own = self._own = with_controller_id(own, group)
        own_id = own.broker_id
        if not own_id or group.master_id != own_id:
            return _result(started_s, f"broker {own_id} is not master", own_id, group)
        successor_id = await self._designate(own_id)
        group = await self._wait_until_master(successor_id, group.master_epoch)
        await self._wait_until_listed(group.master_address or "")
        return _result(started_s, "done", own_id, group)

    async def _own_facts(self) -> BrokerFacts:
        """Ask the broker; raise the last error when it has not answered several times in a row."""
        for _ in range(BROKER_ATTEMPTS_MAX - 1):
            try:
                return await ask_broker(self._broker)
            except (AskError, RemotingProtocolError) as error:
                self._waits_for = f"the broker: {error}"
            await asyncio.sleep(LOOK_AGAIN_S)
        return await ask_broker(self._broker)

    async def _group(self) -> GroupFacts:
        def note(error: Exception) -> None:
            self._waits_for = f"the controllers: {error}"

        return await ask_group_until_answered(
            self._controllers, self._config.cluster, self._config.group, note, pause_s=LOOK_AGAIN_S
        )

    async def _designate(self, own_id: BrokerId) -> BrokerId:
        """Find a successor and have it elected; return its id."""
        self._waits_for = "a successor in the SyncStateSet"
        while True:
            group = await self._group()
            # Another process may have elected a master in between; that is as good.
            if group.master_id is not None and group.master_id != own_id:
                return group.master_id
            missing, pause_s = f"a successor in the SyncStateSet {list(group.members)}", LOOK_AGAIN_S
            for broker_id, address in living_members(group, own_id):
                try:
                    await self._check_caught_up(broker_id, address)
                    await self._elect(broker_id)
                except _NotElectedError as error:
                    missing, pause_s = str(error), ELECT_AGAIN_S
                except _NotYetError as error:
                    missing = str(error)
                except (AskError, RemotingProtocolError, AddressError) as error:
                    missing = self._note_unsuitable(broker_id, error) or missing
                else:
                    return broker_id
            # Known only now: a deadline in the middle of a look reports the result of the previous look.
            self._waits_for = missing
            await asyncio.sleep(pause_s)

    def _note_unsuitable(self, broker_id: BrokerId, error: Exception) -> str:
        """Log why a member cannot succeed.

        Return its words if it refuses, and is not a log replica, which may not be elected.
        """
        code = error.code if isinstance(error, AskError) else None
        if code in (None, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
            _log.info("broker %d cannot succeed: %s", broker_id, error)
            return ""
        self._refusals.refused(f"broker {broker_id}", str(error))
        return f"broker {broker_id}, which refuses: {error}"

    async def _check_caught_up(self, broker_id: BrokerId, address: str) -> None:
        own = await ask_broker(self._broker, self._own.address if self._own is not None else "")
        other = await ask_electable(self._asker(address))
        if other.max_offset < own.max_offset:
            raise _NotYetError(f"broker {broker_id} to reach {own.max_offset}, it has {other.max_offset}")

    async def _elect(self, broker_id: BrokerId) -> None:
        header = ElectMasterRequestHeader(
            self._config.group,
            self._config.cluster,
            broker_id,
            designate_elect=True,
            invoke_time=time.time_ns() // 1_000_000,
        )
        try:
            answer = await self._controllers.call(
                RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, header.to_ext())
            )
        except ControllersUnavailableError as error:
            # It may have been elected nevertheless; the next look tells.
            raise _NotYetError(f"the controllers: {error}") from error
        # "Master still exists" is the answer when it is master already.
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            raise _NotElectedError(f"the controllers to elect {broker_id}: {refusal('request 1002', answer)}")

    async def _wait_until_master(self, successor_id: BrokerId, old_epoch: int) -> GroupFacts:
        """Wait until the controllers name a newer master and that one takes itself for it."""
        while True:
            group = await self._group()
            self._waits_for = f"broker {successor_id} to become master, epoch {group.master_epoch}"
            if group.master_epoch > old_epoch and group.master_address is not None:
                try:
                    if (await ask_broker(self._asker(group.master_address))).is_master:
                        return group
                except (AskError, RemotingProtocolError, AddressError) as error:
                    self._waits_for = f"broker {successor_id} to become master: {error}"
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _wait_until_listed(self, address: str) -> None:
        """Wait until every name server that answers lists the new master; clients ask any of them."""
        await asyncio.gather(
            *(self._wait_until_listed_at(join_host_port(*one), address) for one in self._config.name_servers)
        )

    async def _wait_until_listed_at(self, name_server: str, address: str) -> None:
        while True:
            self._waits_for = f"name server {name_server} to list {address}"
            try:
                answer = await self._asker(name_server).ask(RequestCode.GET_BROKER_CLUSTER_INFO)
                listed = ClusterInfo.decode(answer.body).broker_addr_table.get(self._config.group)
            except AskError as error:
                if error.code is None:
                    _log.info("name server %s is not there: %s", name_server, error)
                    return
            except RemotingProtocolError as error:
                self._waits_for = f"name server {name_server}: {error}"
            else:
                if listed is not None and listed.master_address == address:
                    return
            await asyncio.sleep(LOOK_AGAIN_S)

    def _asker(self, address: str) -> Asker:
        if address not in self._askers:
            self._askers[address] = Asker(host_port(address), self._config.credentials)
        return self._askers[address]


def _result(
    started_s: float, reason: str, own_id: BrokerId | None, group: GroupFacts | None
) -> HandoverResult:
    return HandoverResult(
        handed_over=reason == "done",
        reason=reason,
        old_master_id=own_id,
        new_master_id=group.master_id if group is not None else None,
        epoch=group.master_epoch if group is not None else None,
        took_ms=int((time.monotonic() - started_s) * 1000),
    )
