"""Fills an empty broker's store before the broker starts, from any member of its group that serves its log.

    1  claim the store: a note beside the log says for which group it is being filled; a store with a log and
       without that note belongs to somebody else, and stays untouched
    2  copy by handshake and transfer, as a slave that never enters the SyncStateSet (asyncLearner), so that
       no send waits for it
    3  check every record, behind the received end; a damaged one is cut off with all that follows, and is
       requested again
    4  while the source goes on, go on too, until the rest is small enough for the broker to catch up on
    5  end at a whole record, make all durable, write topics, groups and offsets, and the identity if the
       broker had one

A seed that was killed goes on where its log ends. A seed of a store that is done, or that is a broker's of
this group already, does nothing: it may run before each start of the broker.

The store is then as a broker leaves it that was stopped: log files of full length, epoch file, no checkpoint.
Its consume queues are built from the log when it starts. Topics, groups and consumer offsets are not in the
log: a member of the group supplies them, so that a broker that finds no other one alive has them too.

Source: DefaultMessageStore.load, AutoSwitchHAClient.java 5.4.0.
"""

import contextlib
import json
import logging
import queue
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core import bounded_json
from controller_core.remoting.host_port import join_host_port
from controller_core.remoting.numbers import BrokerId, LogOffset
from ha_sidecar.commitlog.checking import Checker
from ha_sidecar.commitlog.disk import write_atomically
from ha_sidecar.commitlog.layout import Layout
from ha_sidecar.commitlog.records import RecordKind
from ha_sidecar.commitlog.store import LOG_DIRECTORY, ReplicaStore
from ha_sidecar.common import metadata
from ha_sidecar.common.ha_link import HaLink, LinkEnd, starts_below_first_epoch
from ha_sidecar.common.ha_socket import HaEnd
from ha_sidecar.common.identity import NO_ID, IdentityFiles
from ha_sidecar.decisions.metadata_tables import MetadataSnapshot
from ha_sidecar.epoch.entries import OFFSET_MAX
from ha_sidecar.seed.config import SeedConfig
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import NO_BROKER_ID, SlaveConfig

NOTE_FILE: Final = "seed.json"
NEAR_BYTES: Final = 64 << 20
"""What a broker may have to catch up on by itself."""
CHECK_BYTES: Final = 16 << 20
"""The least amount that is checked in one go while more is received."""
POLL_S: Final = 0.05
AGAIN_S: Final = 1.0
PROGRESS_S: Final = 1.0

_log = logging.getLogger(__name__)


class SeedError(Exception):
    """The store is not filled; the text says why."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What a seed did; offsets and bytes of the log."""

    seeded: bool
    reason: str
    min_offset: int
    max_offset: int
    copied_bytes: int
    took_ms: int


def claim(config: SeedConfig) -> str | None:
    """Take the store for this seed; return the reason if nothing remains for it, else None.

    Raises:
        SeedError: the store is being seeded for another group, or holds a log that no seed began.
        IdentityError: its identity file is another group's.
    """
    broker_id = IdentityFiles(config.store, config.cluster, config.group).read()
    files = Layout(config.store / LOG_DIRECTORY, config.mapped_file_bytes).starts()
    note = _read_note(config.store)
    mine = {"cluster": config.cluster, "group": config.group, "file_bytes": config.mapped_file_bytes}
    if note is not None:
        found = {key: note.get(key) for key in mine}
        if found != mine:
            raise SeedError(f"{config.store} is being seeded for {found}, not for {mine}")
        return "it is seeded already" if note.get("done") else None
    if broker_id is not None and files:
        return f"it is the store of broker {broker_id} of this group"
    if files:
        raise SeedError(
            f"{config.store} holds a log from offset {files[0]} that no seed began and no broker of "
            f"{config.cluster}/{config.group} owns: move it away if it is not needed"
        )
    _write_note(config, done=False)
    return None


class Seed:
    """One seed of a claimed store.

    Attributes:
        copied_bytes: of the log, by this process.
    """

    def __init__(
        self,
        config: SeedConfig,
        store: ReplicaStore,
        find_source: Callable[[], HaEnd | None],
        find_metadata: Callable[[], MetadataSnapshot] = dict,
        find_former_id: Callable[[], BrokerId] = lambda: NO_ID,
    ) -> None:
        """Take the open store.

        Args:
            config: the settings.
            store: the store.
            find_source: names the HA end of a member, None while none is known.
            find_metadata: asks a member for topics, groups and offsets.
            find_former_id: returns the id that the store may take back (`seed.source`), 0 for none or if
                unknown.
        """
        self.copied_bytes = 0
        self._config: Final = config
        self._store = store
        self._find_source: Final = find_source
        self._find_metadata: Final = find_metadata
        self._find_former_id: Final = find_former_id
        self._former_id = NO_ID
        self._started_s: Final = time.monotonic()
        self._checked_offset = store.log.min_offset
        self._progress_s = self._started_s
        self._start_at_file = False
        self._problem = ""

    def run(self) -> SeedResult:
        """Copy until the source is nearly reached, check all of it, make it a broker's store.

        A store that takes its former id back is copied to the last byte. One that has no id to take back, and
        finds no source, stays empty where the configuration has `advertise`: a broker that begins so has a
        new id and cannot be elected.

        Raises:
            SeedError: nothing came, `attempts` times in a row.
            OSError: the disk refused.
        """
        fruitless = 0
        self._former_id = self._find_former_id()
        with contextlib.closing(Checker(self._store.log.layout)) as checker:
            while not (near := self._copy(checker)):
                fruitless = fruitless + 1 if near is None else 0
                if fruitless >= self._config.attempts:
                    if self._may_begin_empty():
                        return self._left_empty()
                    raise SeedError(f"{fruitless} attempts in a row brought nothing: {self._problem}")
                if near is None:
                    time.sleep(AGAIN_S)
        self._store.adopt(self._store.epochs.starting_up_to(self._store.log.max_offset))
        metadata.keep(self._config.store, self._find_metadata())
        if broker_id := BrokerId(self._config.broker_id) or self._reclaimed_id():
            identity = IdentityFiles(self._config.store, self._config.cluster, self._config.group)
            identity.promote(broker_id)
        _write_note(self._config, done=True)
        log = self._store.log
        took_ms = int((time.monotonic() - self._started_s) * 1000)
        return SeedResult(True, "done", log.min_offset, log.max_offset, self.copied_bytes, took_ms)

    def _reclaimed_id(self) -> BrokerId:
        """Return the former id if it may be taken back still, now that all is copied."""
        if not self._former_id:
            return NO_ID
        if self._find_former_id() != self._former_id:
            _log.warning("broker id %d is not taken back: a master lives again", self._former_id)
            return NO_ID
        _log.info("broker id %d is taken back: this copy has all that its set has", self._former_id)
        return self._former_id

    def _may_begin_empty(self) -> bool:
        return bool(self._config.advertise) and not self._former_id and self._store.log.is_empty

    def _left_empty(self) -> SeedResult:
        (self._config.store / NOTE_FILE).unlink()
        took_ms = int((time.monotonic() - self._started_s) * 1000)
        return SeedResult(False, f"the broker begins empty: {self._problem}", 0, 0, 0, took_ms)

    def _copy(self, checker: Checker) -> bool | None:
        """Follow one connection; return whether the source is nearly reached, None if nothing came of it."""
        source = self._find_source()
        if source is None:
            self._problem = "no member of the group serves its log"
            _log.warning("%s", self._problem)
            return None
        before_offset = self._store.log.max_offset
        notes = _LinkNotes(self._store)
        broker_id = self._config.broker_id or NO_BROKER_ID
        config = SlaveConfig(
            broker_id, self._config.mapped_file_bytes, start_at_file=self._start_at_file, async_learner=True
        )
        link = HaLink(source.address, self._store, config, notes, None, tls=source.tls)
        link.set_in_sync(True)  # acks need no repeating: no master should take this slave into a set
        link.start()
        try:
            end = self._watch(link, notes, checker)
        except OSError:
            link.stop()
            notes.ends.get()
            raise
        if checker.is_busy:
            self._take(checker)
        self.copied_bytes += max(0, self._store.log.max_offset - before_offset)
        if end.disk_error is not None:
            raise end.disk_error
        self._start_at_file = starts_below_first_epoch(end) or self._start_at_file
        if end.diverged is not None:
            _log.warning("the copied log is of another history (%s): starting over", end.detail)
            shutil.rmtree(self._store.archive())
            self._checked_offset = LogOffset(0)
            return None
        self._checked_offset = LogOffset(min(self._checked_offset, notes.take_start()))
        if not self._check_rest(checker, self._store.cut_torn_record()):
            self._store.log.truncate(self._checked_offset)
            self._store.adopt(self._store.epochs.starting_up_to(self._checked_offset))
            return None
        if notes.caught_up:
            return notes.handshake_left_bytes <= (0 if self._former_id else NEAR_BYTES)
        self._problem = f"{join_host_port(*source.address)}: {end.reason} {end.detail}"
        _log.warning("%s", self._problem)
        return False if self._store.log.max_offset > before_offset else None

    def _watch(self, link: HaLink, notes: "_LinkNotes", checker: Checker) -> LinkEnd:
        """Check and sync the received bytes until the link ends, is caught up, or brings a damaged record."""
        while True:
            try:
                return notes.ends.get(timeout=POLL_S)
            except queue.Empty:
                pass
            if not notes.has_started:
                continue
            # The bytes above the start were cut, and come again.
            self._checked_offset = LogOffset(min(self._checked_offset, notes.take_start()))
            # Bit by bit: unsynced bytes at the end of a file keep the link from receiving.
            self._store.log.sync()
            if notes.caught_up or not self._check_meanwhile(checker):
                link.stop()
                return notes.ends.get()
            self._tell_progress(notes)

    def _check_meanwhile(self, checker: Checker) -> bool:
        """Take a verdict if one came, and have new bytes checked; return whether no damage is known."""
        if checker.has_verdict() and self._take(checker) is RecordKind.DAMAGED:
            return False
        log = self._store.log
        self._checked_offset = max(self._checked_offset, log.min_offset)
        if not checker.is_busy and log.max_offset - self._checked_offset >= CHECK_BYTES:
            checker.tell(self._checked_offset, log.max_offset)
        return True

    def _check_rest(self, checker: Checker, up_to_offset: int) -> bool:
        """Check the records below `up_to_offset` that were not yet; return whether all are whole."""
        self._checked_offset = max(self._checked_offset, self._store.log.min_offset)
        if self._checked_offset < up_to_offset:
            checker.tell(self._checked_offset, up_to_offset)
            self._take(checker)
        if self._checked_offset >= up_to_offset:
            return True
        _log.warning("%s", self._problem)
        return False

    def _take(self, checker: Checker) -> RecordKind:
        """Wait for the verdict.

        A record that is torn or unused at the end of a span may be whole in the next.
        """
        checked_offset, record = checker.verdict()
        self._checked_offset = LogOffset(checked_offset)
        self._problem = f"the record at {self._checked_offset} came {record.kind.value}: {record.problem}"
        return record.kind

    def _tell_progress(self, notes: "_LinkNotes") -> None:
        now_s = time.monotonic()
        if now_s - self._progress_s < PROGRESS_S or not notes.master_max_offset:
            return
        self._progress_s = now_s
        log = self._store.log
        have, all_bytes = log.max_offset - log.min_offset, notes.master_max_offset - log.min_offset
        rate = (log.max_offset - notes.start_offset) / max(now_s - notes.started_s, 0.001)
        left_s = (notes.master_max_offset - log.max_offset) / rate if rate > 0 else 0.0
        _log.info(
            "%.1f %%: %d of %d bytes, %.0f MB/s, %.0f s left",
            100 * have / max(all_bytes, 1),
            have,
            all_bytes,
            rate / 1e6,
            left_s,
        )


class _LinkNotes:
    """What a link says, for the thread that waits."""

    def __init__(self, store: ReplicaStore) -> None:
        self._store: Final = store
        self.ends: Final[queue.Queue[LinkEnd]] = queue.Queue()
        self.caught_up = self.has_started = False
        self._untaken_offset = OFFSET_MAX
        self.master_max_offset = self.start_offset = self.handshake_left_bytes = 0
        self.started_s = time.monotonic()

    def take_start(self) -> int:
        """Return where the log goes on the first time, later a number above all offsets."""
        start_offset, self._untaken_offset = self._untaken_offset, OFFSET_MAX
        return start_offset

    def on_handshake(self, done: HandshakeDone) -> None:
        """Note where the log goes on."""
        self._untaken_offset = done.start_offset
        # The bytes that the handshake cuts must not be checked in between.
        self.has_started = self._store.log.max_offset <= done.start_offset
        self.master_max_offset, self.start_offset = done.master_max_offset, done.start_offset
        self.handshake_left_bytes = done.master_max_offset - done.start_offset

    def on_truncate(self, from_offset: LogOffset, to_offset: LogOffset) -> None:
        """Log the cut."""
        _log.info("cut from %d to %d", from_offset, to_offset)
        self.has_started = True

    def on_caught_up(self, offset: LogOffset) -> None:
        """Note that the log has reached the master's."""
        self.caught_up = True

    def on_end(self, end: LinkEnd) -> None:
        """Give the end to the thread that waits for it."""
        self.ends.put(end)


def _read_note(store: Path) -> dict[str, object] | None:
    path = store / NOTE_FILE
    if not path.exists():
        return None
    note = bounded_json.decode(path.read_bytes())
    return note if isinstance(note, dict) else {}


def _write_note(config: SeedConfig, *, done: bool) -> None:
    config.store.mkdir(parents=True, exist_ok=True)
    note = {
        "cluster": config.cluster,
        "group": config.group,
        "file_bytes": config.mapped_file_bytes,
        "done": done,
    }
    write_atomically(config.store / NOTE_FILE, json.dumps(note).encode())
