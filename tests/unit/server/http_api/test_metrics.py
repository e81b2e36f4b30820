"""What a scrape of a controller shows before anything happened, and how its labels stay bounded."""

from controller_core.groups.commands import Cause
from controller_core.server.common.metrics import UNKNOWN_GROUP, GroupNumbers, Metrics, NodeNumbers


def _series(metrics: Metrics, name: str) -> dict[str, str]:
    lines = metrics.text().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line.startswith(name))


def _metrics(*groups: str) -> Metrics:
    metrics = Metrics()
    metrics.observe(
        lambda: NodeNumbers(3, 1, 1, 1), lambda: [GroupNumbers("c1", group, 1, 1, 1) for group in groups]
    )
    return metrics


def test_elections_of_every_result_and_cause_are_shown_at_0_for_each_registered_group() -> None:
    found = _series(_metrics("a", "b"), "rmqha_elections_total")
    assert set(found.values()) == {"0.0"}
    for cluster, group in (("", ""), ("c1", "a"), ("c1", "b")):
        for result in ("elected", "kept", "failed"):
            for cause in Cause:
                labels = f'cause="{cause}",cluster="{cluster}",group="{group}",result="{result}"'
                del found[f"rmqha_elections_total{{{labels}}}"]
    assert found == {}


def test_an_election_counts_for_its_group_and_one_of_an_unknown_group_for_none() -> None:
    metrics = _metrics("a")
    metrics.election(("c1", "a"), "failed", Cause.HEARTBEAT_TIMEOUT)
    metrics.election(UNKNOWN_GROUP, "failed", Cause.BROKER_REQUEST)
    counted = [one for one, value in _series(metrics, "rmqha_elections_total").items() if value == "1.0"]
    assert counted == [
        'rmqha_elections_total{cause="BrokerRequest",cluster="",group="",result="failed"}',
        'rmqha_elections_total{cause="HeartbeatTimeout",cluster="c1",group="a",result="failed"}',
    ]


def test_commands_of_every_result_are_shown_at_0() -> None:
    found = _series(_metrics(), "rmqha_controller_commit_total")
    assert found == {
        f'rmqha_controller_commit_total{{result="{result}"}}': "0.0"
        for result in ("applied", "not_leader", "dropped", "lost", "refused")
    }
