"""The canary's own series.

Names and buckets are those that reports and alert rules read. Every result is shown at 0 from the start:
Prometheus sees no increase in a series that appears with its first failure.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from slo_pipeline.schemas.segments import READ_RESULTS, SEND_RESULTS

SEND_SECONDS_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class CanaryMetrics:
    """Counters of one canary, in a registry of their own."""

    def __init__(self, group: str) -> None:
        self.registry = CollectorRegistry()
        self._group = group
        self._sends = Counter(
            "rmqha_canary_send", "Sends by result.", ["group", "result"], registry=self.registry
        )
        self._reads = Counter(
            "rmqha_canary_read",
            "Verdicts on acknowledged sends.",
            ["group", "result"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "rmqha_canary_send_duration_seconds",
            "From the intended time to the acknowledgement.",
            ["group"],
            buckets=SEND_SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.missed_slots = Counter(
            "rmqha_canary_missed_slots",
            "Sends never made because this process was late itself.",
            ["group"],
            registry=self.registry,
        ).labels(group)
        self.unread = Gauge(
            "rmqha_canary_unread", "Acknowledged sends without a verdict.", ["group"], registry=self.registry
        ).labels(group)
        for result in SEND_RESULTS:
            self._sends.labels(group, result)
        for result in READ_RESULTS:
            self._reads.labels(group, result)
        self._seconds.labels(group)

    def sent(self, result: str, seconds: float | None) -> None:
        """Count a send; `seconds` from its intended time to the acknowledgement, None without one."""
        self._sends.labels(self._group, result).inc()
        if seconds is not None:
            self._seconds.labels(self._group).observe(seconds)

    def read(self, result: str) -> None:
        """Count a verdict."""
        self._reads.labels(self._group, result).inc()
