"""A companion's metrics as Prometheus text: the newest facts, at the moment of the scrape.

Names are those of the log replica where they mean the same, so that one dashboard shows both. An unknown
value gives no
sample: a zero would read as a fact. Counters count what this process observed, so they stay while the broker
is silent; Prometheus would otherwise miss the increments between its end and its return.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, SlaveFacts, slaves_by_name

_LABELS: Final = ("cluster", "group", "broker_id")
_SLAVE_LABELS: Final = (*_LABELS, "slave")


@dataclass(frozen=True, slots=True)
class CompanionState:
    """Everything that a scrape shows; None for unknown or outdated values."""

    broker: BrokerFacts | None
    group: GroupFacts | None
    lag_bytes: int | None
    controllers_up: bool
    fenced: bool | None = None
    metadata_in_sync: bool | None = None
    truncations: int = 0
    ended_connections: int = 0
    slave_lags_s: Mapping[str, float] = field(default_factory=dict)
    pop_refused: int | None = None
    pop_put_back: int | None = None
    pop_owed: bool | None = None
    held_oneways: int | None = None
    held_oneways_lost: int | None = None
    users_in_sync: bool | None = None
    lease_lapses: int | None = None
    guests: int | None = None
    guest_heartbeats_emptied: int | None = None


_SLAVE_GAUGES: Final[tuple[tuple[str, str, Callable[[CompanionState, SlaveFacts], float]], ...]] = (
    ("slave_ack_offset_bytes", "Ack of a slave", lambda _, slave: slave.ack_offset),
    ("slave_lag_bytes", "What a slave lacks", lambda _, slave: slave.lag_bytes),
    (
        "slave_lag_seconds",
        "For how long a slave has lacked something",
        lambda known, slave: known.slave_lags_s.get(slave.address, 0.0),
    ),
    ("slave_in_sync", "1 while the master counts the slave", lambda _, slave: int(slave.in_sync)),
    (
        "slave_sent_bytes_per_second",
        "Log bytes that a slave is sent",
        lambda _, slave: slave.sent_bytes_per_s,
    ),
)


class CompanionMetrics:
    """The metrics of one companion."""

    def __init__(self, cluster: str, group: str, known: Callable[[], CompanionState]) -> None:
        """Take the group's names and what tells the facts."""
        self.registry: Final = CollectorRegistry()
        self.registry.register(_Gauges(cluster, group, known))

    def text(self) -> bytes:
        """Return the exposition text."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, cluster: str, group: str, known: Callable[[], CompanionState]) -> None:
        self._names: Final = (cluster, group)
        self._known: Final = known
        self._counting_id = ""

    def collect(self) -> Iterable[Metric]:
        known = self._known()
        broker_id = "" if known.broker is None else str(known.broker.broker_id)
        labels = (*self._names, broker_id)
        for name, text, value in _numbers(known):
            if value is not None:
                yield _family(name, text, _LABELS, [(labels, value)])
        slaves = slaves_by_name(known.broker.slaves) if known.broker is not None else {}
        for name, text, of_slave in _SLAVE_GAUGES:
            values = [((*labels, name_), of_slave(known, slave)) for name_, slave in slaves.items()]
            yield _family(name, text, _SLAVE_LABELS, values)
        self._counting_id = broker_id or self._counting_id
        if self._counting_id:
            for name, text, count in _counts(known):
                counter = CounterMetricFamily(f"rmqha_ha_{name}", text, labels=_LABELS)
                counter.add_metric((*self._names, self._counting_id), count)
                yield counter


def _counts(known: CompanionState) -> Iterable[tuple[str, str, int]]:
    yield "truncations", "Cuts of the log's tail that were seen", known.truncations
    if known.lease_lapses is not None:
        yield "lease_lapses", "How often the write lease of a master ran out", known.lease_lapses
    if known.guest_heartbeats_emptied is not None:
        yield (
            "guest_heartbeats_emptied",
            "Heartbeats of guests whose consumers were taken out",
            known.guest_heartbeats_emptied,
        )
    yield "reconnects", "HA connections of slaves that were seen to end", known.ended_connections
    if known.pop_refused is not None and known.pop_put_back is not None:
        yield (
            "pop_revives_refused",
            "Due messages of POP consumers that the master refused",
            known.pop_refused,
        )
        yield "pop_checkpoints_put_back", "Checkpoints of such messages put back", known.pop_put_back
    if known.held_oneways is not None and known.held_oneways_lost is not None:
        yield (
            "held_oneway_sends",
            "One-way sends, commits and rollbacks that came while clients were held",
            known.held_oneways,
        )
        yield "held_oneway_sends_lost", "Those of them that no successor answered", known.held_oneways_lost


def _numbers(known: CompanionState) -> Iterable[tuple[str, str, int | None]]:
    yield "broker_up", "1 while the broker answers", int(known.broker is not None)
    yield "controllers_up", "1 while a controller leads and answers", int(known.controllers_up)
    if known.fenced is not None:
        yield "fenced", "1 while the fence stops the broker's writes", int(known.fenced)
    if known.metadata_in_sync is not None:
        text = "1 while the slave knows all topics, groups and offsets that its master knows"
        yield "metadata_in_sync", text, int(known.metadata_in_sync)
    if known.users_in_sync is not None:
        text = "1 while the slave has all users and rights of its master"
        yield "users_in_sync", text, int(known.users_in_sync)
    if known.guests is not None:
        yield "guests", "Clients that came by the address of a former master", known.guests
    if known.pop_owed is not None:
        yield (
            "pop_revives_owed",
            "1 while due messages of POP consumers wait to be put back",
            int(known.pop_owed),
        )
    if known.broker is not None:
        broker = known.broker
        yield "is_master", "1 while the broker takes itself for the master", int(broker.is_master)
        yield "max_offset_bytes", "End of the log", broker.max_offset
        yield "confirm_offset_bytes", "Least ack of the master's slaves that count", broker.confirm_offset
        yield "log_epoch", "Newest epoch of the broker's log, -1 for none", broker.last_epoch
        yield "lag_bytes", "What the broker lacks of the master's log", known.lag_bytes
        yield "slaves", "Connected slaves, log replicas included", len(broker.slaves)
        yield "received_bytes_per_second", "Log bytes that come from the master", broker.received_bytes_per_s
    if known.group is not None:
        yield "master_epoch", "Master epoch by the controllers", known.group.master_epoch
        yield "sync_state_set_size", "Members of the SyncStateSet", len(known.group.members)
        if known.broker is not None:
            in_sync = known.broker.broker_id in known.group.members
            yield "in_sync", "1 while in the SyncStateSet", int(in_sync)


def _family(
    name: str, text: str, names: tuple[str, ...], values: Sequence[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"rmqha_ha_{name}", text, labels=names)
    for labels, value in values:
        family.add_metric(labels, value)
    return family
