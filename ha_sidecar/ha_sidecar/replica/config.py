"""Settings of a log replica, with their ranges and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core.access.request_signer import RequestSigner
from controller_core.remoting.host_port import join_host_port
from controller_core.tls.files import PERMISSIVE, TLS_MODES
from ha_sidecar.address import HostPort
from ha_sidecar.commitlog.layout import MAPPED_FILE_BYTES_DEFAULT
from ha_sidecar.common.options import address, addresses, build_settings, number, require, signer

ACK_AFTER: Final = ("sync", "write")
CONTROLLER_KINDS: Final = ("rocketmq-ha", "java")
ON_DIVERGENCE: Final = ("archive", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """One replica.

    Attributes:
        cluster: brokerClusterName of the group.
        group: brokerName of the group.
        controllers: all controllers of the cluster.
        listen: where role changes are received; controllers must reach it.
        advertise: the address announced for `listen`, if it differs from it.
        ha_listen: where the log is served to slaves; None serves none.
        ha_advertise: the address announced for `ha_listen`; by default its port at the host of `advertise`.
        store: directory of the log, the epoch file and the identity.
        http: where metrics, probes and events are served.
        namespace: Kubernetes namespace, for events.
        credentials: directory with the files `username` and `password` of a super user of the brokers, which
            signs the requests to them. None, or without the files: requests are not signed.
        tls: directory with the member's certificate and key (`tls.crt`, `tls.key`) and the authorities that
            it trusts (`ca.crt`), for `listen`, `ha_listen` and all that the replica dials except HA ports of
            brokers. None: plain TCP alone.
        tls_mode: once `tls` is given: permissive serves TLS and plain TCP, and dials in TLS first; enforcing
            serves and dials in TLS only. With `controller_kind` java, `ha_listen` serves both.
        mapped_file_bytes: length of a log file; must equal the brokers' mappedFileSizeCommitLog.
        heartbeat_interval_ms: between heartbeats to each controller.
        heartbeat_timeout_ms: silence after which a controller may take the replica for dead; at least three
            beats.
        ack_after: `sync` acks durable bytes; `write` acks bytes that the operating system has, as Java does.
        controller_kind: `rocketmq-ha` never elects a log replica; RocketMQ's own (`java`) would, so the
            replica stops its heartbeats while it is the only company of a single broker.
        on_divergence: `archive` moves a log that cannot be continued aside and starts over; `stop` ends the
            process.
        retention_hours: files that nothing was written to for so long are removed, oldest first; 0 for the
            time that the master's `fileReservedTime` says now.
        disk_drop_percent: above this use of the disk the oldest files go whatever their age.
        disk_refuse_percent: above this nothing more is received, so that the disk does not run full.
        unclean_election: whether the controllers allow unclean elections, as long as they do not tell it; a
            restarted master is then not trusted.
        sync_from_last_file: a replica without a log begins with the master's newest file, and never gets the
            older ones.
        learner: copy without being counted: the replica never enters the SyncStateSet, no write waits for it,
            and no election takes it.
    """

    cluster: str
    group: str
    controllers: tuple[HostPort, ...]
    listen: HostPort
    store: Path
    http: HostPort
    advertise: HostPort | None = None
    ha_listen: HostPort | None = None
    ha_advertise: HostPort | None = None
    namespace: str = ""
    credentials: RequestSigner | None = None
    tls: Path | None = None
    tls_mode: str = PERMISSIVE
    mapped_file_bytes: int = MAPPED_FILE_BYTES_DEFAULT
    heartbeat_interval_ms: int = 1_000
    heartbeat_timeout_ms: int = 10_000
    ack_after: str = "sync"
    controller_kind: str = "rocketmq-ha"
    on_divergence: str = "archive"
    retention_hours: int = 0
    disk_drop_percent: int = 75
    disk_refuse_percent: int = 95
    unclean_election: bool = False
    sync_from_last_file: bool = False
    learner: bool = False

    def __post_init__(self) -> None:
        """Check ranges; raise `ConfigError`."""
        require(self.cluster != "" and self.group != "", "cluster and group must not be empty")
        require("#" not in self.cluster + self.group, "'#' separates the fields of the identity file")
        require(len(self.controllers) > 0, "controllers: at least one is needed")
        require(self.mapped_file_bytes >= 1_024, f"mapped-file-bytes {self.mapped_file_bytes}: at least 1024")
        require(
            self.heartbeat_interval_ms >= 10,
            f"heartbeat-interval-ms {self.heartbeat_interval_ms}: at least 10",
        )
        require(
            self.heartbeat_timeout_ms >= 3 * self.heartbeat_interval_ms,
            f"heartbeat-timeout-ms {self.heartbeat_timeout_ms}: at least 3 * heartbeat-interval-ms",
        )
        require(self.retention_hours >= 0, f"retention-hours {self.retention_hours}: at least 0")
        require(
            0 < self.disk_drop_percent < self.disk_refuse_percent <= 100,
            f"disk-drop-percent {self.disk_drop_percent}: "
            f"below disk-refuse-percent {self.disk_refuse_percent}, both to 100",
        )
        for key, value, allowed in (
            ("tls-mode", self.tls_mode, TLS_MODES),
            ("ack-after", self.ack_after, ACK_AFTER),
            ("controller-kind", self.controller_kind, CONTROLLER_KINDS),
            ("on-divergence", self.on_divergence, ON_DIVERGENCE),
        ):
            require(value in allowed, f"{key} {value!r}: one of {', '.join(allowed)}")

    @property
    def address(self) -> str:
        """The replica's address as controllers know it, host:port."""
        return join_host_port(*(self.advertise or self.listen))

    @property
    def ha_address(self) -> str | None:
        """The address announced to slaves, host:port; None if none are served."""
        if self.ha_listen is None:
            return None
        host, port = self.ha_advertise or ((self.advertise or self.ha_listen)[0], self.ha_listen[1])
        return join_host_port(host, port)


REQUIRED_KEYS: Final = ("cluster", "group", "controllers", "listen", "store", "http")


def from_texts(texts: Mapping[str, str]) -> ReplicaConfig:
    """Build the settings from texts by key (with underscores); raise `ConfigError` naming the wrong one."""
    return build_settings(ReplicaConfig, texts, REQUIRED_KEYS, _parse)


def _parse(key: str, text: str) -> object:
    match key:
        case "controllers":
            return addresses(key, text)
        case "listen" | "http" | "advertise" | "ha_listen" | "ha_advertise":
            return address(key, text)
        case "credentials":
            return signer(text)
        case "store":
            return Path(text)
        case "tls":
            return Path(text) if text else None
        case (
            "mapped_file_bytes"
            | "heartbeat_interval_ms"
            | "heartbeat_timeout_ms"
            | "retention_hours"
            | "disk_drop_percent"
            | "disk_refuse_percent"
        ):
            return number(key, text)
        case "unclean_election" | "sync_from_last_file" | "learner":
            require(text in ("true", "false"), f"{key.replace('_', '-')} {text!r}: true or false")
            return text == "true"
        case _:
            return text
