"""The folder in which a companion keeps the POP checkpoints that it owes, so that they outlive the process.

    pop-debt.json   the debt, replaced as a whole and synced; absent without a debt
    pop-debt.lock   held by the process that watches the broker: a companion, or the command `handover`

All calls block; call them from a thread.
"""

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

from ha_sidecar.commitlog.disk import remove_durably, write_atomically
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.decisions.revive_debt import DebtRecord
from ha_sidecar.decisions.revive_record import RECORD_BYTES_MAX, DebtRecordError, decode, encode

DEBT_FILE: Final = "pop-debt.json"
LOCK_FILE: Final = "pop-debt.lock"

_log = logging.getLogger(__name__)


class DebtStore:
    """The folder of one companion."""

    def __init__(self, directory: Path, cluster: str, group: str) -> None:
        """Name the folder and the group whose debt it may hold."""
        self.directory: Final = directory
        self._path: Final = directory / DEBT_FILE
        self._group: Final = (cluster, group)
        self._lock_fd: int | None = None

    def take(self) -> bool:
        """Lock the folder; return false while another process has it.

        Raises:
            OSError: the folder cannot be made or opened.
        """
        if self._lock_fd is not None:
            return True
        self.directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            raise
        self._lock_fd = descriptor
        return True

    def read(self) -> DebtRecord | None:
        """Return the debt; None without one.

        Log a damaged file. The next debt will replace it.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                data = file.read(RECORD_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        try:
            return decode(data, *self._group)
        except DebtRecordError as error:
            _log.error("%s: the POP checkpoints owed before the restart are lost: %s", self._path, error)
            return None

    def write(self, record: DebtRecord | None) -> None:
        """Replace the debt durably; None removes it.

        Raises:
            OSError: the file cannot be written.
            DebtRecordError: the debt is too large.
        """
        if record is None:
            remove_durably(self._path)
        else:
            write_atomically(self._path, encode(record, *self._group))

    def release(self) -> None:
        """Unlock the folder."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def debt_store(config: CompanionConfig) -> DebtStore | None:
    """Return the store that the settings name; None without one."""
    return None if config.state is None else DebtStore(config.state, config.cluster, config.group)
