"""One node of an interaction text: core, storage, and a state machine that appends the data of entries."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controller_core.log.memory import MemoryStore
from controller_core.raft.confchange.changes import decode_conf_change
from controller_core.raft.config import Config, ReadOnlyOption
from controller_core.raft.log.sizes import UNLIMITED_BYTES, limit_size
from controller_core.raft.log.storage import CompactedError
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import Entry, EntryType, LogIndex, Ready, Snapshot
from testkit.raft_scenarios.datadriven import is_true

_READ_ONLY = {"safe": ReadOnlyOption.SAFE, "lease-based": ReadOnlyOption.LEASE_BASED}


class ScenarioStore(MemoryStore):
    """A memory store whose snapshot is always the newest state that the node has applied."""

    __slots__ = ("newest_snapshot",)

    def __init__(self, newest_snapshot: Callable[[], Snapshot]) -> None:
        super().__init__()
        self.newest_snapshot = newest_snapshot

    def snapshot(self) -> Snapshot:
        """Return the newest applied state."""
        return self.newest_snapshot()

    def entries(self, low: LogIndex, high: LogIndex, bytes_max: int | None = None) -> tuple[Entry, ...]:
        """Return entries cut by the core's own measure of sizes."""
        found = super().entries(low, high)
        return found if bytes_max is None else limit_size(found, bytes_max)

    def compact(self, index: LogIndex) -> None:
        """Forget entries up to `index`, as if a snapshot of it had been written just before."""
        if index < self.first_index():
            raise CompactedError("requested index is unavailable due to compaction")
        self.publish_snapshot(Snapshot(index, self.term(index)))
        super().compact(index)


@dataclass(slots=True)
class ScenarioNode:
    """One node: core, storage, and a state machine that appends the data of entries; one snapshot a state."""

    id: int
    config: Config
    history: list[Snapshot]
    store: ScenarioStore = field(init=False)
    raw: RawNode = field(init=False)

    def __post_init__(self) -> None:
        self.store = ScenarioStore(lambda: self.history[-1])
        if self.history[0].index:
            self.store.apply_snapshot(self.history[0])
        self.raw = RawNode(self.config, self.store)

    def persist(self, ready: Ready) -> None:
        """Write what a Ready wants written."""
        self.store.commit(self.store.prepare(ready))

    def apply(self, entries: tuple[Entry, ...]) -> None:
        """Apply committed entries."""
        for entry in entries:
            last = self.history[-1]
            conf_state, data = last.conf_state, entry.data
            if entry.type != EntryType.NORMAL:
                change = decode_conf_change(entry)
                conf_state, data = self.raw.apply_conf_change(change), change.context
            self.history.append(Snapshot(entry.index, entry.term, conf_state, last.data + data))


def scenario_config(node: int, options: dict[str, tuple[str, ...]]) -> Config:
    """Return the settings of a scenario's node: an election of 3 ticks, and no limits unless asked for."""

    def number(name: str, default: int) -> int:
        return int(options[name][0]) if name in options else default

    def flag(name: str) -> bool:
        return is_true(options.get(name))

    return Config(
        id=node,
        election_ticks=3,
        heartbeat_ticks=1,
        message_bytes_max=UNLIMITED_BYTES,
        inflight_messages_max=number("inflight", 2**31 - 1),
        applying_bytes_max=number("max-committed-size-per-ready", 0),
        applied=number("index", 0),
        pre_vote=flag("prevote"),
        check_quorum=flag("checkquorum"),
        read_only=_READ_ONLY[options.get("read-only", ("safe",))[0]],
        lease_margin_ticks=1,
        step_down_on_removal=flag("step-down-on-removal"),
        disable_conf_change_validation=flag("disable-conf-change-validation"),
    )
