"""Settings of a replica: from the command line, from a file with the same keys, checked in one place.

A file has one `key = value` a line, `#` starts a comment; keys are those of the command line, with or without dashes
(`mapped-file-bytes` or `mapped_file_bytes`). The command line wins.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from ha_sidecar.commitlog.layout import MAPPED_FILE_BYTES_DEFAULT

HostPort = tuple[str, int]

ACK_AFTER: Final = ("sync", "write")
CONTROLLER_KINDS: Final = ("rocketmq-ha", "java")
ON_DIVERGENCE: Final = ("archive", "stop")


class ConfigError(ValueError):
    """A setting is missing, unknown or out of range; the text names it."""


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
        mapped_file_bytes: length of a log file; must equal the brokers' mappedFileSizeCommitLog.
        heartbeat_interval_ms: between heartbeats to each controller.
        heartbeat_timeout_ms: silence after which a controller may take the replica for dead; at least three beats.
        ack_after: `sync` acks what is on disk; `write` acks what the operating system has, as Java does.
        controller_kind: `rocketmq-ha` never elects a log replica; RocketMQ's own (`java`) would, so the replica
            stops its heartbeats while it is the only company of a single broker.
        on_divergence: `archive` moves a log that cannot be continued aside and starts over; `stop` ends the process.
        retention_hours: files that nothing was written to for so long are removed, oldest first.
        disk_drop_percent: above this use of the disk the oldest files go whatever their age.
        disk_refuse_percent: above this nothing more is received, so that the disk does not run full.
        unclean_election: set it if the controllers allow unclean elections; a restarted master is then not trusted.
        sync_from_last_file: a replica without a log begins with the master's newest file, and never gets the older ones.
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
    mapped_file_bytes: int = MAPPED_FILE_BYTES_DEFAULT
    heartbeat_interval_ms: int = 1_000
    heartbeat_timeout_ms: int = 10_000
    ack_after: str = "sync"
    controller_kind: str = "rocketmq-ha"
    on_divergence: str = "archive"
    retention_hours: int = 72
    disk_drop_percent: int = 75
    disk_refuse_percent: int = 95
    unclean_election: bool = False
    sync_from_last_file: bool = False

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
        require(self.retention_hours >= 1, f"retention-hours {self.retention_hours}: at least 1")
        require(
            0 < self.disk_drop_percent < self.disk_refuse_percent <= 100,
            f"disk-drop-percent {self.disk_drop_percent}: below disk-refuse-percent {self.disk_refuse_percent}, both to 100",
        )
        for key, value, allowed in (
            ("ack-after", self.ack_after, ACK_AFTER),
            ("controller-kind", self.controller_kind, CONTROLLER_KINDS),
            ("on-divergence", self.on_divergence, ON_DIVERGENCE),
        ):
            require(value in allowed, f"{key} {value!r}: one of {', '.join(allowed)}")

    @property
    def address(self) -> str:
        """The replica's address as controllers know it, host:port."""
        host, port = self.advertise or self.listen
        return f"{host}:{port}"

    @property
    def ha_address(self) -> str | None:
        """The address that slaves are told, host:port; None if none are served."""
        if self.ha_listen is None:
            return None
        host, port = self.ha_advertise or ((self.advertise or self.ha_listen)[0], self.ha_listen[1])
        return f"{host}:{port}"


KEYS: Final = tuple(field.name for field in fields(ReplicaConfig))
REQUIRED_KEYS: Final = ("cluster", "group", "controllers", "listen", "store", "http")


def read_file(path: Path, keys: Collection[str] = KEYS) -> dict[str, str]:
    """Return the file's keys (with underscores) and values; `keys` are those that exist.

    Raises:
        ConfigError: a line without '=', or a key that does not exist.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, separator, value = text.partition("=")
        name = key.strip().replace("-", "_")
        if not separator or name not in keys:
            raise ConfigError(f"{path}:{number}: {text!r} is no setting")
        found[name] = value.strip()
    return found


def from_texts(texts: Mapping[str, str]) -> ReplicaConfig:
    """Build the settings from texts by key (with underscores); raise `ConfigError` naming what is wrong."""
    require_keys(texts, REQUIRED_KEYS)
    values: dict[str, object] = {}
    for key, text in texts.items():
        values[key] = _parse(key, text)
    return ReplicaConfig(**values)  # type: ignore[arg-type]  # keys are fields, _parse gives each its type


def _parse(key: str, text: str) -> object:
    match key:
        case "controllers":
            return host_ports(text)
        case "listen" | "http" | "advertise" | "ha_listen" | "ha_advertise":
            return host_port(text)
        case "store":
            return Path(text)
        case (
            "mapped_file_bytes"
            | "heartbeat_interval_ms"
            | "heartbeat_timeout_ms"
            | "retention_hours"
            | "disk_drop_percent"
            | "disk_refuse_percent"
        ):
            return number(key, text)
        case "unclean_election" | "sync_from_last_file":
            require(text in ("true", "false"), f"{key.replace('_', '-')} {text!r}: true or false")
            return text == "true"
        case _:
            return text


def host_port(text: str) -> HostPort:
    """Read `host:port`; an IPv6 host stands in brackets."""
    host, separator, port = text.strip().rpartition(":")
    valid = bool(separator) and bool(host) and port.isascii() and port.isdigit() and int(port) < 65_536
    require(valid, f"{text!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def host_ports(text: str) -> tuple[HostPort, ...]:
    """Read addresses that are separated by semicolons."""
    return tuple(host_port(part) for part in text.split(";") if part.strip())


def number(key: str, text: str) -> int:
    """Read a whole number from 0."""
    require(text.isascii() and text.isdigit(), f"{key.replace('_', '-')} {text!r} is no number")
    return int(text)


def require_keys(texts: Mapping[str, str], required: Collection[str]) -> None:
    """Raise `ConfigError` naming the keys that have no value."""
    missing = [key.replace("_", "-") for key in required if not texts.get(key)]
    require(not missing, f"missing: {', '.join(missing)}")


def require(condition: bool, problem: str) -> None:
    """Raise `ConfigError` unless the condition holds."""
    if not condition:
        raise ConfigError(problem)
