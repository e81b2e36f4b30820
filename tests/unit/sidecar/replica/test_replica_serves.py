"""A whole replica in this process, with a controller and no master: its answers, and its slave."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest

from controller_core.channel import Connection, connect
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import RoleNotice
from controller_core.remoting.bodies import EpochEntryCache, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ExchangeHAInfoResponseHeader
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.notices.notifier import Notifier
from controller_core.tls.dialling import ClientTls, dial_in_tls
from ha_sidecar import limits
from ha_sidecar.address import host_port
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.ha_link import HaLink, LinkEnd
from ha_sidecar.common.ha_socket import HaTls
from ha_sidecar.epoch import EpochList
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.replica.group_view import MasterRole
from ha_sidecar.replica.replica import LogReplica
from ha_sidecar.replica.slave_streams import ha_port_tls
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import SlaveConfig
from testkit.fakes.lent_broker import LentBroker
from testkit.ha.messages import log_bytes
from testkit.processes.certificates import Authority
from testkit.processes.ports import free_ports
from testkit.products.one_controller import OneNode, one_node

FILE_BYTES = 4096
LOG = log_bytes(20, FILE_BYTES)
WAIT_S = 30.0


@dataclass
class RunningReplica:
    """A replica, its controller, and a connection to it."""

    config: ReplicaConfig
    connection: Connection
    controller: OneNode
    replica: LogReplica
    work: "asyncio.Future[None]"

    async def ask(self, code: int) -> RemotingCommand:
        """Ask it one thing."""
        answer = await self.connection.call(RemotingCommand.request(code), WAIT_S)
        assert answer.code == ResponseCode.SUCCESS
        return answer


@contextlib.asynccontextmanager
async def replica(
    directory: Path,
    *,
    serves: bool = True,
    given: Mapping[str, str] | None = None,
    tls: Path | None = None,
    client_tls: ClientTls | None = None,
) -> AsyncIterator[RunningReplica]:
    store = ReplicaStore(directory / "store", FILE_BYTES)
    store.adopt(EpochList.of((3, 0)))
    store.log.append(0, [memoryview(LOG)])
    store.log.sync()
    port, http_port, ha_port = free_ports(3)
    async with one_node(directory / "controller", given or {}) as node:
        config = ReplicaConfig(
            cluster="c1",
            group="g",
            controllers=(host_port(node.remoting),),
            listen=("127.0.0.1", port),
            http=("127.0.0.1", http_port),
            ha_listen=("127.0.0.1", ha_port) if serves else None,
            store=directory / "store",
            mapped_file_bytes=FILE_BYTES,
            tls=tls,
        )
        made = LogReplica(config, store)
        running = asyncio.ensure_future(made.run())
        connection = await dial("127.0.0.1", port, client_tls)
        try:
            # It answers before all of its ports are open; it registers after that.
            async with asyncio.timeout(WAIT_S):
                while node.machine.state.get(GroupKey("c1", "g")) is None:  # noqa: ASYNC110 - a state emits no event
                    await asyncio.sleep(0.01)
            yield RunningReplica(config, connection, node, made, running)
        finally:
            connection.close()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            dial_in_tls(None)
            store.close()


async def dial(host: str, port: int, client_tls: ClientTls | None = None) -> Connection:
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(Exception):
                return await connect(host, port, 1.0, client_tls=client_tls)
            await asyncio.sleep(0.01)


class SlaveLink:
    """A link into a store; it only has to end."""

    def __init__(self, address: str, store: ReplicaStore, tls: HaTls | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.caught_up: asyncio.Future[int] = self._loop.create_future()
        self.end: asyncio.Future[LinkEnd] = self._loop.create_future()
        self.link = HaLink(host_port(address), store, SlaveConfig(9, FILE_BYTES), self, None, tls=tls)
        self.link.start()

    def on_handshake(self, done: HandshakeDone) -> None:
        """Nothing to note."""

    def on_truncate(self, from_offset: int, to_offset: int) -> None:
        """Nothing to note."""

    def on_caught_up(self, offset: int) -> None:
        """Tell the test."""
        self._loop.call_soon_threadsafe(self.caught_up.set_result, offset)

    def on_end(self, end: LinkEnd) -> None:
        """Tell the test."""
        self._loop.call_soon_threadsafe(self.end.set_result, end)


@pytest.mark.parametrize("is_in_tls", [True, False])
async def test_a_replica_with_a_certificate_is_asked_in_tls_and_in_plain_tcp(
    tmp_path: Path, is_in_tls: bool
) -> None:
    authority = Authority(tmp_path)
    client = ClientTls(authority.client()) if is_in_tls else None
    async with replica(tmp_path, tls=authority.member("replica"), client_tls=client) as running:
        assert (await running.ask(RequestCode.GET_BROKER_EPOCH_CACHE)).body
        told = await running.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
        assert told.ext["masterHaTls"] == "true"
        store = ReplicaStore(tmp_path / "slave", FILE_BYTES)
        trust = HaTls(tmp_path / "replica", "127.0.0.1") if is_in_tls else None
        slave = SlaveLink(running.config.ha_address or "", store, trust)
        assert await asyncio.wait_for(slave.caught_up, WAIT_S) == len(LOG)
        slave.link.stop()
        await asyncio.wait_for(slave.end, WAIT_S)
        store.close()


@pytest.mark.parametrize(
    ("mode", "kind", "plain_allowed"),
    [
        ("permissive", "rocketmq-ha", True),
        ("enforcing", "rocketmq-ha", False),
        # Controllers of Java may elect the replica, and Java's slaves dial its HA port in plain TCP.
        ("enforcing", "java", True),
    ],
)
def test_plain_slaves_are_served_where_java_may_dial(
    tmp_path: Path, mode: str, kind: str, *, plain_allowed: bool
) -> None:
    config = ReplicaConfig(
        cluster="c1",
        group="g",
        controllers=(("127.0.0.1", 1),),
        listen=("127.0.0.1", 1),
        http=("127.0.0.1", 1),
        store=tmp_path,
        tls=Authority(tmp_path).member("replica"),
        tls_mode=mode,
        controller_kind=kind,
    )
    tls = ha_port_tls(config)
    assert tls is not None
    assert tls.plain_allowed == plain_allowed
    assert ha_port_tls(replace(config, tls=None)) is None


async def test_a_notice_reaches_a_replica_in_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    client, sent = ClientTls(authority.client()), asyncio.Event()
    async with replica(tmp_path, tls=authority.member("replica"), client_tls=client) as running:
        notifier = Notifier(lambda _: sent.set(), broker_tls=client)
        key, address = GroupKey("c1", "g"), f"127.0.0.1:{running.config.listen[1]}"
        notifier.notify([RoleNotice(key, 1, address, 2, "127.0.0.1:1", 9, 9, (2,))])
        async with asyncio.timeout(WAIT_S):
            await sent.wait()
        await notifier.stop()


async def test_a_replica_tells_its_ha_address_and_serves_there(tmp_path: Path) -> None:
    async with replica(tmp_path) as running:
        header = ExchangeHAInfoResponseHeader.from_ext(
            (await running.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)).ext
        )
        assert header == ExchangeHAInfoResponseHeader(running.config.ha_address, len(LOG), None)
        store = ReplicaStore(tmp_path / "slave", FILE_BYTES)
        slave = SlaveLink(header.master_ha_address or "", store)
        assert await asyncio.wait_for(slave.caught_up, WAIT_S) == len(LOG)
        async with asyncio.timeout(WAIT_S):
            while True:
                answer = await running.ask(RequestCode.GET_BROKER_HA_STATUS)
                (found,) = HARuntimeInfo.decode(answer.body).ha_connection_info
                if found.slave_ack_offset == len(LOG):
                    break
                await asyncio.sleep(0.01)
        assert (found.diff, found.in_sync, found.transfer_from_where) == (0, False, len(LOG))
        slave.link.stop()
        await asyncio.wait_for(slave.end, WAIT_S)
        assert store.log.layout.path(0).read_bytes()[: len(LOG)] == LOG
        assert store.epochs == EpochList.of((3, 0))
        store.close()


async def test_a_replica_that_serves_no_slaves_has_no_ha_address(tmp_path: Path) -> None:
    async with replica(tmp_path, serves=False) as running:
        answer = await running.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
        assert ExchangeHAInfoResponseHeader.from_ext(answer.ext) == ExchangeHAInfoResponseHeader()


async def test_a_replica_tells_its_epochs_as_a_broker_does(tmp_path: Path) -> None:
    async with replica(tmp_path) as running:
        found = EpochEntryCache.decode((await running.ask(RequestCode.GET_BROKER_EPOCH_CACHE)).body)
        assert [(entry.epoch, entry.start_offset) for entry in found.epoch_list] == [(3, 0)]
        assert found.max_offset == len(LOG)


def test_the_ha_address_goes_by_the_announced_host(tmp_path: Path) -> None:
    def address(**values: tuple[str, int]) -> str | None:
        made = ReplicaConfig(
            cluster="c",
            group="g",
            controllers=(("a", 1),),
            listen=("0.0.0.0", 2),  # noqa: S104 - a test of names, nothing listens
            http=("127.0.0.1", 3),
            store=tmp_path,
            **values,
        )
        return made.ha_address

    assert address() is None
    assert address(ha_listen=("127.0.0.1", 4)) == "127.0.0.1:4"
    everywhere = ("0.0.0.0", 4)  # noqa: S104 - as above
    assert address(ha_listen=everywhere, advertise=("pod-1", 2)) == "pod-1:4"
    assert address(ha_listen=everywhere, advertise=("10.0.0.1", 2), ha_advertise=("pod-1", 5)) == "pod-1:5"


async def test_a_replica_answers_with_the_metadata_that_it_keeps_and_refuses_the_rest(tmp_path: Path) -> None:
    async with replica(tmp_path) as running:
        (running.config.store / "config").mkdir()
        (running.config.store / "config" / "topics.json").write_bytes(b'{"topicConfigTable":{}}')
        assert (await running.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body == b'{"topicConfigTable":{}}'
        refused = await running.connection.call(
            RemotingCommand.request(RequestCode.GET_ALL_CONSUMER_OFFSET), WAIT_S
        )
        assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_a_master_s_ha_address_is_asked_where_its_heartbeats_come_from(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ha:
        ha.setblocking(False)
        async with replica(tmp_path, given={"directAddresses": "true"}) as running:
            master = LentBroker(running.controller, "g")
            master.ha_address = f"127.0.0.1:{ha.getsockname()[1]}"
            await master.start()
            await master.elect()
            async with asyncio.timeout(WAIT_S):
                linked, _ = await asyncio.get_running_loop().sock_accept(ha)
            linked.close()
            assert not master.tenant.dialled.is_set()
            await master.die()
            await master.tenant.leave()


async def test_a_notice_that_no_controller_sent_is_answered_counted_and_followed_by_nothing(
    tmp_path: Path,
) -> None:
    async with replica(tmp_path) as running:
        view = running.replica._view
        before = await asyncio.wait_for(view.wait_role(MasterRole()), WAIT_S)
        for ext, body, code in (
            ({"masterEpoch": str(2**31 - 1), "masterBrokerId": "7", "masterAddress": "h:1"}, b"", 0),
            ({"masterEpoch": str(2**31), "masterBrokerId": "7", "masterAddress": "h:1"}, b"", 1),
            ({"masterEpoch": "1", "masterBrokerId": "-7", "masterAddress": "h:1"}, b"", 1),
            ({"masterEpoch": "1", "masterBrokerId": "7"}, b"x" * (1 << 17), 1),
            ({"masterEpoch": "-1"}, b"", 1),
        ):
            request = RemotingCommand.request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, ext, body)
            assert (await running.connection.call(request, WAIT_S)).code == code
        assert running.replica._watch.counts.refused == 4
        assert view.role == before
        assert b'rmqha_ha_notices_total{broker_id="1",cluster="c1",group="g",outcome="refused"} 4.0' in (
            running.replica._metrics_text()
        )


async def test_a_replica_that_is_told_to_stop_in_the_moment_its_link_ends_stops(tmp_path: Path) -> None:
    async with replica(tmp_path) as running:
        waiting = running.replica._watch._poll_now._waiters  # type: ignore[attr-defined]  # nothing else tells that it waits
        async with asyncio.timeout(WAIT_S):
            while not waiting:  # noqa: ASYNC110 - a poll emits no event for its end
                await asyncio.sleep(0.001)
        running.replica._watch.ask_often()
        running.work.cancel()
        await asyncio.wait([running.work], timeout=WAIT_S)
        assert running.work.cancelled()


async def test_a_running_replica_registers_again_with_controllers_that_have_lost_their_store(
    tmp_path: Path,
) -> None:
    async with replica(tmp_path) as running:
        state = running.controller.machine.state
        group = state.get(GroupKey("c1", "g"))
        assert group is not None
        address = group.address(1)
        state.restore(GroupsMachine().snapshot())
        async with asyncio.timeout(WAIT_S):
            while (again := state.get(GroupKey("c1", "g"))) is None:  # noqa: ASYNC110 - a state emits no event
                await asyncio.sleep(0.01)
        assert (again.address(1), again.replicas[1].electable) == (address, False)


async def test_unfinished_frames_and_strangers_leave_memory_and_places_for_members(tmp_path: Path) -> None:
    async with replica(tmp_path) as running:
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as opened:
            for _ in range(limits.REPLICA_SOURCE_CONNECTIONS_MAX + 20):
                stranger = opened.enter_context(socket.socket())
                stranger.setblocking(False)
                await loop.sock_connect(stranger, running.config.listen)
                with contextlib.suppress(ConnectionError):
                    await loop.sock_sendall(stranger, struct.pack(">I", 16 << 20) + bytes(1000))
            member = await dial(*running.config.listen)
            answer = await member.call(RemotingCommand.request(RequestCode.GET_BROKER_HA_STATUS), WAIT_S)
            assert answer.code == ResponseCode.SUCCESS
            member.close()


async def test_streams_of_events_are_bounded_and_a_probe_is_answered(tmp_path: Path) -> None:
    async with replica(tmp_path) as running, aiohttp.ClientSession() as session:
        url = "http://{}:{}".format(*running.config.http)
        async with contextlib.AsyncExitStack() as streams:
            statuses = []
            for _ in range(limits.SOURCE_EVENT_STREAMS_MAX + 2):
                stream = await streams.enter_async_context(session.get(f"{url}/v1/events"))
                statuses.append(stream.status)
            assert statuses == [200] * limits.SOURCE_EVENT_STREAMS_MAX + [503, 503]
            async with session.get(f"{url}/livez") as probe:
                assert probe.status == 200


async def test_a_live_change_at_the_controllers_reaches_the_replica_without_a_restart(tmp_path: Path) -> None:
    async with replica(tmp_path) as one:
        async with asyncio.timeout(WAIT_S):
            while (follower := one.replica._follower) is None:  # noqa: ASYNC110 - it comes after the registration
                await asyncio.sleep(0.01)
        role = MasterRole(4, 7, "127.0.0.1:1")
        follower._note_followed(role)
        assert await follower._restarted_epoch(role) == role.epoch
        one.controller.config.update("enableElectUncleanMaster=true")
        assert await follower._restarted_epoch(role) is None
        one.controller.config.update("enableElectUncleanMaster=false")
        assert await follower._restarted_epoch(role) == role.epoch
