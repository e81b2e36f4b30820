"""The id that the controller gave this replica, kept beside its log as brokers keep theirs.

Getting an id takes three calls, and a crash between any two must neither lose the id nor take a second one.
So the id asked for is written down before it is applied for, with a check code that makes applying twice
harmless:

    brokerIdentity        cluster#group#id
    brokerIdentity-temp   cluster#group#id#host:port;ms

Source: BrokerIdentity, TempBrokerMetadata, ReplicasManager.registerBrokerToController 5.4.0.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core.remoting.numbers import BrokerId, whole_number
from ha_sidecar.commitlog.disk import remove_durably, write_atomically

IDENTITY_FILE: Final = "brokerIdentity"
NO_ID: Final = BrokerId(0)
"""Stands for an id where there is none: controllers give ids from 1 on."""
TEMPORARY_FILE: Final = "brokerIdentity-temp"


class IdentityError(Exception):
    """The identity file is damaged or belongs to another group; a person has to look."""


@dataclass(frozen=True, slots=True)
class Application:
    """An id that is being applied for."""

    broker_id: BrokerId
    check_code: str


class IdentityFiles:
    """The two files of one store."""

    def __init__(self, directory: Path, cluster: str, group: str) -> None:
        """Name the store and the group that the id must belong to."""
        self._identity: Final = directory / IDENTITY_FILE
        self._temporary: Final = directory / TEMPORARY_FILE
        self._group: Final = (cluster, group)

    def read(self) -> BrokerId | None:
        """Return the id, None if none was given yet; raise `IdentityError` when the file is not ours."""
        parts = self._parts(self._identity, 3)
        return None if parts is None else self._id(self._identity, parts)

    def read_application(self) -> Application | None:
        """Return the id applied for before a crash, None if none."""
        parts = self._parts(self._temporary, 4)
        return None if parts is None else Application(self._id(self._temporary, parts), parts[3])

    def write_application(self, application: Application) -> None:
        """Write the application down before it is sent."""
        text = "#".join((*self._group, str(application.broker_id), application.check_code))
        write_atomically(self._temporary, text.encode())

    def drop_application(self) -> None:
        """Forget an id that was refused."""
        remove_durably(self._temporary)

    def promote(self, broker_id: BrokerId) -> None:
        """Keep the id that was given."""
        write_atomically(self._identity, "#".join((*self._group, str(broker_id))).encode())
        remove_durably(self._temporary)

    def _parts(self, path: Path, count: int) -> list[str] | None:
        if not path.exists():
            return None
        parts = path.read_text().strip().split("#")
        if len(parts) != count:
            raise IdentityError(f"{path} holds {len(parts)} fields, {count} expected")
        return parts

    def _id(self, path: Path, parts: list[str]) -> BrokerId:
        number = whole_number(parts[2])
        if (parts[0], parts[1]) != self._group or not number:
            raise IdentityError(f"{path} holds {'#'.join(parts)!r}, not an id in {'#'.join(self._group)}")
        return BrokerId(number)
