"""A node agent's metrics as Prometheus text."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ha_sidecar.node_agent.flows import FlowKind
from ha_sidecar.node_agent.replaced import Refusal
from ha_sidecar.node_agent.resetting import ResetCounts

_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_WAYS: Final = ("forged", "destroyed")


class NodeAgentMetrics:
    """The metrics of one agent; every series exists from the start."""

    def __init__(self) -> None:
        self._registry: Final = CollectorRegistry()
        registry = self._registry
        name = "rmqha_node_agent_{}".format
        self._resets: Final = Counter(
            name("resets"), "Connections that were reset", ["kind", "way"], registry=registry
        )
        self._unanswered: Final = Counter(
            name("unanswered"), "Connections whose client did not answer", ["kind"], registry=registry
        )
        self._foreign: Final = Counter(
            name("foreign"), "Connections of clients that are not on this node", ["kind"], registry=registry
        )
        self._reset_s: Final = Histogram(
            name("reset_seconds"),
            "From the news of an election to a reset",
            ["kind"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._replaced: Final = Counter(
            name("replaced_masters"), "Masters that were replaced for silence", registry=registry
        )
        self._refusals: Final = Counter(
            name("refusals"), "Elections after which nothing is reset", ["reason"], registry=registry
        )
        self.unreadable_events: Final = Counter(
            name("unreadable_events"), "Events that are not a controller's", registry=registry
        )
        self.failed_passes: Final = Counter(
            name("failed_passes"), "Passes that the kernel refused", registry=registry
        )
        self.streams: Final = Gauge(name("event_streams"), "Event streams that are open", registry=registry)
        self.conntrack: Final = Gauge(
            name("conntrack"),
            "1 if conntrack knows this node's connections, and where Services lead",
            registry=registry,
        )
        self.members: Final = Gauge(
            name("members"), "Members that the agent names in its heartbeats", registry=registry
        )
        self.takers: Final = Gauge(
            name("heartbeat_takers"), "Controllers that take the agent's heartbeats", registry=registry
        )
        for kind in FlowKind:
            self._unanswered.labels(kind)
            self._foreign.labels(kind)
            self._reset_s.labels(kind)
            for way in _WAYS:
                self._resets.labels(kind, way)
        for reason in Refusal:
            self._refusals.labels(reason)

    def text(self) -> bytes:
        """Return the exposition text."""
        return generate_latest(self._registry)

    def count_replaced(self) -> None:
        """Count a master whose connections are dead."""
        self._replaced.inc()

    def count_refusal(self, reason: Refusal) -> None:
        """Count an election after which nothing is reset."""
        self._refusals.labels(reason).inc()

    def count_resets(self, kind: FlowKind, counts: ResetCounts, after_s: float) -> None:
        """Count a batch, and the time from the election's news to its end."""
        self._resets.labels(kind, "forged").inc(counts.forged)
        self._resets.labels(kind, "destroyed").inc(counts.destroyed)
        self._unanswered.labels(kind).inc(counts.unanswered)
        self._foreign.labels(kind).inc(counts.foreign)
        for _ in range(counts.forged + counts.destroyed):
            self._reset_s.labels(kind).observe(after_s)
