"""Carry a fence out: ask around, and tell the broker.

Two settings stop the writes (`decisions.fenced_settings`). The broker looks at `minInSyncReplicas` before it
appends anything, if it is a master then; at the time from which it takes sends, when it takes one up. (Its
`brokerPermission` does not do it: a broker refuses only ordered topics by it and leaves the rest to the
clients' routes.)

Each round asks all controllers and all members at the same time, and counts from when it began. Which master
the controllers name is what a majority of them vouches for; one of them alone neither closes the fence nor
opens it.

Source: SendMessageProcessor.preSend, CommitLog.asyncPutMessage, AdminBrokerProcessor.updateBrokerConfig,
AbstractSendMessageProcessor.msgCheck 5.5.0.
"""

import asyncio
import logging
import shlex
import time
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.refusals import RefusalLog
from controller_core.error_text import error_text
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.address import AddressError, host_port
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.questions import ask_broker, ask_group, ask_ha_status, change_settings
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, settings, with_controller_id
from ha_sidecar.decisions.fence import Fence, FenceAction, FenceInputs, FenceState
from ha_sidecar.decisions.fenced_settings import FencedSettings

BROKER: Final = "the broker, which no fence guards until it answers,"
ROUND_S: Final = 0.25
ROUND_TIMEOUT_S: Final = 1.0
STOP_TIMEOUT_S: Final = 60.0

_log = logging.getLogger(__name__)


class Fencing:
    """One broker's fence at work.

    Attributes:
        fence: its machine, None until the broker's settings were seen.
    """

    def __init__(self, config: CompanionConfig, controllers: Controllers, events: EventLog) -> None:
        """Take the settings, the connections to the controllers, and where to tell what happens."""
        self.fence: Fence | None = None
        self._config: Final = config
        self._controllers: Final = controllers
        self._events: Final = events
        self._broker: Final = Asker(config.broker, config.credentials)
        self._peers: Final[dict[str, Asker]] = {}
        self._refusals: Final = RefusalLog(_log)
        self._address = ""
        self._own_id = 0
        self._group: GroupFacts | None = None
        self._majority_ms = self._peers_ms = _now_ms()

    @property
    def is_closed(self) -> bool | None:
        """Say whether the broker is, or is about to be, stopped from taking writes.

        None until its settings are known. Until then it is not guarded: a broker that has not answered yet
        may just be starting.
        """
        return None if self.fence is None else self.fence.state is not FenceState.OPEN

    async def run(self) -> None:
        """Guard until cancelled."""
        try:
            while True:
                await self._round()
                await asyncio.sleep(ROUND_S)
        finally:
            for asker in (self._broker, *self._peers.values()):
                asker.close()

    async def _round(self) -> None:
        began_ms = _now_ms()
        facts, majority, peers = await asyncio.gather(
            self._ask_broker(), self._ask_majority(), self._ask_peers()
        )
        if majority:
            self._majority_ms = began_ms
        if peers:
            self._peers_ms = began_ms
        if self.fence is None:
            held = await self._held()
            if held is None:
                return
            self.fence = Fence(self._config.fence_after_ms, self._config.fence_stop_ms, closed=held.is_closed)
        before = self.fence.state
        is_master = None if facts is None else facts.is_master
        heard = FenceInputs(self._majority_ms, self._peers_ms, is_master, self._is_named(facts))
        action = self.fence.tick(heard, _now_ms())
        if action is not None and await self._carry_out(action):
            self.fence.confirmed(action)
        if self.fence.state is not before:
            self._tell(self.fence)

    def _is_named(self, facts: BrokerFacts | None) -> bool | None:
        if self._group is None or self._group.master_id is None:
            return None
        if facts is not None:
            self._own_id = with_controller_id(facts, self._group).broker_id or self._own_id
        return self._group.master_id == self._own_id if self._own_id else None

    # Asking around.

    async def _ask_broker(self) -> BrokerFacts | None:
        try:
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                facts = await ask_broker(self._broker, self._address)
        except (AskError, RemotingProtocolError, TimeoutError) as error:
            self._not_told(BROKER, error)
            return None
        self._refusals.answered(BROKER)
        self._address = facts.address or self._address
        return facts

    async def _ask_majority(self) -> bool:
        if not (await self._controllers.count_answering(ROUND_TIMEOUT_S)).is_majority:
            return False
        try:
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                found = await ask_group(self._controllers, self._config.cluster, self._config.group)
        except (ControllersUnavailableError, AskError, RemotingProtocolError, TimeoutError) as error:
            # They answer and have no leader: no election happens until they have one, and then they answer
            # the question too.
            _log.debug("controllers: %s", error)
            return True
        self._group = found
        return True

    async def _ask_peers(self) -> bool:
        """Say whether every other member of the SyncStateSet denies to be master."""
        group, own_id = self._group, self._own_id
        if group is None or not own_id or own_id not in group.members:
            return False
        addresses = [
            address for member, address, _ in group.others if member in group.members and member != own_id
        ]
        return all(await asyncio.gather(*(self._denies(address) for address in addresses)))

    async def _denies(self, address: str) -> bool:
        try:
            asker = self._peers.get(address)
            if asker is None:
                asker = self._peers[address] = Asker(host_port(address), self._config.credentials)
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                status = await ask_ha_status(asker)
        except (AskError, RemotingProtocolError, AddressError, TimeoutError) as error:
            self._not_told(f"member {address}", error)
            return False
        self._refusals.answered(f"member {address}")
        return not status.master

    def _not_told(self, peer: str, error: Exception) -> None:
        if isinstance(error, AskError) and error.is_refusal:
            self._refusals.refused(peer, str(error))
        else:
            _log.debug("%s: %s", peer, error)

    # Telling the broker.

    async def _carry_out(self, action: FenceAction) -> bool:
        """Do it; return whether it is done."""
        if action is FenceAction.STOP:
            await self._stop_broker()
            return False
        held = await self._held()
        if held is None:
            return False
        wanted = held.closed() if action is FenceAction.CLOSE else held.opened()
        return wanted == held or await self._set(wanted)

    async def _held(self) -> FencedSettings | None:
        try:
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                answer = await self._broker.ask(RequestCode.GET_BROKER_CONFIG)
        except (AskError, TimeoutError) as error:
            self._not_told(BROKER, error)
            return None
        return FencedSettings.of(settings(answer.body.decode(errors="replace")))

    async def _set(self, wanted: FencedSettings) -> bool:
        try:
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                await change_settings(self._broker, wanted.values())
        except (AskError, TimeoutError) as error:
            _log.warning("the broker does not take %s: %s", wanted.values(), error_text(error))
            return False
        return True

    async def _stop_broker(self) -> None:
        command = shlex.split(self._config.fence_stop_command)
        if not command:
            _log.error("cannot tell the broker to refuse writes, and no fence-stop-command is set")
            return
        _log.error("stopping the broker: cannot tell it to refuse writes")
        process = await asyncio.create_subprocess_exec(*command)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            _log.error("the fence-stop-command has not ended within %s s and is killed", STOP_TIMEOUT_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _tell(self, fence: Fence) -> None:
        _log.warning("fence %s: %s", fence.state.name, fence.reason)
        epoch = None if self._group is None else self._group.master_epoch
        self._events.add("FenceChanged", epoch, {"state": fence.state.name, "reason": fence.reason})


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
