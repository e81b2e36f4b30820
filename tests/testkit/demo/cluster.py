"""Everything the demo runs, as real processes on loopback: which start, in which order, and how they end.

Three controllers, a name server, two unmodified brokers, a log replica, the collector and the canary.
All files live under one folder, ports are chosen free, and `stop` ends whatever was started, also
when `start` failed half-way.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from testkit.demo.progress import StepPrinter
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.processes.relay import Relay
from testkit.products.controllers import ControllerCluster, command_path
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

CLUSTER = "demo"
GROUP = "orders"
CANARY_TOPIC = "canary"
_MAPPED_FILE_BYTES = 64 * 1024 * 1024


class DemoCluster:
    """The processes of the demo; `brokers[i]` has index i for life, the controllers choose its broker id."""

    def __init__(
        self,
        jars: Path,
        directory: Path,
        progress: StepPrinter,
        *,
        relayed: bool = False,
        settings: Mapping[str, str] | None = None,
        brokers: int = 2,
        log_replicas: int = 1,
        jvm: Sequence[str] = (),
    ) -> None:
        """Describe the cluster; nothing runs before `start`.

        Args:
            jars: folder of one RocketMQ release.
            directory: everything is written below it.
            progress: told of each step.
            relayed: each broker's heartbeats reach the controllers through relays of its own (`relays_of`).
                Its other requests do not: a broker sends them to the address that the leader names.
            settings: of all brokers, over the usual ones.
            brokers: how many.
            log_replicas: 1, or 0 to start none.
            jvm: further options of the brokers' JVMs.
        """
        self.directory = directory
        self.data = directory / "data"
        self.fault_log = directory / "faults.jsonl"
        self._jars = jars
        self._progress = progress
        self._settings = settings or {}
        self._jvm = jvm
        self.controllers = ControllerCluster(directory / "controllers", nodes=3)
        self.name_server = NameServer(jars, directory / "namesrv")
        self._relays = [self._relays_to_controllers() if relayed else [] for _ in range(brokers)]
        self.brokers = [self._broker(index) for index in range(brokers)]
        self._log_replicas = log_replicas
        self.canary_http = f"127.0.0.1:{free_port()}"
        self.log_replica = self._replica()
        self.replica = self.log_replica.process
        self.collector = self._collector()
        self.canary = self._canary()

    @property
    def members(self) -> int:
        """How many members the group has."""
        return len(self.brokers) + self._log_replicas

    def _relays_to_controllers(self) -> list[Relay]:
        return [Relay(address) for address in self.controllers.remoting_addresses]

    def _broker(self, index: int) -> JavaBroker:
        name = f"{GROUP}-{index}"
        settings = {
            **ZERO_LOSS_SETTINGS,
            **QUICK_SETTINGS,
            "mappedFileSizeCommitLog": str(_MAPPED_FILE_BYTES),
            # A kill closes connections; a JVM that starts beside others on a small machine
            # may stand still for seconds.
            "controllerHeartBeatTimeoutMills": "15000",
            **self._settings,
        }
        place = BrokerPlace(CLUSTER, GROUP, name, self.directory / name)
        return JavaBroker(
            self._jars,
            place,
            self.name_server.address,
            settings,
            controllers=[relay.address for relay in self._relays[index]]
            or self.controllers.remoting_addresses,
            jvm=self._jvm,
        )

    def _replica(self) -> LogReplicaProcess:
        settings = {
            "mapped-file-bytes": str(_MAPPED_FILE_BYTES),
            "heartbeat-interval-ms": "200",
            "heartbeat-timeout-ms": "3000",
        }
        addresses = self.controllers.remoting_addresses
        return LogReplicaProcess(
            self.directory / "replica", CLUSTER, GROUP, addresses, settings, name=f"{GROUP}-log-0"
        )

    def _collector(self) -> ManagedProcess:
        targets = self.directory / "targets.json"
        command = [
            command_path("slo-pipeline"),
            "collect",
            "--targets",
            str(targets),
            "--out",
            str(self.data),
        ]
        return ManagedProcess("collector", command, self.directory / "collector.log")

    def _canary(self) -> ManagedProcess:
        arguments = {
            "--name-servers": self.name_server.address,
            "--group": GROUP,
            "--topic": CANARY_TOPIC,
            "--rate": "20",
            "--out": str(self.data),
            "--http": self.canary_http,
        }
        command = [
            command_path("slo-pipeline"),
            "canary",
            *(word for pair in arguments.items() for word in pair),
        ]
        return ManagedProcess("canary", command, self.directory / "canary.log")

    def broker_at(self, address: str) -> JavaBroker:
        """Return the broker that listens there."""
        return next(broker for broker in self.brokers if broker.address == address)

    def relays_of(self, broker: JavaBroker) -> list[Relay]:
        """Return what a broker's heartbeats go through."""
        return self._relays[self.brokers.index(broker)]

    def metrics_urls(self) -> dict[str, str]:
        """Return the metrics address of every process that has one, by name."""
        return {
            **{broker.place.name: broker.metrics_url for broker in self.brokers},
            **{name: f"http://{address}/metrics" for name, address in self._controller_http().items()},
            self.replica.name: f"http://{self.log_replica.http_address}/metrics",
            "canary": f"http://{self.canary_http}/metrics",
        }

    def pids(self) -> list[int]:
        """Return the process ids of everything that runs now, clients first."""
        processes = [
            *(self.canary, self.collector, self.replica),
            *(broker.process for broker in self.brokers),
            self.name_server.process,
            *self.controllers.processes,
        ]
        return [process.pid for process in processes if process.running]

    def write_targets(self) -> None:
        """Write the collector's list: all processes' metrics; events of controllers, replica, fault log."""
        replica_events = f"http://{self.log_replica.http_address}/v1/events"
        targets = [
            *({"name": name, "url": url, "kind": "metrics"} for name, url in self.metrics_urls().items()),
            *(
                {
                    "name": name,
                    "url": f"http://{address}/v1/events",
                    "kind": "events",
                    "stream": "controllers",
                }
                for name, address in self._controller_http().items()
            ),
            {"name": self.replica.name, "url": replica_events, "kind": "events"},
            {"name": "faults", "url": str(self.fault_log), "kind": "file"},
        ]
        (self.directory / "targets.json").write_text(json.dumps({"targets": targets}, indent=1))

    def _controller_http(self) -> dict[str, str]:
        return {
            f"controller-{index}": address for index, address in enumerate(self.controllers.http_addresses)
        }

    async def start(self) -> None:
        """Start everything and wait until each part serves; the collector and canary come last."""
        self.fault_log.parent.mkdir(parents=True, exist_ok=True)
        self.fault_log.touch()
        with self._progress.step("3 controllers and a name server"):
            await asyncio.gather(self.controllers.start(), self.name_server.start())
        await asyncio.gather(*(relay.start() for relays in self._relays for relay in relays))
        parts = f"{len(self.brokers)} brokers, unmodified, in controller mode"
        with self._progress.step(f"{parts}, and a log replica" if self._log_replicas else parts):
            if self._log_replicas:
                await self.replica.start()
            await asyncio.gather(*(broker.start() for broker in self.brokers))

    async def start_measuring(self) -> None:
        """Start the collector and the canary; the group must take writes by now."""
        self.write_targets()
        await self.collector.start()
        await self.canary.start()

    async def stop_measuring(self) -> None:
        """Stop canary and collector so that everything they hold is on disk."""
        await self.canary.stop()
        await self.collector.stop()

    async def stop(self) -> None:
        """End every process that was started; never raises for one that has ended."""
        await self.stop_measuring()
        members = [self.replica, *(broker.process for broker in self.brokers)]
        await asyncio.gather(*(process.kill() for process in members))
        await asyncio.gather(self.name_server.stop(), self.controllers.stop())
        await asyncio.gather(*(relay.stop() for relays in self._relays for relay in relays))
