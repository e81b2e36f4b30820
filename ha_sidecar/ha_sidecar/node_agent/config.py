"""Settings of a node agent; their form is that of the replica, see `common.options`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ha_sidecar.address import PORT_MAX, HostPort
from ha_sidecar.common.options import address, addresses, build_settings, number, require

POLL_INTERVAL_MS_MIN: Final = 100
HEARTBEAT_INTERVAL_MS_MIN: Final = 20
HEARTBEAT_INTERVAL_MS_MAX: Final = 5_000
ACT_MS_MIN: Final = 1_000
ACT_MS_MAX: Final = 60_000
_PORTS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgentConfig:
    """One node's agent.

    Attributes:
        controllers: all controllers of the cluster, their remoting addresses.
        controllers_http: the HTTP addresses of the same controllers, whose event streams the agent follows.
        http: where metrics and probes are served.
        ha_ports: ports on which masters serve their slaves (haListenPort), with commas between.
        poll_interval_ms: between two questions where each member's process is.
        heartbeat_interval_ms: between two heartbeats to each controller.
        token_file: holds the token of the agents of this cluster.
        act_ms: for how long after an election the agent resets connections to the replaced master.
    """

    controllers: tuple[HostPort, ...]
    controllers_http: tuple[HostPort, ...]
    http: HostPort
    ha_ports: tuple[int, ...] = (10_912,)
    poll_interval_ms: int = 1_000
    heartbeat_interval_ms: int = 100
    token_file: Path | None = None
    act_ms: int = 10_000

    def __post_init__(self) -> None:
        """Check ranges; raise `ConfigError`."""
        require(len(self.controllers) > 0, "controllers: at least one is needed")
        require(
            len(self.controllers_http) == len(self.controllers),
            f"controllers-http: {len(self.controllers_http)} addresses (expected {len(self.controllers)}, "
            "as many as controllers)",
        )
        require(0 < len(self.ha_ports) <= _PORTS_MAX, f"ha-ports: 1 to {_PORTS_MAX} ports are expected")
        require(all(0 < port <= PORT_MAX for port in self.ha_ports), f"ha-ports: 1 to {PORT_MAX}")
        require(
            self.poll_interval_ms >= POLL_INTERVAL_MS_MIN,
            f"poll-interval-ms {self.poll_interval_ms}: at least {POLL_INTERVAL_MS_MIN}",
        )
        require(
            HEARTBEAT_INTERVAL_MS_MIN <= self.heartbeat_interval_ms <= HEARTBEAT_INTERVAL_MS_MAX,
            f"heartbeat-interval-ms {self.heartbeat_interval_ms}: "
            f"{HEARTBEAT_INTERVAL_MS_MIN} to {HEARTBEAT_INTERVAL_MS_MAX}",
        )
        require(
            ACT_MS_MIN <= self.act_ms <= ACT_MS_MAX, f"act-ms {self.act_ms}: {ACT_MS_MIN} to {ACT_MS_MAX}"
        )


REQUIRED_KEYS: Final = ("controllers", "controllers_http", "http")


def from_texts(texts: Mapping[str, str]) -> NodeAgentConfig:
    """Build the settings from texts by key (with underscores).

    Raises:
        ConfigError: names the missing or wrong setting.
    """
    return build_settings(NodeAgentConfig, texts, REQUIRED_KEYS, _parse)


def _parse(key: str, text: str) -> object:
    match key:
        case "controllers" | "controllers_http":
            return addresses(key, text)
        case "http":
            return address(key, text)
        case "token_file":
            return Path(text)
        case "ha_ports":
            return tuple(number(key, part.strip()) for part in text.split(","))
        case _:
            return number(key, text)
