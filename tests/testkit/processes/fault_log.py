"""The fault log: what a test did to the system and when, as events that the collector copies like any other.

A report may use it to say what a failover answered; it never needs it to find one.
"""

import json
import time
from pathlib import Path

_CLOCK_ID = "nemesis"


class FaultLog:
    """A file of JSON lines, one event each, in the form of every other event stream."""

    def __init__(self, path: Path, cluster: str) -> None:
        """Append to `path`; `cluster` names the RocketMQ cluster that the faults are done to."""
        self._path = path
        self._cluster = cluster
        self._sequence = 0

    def injected(self, fault: str, target: str, group: str = "") -> int:
        """Record that a fault begins now; return the UTC nanoseconds that were recorded.

        Args:
            fault: one word, for instance `kill`, `switchover`, `freeze`.
            target: the process or node it is done to.
            group: the broker group that it concerns; empty when it concerns none.
        """
        return self._write("FaultInjected", fault, target, group)

    def healed(self, fault: str, target: str, group: str = "") -> int:
        """Record that a fault ends now; return the UTC nanoseconds that were recorded."""
        return self._write("FaultHealed", fault, target, group)

    def _write(self, kind: str, fault: str, target: str, group: str) -> int:
        self._sequence += 1
        ts_ns = time.time_ns()
        event = {
            "sequence": self._sequence,
            "event_id": f"{_CLOCK_ID}/{kind}/{target}/{ts_ns}",
            "ts_ns": ts_ns,
            "monotonic_ns": time.monotonic_ns(),
            "clock_id": _CLOCK_ID,
            "source": _CLOCK_ID,
            "kind": kind,
            "namespace": "",
            "cluster": self._cluster,
            "group": group,
            "broker_id": None,
            "epoch": None,
            "term": None,
            "index": None,
            "correlation_id": None,
            "attrs": {"fault": fault, "target": target},
        }
        with self._path.open("a", encoding="ascii") as lines:
            lines.write(json.dumps(event) + "\n")
        return ts_ns
