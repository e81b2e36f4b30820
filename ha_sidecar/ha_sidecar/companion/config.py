"""Settings of a broker's companion and of its handover: the same file serves both commands.

The form of file and command line is that of the replica, see `config`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core.access.request_signer import RequestSigner
from controller_core.tls.files import PERMISSIVE, TLS_MODES
from ha_sidecar.address import PORT_MAX, HostPort
from ha_sidecar.common.options import address, addresses, build_settings, number, require, signer

POLL_INTERVAL_MS_MIN: Final = 50
HOLD_MS_MIN: Final = 500
HOLD_MS_MAX: Final = 2_500
"""A client's send may take 3 s by default, and a broker's process needs its port when it starts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionConfig:
    """One broker's companion.

    Attributes:
        cluster: brokerClusterName of the group.
        group: brokerName of the group.
        broker: the broker's remoting address, as it is reached from here.
        controllers: all controllers of the cluster.
        broker_ha: the broker's HA port, greeted once while it is a slave (see `warming`); None: it is not.
        http: where metrics, probes and events are served; a handover needs none.
        name_servers: a handover waits until these list the new master; may be empty.
        namespace: Kubernetes namespace, for events.
        poll_interval_ms: between two looks at the broker and at the controllers.
        fence: whether to stop a broker's writes while another may be elected that it cannot hear of.
        fence_after_ms: silence of controllers and members after which it is; below the brokers' heartbeat
            time-out (controllerHeartBeatTimeoutMills, 10000) by a heartbeat and the time to tell the broker.
        fence_stop_ms: silence after which a broker that cannot be told is stopped.
        fence_stop_command: how it is stopped, words without a shell; nothing is done if empty.
        lease_port: where the guard in the broker's container asks for the lease (see `leasing`), on loopback
            only; 0 for no lease.
        lease_ms: the lease from a question on, where controllers do not tell one: below the brokers'
            heartbeat timeout by a heartbeat.
        lease_binds: whether controllers must wait for the end of the lease if the whole node is silent; false
            if a master that is cut off can acknowledge no write alone.
        metadata_put_back: whether a broker that becomes master gets back the topics and groups that it lacks.
        broker_metrics: address of the broker's metrics; the companion reads there which messages of POP
            consumers the broker refused to revive, and puts their checkpoints back (see `revive_watch`).
            None: it does not.
        hold_ms: for how long the clients of a killed master are held for its successor (see `holding`), 0 for
            not at all; only where the master's address is moved to the successor's pod, and below a broker's
            time to start.
        hold_port: where clients may wait for the end of a master that will be killed (see `hold_port`), 0 for
            none; only where the master's address leads there as soon as its pod is being deleted.
        guest_port: where clients come in by the address of a former master, once it leads to this pod
            (see `guests`), 0 for none.
        credentials: directory with the files `username` and `password` of a super user of the brokers, which
            signs the requests to them. None, or without the files: requests are not signed.
        tls: directory with the member's certificate and key (`tls.crt`, `tls.key`) and the authorities that
            it trusts (`ca.crt`), for held clients and for all that the companion dials.
            None: plain TCP alone.
        tls_mode: once `tls` is given: permissive serves TLS and plain TCP, and dials in TLS first; enforcing
            serves and dials in TLS only.
        keep_users: whether a slave gets the users and rights of its master, and is not ready before
            (see `users.watch`); needs `credentials`.
        state: the companion's own folder, where the POP checkpoints that it owes outlive its process; the
            command `handover` uses it too. None: the debt ends with the process.
        broker_conf: the broker's file of settings. While the broker runs, it gets the changed ones that it
            takes at run time (see `live_settings`). None, or without the file: it does not.
        deadline_s: a handover that is not done by then gives up; stay below the pod's termination grace
            period.
    """

    cluster: str
    group: str
    broker: HostPort
    controllers: tuple[HostPort, ...]
    http: HostPort | None = None
    broker_ha: HostPort | None = None
    name_servers: tuple[HostPort, ...] = ()
    namespace: str = ""
    poll_interval_ms: int = 1_000
    fence: bool = False
    fence_after_ms: int = 6_000
    fence_stop_ms: int = 8_500
    fence_stop_command: str = ""
    lease_port: int = 0
    lease_ms: int = 8_000
    lease_binds: bool = True
    metadata_put_back: bool = False
    broker_metrics: HostPort | None = None
    hold_ms: int = 0
    hold_port: int = 0
    guest_port: int = 0
    credentials: RequestSigner | None = None
    tls: Path | None = None
    tls_mode: str = PERMISSIVE
    keep_users: bool = False
    state: Path | None = None
    broker_conf: Path | None = Path("/etc/rocketmq/broker.conf")
    deadline_s: int = 20

    def __post_init__(self) -> None:
        """Check ranges; raise `ConfigError`."""
        require(self.cluster != "" and self.group != "", "cluster and group must not be empty")
        require(len(self.controllers) > 0, "controllers: at least one is needed")
        require(
            self.poll_interval_ms >= POLL_INTERVAL_MS_MIN,
            f"poll-interval-ms {self.poll_interval_ms}: at least {POLL_INTERVAL_MS_MIN}",
        )
        require(
            0 < self.fence_after_ms < self.fence_stop_ms,
            f"fence-after-ms {self.fence_after_ms}: below fence-stop-ms {self.fence_stop_ms}",
        )
        require(
            self.hold_ms == 0 or HOLD_MS_MIN <= self.hold_ms <= HOLD_MS_MAX,
            f"hold-ms {self.hold_ms}: 0, or {HOLD_MS_MIN} to {HOLD_MS_MAX}",
        )
        require(0 <= self.hold_port <= PORT_MAX, f"hold-port {self.hold_port}: 0 to {PORT_MAX}")
        require(not self.hold_port or self.hold_ms > 0, f"hold-port {self.hold_port}: only with hold-ms")
        require(0 <= self.guest_port <= PORT_MAX, f"guest-port {self.guest_port}: 0 to {PORT_MAX}")
        require(self.tls_mode in TLS_MODES, f"tls-mode {self.tls_mode!r}: one of {', '.join(TLS_MODES)}")
        require(not self.keep_users or self.credentials is not None, "keep-users needs credentials")
        require(0 <= self.lease_port <= PORT_MAX, f"lease-port {self.lease_port}: 0 to {PORT_MAX}")
        require(self.lease_ms > 0, f"lease-ms {self.lease_ms}: above 0")
        require(self.deadline_s >= 1, f"deadline-s {self.deadline_s}: at least 1")


REQUIRED_KEYS: Final = ("cluster", "group", "broker", "controllers")


def from_texts(texts: Mapping[str, str], *, serves: bool) -> CompanionConfig:
    """Build the settings from texts by key (with underscores); `serves` makes `http` a required one.

    Raises:
        ConfigError: names the missing or wrong setting.
    """
    required = (*REQUIRED_KEYS, "http") if serves else REQUIRED_KEYS
    return build_settings(CompanionConfig, texts, required, _parse)


def _parse(key: str, text: str) -> object:
    match key:
        case "controllers" | "name_servers":
            return addresses(key, text)
        case "broker" | "broker_ha" | "broker_metrics" | "http":
            return address(key, text)
        case "poll_interval_ms" | "hold_ms" | "hold_port" | "guest_port" | "deadline_s":
            return number(key, text)
        case "fence_after_ms" | "fence_stop_ms" | "lease_ms" | "lease_port":
            return number(key, text)
        case "credentials":
            return signer(text)
        case "state" | "tls" | "broker_conf":
            return Path(text) if text else None
        case "fence" | "keep_users" | "lease_binds" | "metadata_put_back":
            require(text in ("true", "false"), f"{key.replace('_', '-')} {text!r}: true or false")
            return text == "true"
        case _:
            return text
