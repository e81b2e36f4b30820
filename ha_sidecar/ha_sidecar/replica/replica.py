"""The log-only replica: a process that holds a broker group's log and nothing else.

It registers like a broker, beats like a broker, follows the master's log and acks it, so that a message is on
two disks before a client hears "stored". It serves no client and is never elected: controllers of this
project know it by `replicaKind=log`, and it never asks for an election itself.

Order that matters: identity, registration, a heartbeat that a controller has answered, and only then the
first ack. While a member of the set is not alive for the controller, every change of the set that contains it
is refused.

The master is the one that a majority of the controllers names when asked (`master_watch`). A message to this
process's port, also a notice of a new master, is at most a reason to ask.

This module owns the parts and their timers; what they do is in theirs.

Source: ReplicasManager.java 5.4.0 (calls, periods).
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Final

from controller_core.channel import ChannelError, Connection, Server, serve
from controller_core.channel.asking import AskError
from controller_core.error_text import error_text
from controller_core.remoting.bodies import BrokerReplicasInfo, SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import BodyError, RemotingProtocolError
from controller_core.remoting.headers import (
    LEARNER_PRIORITY,
    BrokerHeartbeatRequestHeader,
    GetReplicaInfoResponseHeader,
    NotifyBrokerRoleChangedRequestHeader,
)
from controller_core.remoting.numbers import BrokerId
from controller_core.tls.serving import server_tls, use_tls
from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.commitlog.syncer import Syncer
from ha_sidecar.common import metadata
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.http_server import HttpServer
from ha_sidecar.common.identity import IdentityFiles
from ha_sidecar.common.questions import ask_group, groups_question, may_elect_uncleanly
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.decisions.metadata_tables import BY_CODE
from ha_sidecar.replica import answers, registration
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.replica.follower import Follower
from ha_sidecar.replica.group_view import FollowedGroup, MasterRole
from ha_sidecar.replica.master_watch import MasterWatch, check_notice
from ha_sidecar.replica.metrics import ReplicaMetrics, ReplicaNumbers
from ha_sidecar.replica.port_bounds import port_bounds
from ha_sidecar.replica.slave_server import HaServer
from ha_sidecar.replica.slave_streams import ha_port_tls
from ha_sidecar.replica.upkeep import keep_metadata, retain
from ha_sidecar.transfer.served_log import MasterConfig

RETRY_S: Final = 0.1
LOOK_WITHIN_S: Final = 0.1
"""How long to ask the controllers for the address of a master's process, mostly the announced one."""
NOTICE_BODY_BYTES_MAX: Final = 1 << 16
"""A notice's SyncStateSet; thousands of ids fit."""
BEAT_ANSWER_TIMEOUT_S: Final = 0.5
NEVER_FIRST_EPOCH: Final = -1
"""Epoch in our heartbeats: sorts behind every broker in an election, should one ever consider us."""

_TRY_LATER: Final = (
    ControllersUnavailableError,
    registration.RegistrationRefusedError,
    RemotingProtocolError,
)
_log = logging.getLogger(__name__)


class LogReplica:
    """One log-only replica."""

    def __init__(self, config: ReplicaConfig, store: ReplicaStore) -> None:
        """Take the settings and the open store, which stays the caller's to close."""
        self._config: Final = config
        self._store: Final = store
        self._view: Final = FollowedGroup(is_learner=config.learner)
        self._events: Final = EventLog(config.cluster, config.group, config.namespace)
        self._controllers: Final = Controllers(config.controllers, self._greet)
        self._failure: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        key = GroupName(config.cluster, config.group)
        self._watch: Final = MasterWatch(
            key, self._controllers, self._view, self._learn, self._announce, self._is_following
        )
        # RocketMQ's own controller may elect whom it hears, a learner too in an unclean election.
        self._sends_heartbeats = not (config.learner and config.controller_kind == "java")
        self._partings: Final[set[asyncio.Future[None]]] = set()
        self._confirm_offset = -1
        served = ServedStore(store, self._known_confirm_offset, after_sync=config.ack_after == "sync")
        master = MasterConfig(config.mapped_file_bytes)
        self._ha_server: Final = HaServer(store, served, master, ha_port_tls(config))
        self._follower: Follower | None = None
        self._metrics: ReplicaMetrics | None = None

    async def run(self) -> None:
        """Run until cancelled, or raise what makes going on unsafe.

        A failed sync, a log that must be looked at.
        """
        config = self._config
        files = IdentityFiles(config.store, config.cluster, config.group)
        tls = use_tls(config.tls, config.tls_mode)
        server = await serve(*config.listen, self._accept, port_bounds(), tls=server_tls(tls))
        self._controllers.start()
        syncer = Syncer(lambda: self._store.log.sync(), self._on_synced, self._on_sync_failure)
        syncer.start()
        http = HttpServer(self._metrics_text, self._readiness, self._events)
        try:
            await http.start(*config.http)
            if config.ha_listen is not None:
                self._ha_server.start(*config.ha_listen)
            self._events.broker_id = await self._register(files)
            labels = (config.cluster, config.group, str(self._view.broker_id))
            metrics = self._metrics = ReplicaMetrics(labels, self._numbers)
            self._follower = Follower(
                config,
                self._store,
                self._view,
                self._events,
                metrics,
                syncer.wake if config.ack_after == "sync" else None,
                self._wait_heartbeat_answered,
                self._watch.ask_often,
                self._direct_address,
                partial(may_elect_uncleanly, self._controllers),
            )
            _log.info("replica %d of %s/%s runs", self._view.broker_id, config.cluster, config.group)
            await self._run_tasks(
                self._follower.run(),
                self._run_heartbeats(),
                self._watch.run(),
                keep_metadata(config, self._view),
                retain(config, self._view, self._store, self._ha_server, self._follower),
                *([] if tls is None else [tls.watch()]),
            )
        finally:
            await self._stop(server, http)
            await asyncio.to_thread(self._ha_server.stop)
            await asyncio.to_thread(syncer.stop)

    async def _run_tasks(self, *works: Coroutine[None, None, None]) -> None:
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait([*tasks, self._failure], return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                future.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop(self, server: Server, http: HttpServer) -> None:
        await http.stop()
        await self._controllers.stop()
        await server.close()

    # Towards the controllers.

    async def _register(self, files: IdentityFiles) -> BrokerId:
        while True:
            try:
                broker_id = await registration.take_id(self._controllers, self._config, files)
                self._view.broker_id = broker_id
                await self._announce()
            except _TRY_LATER as error:
                _log.warning("not registered yet: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                return broker_id

    async def _announce(self) -> None:
        """Register (1003) with the id that we have."""
        await registration.register(self._controllers, self._config, self._view.broker_id)

    def _heartbeat(self) -> BrokerHeartbeatRequestHeader:
        return BrokerHeartbeatRequestHeader(
            cluster_name=self._config.cluster,
            broker_addr=self._config.address,
            broker_name=self._config.group,
            broker_id=self._view.broker_id,
            epoch=NEVER_FIRST_EPOCH,
            max_offset=self._store.log.max_offset,
            confirm_offset=self._known_confirm_offset(),
            heartbeat_timeout_mills=self._config.heartbeat_timeout_ms,
            election_priority=LEARNER_PRIORITY if self._config.learner else None,
        )

    def _greet(self, connection: Connection) -> None:
        """Beat over a fresh connection at once: to its controller the replica is dead until then."""
        if self._view.broker_id and self._sends_heartbeats:
            connection.send_oneway(
                RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, self._heartbeat().to_ext(), oneway=True)
            )

    async def _run_heartbeats(self) -> None:
        while True:
            if self._sends_heartbeats:
                ext = self._heartbeat().to_ext()
                self._controllers.links.send_to_all(
                    RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, ext, oneway=True)
                )
            await asyncio.sleep(self._config.heartbeat_interval_ms / 1000)

    async def _wait_heartbeat_answered(self) -> None:
        """Return when the leader has answered a heartbeat of ours, or takes too long."""
        command = RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, self._heartbeat().to_ext())
        try:
            async with asyncio.timeout(BEAT_ANSWER_TIMEOUT_S):
                await self._controllers.call(command)
        except (ControllersUnavailableError, TimeoutError) as error:
            # Replication goes on without controllers; only changes of the set have to wait for them.
            _log.warning("no controller answers a heartbeat: %s", error_text(error))

    async def _direct_address(self, role: MasterRole) -> str:
        """Return the address of a master's process by the controllers' word.

        Without it the announced address.
        """
        announced = role.master_address or ""
        try:
            async with asyncio.timeout(LOOK_WITHIN_S):
                facts = await ask_group(self._controllers, self._config.cluster, self._config.group)
        except (TimeoutError, ControllersUnavailableError, AskError, RemotingProtocolError) as error:
            _log.debug("the address of the master's process: %s", error)
            return announced
        return (facts.master_direct if facts.master_id == role.master_id else None) or announced

    async def _decide_heartbeats(self) -> None:
        """Under RocketMQ's own controller: stop beating while the set is one broker and this replica.

        That controller would elect the replica when the broker dies. A member that does not beat is not
        elected, the set keeps its id, and the broker is elected again when it is back. Any other living
        member needs our beats: a set that contains a silent member cannot be changed.
        """
        view = self._view
        others = view.members - {view.broker_id}
        # Also without a master: then that broker is dead, and the set keeps it until it is back.
        alone = view.in_sync and len(others) == 1 and view.role.master_id in {None, *others}
        if alone:
            answer = await self._controllers.ask(groups_question(self._config.cluster, [self._config.group]))
            group = BrokerReplicasInfo.decode(answer.body).replicas_info_table.get(self._config.group)
            alone = group is not None and not any(other.alive for other in group.not_in_sync_replicas)
        if self._sends_heartbeats == alone:
            _log.info("heartbeats %s", "stop: one broker and this replica" if alone else "go on")
            self._sends_heartbeats = not alone

    def _accept(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        match request.code:
            case RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
                try:
                    return self._on_notice(connection, request)
                except RemotingProtocolError as error:
                    self._watch.refused(error)
                    raise
            case RequestCode.GET_BROKER_EPOCH_CACHE:
                body = answers.epoch_cache(self._config, self._store, self._view.broker_id).encode()
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)
            case RequestCode.GET_BROKER_HA_STATUS:
                slaves = self._ha_server.slaves()
                status = answers.ha_status(self._view, self._store, slaves, is_following=self._is_following())
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=status.encode())
            case RequestCode.EXCHANGE_BROKER_HA_INFO:
                header = answers.ha_address(self._config, self._view, self._store)
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext())
            case code if code in BY_CODE and (stored := self._stored_metadata(code)) is not None:
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=stored)
            case _:
                remark = f" request type {request.code} not supported"
                return RemotingCommand.response_to(
                    request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark
                )

    def _on_notice(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        notice = NotifyBrokerRoleChangedRequestHeader.from_ext(request.ext)
        check_notice(notice)
        epoch, wait_ms = notice.master_epoch, notice.part_wait_ms
        if not notice.master_broker_id and epoch is not None and not request.is_oneway:
            task = asyncio.ensure_future(self._part(connection, request, epoch, wait_ms))
            self._partings.add(task)
            task.add_done_callback(self._partings.discard)
            return None
        if len(request.body) > NOTICE_BODY_BYTES_MAX:
            problem = f"{len(request.body)} bytes, expected at most {NOTICE_BODY_BYTES_MAX}"
            raise BodyError(SyncStateSet.__name__, problem)
        members = SyncStateSet.decode(request.body) if request.body else None
        self._watch.hint(notice, members)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS)

    async def _part(
        self, connection: Connection, request: RemotingCommand, epoch: int, wait_ms: int | None
    ) -> None:
        """Leave a master that is about to be replaced, if the controllers confirm that, and then answer."""
        if not await self._watch.is_being_replaced(epoch):
            remark: str | None = f"no majority of the controllers confirms that master epoch {epoch} ends"
        else:
            noticed = self._follower is None or await self._follower.part(epoch, wait_ms)
            remark = None if noticed else "the master is not known to have noticed"
            _log.info("parted from the master of epoch %d: %s", epoch, remark or "it has noticed")
        with contextlib.suppress(ChannelError):
            connection.send(RemotingCommand.response_to(request, ResponseCode.SUCCESS, remark=remark))

    def _stored_metadata(self, code: int) -> bytes | None:
        return metadata.read(self._config.store, BY_CODE[code])

    async def _learn(
        self, info: GetReplicaInfoResponseHeader, members: SyncStateSet | None, asked_at: int
    ) -> None:
        master_id = None if info.master_broker_id is None else BrokerId(info.master_broker_id)
        is_new = self._view.learn(
            info.master_epoch, master_id, info.master_address, members, asked_at=asked_at
        )
        if is_new:
            role = self._view.role
            _log.info("epoch %d: master %s at %s", role.epoch, role.master_id, role.master_address)
            attrs = {"master_id": str(role.master_id or ""), "master_address": role.master_address or ""}
            self._events.add("RoleChanged", role.epoch, attrs)
        if self._follower is not None and self._follower.link is not None:
            self._follower.link.set_in_sync(not self._view.is_joining)
        if self._config.controller_kind == "java" and not self._config.learner:
            await self._decide_heartbeats()

    def _is_following(self) -> bool:
        return self._follower is not None and self._follower.link is not None

    def _on_synced(self, _: int, duration_s: float) -> None:
        if self._metrics is not None:
            self._metrics.sync_duration.observe(duration_s)
        link = self._follower.link if self._follower is not None else None
        if link is not None:
            link.synced()
        self._ha_server.log_grew()

    def _on_sync_failure(self, error: OSError) -> None:
        def fail() -> None:
            if not self._failure.done():
                self._failure.set_exception(error)

        self._failure.get_loop().call_soon_threadsafe(fail)

    def _known_confirm_offset(self) -> int:
        """Return the newest confirm offset that a master told, -1 before the first; for any thread."""
        link = self._follower.link if self._follower is not None else None
        if link is not None and link.machine.confirm_offset >= 0:
            self._confirm_offset = link.machine.confirm_offset
        return self._confirm_offset

    # What others see.

    def _metrics_text(self) -> bytes:
        return b"" if self._metrics is None else self._metrics.text()

    def _numbers(self) -> ReplicaNumbers:
        link = self._follower.link if self._follower is not None else None
        max_offset = self._store.log.max_offset
        master_max_offset = link.machine.master_max_offset if link is not None else 0
        return ReplicaNumbers(
            max_offset=max_offset,
            confirm_offset=self._known_confirm_offset(),
            lag=max(0, master_max_offset - max_offset),
            in_sync=self._view.in_sync,
            master_epoch=self._view.role.epoch,
            slaves=len(self._ha_server.slaves()),
            served=self._ha_server.sent_bytes,
            has_room=self._has_room,
            notices=self._watch.counts,
        )

    def _readiness(self) -> tuple[bool, str]:
        return answers.readiness(
            self._view,
            is_learner=self._config.learner,
            is_following=self._is_following(),
            has_room=self._has_room,
            refusal=self._refusal,
        )

    @property
    def _refusal(self) -> str:
        return "" if self._follower is None else self._follower.refusal

    @property
    def _has_room(self) -> bool:
        return self._follower is None or self._follower.has_room
