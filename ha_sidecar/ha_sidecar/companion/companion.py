"""A broker's companion: looks at an unmodified broker from beside it and says what the broker does not.

Three loops that know nothing of each other: one asks the broker (907, 1007, 28) and its master, one asks the
controllers (1006), one compares what the broker and its master know besides the log (`metadata_watch`). Each
keeps its newest answer; HTTP shows all, joined. Of itself it changes nothing, neither at the broker nor at
the controllers; the fence (`fencing`) putting lost metadata back, and putting back checkpoints of POP
consumers (`revive_watch`) do, where the settings ask for it. `POST /v1/handover` runs a handover and answers
when it is done; `POST /v1/leave` says how the broker should end (`leaving`), and hands over where that needs
it: a broker's container, which lacks our programs, calls it from its preStop over loopback.

A broker that stops answering is forgotten after `BROKER_FORGET_S`, so that readiness falls soon and a single
slow answer does not count. So is one that refuses (access control); the companion then reports its refusal.
The last words of the controllers stay valid until newer ones come.

Events: those of the fence, the metadata and the hold; RoleChanged when the controllers name another master or
epoch, InSyncChanged when this broker enters or leaves the SyncStateSet.

Source: AdminBrokerProcessor.java (28, 907, 1007), ReplicasInfoManager.getSyncStateData (1006) 5.4.0.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.refusals import RefusalLog
from controller_core.remoting.bodies import EpochEntryCache
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.numbers import LogOffset
from controller_core.tls.serving import member_tls, use_tls
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.http_server import HttpServer
from ha_sidecar.common.questions import ask_broker, ask_group
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.debt_store import debt_store
from ha_sidecar.companion.guests.guest_port import GuestPort
from ha_sidecar.companion.guests.home import is_lent
from ha_sidecar.companion.handover import Handover, HandoverError
from ha_sidecar.companion.holding.client_hold import ClientHold
from ha_sidecar.companion.holding.hold_port import HoldPort
from ha_sidecar.companion.holding.served_elsewhere import ANSWER_WITHIN_S, ServedElsewhere
from ha_sidecar.companion.leaving import EndMethod, leave
from ha_sidecar.companion.metadata_watch import MetadataWatch
from ha_sidecar.companion.metrics import CompanionMetrics, CompanionState
from ha_sidecar.companion.revive_watch import ReviveWatch
from ha_sidecar.companion.stopping.fencing import Fencing
from ha_sidecar.companion.stopping.leasing import Leasing
from ha_sidecar.companion.warming import warm
from ha_sidecar.decisions.broker_facts import (
    BrokerFacts,
    GroupFacts,
    lag_bytes,
    master_client_address,
    readiness,
    with_controller_id,
)
from ha_sidecar.decisions.replication_history import ReplicationHistory
from ha_sidecar.live_settings.watch import SettingsWatch
from ha_sidecar.users.watch import UserWatch

BROKER_FORGET_S: Final = 3.0
BROKER: Final = "the broker"
MASTER: Final = "the master"

_log = logging.getLogger(__name__)


class Companion:
    """One broker's companion."""

    def __init__(self, config: CompanionConfig) -> None:
        """Take the settings."""
        self._config: Final = config
        self._events: Final = EventLog(config.cluster, config.group, config.namespace, "companion")
        self._controllers: Final = Controllers(config.controllers)
        self._broker: Final = Asker(config.broker, config.credentials)
        self._master: Asker | None = None
        self._broker_facts: BrokerFacts | None = None
        self._refusals: Final = RefusalLog(_log)
        self._broker_seen_s = 0.0
        self._history: Final = ReplicationHistory()
        self._lag_bytes: int | None = None
        self._group_facts: GroupFacts | None = None
        self._group_before: GroupFacts | None = None
        """As it was when another member was master."""
        self._controllers_up = False
        self._trouble = ""
        self._in_sync: bool | None = None
        self._is_warm = False
        self._metadata: Final = MetadataWatch(
            config, self._events, lambda: self._broker_facts, lambda: self._group_facts
        )
        self._revive: ReviveWatch | None = None
        if config.broker_metrics is not None:
            self._revive = ReviveWatch(
                config,
                config.broker_metrics,
                self._events,
                lambda: self._broker_facts,
                lambda: self._group_facts,
                debt_store(config),
            )
        self._users: UserWatch | None = None
        if config.keep_users and config.credentials is not None:
            self._users = UserWatch(
                config.broker,
                config.credentials,
                self._events,
                lambda: self._broker_facts,
                lambda: self._group_facts,
            )
        self._settings: SettingsWatch | None = None
        if config.broker_conf is not None:
            self._settings = SettingsWatch(config.broker_conf, self._broker, lambda: self._broker_facts)
        self._hold: ClientHold | None = None
        self._room: Final = HoldPort(config.hold_port)
        self._guests: GuestPort | None = None
        self._fencing: Final = Fencing(config, self._controllers, self._events) if config.fence else None
        self._leasing: Final = Leasing(config, self._controllers, self._events) if config.lease_port else None

    async def run(self) -> None:
        """Run until cancelled; raise `OSError` if the HTTP port cannot be had."""
        tls = use_tls(self._config.tls, self._config.tls_mode)
        metrics = CompanionMetrics(self._config.cluster, self._config.group, self._known)
        http = HttpServer(
            metrics.text,
            self._readiness,
            self._events,
            {"/v1/handover": self._hand_over, "/v1/leave": self._leave, "/v1/settle": self._settle},
            self._status,
        )
        self._controllers.start()
        try:
            if self._config.http is not None:
                await http.start(*self._config.http)
            works = [self._watch_broker(), self._watch_group(), self._metadata.run()]
            if tls is not None:
                works.append(tls.watch())
            if self._fencing is not None:
                works.append(self._fencing.run())
            if self._leasing is not None:
                works.append(self._leasing.run())
            if self._revive is not None:
                works.append(self._revive.run())
            if self._users is not None:
                works.append(self._users.run())
            if self._settings is not None:
                works.append(self._settings.run())
            if self._config.hold_ms:
                self._hold = ClientHold(
                    self._config.broker,
                    self._config.hold_ms,
                    self._group_of_master,
                    self._events,
                    ServedElsewhere(self._group_now, self._config.credentials).look,
                    self._room,
                    member_tls(self._config.tls, self._config.tls_mode),
                )
                works.append(self._hold.run())
            if self._config.guest_port:
                self._guests = GuestPort(
                    self._config.guest_port,
                    self._config.broker,
                    lambda: is_lent(self._identified(), self._group_facts, self._config.credentials),
                    lambda: self._group_before,
                    member_tls(self._config.tls, self._config.tls_mode),
                    self._config.credentials,
                )
                works.append(self._guests.run())
            await _all_to_their_end(works)
        finally:
            await http.stop()
            await self._controllers.stop()
            self._broker.close()
            if self._master is not None:
                self._master.close()

    async def _watch_broker(self) -> None:
        while True:
            try:
                known_address = self._broker_facts.address if self._broker_facts is not None else ""
                self._broker_facts = await ask_broker(self._broker, known_address)
                self._broker_seen_s = time.monotonic()
                self._refusals.answered(BROKER)
                self._history.learn(self._broker_seen_s, self._broker_facts)
                self._lag_bytes = lag_bytes(self._broker_facts, await self._master_max_offset())
                await self._warm(self._broker_facts)
            except (AskError, RemotingProtocolError) as error:
                self._not_told(BROKER, error)
                if time.monotonic() - self._broker_seen_s > BROKER_FORGET_S:
                    self._broker_facts = self._lag_bytes = None
                    self._is_warm = False
            self._note_in_sync()
            await self._pause()

    async def _warm(self, broker: BrokerFacts) -> None:
        """Once after each start of the broker, which is found by its silence before."""
        config = self._config
        if self._is_warm or config.broker_ha is None:
            return
        self._is_warm = broker.is_master or await warm(
            config.broker, config.broker_ha, config.cluster, config.credentials
        )

    async def _watch_group(self) -> None:
        while True:
            try:
                found = await ask_group(self._controllers, self._config.cluster, self._config.group)
            except (ControllersUnavailableError, AskError, RemotingProtocolError) as error:
                # Why not each time: the same trouble twice a second would bury everything else in the log.
                if self._controllers_up or str(error) != self._trouble:
                    _log.warning("controllers: %s", error)
                self._controllers_up, self._trouble = False, str(error)
                self._controllers.forget_leader()
            else:
                if not self._controllers_up:
                    _log.info("the controllers tell of the group: %s", found)
                self._controllers_up = True
                self._learn(found)
            await self._pause()

    async def _group_now(self) -> GroupFacts | None:
        """Ask the controllers out of turn.

        None if they do not answer within the time that a held client has.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                return await ask_group(self._controllers, self._config.cluster, self._config.group)
        except (ControllersUnavailableError, AskError, RemotingProtocolError, TimeoutError):
            return None

    def _group_of_master(self) -> GroupFacts | None:
        """Return the group while this broker is its master and another member may succeed it."""
        broker, group = self._identified(), self._group_facts
        if broker is None or group is None or group.master_id != broker.broker_id or len(group.members) < 2:
            return None
        return group

    def _readiness(self) -> tuple[bool, str]:
        ready, why = readiness(self._identified(), self._group_facts, self._refusals.words(BROKER))
        hindrance = "" if self._users is None else self._users.hindrance()
        return (False, f"{hindrance}; {why}") if ready and hindrance else (ready, why)

    def _status(self) -> dict[str, Any]:
        """Return the known facts as one JSON object; null for the unknown ones."""
        broker, missing = self._identified(), self._metadata.missing()
        return {
            "broker": None if broker is None else asdict(broker),
            "refusal": self._refusals.words(BROKER),
            "group": None if self._group_facts is None else asdict(self._group_facts),
            "lag_bytes": self._lag_bytes,
            "fence": None if self._fencing is None else self._fencing.is_closed,
            "lease": None if self._leasing is None else self._leasing.word,
            "metadata_in_sync": None if missing is None else not missing,
            "metadata_missing": missing,
            "users_in_sync": None if self._users is None else self._users.in_sync,
            "settings": None if self._settings is None else self._settings.told,
        }

    async def _pause(self) -> None:
        await asyncio.sleep(self._config.poll_interval_ms / 1000)

    async def _master_max_offset(self) -> LogOffset | None:
        """Ask the group's master how far its log reaches; None if it is this broker, or does not say."""
        facts, group = self._broker_facts, self._group_facts
        address = master_client_address(group)
        if facts is None or facts.is_master or address is None:
            return None
        if self._master is None or self._master.address != address:
            if self._master is not None:
                self._master.close()
            self._master = Asker(address, self._config.credentials)
        try:
            answer = await self._master.ask(RequestCode.GET_BROKER_EPOCH_CACHE)
            self._refusals.answered(MASTER)
            return LogOffset(EpochEntryCache.decode(answer.body).max_offset)
        except (AskError, RemotingProtocolError) as error:
            self._not_told(MASTER, error)
            return None

    def _not_told(self, peer: str, error: AskError | RemotingProtocolError) -> None:
        if isinstance(error, AskError) and error.is_refusal:
            self._refusals.refused(peer, str(error))
        else:
            _log.debug("%s: %s", peer, error)

    def _learn(self, found: GroupFacts) -> None:
        before = self._group_facts
        self._group_facts = found
        broker = self._identified()
        if found.master_id is not None and (broker is None or found.master_id != broker.broker_id):
            self._group_before = found
        if before is None or (before.master_id, before.master_epoch) != (found.master_id, found.master_epoch):
            attrs = {"master_id": str(found.master_id or ""), "master_address": found.master_address or ""}
            self._events.add("RoleChanged", found.master_epoch, attrs)
        self._note_in_sync()

    def _note_in_sync(self) -> None:
        broker, group = self._identified(), self._group_facts
        if broker is None or not broker.broker_id or group is None:
            return
        in_sync = broker.broker_id in group.members
        if in_sync != self._in_sync:
            self._in_sync = in_sync
            self._events.broker_id = broker.broker_id
            members = ",".join(str(member) for member in group.members)
            attrs = {"in_sync": str(in_sync).lower(), "sync_state_set": members}
            self._events.add("InSyncChanged", group.master_epoch, attrs)

    async def _hand_over(self) -> tuple[int, dict[str, Any]]:
        try:
            result = await Handover(self._config).run()
        except HandoverError as error:
            return 503, {"error": str(error)}
        return 200, asdict(replace(result, pop_revives_owed=await self._settle_revives()))

    async def _settle(self) -> tuple[int, dict[str, Any]]:
        return 200, {"pop_revives_owed": await self._settle_revives()}

    async def _settle_revives(self) -> bool | None:
        """Put owed checkpoints of POP consumers back: this pod ends after a handover.

        Return whether some are still owed; None if the companion does not watch them.
        """
        if self._revive is None:
            return None
        await self._revive.settle()
        return self._revive.is_owed

    async def _leave(self) -> tuple[int, dict[str, Any]]:
        decided = await leave(self._config)
        await self._settle_revives()
        address = master_client_address(self._group_facts)
        # After a handover no new connections come: the address is its successor's, or leads there soon.
        is_held = decided.how is EndMethod.KILL and decided.is_master and self._hold is not None
        if is_held and address is not None:
            _log.info("new connections wait for the end: %s", await self._room.reached(address))
        _log.info("the broker should end: %s: %s", decided.how, decided.reason)
        return 200, asdict(decided)

    def _known(self) -> CompanionState:
        fenced = None if self._fencing is None else self._fencing.is_closed
        missing = self._metadata.missing()
        return CompanionState(
            self._identified(),
            self._group_facts,
            self._lag_bytes,
            self._controllers_up,
            fenced,
            None if missing is None else not missing,
            self._history.truncations,
            self._history.ended_connections,
            self._history.slave_lags_s(time.monotonic()),
            None if self._revive is None else self._revive.refused,
            None if self._revive is None else self._revive.put_back,
            None if self._revive is None else self._revive.is_owed,
            None if self._hold is None else self._hold.oneways,
            None if self._hold is None else self._hold.oneways_lost,
            None if self._users is None else self._users.in_sync,
            None if self._leasing is None else self._leasing.lapses,
            None if self._guests is None else self._guests.guests,
            None if self._guests is None else self._guests.emptied,
        )

    def _identified(self) -> BrokerFacts | None:
        return (
            None if self._broker_facts is None else with_controller_id(self._broker_facts, self._group_facts)
        )


async def _all_to_their_end(works: Sequence[Coroutine[None, None, None]]) -> None:
    """Run all until one fails or this is cancelled, and wait until each of them has ended.

    Why not `gather` alone: it ends with the first that was cancelled. Held clients must stay held to the end
    of their hold: Kubernetes ends a companion as soon as its broker is gone, in the middle of the failover.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            if not task.cancelling():
                task.cancel()
        await asyncio.wait(tasks)
