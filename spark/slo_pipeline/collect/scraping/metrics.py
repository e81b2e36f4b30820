"""The collector's own metrics.

Never: the default registry of prometheus_client is not used; two collectors in one test process would share
it.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SCRAPE_SECONDS_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


class CollectorMetrics:
    """The collector's own series, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.scrapes = self._counter("scrapes", "Scrapes by outcome.", "result")
        self.scrape_seconds = Histogram(
            "rmqha_collector_scrape_duration_seconds",
            "Time of a scrape.",
            buckets=SCRAPE_SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.missed_slots = self._counter("missed_slots", "Scrapes given up because the process was late.")
        self.samples = self._counter("samples", "Samples taken.")
        self.malformed_lines = self._counter("malformed_lines", "Lines of pages that were not samples.")
        self.pages_too_large = self._counter(
            "pages_too_large", "Pages refused because of a bound: bytes, series.", "instance", "bound"
        )
        self.events = self._counter("events", "Events by what became of them.", "result")
        self.segments = self._gauge("segments_written", "Segments written since the start.", "table")
        self.refused_rows = self._gauge(
            "refused_rows", "Rows lost to a full buffer since the start.", "table"
        )
        self.buffered_rows = self._gauge("buffered_rows", "Rows not written yet.", "table")
        self.write_failures = self._gauge("write_failures", "Segments the disk refused since the start.")
        self.cluster_requests = self._counter(
            "cluster_requests", "Requests to the API server and to kubelets.", "what", "result"
        )
        self.targets = self._gauge("targets", "Targets by kind.", "kind")
        self.targets_left_out = self._gauge(
            "targets_left_out", "Targets of pods that nothing is collected from: name, bound.", "why"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"rmqha_collector_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"rmqha_collector_{name}", text, labels, registry=self.registry)
