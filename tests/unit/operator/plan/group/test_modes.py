"""The examples of docs/reference/modes.md.

A command there applies each, and the operator gives its brokers the settings of the mode.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.proxy import ProxyMode
from testkit.worlds.operator import OperatorWorld
from testkit.worlds.pod_templates import broker_settings

ROOT = Path(__file__).parents[5]
MODES = ROOT / "examples" / "modes"
PAGE = ROOT / "docs" / "reference" / "modes.md"
Json = dict[str, Any]


def _documents(mode: str, kind: str) -> dict[str, Json]:
    """Return the specs of a kind that a mode's example has, by name."""
    documents = yaml.safe_load_all((MODES / f"{mode}.yaml").read_text())
    return {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == kind}


def _brokers(mode: str) -> dict[str, dict[str, str]]:
    """Return broker.conf of each group of an example."""
    return {name: broker_settings(spec, name) for name, spec in _documents(mode, "BrokerGroup").items()}


def test_every_example_of_a_mode_is_in_the_table_and_applied_by_a_command() -> None:
    text = PAGE.read_text()
    modes = {path.name for path in MODES.iterdir()}
    assert set(re.findall(r"\(\.\./\.\./examples/modes/([a-z-]+\.yaml)\)", text)) == modes
    assert set(re.findall(r"^kubectl .*-f examples/modes/([a-z-]+\.yaml)$", text, re.MULTILINE)) == modes


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("single-replica", ("ASYNC_MASTER", "false", "1")),
        ("several-groups", ("ASYNC_MASTER", "false", "1")),
        ("asynchronous", ("ASYNC_MASTER", "false", "1")),
        ("synchronous", ("SYNC_MASTER", "true", "2")),
    ],
)
def test_an_acknowledgement_means_what_the_mode_says(mode: str, expected: tuple[str, ...]) -> None:
    for conf in _brokers(mode).values():
        assert (conf["brokerRole"], conf["allAckInSyncStateSet"], conf["minInSyncReplicas"]) == expected


def test_groups_without_slaves_are_several_and_flush_before_they_acknowledge() -> None:
    groups = _brokers("several-groups")
    assert len(groups) == 2
    assert {conf["flushDiskType"] for conf in groups.values()} == {"SYNC_FLUSH"}
    assert {spec["replicas"] for spec in _documents("several-groups", "BrokerGroup").values()} == {1}


@pytest.mark.parametrize("mode", [ProxyMode.LOCAL, ProxyMode.CLUSTER])
def test_an_example_with_proxies_asks_for_them(mode: ProxyMode) -> None:
    (spec,) = _documents(f"proxy-{mode.lower()}", "RocketMQCluster").values()
    assert RocketMQClusterSpec.model_validate(spec).proxy.mode is mode


def test_the_page_names_the_defaults_of_the_field() -> None:
    cells = re.findall(r"^\| `(\w+)` \| (\S.*?) \| ", PAGE.read_text(), re.MULTILINE)
    written = {name: value.strip("`") for name, value in cells}
    proxy = RocketMQClusterSpec().proxy
    assert written == {
        "mode": str(proxy.mode),
        "replicas": str(proxy.replicas),
        "resources": f"{{cpu: {proxy.resources.cpu}, memory: {proxy.resources.memory}}}",
        "config": "none",
    }


@pytest.mark.parametrize(("behind", "ready"), [(2, ("True", "Serving")), (3, ("False", "TooFewInSync"))])
async def test_a_group_is_ready_while_as_many_members_as_its_number_are_in_sync(
    behind: int, ready: tuple[str, str]
) -> None:
    spec = {"durability": "Quorum", "replicas": 5, "inSyncReplicas": 3, "logReplicas": 0}
    world = OperatorWorld(spec)
    await world.settle()
    world.controllers.behind |= {f"orders-{ordinal}" for ordinal in range(1, 1 + behind)}
    await world.one_pass()
    assert world.condition("Ready") == ready
