"""A modelled broker: RocketMQ's own acts towards controllers, slaves and clients, on a simulated network.

    starts    finds the leader (1005), claims an id (1012, 1013), registers (1003), beats (904), asks (1002)
    runs      beats every second, polls its group (1004) and the leader (1005), reports its set (1001)
    learns    of a master (1008, any answer): only a higher epoch counts, for the set too; notices may fail
    is master takes messages, sends them to slaves, answers when each required member has them (`broker_set`)
    is slave  follows the master it last learned of (`broker_ha`)

A call that is not answered within 3 s closes its connection, as RocketMQ's client does. What survives the
process: its id, its claim, its log with the epochs.

Source: RocketMQ 5.4.0 ReplicasManager, BrokerOuterAPI, NettyRemotingClient, AutoSwitchHAService.
"""

import asyncio
import contextlib
from random import Random

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import serve
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from testkit.check.registers import Alter
from testkit.sim.brokers import broker_admin
from testkit.sim.brokers.broker_calls import BEAT_S, DIAL_TIMEOUT_S, FAILED, ControllerLinks
from testkit.sim.brokers.broker_ha import BrokerPort, SlaveEnd
from testkit.sim.brokers.broker_log import BrokerLog
from testkit.sim.brokers.broker_set import DEFINITE_REFUSALS, MasterView, Proposal
from testkit.sim.checks.observations import Observations
from testkit.sim.controllers import api_answers
from testkit.sim.loop.simulated_network import Network
from testkit.sim.loop.virtual_loop import Process, VirtualLoop

BEAT_TIMEOUT_MS = 3_000
POLL_S = 3.0
SET_CHECK_S = 1.0
LEADER_POLL_S = 5.0
RETRY_S = 0.3
SEND_TIMEOUT_S = 2.0
IN_SYNC_MIN = 2
PORT = 10911
DATA_PORT = 10912


class SimulatedBroker:
    """One member of a group, on a machine of its own.

    Attributes:
        broker_id: 0 until it has claimed one.
        process: the process of now.
        notice_loss: share of notices that are not heard.
        notice_delay_s: the longest delay of a notice.
        notice_doubling: share of notices heard twice.
    """

    def __init__(
        self,
        group: str,
        host: str,
        controllers: list[str],
        loop: VirtualLoop,
        network: Network,
        random: Random,
        observations: Observations,
        *,
        cluster: str = "c1",
        log_replica: bool = False,
        flaws: frozenset[str] = frozenset(),
        beat_s: float = BEAT_S,
    ) -> None:
        self.group = group
        self.cluster, self.host = cluster, host
        self.address = f"{host}:{PORT}"
        self.log = BrokerLog()
        self.broker_id = 0
        self.log_replica = log_replica
        self.flaws = flaws
        self.epoch = 0
        self.in_sync_min, self.sends_from_ms = IN_SYNC_MIN, 0
        self.view: MasterView | None = None
        self._last_view: MasterView | None = None
        self.notice_loss = self.notice_doubling = self.notice_delay_s = 0.0
        self.notices_lost = self.notices_delayed = self.notices_doubled = 0
        self.registered = False
        self.process = Process(loop, f"{host}.0")
        self.process.alive = False
        self._check_code = ""
        self._controllers = controllers
        self._beat_s = beat_s
        self._loop = loop
        self._network = network
        self._random = random
        self._observations = observations
        self._following: asyncio.Task[None] | None = None
        self._links = ControllerLinks(controllers, random, beat_s)
        self._ports: dict[int, BrokerPort] = {}
        self._waiting: list[tuple[int, BrokerPort, int, str]] = []
        self._reporting = False

    @property
    def is_master(self) -> bool:
        """Whether it takes itself for the master."""
        return self.view is not None

    # -- life

    def start(self) -> None:
        """Start its process."""
        if self.process.alive:
            return
        self.process = Process(self._loop, self.host)
        self._network.place(self.process, self.host)
        self.epoch = 0
        self.view = self._last_view = None
        self._links = ControllerLinks(self._controllers, self._random, self._beat_s)
        self._ports, self._waiting = {}, []
        self._following = None
        self.registered = self._reporting = False
        self.process.spawn(self._run())

    async def _run(self) -> None:
        await serve(self.host, PORT, self._accepted)
        self._network.listen(lambda: BrokerPort(self), self.host, DATA_PORT)
        for address in self._controllers:
            self.process.spawn(self._links.keep(address, self._beat))
        await asyncio.sleep(DIAL_TIMEOUT_S / 10)
        while not await self._join():  # noqa: ASYNC110 - as RocketMQ does: try, wait, try again
            await asyncio.sleep(RETRY_S)
        for work, period_s in (
            (self._poll_group, POLL_S),
            (self._check_set, SET_CHECK_S),
            (self._links.find_leader, LEADER_POLL_S),
        ):
            self.process.spawn(self._every(work, period_s))

    async def _every(self, work: object, period_s: float) -> None:
        while True:
            await asyncio.sleep(period_s * self._random.uniform(0.9, 1.1))
            with contextlib.suppress(*FAILED):
                await work()  # type: ignore[operator] # a coroutine function

    def _beat(self, address: str) -> None:
        if not self.registered:
            return
        beat = headers.BrokerHeartbeatRequestHeader(
            cluster_name=self.cluster,
            broker_addr=self.address,
            broker_name=self.group,
            broker_id=self.broker_id,
            epoch=self.log.last_epoch,
            max_offset=self.log.end,
            confirm_offset=-1 if self.view is None else self.view.confirmed_end(self.log.end),
            heartbeat_timeout_mills=BEAT_TIMEOUT_MS,
        )
        request = RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, beat.to_ext())
        self._links.send_oneway(address, request)

    async def _join(self) -> bool:
        try:
            await self._links.find_leader()
            if not self.broker_id and not await self._claim():
                return False
            if not await self._register():
                return False
            for address in self._controllers:
                self._beat(address)
            if not self.epoch and not self.log_replica:
                await self._ask_for_master()
        except FAILED:
            return False
        return True

    async def _claim(self) -> bool:
        kind = headers.REPLICA_KIND_LOG if self.log_replica else None
        asked = headers.GetNextBrokerIdRequestHeader(self.cluster, self.group)
        answer = await self._links.call(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, asked)
        next_id = headers.GetNextBrokerIdResponseHeader.from_ext(answer.ext).next_broker_id
        if answer.code != ResponseCode.SUCCESS or next_id is None:
            return False
        self._check_code = f"{self.address};{int(self._loop.now_s * 1000)}"
        claim = headers.ApplyBrokerIdRequestHeader(self.cluster, self.group, next_id, self._check_code, kind)
        answer = await self._links.call(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim)
        if answer.code == ResponseCode.SUCCESS:
            self.broker_id = next_id
        return bool(self.broker_id)

    async def _register(self) -> bool:
        kind = headers.REPLICA_KIND_LOG if self.log_replica else None
        header = headers.RegisterBrokerToControllerRequestHeader(
            self.cluster, self.group, self.broker_id, self.address, replica_kind=kind
        )
        began_s = self._loop.now_s
        answer = await self._links.call(RequestCode.CONTROLLER_REGISTER_BROKER, header)
        told = api_answers.of_registration(answer)
        if told is None:
            return False
        self.registered = True
        self._observations.call(self.group, began_s, told.seen)
        self._learn(told)
        return True

    async def _ask_for_master(self) -> None:
        header = headers.ElectMasterRequestHeader(self.group, self.cluster, self.broker_id)
        began_s = self._loop.now_s
        answer = await self._links.call(RequestCode.CONTROLLER_ELECT_MASTER, header)
        told = api_answers.of_election(answer)
        if told is not None:
            self._observations.call(self.group, began_s, told.seen)
            self._learn(told)

    async def _poll_group(self) -> None:
        began_s = self._loop.now_s
        answer = await self._links.call(
            RequestCode.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfoRequestHeader(self.group)
        )
        if answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            await self._register()
        told = api_answers.of_replica_info(answer)
        if told is None:
            return
        self._observations.call(self.group, began_s, told.seen)
        if told.master_id is None:
            # A running one asks only in a higher epoch than its own; a new one until it has a master.
            if not self.log_replica and ((told.epoch or 0) > self.epoch or not self.epoch):
                await self._ask_for_master()
            return
        if self.view is not None and told.epoch == self.epoch:
            self.view.still_old(told.body.sync_state_set_epoch, began_s)
        self._learn(told)

    # -- roles

    def _accepted(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            self._hear(request)
            return None
        return broker_admin.answer(self, connection, request)

    def _hear(self, request: RemotingCommand) -> None:
        """Take a notice, or lose it, or take it late, or twice."""
        if self._random.random() < self.notice_loss:
            self.notices_lost += 1
            return
        times = 1 + (self._random.random() < self.notice_doubling)
        self.notices_doubled += times - 1
        self.notices_delayed += self.notice_delay_s > 0
        for delay_s in (self._random.uniform(0, self.notice_delay_s) for _ in range(times)):
            self._loop.call_in(self.process, delay_s, self._learn, api_answers.of_notice(request))

    def _learn(self, told: api_answers.ToldMaster) -> None:
        """Take what the controllers say about the master, if it is newer than the known state."""
        master_id, address, epoch, body = told.master_id, told.address, told.epoch, told.body
        if master_id is None or epoch is None or address is None:
            return
        members = frozenset(body.sync_state_set)
        is_known = epoch == self.epoch and self.view is not None and master_id == self.broker_id
        if is_known and self.view is not None and self.view.adopt(members, body.sync_state_set_epoch):
            self._answer_waiting()
        if epoch <= self.epoch or epoch < self.log.last_epoch:
            return
        self.epoch = epoch
        self._refuse_waiting()
        self._end_links()
        if master_id == self.broker_id:
            self.log.open_epoch(epoch)
            last = self._last_view or MasterView(self.broker_id, frozenset(), 0, self.flaws)
            self.view = self._last_view = last.next_mastership(members, body.sync_state_set_epoch)
        else:
            self.view = None
            self._following = self.process.spawn(self._follow(epoch, address.rpartition(":")[0]))

    def _end_links(self) -> None:
        if self._following is not None:
            self._following.cancel()
            self._following = None
        ports, self._ports = self._ports, {}
        for port in ports.values():
            port.end()

    async def _follow(self, epoch: int, host: str) -> None:
        while self.epoch == epoch:
            end: SlaveEnd | None = None
            with contextlib.suppress(*FAILED):
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    _, end = await self._loop.create_connection(lambda: SlaveEnd(self), host, DATA_PORT)
            if end is not None:
                await end.lasts()
            await asyncio.sleep(RETRY_S)

    # -- as master: slaves

    def slave_started(self, port: BrokerPort, slave_id: int, offset: int) -> None:
        """A slave goes on at an offset."""
        if self.view is None:
            return
        other = self._ports.get(slave_id, port)
        self._ports[slave_id] = port
        if other is not port:
            other.end()  # a slave that has two links, because the end of one is late, begins again
        self.view.linked.add(slave_id)
        self.slave_acked(port, offset)

    def slave_acked(self, port: BrokerPort, offset: int) -> None:
        """A slave has everything before an offset."""
        if self.view is None or self._ports.get(port.slave_id) is not port:
            return
        self.view.acked[port.slave_id] = offset
        self._answer_waiting()
        if port.slave_id not in self.view.members:
            self._report_soon()

    def slave_left(self, port: BrokerPort) -> None:
        """A slave's link ended."""
        if self.view is not None and self._ports.get(port.slave_id) is port:
            del self._ports[port.slave_id]
            self.view.linked.discard(port.slave_id)
            self._answer_waiting()
            self._report_soon()

    # -- as master: messages

    def client_sent(self, port: BrokerPort, number: int, message: str) -> None:
        """Take a message, answer when it is where it must be."""
        if broker_admin.refuses_sends(self, self._loop.now_s):
            port.answer(number, "refused", self.epoch)
            return
        end = self.log.append(message)
        self._waiting.append((end, port, number, message))
        self._loop.call_in(self.process, SEND_TIMEOUT_S, self._time_out, number, port)
        for slave in list(self._ports.values()):
            slave.push()
        self._answer_waiting()

    def _answer_waiting(self) -> None:
        if self.view is None or len(self.view.members) < min(self.in_sync_min, IN_SYNC_MIN):
            return
        confirmed = self.view.confirmed_end(self.log.end)
        while self._waiting and self._waiting[0][0] <= confirmed:
            end, port, number, message = self._waiting.pop(0)
            self._observations.acknowledged(
                self.cluster, self.group, self.epoch, self.broker_id, end - 1, message
            )
            port.answer(number, "ok", self.epoch)

    def _refuse_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _end, port, number, _message in waiting:
            port.answer(number, "ambiguous", self.epoch)

    def _time_out(self, number: int, port: BrokerPort) -> None:
        for waiting in self._waiting:
            if waiting[1] is port and waiting[2] == number:
                self._waiting.remove(waiting)
                port.answer(number, "ambiguous", self.epoch)
                return

    # -- as master: the set

    def _report_soon(self) -> None:
        self.process.spawn(self._check_set_quietly())

    async def _check_set_quietly(self) -> None:
        with contextlib.suppress(*FAILED):
            await self._check_set()

    async def _check_set(self) -> None:
        """Ask for the set that would be right, one request at a time."""
        view, epoch = self.view, self.epoch
        if view is None or self._reporting:
            return
        wanted = view.wanted(self.log.end)
        if wanted == view.members:
            return
        self._reporting = True
        began_s = self._loop.now_s
        proposal = Proposal(wanted, began_s)
        view.proposals.append(proposal)
        asked = Alter(self.broker_id, epoch, view.set_epoch, tuple(sorted(wanted)), None)
        seen = self._observations.open_call(self.group, began_s, asked)
        header = headers.AlterSyncStateSetRequestHeader(self.group, self.broker_id, epoch)
        body = SyncStateSet.of(wanted, view.set_epoch).encode()
        try:
            answer = await self._links.call(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)
        finally:
            self._reporting = False
        if answer.code == ResponseCode.SUCCESS:
            told = SyncStateSet.decode(answer.body)
            seen.answered(answer.code, told.sync_state_set_epoch)
            if self.view is view and view.adopt(frozenset(told.sync_state_set), told.sync_state_set_epoch):
                self._answer_waiting()
        elif answer.code in DEFINITE_REFUSALS:
            seen.answered(answer.code, 0)
            if proposal in view.proposals:
                view.proposals.remove(proposal)
