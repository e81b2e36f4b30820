"""Group sync on a thread of its own: many appends, one wait for the disk.

The receiving thread calls `wake` after it wrote; this thread then syncs everything written so far and tells
the offset. While one sync runs, further wakes melt into one, so under load each sync covers all that arrived
during the last.

A failed sync is final: what the disk holds is unknown, and a second try may report success for lost bytes.
The failure goes to `on_failure` and the thread ends.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

_JOIN_TIMEOUT_S: Final = 30.0


class Syncer:
    """The thread and its wake-up flag.

    `on_synced(offset, duration_s)` and `on_failure(error)` are called on this thread.
    """

    def __init__(
        self,
        sync: Callable[[], int],
        on_synced: Callable[[int, float], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        """Prepare; nothing runs before `start`."""
        self._sync: Final = sync
        self._on_synced: Final = on_synced
        self._on_failure: Final = on_failure
        self._condition: Final = threading.Condition()
        self._wanted = False
        self._stopping = False
        self._thread: Final = threading.Thread(target=self._run, name="log-sync", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Ask for a sync of everything written before this call; returns at once."""
        with self._condition:
            self._wanted = True
            self._condition.notify()

    def stop(self) -> None:
        """End the thread after the sync under way."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        while self._wait():
            started_s = time.perf_counter()
            try:
                offset = self._sync()
            except OSError as error:
                self._on_failure(error)
                return
            self._on_synced(offset, time.perf_counter() - started_s)

    def _wait(self) -> bool:
        with self._condition:
            self._condition.wait_for(lambda: self._wanted or self._stopping)
            self._wanted = False
            return not self._stopping
