"""What a kubelet measured of broker groups' containers, picked out of its page.

Problem: the page of a full node has tens of thousands of lines, a few dozen of which are about brokers; and
its labels name the same container by path, image and runtime id. Shape: lines are filtered as bytes first
(family, namespace), and only the rest is parsed. The labels that remain say which member, container and
network interface; `pod_uid`, read from the cgroup's path, makes the series of a pod of the same name another
one. While a container restarts, the page tells of the old one and of the new: the later measurement counts.
The kubelet measures every 10 to 15 s at moments of its own, which it stamps; the stamps are stored beside the
scrape's time. Never: pure; and the sums that a kubelet makes over a pod or a node are left out, so that
nothing is counted twice.

Source: Kubernetes 1.34, pkg/kubelet/cadvisor (housekeeping interval) and metrics of `/metrics/cadvisor`.
"""

import re
from collections.abc import Collection

from slo_pipeline.collect.kubernetes.members import Members
from slo_pipeline.formats.exposition import ExpositionParser, Sample, Series

CONTAINER_FAMILIES = (
    "container_cpu_usage_seconds_total",
    "container_cpu_cfs_periods_total",
    "container_cpu_cfs_throttled_periods_total",
    "container_memory_working_set_bytes",
    "container_start_time_seconds",
)
NETWORK_FAMILIES = ("container_network_receive_bytes_total", "container_network_transmit_bytes_total")
KEPT_BYTES_MAX = 4_194_304

_BEGINNINGS = tuple(f"{name}{{".encode() for name in CONTAINER_FAMILIES + NETWORK_FAMILIES)
_POD_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_NO_CONTAINER = ("", "POD")


class TooMuchError(Exception):
    """More lines of the page are about our namespaces than any node can have broker pods for."""


class PageFilter:
    """Keeps the lines of one page that may be about broker groups; lines may come in any portions."""

    def __init__(self, namespaces: Collection[str]) -> None:
        self._marks = tuple(f'namespace="{name}"'.encode() for name in namespaces)
        self._kept: list[bytes] = []
        self._bytes = 0

    def add(self, line: bytes) -> None:
        """Look at one line.

        Raises:
            TooMuchError: the kept lines exceed KEPT_BYTES_MAX.
        """
        if not line.startswith(_BEGINNINGS) or not any(mark in line for mark in self._marks):
            return
        self._bytes += len(line)
        if self._bytes > KEPT_BYTES_MAX:
            raise TooMuchError(
                f"more than {KEPT_BYTES_MAX} bytes of lines about {len(self._marks)} namespaces"
            )
        self._kept.append(line)

    def text(self) -> str:
        """Return the kept lines."""
        return b"\n".join(self._kept).decode("utf-8", errors="replace")


def member_samples(parser: ExpositionParser, text: str, members: Members) -> tuple[list[Sample], int]:
    """Return the samples about members of broker groups, and how many lines were not samples.

    There is one per series.
    """
    page = parser.parse(text)
    latest: dict[Series, Sample] = {}
    for sample in page.samples:
        series = _kept_series(sample.series, members)
        if series is None:
            continue
        before = latest.get(series)
        if before is None or (sample.timestamp_ms or 0) >= (before.timestamp_ms or 0):
            latest[series] = Sample(series, sample.value, sample.timestamp_ms)
    return list(latest.values()), page.malformed


def _kept_series(series: Series, members: Members) -> Series | None:
    labels = dict(series.labels)
    namespace, pod = labels.get("namespace", ""), labels.get("pod", "")
    belonging = members.of_pod(namespace, pod)
    if not belonging.group:
        return None
    if series.metric in NETWORK_FAMILIES:
        detail = ("interface", labels.get("interface", ""))
    elif labels.get("container", "") in _NO_CONTAINER or labels.get("cpu", "total") != "total":
        return None
    else:
        detail = ("container", labels["container"])
    uid = _POD_UID.search(labels.get("id", ""))
    kept = (
        ("cluster", belonging.cluster),
        ("group", belonging.group),
        ("namespace", namespace),
        ("pod", pod),
        ("pod_uid", uid.group(1).replace("_", "-") if uid else ""),
        detail,
    )
    return Series(series.metric, kept)
