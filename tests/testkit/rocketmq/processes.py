"""Real Apache RocketMQ processes on loopback: name server, broker, Java controller, mqadmin.

Nothing of RocketMQ is changed or replaced: the classes run from the jars of Maven Central, each process with
a configuration file of its own, its store in a folder of its own and small JVM settings.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller_core.channel import ChannelError, connect
from controller_core.remoting.client_headers import GetRouteInfoRequestHeader
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.routes import TopicRouteData
from rocketmq_operator.plan.tls.clients import ClientsStage, plain_option
from testkit.processes.ports import LOOPBACK, free_port, free_ports
from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.rocketmq.jars import class_archive
from testkit.rocketmq.java_tls import JAVA_OPTIONS

_BOOT_TIMEOUT_S = 150.0
_MQADMIN_TIMEOUT_S = 120.0
_MQADMIN_TRIES_MAX = 5
_NO_ANSWER = ("RemotingTimeoutException", "RemotingConnectException", "RemotingSendRequestException")
_ROUTE_TIMEOUT_S = 60.0
_POLL_S = 0.2
_TOPIC_OF_NEW_TOPICS = "TBW102"
PROXY_CLASS = "org.apache.rocketmq.proxy.ProxyStartup"
"""Of a proxy, alone or with a broker inside."""
_JVM_OPTIONS = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:-UsePerfData",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)
SHORT_RUNS_VARIABLE = "TESTKIT_SHORT_JVM"
"""Set where JVMs live for seconds and nothing of theirs is measured, as in tests."""
_SHORT_RUN_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A third less CPU until a broker has started: no second compilation of what runs for a minute."""
_LOGBACK = """<configuration><appender name="O" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %p %t %logger{0} - %m%n</pattern></encoder></appender>
<root level="LEVEL"><appender-ref ref="O"/></root></configuration>
"""

ZERO_LOSS_SETTINGS: Mapping[str, str] = {
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": "2",
    "brokerRole": "SYNC_MASTER",
}
"""Broker settings under which an acknowledgement means two copies in the SyncStateSet."""

QUICK_SETTINGS: Mapping[str, str] = {
    "brokerHeartbeatInterval": "200",
    "controllerHeartBeatTimeoutMills": "3000",
    "sendHeartbeatTimeoutMillis": "1000",
    "syncBrokerMetadataPeriod": "1000",
    "checkSyncStateSetPeriod": "1000",
    "syncControllerMetadataPeriod": "1000",
    "haSendHeartbeatInterval": "1000",
    "haMaxTimeSlaveNotCatchup": "3000",
    "registerNameServerPeriod": "10000",
}
"""Broker timers shortened so that a test sees within seconds the events that take
default brokers tens of seconds."""

_QUIET_SETTINGS: Mapping[str, str] = {
    "timerFlushIntervalMs": "60000",
    "transactionMetricFlushInterval": "500",
}
"""A broker that idles spends less CPU.

TimerMessageStore compares its 38 MB of slots each time that it flushes them, each second otherwise: a quarter
of a core without the second compilation. TransactionMetricsFlushService spins until its first interval is
over, 3 s otherwise (both of 5.5.0).
"""


def java_command(
    jars: Path,
    main_class: str,
    *arguments: str,
    home: Path | None = None,
    log: str = "INFO",
    jvm: Sequence[str] = (),
) -> list[str]:
    """Return the command that runs `main_class` from a folder of RocketMQ jars.

    Args:
        jars: folder of one release's jars.
        main_class: full Java name.
        arguments: of the program.
        home: a folder to keep the logging configuration in; it becomes rocketmq.home.dir.
        log: root level of the log on stdout.
        jvm: further options of the JVM; they win over the usual ones.
    """
    options = list[str](_JVM_OPTIONS)
    if os.environ.get(SHORT_RUNS_VARIABLE):
        options += _SHORT_RUN_OPTIONS
        archive = class_archive(jars)
        if archive.exists():
            options.append(f"-XX:SharedArchiveFile={archive}")
    if home is not None:
        conf = home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        logback = conf / f"logback-{log.lower()}.xml"
        logback.write_text(_LOGBACK.replace("LEVEL", log))
        options += [
            f"-Drocketmq.home.dir={home}",
            f"-Drmq.logback.configurationFile={logback}",
            f"-Duser.home={home}",
        ]
    return ["java", *options, *jvm, "-cp", f"{jars}/*", main_class, *arguments]


def _plain() -> tuple[str, ...]:
    """Return the operator's option for ports in plain TCP; none where a test's own options speak of TLS."""
    return () if os.environ.get(JAVA_OPTIONS) else plain_option(ClientsStage.DISABLED)


def write_properties(path: Path, values: Mapping[str, str]) -> Path:
    """Write a Java properties file (plain keys and values only) and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


class NameServer:
    """One Java name server on a free port, which clients reach at `host`."""

    def __init__(self, jars: Path, directory: Path, host: str = LOOPBACK) -> None:
        self.port = free_port()
        self.address = f"{host}:{self.port}"
        config = write_properties(directory / "namesrv.conf", {"listenPort": str(self.port)})
        program = ("org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(config))
        command = java_command(jars, *program, home=directory / "home", jvm=_plain())
        self.process = ManagedProcess("name server", command, directory / "namesrv.log")

    async def start(self) -> None:
        """Start it and wait until it serves."""
        await self.process.start()
        await self.process.wait_for_text("boot success", _BOOT_TIMEOUT_S)

    async def wait_for_master(self, broker_name: str, timeout_s: float = _ROUTE_TIMEOUT_S) -> None:
        """Wait until the route of the topic that new topics are made from names a master of the group.

        A Java client that learns of that route while the group is without a master takes it for an empty one,
        and never asks for it again: all its sends to a topic that does not exist yet fail from then on.

        Raises:
            TimeoutError: no master was registered in time.
        """
        async with asyncio.timeout(timeout_s):
            while await self.master_of(broker_name) is None:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.05)

    async def master_of(self, broker_name: str) -> str | None:
        """Return the address of a group's master, by that route; None also if a fresh JVM answers slowly."""
        request = RemotingCommand.request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            GetRouteInfoRequestHeader(_TOPIC_OF_NEW_TOPICS, accept_standard_json_only=True).to_ext(),
        )
        try:
            connection = await connect(LOOPBACK, self.port, 1.0)
            try:
                return _master_of(await connection.call(request, 2.0), broker_name)
            finally:
                connection.close()
        except ChannelError:
            return None

    async def stop(self) -> None:
        """End it at once: it keeps nothing that is read again."""
        await self.process.kill()


def _master_of(answer: RemotingCommand, broker_name: str) -> str | None:
    if answer.code != ResponseCode.SUCCESS:
        return None
    datas = TopicRouteData.decode(answer.body).broker_datas
    return next((data.master_address for data in datas if data.broker_name == broker_name), None)


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """Where one broker of a group runs: everything about it that its settings do not say."""

    cluster: str
    group: str
    name: str
    directory: Path


class JavaBroker:
    """One unmodified Java broker with its own ports and store.

    Attributes:
        port: remoting (the fast port is two below, HA one above).
        metrics_port: Prometheus text on /metrics.
    """

    def __init__(
        self,
        jars: Path,
        place: BrokerPlace,
        name_server: str,
        settings: Mapping[str, str] | None = None,
        *,
        controllers: Sequence[str] = (),
        host: str = LOOPBACK,
        proxy_conf: Path | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        """Describe a broker that others reach at `host`.

        `controllers` (host:port each) puts it in controller mode, `proxy_conf` a proxy into its process.
        `jvm` are further options of its JVM.
        """
        fast_port, _, self.port, self.ha_port, self.metrics_port = free_ports(5)
        if fast_port != self.port - 2:
            raise ProcessFailedError(f"ports of {place.name} do not follow each other")
        self.place = place
        self.address = f"{host}:{self.port}"
        self.metrics_url = f"http://{host}:{self.metrics_port}/metrics"
        self.store = place.directory / "store"
        config = write_properties(
            place.directory / "broker.conf",
            {**self._base_settings(name_server, controllers, host), **(settings or {})},
        )
        program = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]
        options = [*_plain(), *jvm]
        if proxy_conf is not None:
            program = [PROXY_CLASS, "-bc", str(config), "-pc", str(proxy_conf)]
            options = [*jvm]
        command = java_command(jars, *program, home=place.directory / "home", jvm=options)
        self.process = ManagedProcess(place.name, command, place.directory / "broker.log")

    def _base_settings(self, name_server: str, controllers: Sequence[str], host: str) -> dict[str, str]:
        settings = {
            "brokerClusterName": self.place.cluster,
            "brokerName": self.place.group,
            "brokerId": "0",
            "brokerIP1": host,
            "brokerIP2": host,
            "listenPort": str(self.port),
            "haListenPort": str(self.ha_port),
            "namesrvAddr": name_server,
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
            "autoCreateTopicEnable": "true",
            **_QUIET_SETTINGS,
            "metricsExporterType": "PROM",
            "metricsPromExporterPort": str(self.metrics_port),
            "metricsPromExporterHost": host,
        }
        if controllers:
            settings |= {"enableControllerMode": "true", "controllerAddr": ";".join(controllers)}
        return settings

    async def start(self, timeout_s: float = _BOOT_TIMEOUT_S) -> None:
        """Start it and wait until it says that it booted."""
        await self.process.start()
        await self.process.wait_for_text("boot success", timeout_s)

    async def wait_for_topic(self, topic: str, timeout_s: float) -> None:
        """Wait until it keeps a topic: a slave copies topics from its master every few seconds.

        If it is elected earlier, the first send makes the topic there, with as many queues as it says.

        Raises:
            TimeoutError: it does not keep it in time.
        """
        path = self.store / "config" / "topics.json"
        async with asyncio.timeout(timeout_s):
            while not (  # noqa: ASYNC110 - a file sends no notification
                path.exists() and f'"{topic}":' in path.read_text()
            ):
                await asyncio.sleep(_POLL_S)

    async def kill(self) -> None:
        """Kill -9 it and reap it."""
        await self.process.kill()

    async def stop(self) -> None:
        """End it at once: nothing reads its store any more.

        A broker that shuts down in order waits for 10 to 17 s, most of it for its own threads.
        """
        await self.process.kill()

    async def shut_down(self) -> None:
        """Let it shut down in order (SIGTERM), so that its store is closed."""
        await self.process.stop()


class JavaController:
    """RocketMQ's own controller (DLedger, one node): the yardstick that ours is held against."""

    def __init__(self, jars: Path, directory: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        config = write_properties(
            directory / "controller.conf",
            {
                "controllerDLegerGroup": "java",
                "controllerDLegerPeers": f"n0-{self.address}",
                "controllerDLegerSelfId": "n0",
                "controllerStorePath": str(directory / "store"),
                "configStorePath": str(directory / "controller.properties"),
                "mappedFileSize": str(16 * 1024 * 1024),
            },
        )
        command = java_command(
            jars,
            "org.apache.rocketmq.controller.ControllerStartup",
            "-c",
            str(config),
            home=directory / "home",
        )
        self.process = ManagedProcess("Java controller", command, directory / "controller.log")

    async def start(self) -> None:
        """Start it and wait until it serves."""
        await self.process.start()
        await self.process.wait_for_text("boot success", _BOOT_TIMEOUT_S)

    async def stop(self) -> None:
        """End it at once: it keeps nothing that is read again."""
        await self.process.kill()


async def mqadmin(jars: Path, home: Path, *arguments: str) -> str:
    """Run RocketMQ's mqadmin and return what it printed; again if it had no answer.

    It waits 3 s for one, of which a fresh JVM on a busy machine may need all.

    Raises:
        ProcessFailedError: it exited with another status than 0, or not in time.
    """
    text = await _mqadmin_once(jars, home, *arguments)
    for _ in range(_MQADMIN_TRIES_MAX - 1):
        if not any(error in text for error in _NO_ANSWER):
            break
        text = await _mqadmin_once(jars, home, *arguments)
    return text


async def _mqadmin_once(jars: Path, home: Path, *arguments: str) -> str:
    command = java_command(
        jars, "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments, home=home, log="OFF"
    )
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), _MQADMIN_TIMEOUT_S)
    except TimeoutError as error:
        process.kill()
        await process.communicate()
        raise ProcessFailedError(
            f"mqadmin {' '.join(arguments)} still runs after {_MQADMIN_TIMEOUT_S} s"
        ) from error
    text = printed.decode(errors="replace")
    if process.returncode != 0:
        raise ProcessFailedError(f"mqadmin {' '.join(arguments)} ended {process.returncode}:\n{text}")
    return text
