"""The replica's metrics as Prometheus text, read from its parts at the moment of the scrape."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SYNC_BUCKETS_S: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_LABELS: Final = ("cluster", "group", "broker_id")


@dataclass(slots=True)
class NoticeCounts:
    """What became of the notices (1008) that came.

    Attributes:
        confirmed: a majority of the controllers told the same.
        unconfirmed: it did not.
        known: nothing in them was new.
        refused: they could not be read.
    """

    confirmed: int = 0
    unconfirmed: int = 0
    known: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaNumbers:
    """The numbers of a scrape; offsets, lag and served bytes in bytes."""

    max_offset: int
    confirm_offset: int
    lag: int
    in_sync: bool
    master_epoch: int
    slaves: int
    served: int
    has_room: bool = True
    notices: NoticeCounts = field(default_factory=NoticeCounts)


class ReplicaMetrics:
    """Counters that parts of the replica raise, and gauges asked for at each scrape."""

    def __init__(self, labels: tuple[str, str, str], numbers: Callable[[], ReplicaNumbers]) -> None:
        """Make the metrics of one replica; `labels` are cluster, group and broker id."""
        self.registry: Final = CollectorRegistry()

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, _LABELS, registry=self.registry).labels(*labels)

        self.reconnects: Final = counter("rmqha_ha_reconnects", "HA connections that ended")
        self.truncations: Final = counter("rmqha_ha_truncations", "Cuts of a diverged tail")
        self.truncated_bytes: Final = counter("rmqha_ha_truncated_bytes", "Bytes cut")
        self.divergences: Final = counter("rmqha_ha_divergences", "Logs that could not be continued")
        self.sync_duration: Final = Histogram(
            "rmqha_ha_fsync_duration_seconds",
            "Time to make written bytes durable",
            _LABELS,
            buckets=SYNC_BUCKETS_S,
            registry=self.registry,
        ).labels(*labels)
        self.registry.register(_Gauges(labels, numbers))

    def text(self) -> bytes:
        """Return the exposition text."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, labels: tuple[str, str, str], numbers: Callable[[], ReplicaNumbers]) -> None:
        self._labels: Final = labels
        self._numbers: Final = numbers

    def collect(self) -> Iterable[Metric]:
        numbers = self._numbers()
        for name, text, value in (
            ("rmqha_ha_max_offset_bytes", "End of the log", numbers.max_offset),
            (
                "rmqha_ha_confirm_offset_bytes",
                "Confirm offset of the master, as sent",
                numbers.confirm_offset,
            ),
            ("rmqha_ha_lag_bytes", "Bytes the master is known to have more", numbers.lag),
            ("rmqha_ha_in_sync", "1 while in the SyncStateSet", int(numbers.in_sync)),
            (
                "rmqha_ha_master_epoch",
                "Master epoch that is followed, -1 before the first",
                numbers.master_epoch,
            ),
            (
                "rmqha_ha_has_room",
                "0 while the disk lacks room and nothing is received",
                int(numbers.has_room),
            ),
            ("rmqha_ha_slaves", "Slaves that this replica serves now", numbers.slaves),
        ):
            family = GaugeMetricFamily(name, text, labels=_LABELS)
            family.add_metric(self._labels, value)
            yield family
        served = CounterMetricFamily("rmqha_ha_served_bytes", "Log bytes sent to slaves", labels=_LABELS)
        served.add_metric(self._labels, numbers.served)
        yield served
        notices = CounterMetricFamily(
            "rmqha_ha_notices", "Notices of a new master, by outcome", labels=(*_LABELS, "outcome")
        )
        for outcome, count in asdict(numbers.notices).items():
            notices.add_metric((*self._labels, outcome), count)
        yield notices
