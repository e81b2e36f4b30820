"""The numbers a node shows at /metrics, in a registry of its own.

Counters are raised where things happen; gauges are read at the moment of a scrape from what the node knows
then, by one collector, so that a gauge can never be stale and costs nothing between scrapes. Labels are
bounded: request codes outside the protocol count as `other`, groups are as many as the cluster has. Elections
and commands are shown at 0 before the first of each kind: Prometheus sees no increase in a series that
appears with its first failure.

Names are those of the project's agreement on metrics: prefix `rmqha_`, unit as suffix.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from controller_core.groups.commands import Cause
from controller_core.remoting.codes import RequestCode, ResponseCode

ROLE_UNKNOWN = 0
ROLE_CANDIDATE = 1
ROLE_FOLLOWER = 2
ROLE_LEADER = 3

LOG_STATES = ("ok", "full", "failed")
ELECTION_RESULTS = ("elected", "kept", "failed")
COMMIT_RESULTS = ("applied", "not_leader", "dropped", "lost", "refused")
FOLLOWER_READ_RESULTS = ("served", "no_leader", "lags", "late", "full", "new_master")
UNKNOWN_GROUP = ("", "")
"""Cluster and group labels of elections in an unregistered group."""
_GROUP_LABELS = ("cluster", "group")


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """What the gauges of one broker group show."""

    cluster: str
    group: str
    master_epoch: int
    sync_state_set_size: int
    replicas: int


@dataclass(frozen=True, slots=True)
class PortNumbers:
    """Connections of the remoting port.

    Attributes:
        open: now.
        refused: connections refused since the start: too many, plain where TLS is required, or without a
            handshake.
        broken: closed since the start for invalid bytes, or because the peer did not read.
    """

    open: int
    refused: int
    broken: int = 0


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """What the gauges of the node show.

    Attributes:
        role: one of the `ROLE_` numbers.
        log_state: one of `LOG_STATES`.
        peer_refusals: connections closed on the peers' port for invalid messages, by reason.
        skipped_entries: committed entries that this process has passed over because no node can apply them.
    """

    role: int
    term: int
    commit_index: int
    applied_index: int
    voters: int = 0
    learners: int = 0
    log_state: str = "ok"
    skipped_entries: int = 0
    port: PortNumbers = PortNumbers(0, 0)
    peer_refusals: Mapping[str, int] = field(default_factory=dict)


class Metrics:
    """All metrics of one node; `text()` is what a scrape gets."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # else each counter has a second series; untyped upstream
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests = _Counts[tuple[int, int | None]](
            "rmqha_requests", "Remoting requests by code and result.", ("code", "result"), _request_labels
        )
        self._registry.register(self._requests)
        self._elections = _Elections()
        self._registry.register(self._elections)
        self._commits = _Counts[str](
            "rmqha_controller_commit",
            "Commands proposed by this node.",
            ("result",),
            lambda result: (result,),
        )
        self._follower_reads = _Counts[str](
            "rmqha_controller_follower_reads",
            "Reads that came while another node led: served here, or why the leader was asked instead.",
            ("result",),
            lambda result: (result,),
        )
        for result in FOLLOWER_READ_RESULTS:
            self._follower_reads.count(result, 0)
        self._registry.register(self._follower_reads)
        self._told_epochs_ignored = Counter(
            "rmqha_controller_told_epochs_ignored",
            "Master epochs told by members that were too far above the recorded one to be true.",
            registry=self._registry,
        )
        for result in COMMIT_RESULTS:
            self._commits.count(result, 0)
        self._registry.register(self._commits)

    def observe(self, node: Callable[[], NodeNumbers], groups: Callable[[], Iterable[GroupNumbers]]) -> None:
        """Show the gauges of the node and its groups, read by these functions at each scrape."""
        self._elections.groups = groups
        self._registry.register(_Gauges(node, groups))

    def request(self, code: int, response_code: int | None) -> None:
        """Count one request; `response_code` None is a oneway."""
        self._requests.count((code if code in _CODES else _OTHER, response_code))

    def election(self, group: tuple[str, str], result: str, cause: Cause) -> None:
        """Count one election.

        Args:
            group: cluster and name, or `UNKNOWN_GROUP`.
            result: one of `ELECTION_RESULTS`.
            cause: why it started.
        """
        self._elections.count(group, result, cause)

    def told_epoch_ignored(self) -> None:
        """Count one member whose told master epoch an election ignored."""
        self._told_epochs_ignored.inc()

    def commit(self, result: str) -> None:
        """Count one proposed command.

        `applied`, `not_leader`, `dropped`, `lost` or `refused` as too large.
        """
        self._commits.count(result)

    def follower_read(self, result: str) -> None:
        """Count one read that came while another node led; `result` is one of `FOLLOWER_READ_RESULTS`."""
        self._follower_reads.count(result)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


_CODES = frozenset(int(code) for code in RequestCode)
_OTHER: Final = -1
_Kind = TypeVar("_Kind")


class _Counts(Collector, Generic[_Kind]):
    """Counts in a plain dict, a tenth of what a labelled `Counter` costs.

    Only on the event loop, which answers scrapes too.
    """

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], values: Callable[[_Kind], tuple[str, ...]]
    ) -> None:
        """Describe the counter.

        Args:
            name: of the family, without `_total`.
            text: its help.
            labels: their names.
            values: the labels of a kind; several kinds may have the same. The code that counts must bound the
                number of kinds.
        """
        self._name, self._text, self._labels, self._values = name, text, labels, values
        self._counts: dict[_Kind, int] = {}

    def count(self, kind: _Kind, by: int = 1) -> None:
        """Count one of a kind; by 0, show it before the first."""
        self._counts[kind] = self._counts.get(kind, 0) + by

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Give the counts of now."""
        totals: dict[tuple[str, ...], int] = {}
        for kind, count in self._counts.items():
            values = self._values(kind)
            totals[values] = totals.get(values, 0) + count
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, total in totals.items():
            family.add_metric(values, total)
        yield family


class _Elections(Collector):
    """Counts of elections by group; unregistered groups are not shown."""

    def __init__(self) -> None:
        self.groups: Callable[[], Iterable[GroupNumbers]] = tuple
        self._counts: dict[tuple[tuple[str, str], str, str], int] = {}

    def count(self, group: tuple[str, str], result: str, cause: str) -> None:
        """Count one election."""
        kind = (group, result, cause)
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Give the counts of now."""
        family = CounterMetricFamily(
            "rmqha_elections",
            "Elections proposed by this node as leader.",
            labels=(*_GROUP_LABELS, "result", "cause"),
        )
        for key in [UNKNOWN_GROUP, *((group.cluster, group.group) for group in self.groups())]:
            for result in ELECTION_RESULTS:
                for cause in Cause:
                    family.add_metric((*key, result, cause), self._counts.get((key, result, cause), 0))
        yield family


def _request_labels(kind: tuple[int, int | None]) -> tuple[str, str]:
    code, response_code = kind
    return ("other" if code == _OTHER else str(code), _result(response_code))


def _result(response_code: int | None) -> str:
    match response_code:
        case None:
            return "oneway"
        case ResponseCode.SUCCESS:
            return "success"
        case ResponseCode.CONTROLLER_NOT_LEADER:
            return "not_leader"
        case ResponseCode.SYSTEM_ERROR:
            return "error"
        case ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return "not_supported"
        case _:
            return "refused"


class _Gauges(Collector):
    """Reads the gauges at the moment of a scrape."""

    def __init__(self, node: Callable[[], NodeNumbers], groups: Callable[[], Iterable[GroupNumbers]]) -> None:
        self._node = node
        self._groups = groups

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """Yield one family a gauge."""
        node = self._node()
        for name, text, value in (
            ("role", "0 unknown, 1 candidate, 2 follower, 3 leader.", node.role),
            ("term", "Raft's term.", node.term),
            ("commit_index", "Raft's commit index.", node.commit_index),
            ("applied_index", "Index of the last applied entry.", node.applied_index),
            ("voters", "Controllers that vote.", node.voters),
            ("learners", "Controllers that receive the log and do not vote.", node.learners),
        ):
            yield GaugeMetricFamily(f"rmqha_controller_{name}", text, value=value)
        yield CounterMetricFamily(
            "rmqha_controller_skipped_entries",
            "Committed log entries without effect, since no node can apply them.",
            value=node.skipped_entries,
        )
        yield from _port_families(node.port)
        refusals = CounterMetricFamily(
            "rmqha_peer_refused_messages",
            "Connections of the peers' port closed for invalid messages, by reason.",
            labels=("reason",),
        )
        for reason, count in sorted(node.peer_refusals.items()):
            refusals.add_metric((reason,), count)
        yield refusals
        log_state = GaugeMetricFamily(
            "rmqha_controller_log_state", "1 for the state that the log on disk is in.", labels=("state",)
        )
        for state in LOG_STATES:
            log_state.add_metric((state,), float(state == node.log_state))
        yield log_state
        epoch = GaugeMetricFamily(
            "rmqha_group_master_epoch", "Master epoch of a broker group.", labels=_GROUP_LABELS
        )
        in_sync = GaugeMetricFamily(
            "rmqha_group_sync_state_set_size", "Members of the SyncStateSet.", labels=_GROUP_LABELS
        )
        replicas = GaugeMetricFamily("rmqha_group_replicas", "Registered members.", labels=_GROUP_LABELS)
        for group in self._groups():
            labels = (group.cluster, group.group)
            epoch.add_metric(labels, group.master_epoch)
            in_sync.add_metric(labels, group.sync_state_set_size)
            replicas.add_metric(labels, group.replicas)
        yield from (epoch, in_sync, replicas)


def _port_families(port: PortNumbers) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
    yield GaugeMetricFamily(
        "rmqha_remoting_connections", "Connections of the remoting port that are open.", value=port.open
    )
    yield CounterMetricFamily(
        "rmqha_remoting_refused_connections",
        "Connections refused: too many, plain where TLS is required, or without a handshake.",
        value=port.refused,
    )
    yield CounterMetricFamily(
        "rmqha_remoting_broken_connections",
        "Connections closed for bytes that are not a frame, or because the peer did not read.",
        value=port.broken,
    )
