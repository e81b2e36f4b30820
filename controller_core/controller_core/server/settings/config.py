"""The settings of a controller node: a properties file that `mqcontroller -c` also reads, plus our own keys.

`Settings` is the one place where a key's meaning, unit, range, default and reason are written; `load` turns
properties into it and refuses a bad value with one sentence that names key and value. Keys fall in four
kinds:

* keys of Java's ControllerConfig that mean something here: fields of `Settings`;
* our own keys (Raft's timing, the ports beside the remoting port, the HTTP token): fields too;
* keys of Java's ControllerConfig and NettyServerConfig without a counterpart here (thread pools, JRaft,
  mapped files): known, listed by request 1010, without effect (`INERT_DEFAULTS`);
* anything else: a warning, not a refusal, because a file that starts the Java controller must start this one.

Never here: opening files (the caller reads) and changing a setting at run time (`live_config`).

Source: RocketMQ 5.4.0 ControllerConfig.java, NettyServerConfig.java; ControllerStartup.java for the order of
sources.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from controller_core import limits
from controller_core.remoting.host_port import PORT_MAX
from controller_core.server.settings.keys import (
    DERIVED_KEYS,
    INERT_DEFAULTS,
    NAME_SERVER_KEYS,
    InvalidSettingError,
    KeyInfo,
    bool_key,
    int_key,
    parse_value,
    text_key,
)
from controller_core.server.settings.peer_list import Peer, PeerListError, parse_peers
from controller_core.server.settings.tls_keys import TlsKeys

__all__ = [
    "InvalidSettingError",
    "KeyInfo",
    "Settings",
    "key_infos",
    "load",
    "parse_value",
]

INTERVAL_MS_MAX = 3_600_000
RAFT_PORT_OFFSET = 1
HTTP_PORT_OFFSET = 2


@dataclass(frozen=True, slots=True)
class Settings(TlsKeys):
    """All settings of one node, checked; `key_infos()` gives the same as a table for people."""

    group: str = text_key(
        "controllerDLegerGroup",
        None,
        "Name of the controllers' group. Required. Nodes of another group are refused on the peers' port, so "
        "that two clusters whose addresses were mixed up never form one.",
    )
    peers_text: str = text_key(
        "controllerDLegerPeers",
        None,
        "All controllers as n0-host:port;n1-host:port;... Required. The port is the remoting port that "
        "brokers and mqadmin use; hosts must be reachable by them, because they get the leader's entry as "
        "its address. A host is a name, an IPv4 address, or an IPv6 address in [], as n0-[::1]:9878.",
    )
    self_id: str = text_key(
        "controllerDLegerSelfId",
        "n0",
        "Which entry of the peers is this node. Raft's id is its number + 1, because Raft reserves 0.",
    )
    store_path: str = text_key(
        "controllerStorePath",
        "",
        "Directory of the log and the snapshots; empty: DLedgerController in the home directory, as in Java. "
        "Each node writes below raft-<selfId>, so nodes of one machine may share the path.",
    )
    store_type: str = text_key(
        "controllerStoreType",
        "file",
        "Where the log is: file, or memory for tests. With memory, a controller that ends has lost its "
        "store: others refuse it under its old name, and when a majority has ended, all groups are lost.",
    )
    config_store_path: str = text_key(
        "configStorePath",
        "",
        "File for keys that mqadmin updateControllerConfig changed; empty: controller.properties beside the "
        "log. Read after the start file, so that changes of an administrator survive a restart.",
    )
    config_black_list: str = text_key(
        "configBlackList",
        "configBlackList;configStorePath",
        "Further keys, separated by ';', that mqadmin updateControllerConfig must not change.",
    )
    bind_address: str = text_key(
        "bindAddress",
        "0.0.0.0",  # noqa: S104 - Java's default; brokers dial from other hosts
        "Address all three ports listen on. A host name or an IP address; the default is every interface, in "
        "IPv4 and IPv6.",
    )
    elect_unclean_master: bool = bool_key(
        "enableElectUncleanMaster",
        default=False,
        live=True,
        meaning="Whether a broker outside the SyncStateSet may become master when no member of the set "
        "lives. It loses acknowledged messages; turn it on only if availability matters more than these "
        "messages.",
    )
    notify_role_changed: bool = bool_key(
        "notifyBrokerRoleChanged",
        default=True,
        live=True,
        meaning="Whether the leader notifies brokers of a new master (1008). Off, they learn by their poll "
        "of 5 s.",
    )
    direct_addresses: bool = bool_key(
        "directAddresses",
        default=False,
        live=True,
        meaning="Whether the leader connects to the host from which a broker sends heartbeats, instead of "
        "the announced one. Turn it on if an announced address may move to another broker; off if a NAT is "
        "in between.",
    )
    first_election_wait_ms: int = int_key(
        "firstElectionWaitMs",
        30_000,
        0,
        INTERVAL_MS_MAX,
        "How long no new member must have registered before a group gets its first master, if its members "
        "have logs of an earlier life: controllers that lost their stores, or that replace others. Longer "
        "than all brokers need to start. Milliseconds.",
        live=True,
    )
    standby: bool = bool_key(
        "controllerStandby",
        default=False,
        meaning="Whether these controllers begin beside RocketMQ's own: they hear heartbeats, name no leader "
        "and decide nothing until controller-core import has taken the groups over. Without effect once they "
        "have had a group.",
    )
    node_timeout_ms: int = int_key(
        "nodeTimeoutMs",
        500,
        0,
        60_000,
        "Silence of a node's agent and of a broker on that node after which the node is lost; 0 turns the "
        "rule off. Without an agent, a broker's own timeout counts. Milliseconds.",
        live=True,
    )
    scan_inactive_master_interval_ms: int = int_key(
        "scanInactiveMasterInterval",
        5_000,
        100,
        INTERVAL_MS_MAX,
        "How often the leader looks for groups whose master is dead although somebody could take over. A "
        "safety net: deaths act at once by themselves. Milliseconds.",
        live=True,
    )
    elect_master_retries_max: int = int_key(
        "electMasterMaxRetryCount",
        3,
        0,
        100,
        "How often the leader repeats the proposal of its own election if the log could not take it. A retry "
        "never raises the master epoch twice.",
        live=True,
    )
    raft_listen_port: int = int_key(
        "raftListenPort",
        0,
        0,
        PORT_MAX,
        "Port of Raft's traffic between controllers; 0: remoting port + 1. Peers are dialled at the same "
        "distance from their remoting port as ours is from our own.",
    )
    http_listen_port: int = int_key(
        "httpListenPort",
        0,
        0,
        PORT_MAX,
        "Port of health, metrics, status and events; 0: remoting port + 2. Same rule of distance as "
        "raftListenPort.",
    )
    raft_election_timeout_ms: int = int_key(
        "raftElectionTimeoutMs",
        300,
        50,
        60_000,
        "Silence of the leader after which a node stands for election, randomised up to twice that. Shorter "
        "fails over sooner and needs a calmer network; must be at least 3 heartbeats. A node that suspected "
        "a living leader waits up to four times as long, until a minute was calm.",
    )
    raft_heartbeat_interval_ms: int = int_key(
        "raftHeartbeatIntervalMs",
        70,
        10,
        10_000,
        "Time between two heartbeats of the leader to the other controllers, in milliseconds.",
    )
    snapshot_entries: int = int_key(
        "snapshotEntries",
        10_000,
        10,
        10_000_000,
        "Applied entries between two snapshots. More: longer log and restart; fewer: more writing.",
    )
    source_connections_max: int = int_key(
        "sourceConnectionsMax",
        limits.SOURCE_CONNECTIONS_MAX,
        8,
        limits.CONNECTIONS_MAX,
        "Connections of one source address to the remoting port that do not carry the heartbeats of a living "
        "member. When there are more, the oldest is closed. Raise it if a whole fleet starts behind one NAT.",
    )
    http_token: str = text_key(
        "httpToken",
        "",
        "Bearer token that a request which changes state must carry over HTTP; empty: only loopback may "
        "change state.",
        secret=True,
    )
    plain_admin_requests: str = text_key(
        "plainAdminRequests",
        "auto",
        "Whether mqadmin on other hosts may change a setting (1009), remove brokers (1011) and designate a "
        "master (1002) without a client certificate or the cluster's token: true, false, or auto for true as "
        "long as the remoting port has no certificate.",
    )
    found_with_majority: bool = bool_key(
        "foundWithMajority",
        default=False,
        meaning="Whether a cluster without a log may begin while some of its nodes do not answer. Off, all "
        "must answer: a node that lost its disk, or that cannot reach its cluster now, must not found "
        "another one.",
    )
    credentials_path: str = text_key(
        "credentialsPath",
        "",
        "Directory with the files username and password of a super user of the brokers, as a Secret of type "
        "kubernetes.io/basic-auth is mounted. Requests to brokers are signed with them; read again when they "
        "change. Empty, or without the files: not signed.",
    )
    namespace: str = text_key(
        "namespace",
        "",
        "What events carry as their namespace: the Kubernetes namespace that this cluster of controllers "
        "serves.",
    )
    log_level: str = text_key("logLevel", "info", "Least level logged: debug, info, warning or error.")

    def __post_init__(self) -> None:
        """Check what spans fields; single fields were checked where they were parsed."""
        if self.raft_election_timeout_ms < 3 * self.raft_heartbeat_interval_ms:
            raise InvalidSettingError(
                "raftElectionTimeoutMs",
                str(self.raft_election_timeout_ms),
                f"must be at least 3 * raftHeartbeatIntervalMs = {3 * self.raft_heartbeat_interval_ms}",
            )
        if self.plain_admin_requests not in {"auto", "true", "false"}:
            raise InvalidSettingError(
                "plainAdminRequests", self.plain_admin_requests, "must be one of auto, true, false"
            )
        if self.store_type not in {"file", "memory"}:
            raise InvalidSettingError("controllerStoreType", self.store_type, "must be file or memory")
        self.check_tls()
        if self.log_level.lower() not in {"debug", "info", "warning", "error"}:
            raise InvalidSettingError("logLevel", self.log_level, "must be debug, info, warning or error")
        try:
            peers = parse_peers(self.peers_text)
        except PeerListError as error:
            raise InvalidSettingError("controllerDLegerPeers", self.peers_text, str(error)) from error
        if self.self_id not in {peer.name for peer in peers}:
            raise InvalidSettingError(
                "controllerDLegerSelfId", self.self_id, f"is not one of the peers {self.peers_text}"
            )

    @property
    def peers(self) -> tuple[Peer, ...]:
        """All controllers in the order of the file, this node included."""
        return parse_peers(self.peers_text)

    @property
    def self_peer(self) -> Peer:
        """This node's own entry of the peers."""
        return next(peer for peer in self.peers if peer.name == self.self_id)

    @property
    def listen_host(self) -> str:
        """Where the ports listen: `bindAddress` without brackets."""
        return self.bind_address.removeprefix("[").removesuffix("]")

    def raft_port(self, peer: Peer) -> int:
        """Return the port of Raft's traffic of `peer`."""
        own = self.raft_listen_port or self.self_peer.port + RAFT_PORT_OFFSET
        return peer.port + own - self.self_peer.port

    def http_port(self, peer: Peer) -> int:
        """Return the HTTP port of `peer`."""
        own = self.http_listen_port or self.self_peer.port + HTTP_PORT_OFFSET
        return peer.port + own - self.self_peer.port

    @property
    def store_directory(self) -> Path:
        """Directory of this node's log; nodes of one machine never share it."""
        base = Path(self.store_path).expanduser() if self.store_path else Path.home() / "DLedgerController"
        return base / f"raft-{self.self_id}"

    @property
    def live_config_path(self) -> Path:
        """File of the keys that were changed by request 1009."""
        if self.config_store_path:
            return Path(self.config_store_path).expanduser()
        return self.store_directory / "controller.properties"


def key_infos() -> dict[str, KeyInfo]:
    """Return the settings by their key, in the order of `Settings`; those of TLS last."""
    tls = {field.name for field in dataclasses.fields(TlsKeys)}
    ordered = sorted(dataclasses.fields(Settings), key=lambda field: field.name in tls)
    infos = (cast("KeyInfo", field.metadata["info"]) for field in ordered)
    return {info.key: info for info in infos}


def load(properties: Mapping[str, str]) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of `properties` and one warning for each unknown key.

    Raises:
        InvalidSettingError: a value is missing, does not parse or is out of range.
    """
    infos = key_infos()
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Settings):
        info = cast("KeyInfo", field.metadata["info"])
        text = properties.get(info.key, info.default)
        if text is None or (info.default is None and not text.strip()):
            raise InvalidSettingError(info.key, None, f"is required. {info.meaning}")
        values[field.name] = parse_value(info, text)
    settings = Settings(**values)
    known = infos.keys() | INERT_DEFAULTS.keys() | DERIVED_KEYS | NAME_SERVER_KEYS
    warnings = [f"unknown key {key!r} is ignored" for key in sorted(properties) if key not in known]
    warnings += _listen_port_warnings(settings, properties.get("listenPort"))
    return settings, tuple(warnings)


def _listen_port_warnings(settings: Settings, listen_port: str | None) -> list[str]:
    port = settings.self_peer.port
    if listen_port is None or listen_port.strip() == str(port):
        return []
    return [f"listenPort={listen_port.strip()} is ignored: the port is that of controllerDLegerPeers, {port}"]
