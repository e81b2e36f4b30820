"""A member of a group whose log a seed may copy, in the test's own process."""

from pathlib import Path

from ha_sidecar.address import HostPort
from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.epoch import EpochList
from ha_sidecar.replica.slave_server import HaServer
from ha_sidecar.replica.slave_streams import HaPortTls
from ha_sidecar.seed.config import SeedConfig
from ha_sidecar.transfer.served_log import MasterConfig
from testkit.ha.messages import boundaries, log_bytes
from testkit.ha.stores import append

FILE_BYTES = 4096
LOG = log_bytes(200, FILE_BYTES)


class SeedMember:
    """A store of the group, served."""

    def __init__(self, directory: Path, tls: HaPortTls | None = None) -> None:
        self.store = ReplicaStore(directory, FILE_BYTES)
        self.store.adopt(EpochList.of((1, 0), (3, boundaries(LOG, FILE_BYTES)[90])))
        append(self.store, LOG)
        self.store.log.sync()
        served = ServedStore(self.store, lambda: 0)
        self.server = HaServer(self.store, served, MasterConfig(FILE_BYTES), tls)
        self.server.start("127.0.0.1", 0)

    @property
    def address(self) -> HostPort:
        """Where it serves."""
        return "127.0.0.1", self.server.port

    def close(self) -> None:
        """End serving."""
        self.server.stop()
        self.store.close()


def config_of(directory: Path, member: SeedMember, **values: object) -> SeedConfig:
    """Return the settings of a seed from that member; `values` are further ones."""
    given: dict[str, object] = {
        "cluster": "c",
        "group": "g",
        "store": directory,
        "source": member.address,
        "mapped_file_bytes": FILE_BYTES,
        "attempts": 2,
        **values,
    }
    return SeedConfig(**given)  # type: ignore[arg-type]  # names and types are those of the fields
