"""Settings of a seed: which store is filled, for which group, from where.

The form of file and command line is that of the replica, see `config`.
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedConfig:
    """One seed.

    Attributes:
        cluster: brokerClusterName of the group.
        group: brokerName of the group.
        store: the broker's storePathRootDir.
        source: HA address of a member to copy from; without it the seed asks the controllers for the members.
        source_tls: whether `source` is a log replica that serves TLS, with a certificate for the host of
            `source`; members that the controllers name tell it themselves.
        controllers: all controllers of the cluster; not needed with `source`.
        broker_id: the id that the broker had, to be written into its identity file; 0 lets it apply for one.
        advertise: the address that the broker will announce, host:port; with it the seed runs before each
            first start of a broker and lets it begin empty where no member has data for it.
        reclaim: take the id back that `advertise` has in the SyncStateSet if no master lives. Only where an
            acknowledgement needs every member of that set.
        min_in_sync: the group's minInSyncReplicas: a master in a smaller set acknowledges nothing.
        credentials: directory with the files `username` and `password` of a super user of the brokers, which
            signs the requests to them. None, or without the files: requests are not signed.
        tls: directory with the authorities (`ca.crt`) that have issued the certificates of brokers, log
            replicas and controllers; requests to them, and copies from log replicas, use TLS. None: plain TCP
            alone.
        tls_mode: once `tls` is given: permissive dials in TLS first, and in plain TCP where TLS is not
            answered; enforcing dials in TLS only.
        mapped_file_bytes: the group's mappedFileSizeCommitLog.
        attempts: connections in a row that may bring nothing before the seed gives up.
    """

    cluster: str
    group: str
    store: Path
    source: HostPort | None = None
    source_tls: bool = False
    controllers: tuple[HostPort, ...] = ()
    broker_id: int = 0
    advertise: str = ""
    reclaim: bool = False
    min_in_sync: int = 1
    credentials: RequestSigner | None = None
    tls: Path | None = None
    tls_mode: str = PERMISSIVE
    mapped_file_bytes: int = MAPPED_FILE_BYTES_DEFAULT
    attempts: int = 30

    def __post_init__(self) -> None:
        """Check ranges; raise `ConfigError`."""
        require(self.cluster != "" and self.group != "", "cluster and group must not be empty")
        require("#" not in self.cluster + self.group, "'#' separates the fields of the identity file")
        require(self.source is not None or len(self.controllers) > 0, "source or controllers: one is needed")
        require(
            not self.source_tls or (self.source is not None and self.tls is not None),
            "source-tls needs source and tls",
        )
        require(not self.reclaim or self.advertise != "", "reclaim needs advertise")
        require(self.advertise == "" or len(self.controllers) > 0, "advertise needs controllers")
        require(self.mapped_file_bytes >= 1_024, f"mapped-file-bytes {self.mapped_file_bytes}: at least 1024")
        require(self.tls_mode in TLS_MODES, f"tls-mode {self.tls_mode!r}: one of {', '.join(TLS_MODES)}")
        require(self.min_in_sync >= 1, f"min-in-sync {self.min_in_sync}: at least 1")
        require(self.attempts >= 1, f"attempts {self.attempts}: at least 1")


REQUIRED_KEYS: Final = ("cluster", "group", "store")


def from_texts(texts: Mapping[str, str]) -> SeedConfig:
    """Build the settings from texts by key (with underscores); raise `ConfigError` naming the wrong one."""
    return build_settings(SeedConfig, texts, REQUIRED_KEYS, _parse)


def _parse(key: str, text: str) -> object:
    match key:
        case "controllers":
            return addresses(key, text)
        case "source":
            return address(key, text)
        case "credentials":
            return signer(text)
        case "store":
            return Path(text)
        case "tls":
            return Path(text) if text else None
        case "advertise":
            return join_host_port(*address(key, text))
        case "reclaim" | "source_tls":
            problem = f"{key.replace('_', '-')} {text!r} is neither true nor false"
            require(text in {"true", "false"}, problem)
            return text == "true"
        case "broker_id" | "min_in_sync" | "mapped_file_bytes" | "attempts":
            return number(key, text)
        case _:
            return text
