"""The names that two resources of one namespace can both need, and no others."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.plan.common.claimed_names import names_of_cluster, names_of_group, names_of_report
from rocketmq_operator.plan.common.ownership import ClaimedNames

Json = dict[str, Any]
GROUP: Json = {"cluster": "main", "storage": {"size": "1Gi"}, "replicas": 3, "logReplicas": 3}
CLUSTER: Json = {"proxy": {"mode": "Cluster"}, "controllers": {"replicas": 5}}

SUFFIXES = [
    "log",
    "0",
    "1",
    "log-0",
    "controller",
    "controller-0",
    "nameserver",
    "nameserver-1",
    "proxy",
    "objectives",
]
CLAIMS: dict[str, Callable[[str], ClaimedNames]] = {
    "group": lambda name: names_of_group(name, BrokerGroupSpec.model_validate(GROUP)),
    "cluster": lambda name: names_of_cluster(name, RocketMQClusterSpec.model_validate(CLUSTER)),
    "report": names_of_report,
}
SHARED = {
    ("group", "group"): {"log", "0", "1", "log-0"},
    ("group", "cluster"): {"controller", "controller-0", "nameserver", "nameserver-1", "proxy"},
    ("group", "report"): {"objectives"},
}


@pytest.mark.parametrize(("longer", "shorter"), list(itertools.product(CLAIMS, CLAIMS)), ids="-".join)
def test_only_these_names_of_two_resources_meet(longer: str, shorter: str) -> None:
    met = {suffix for suffix in SUFFIXES if CLAIMS[longer](f"a-{suffix}").keys & CLAIMS[shorter]("a").keys}
    assert met == SHARED.get((longer, shorter), set())


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(CLAIMS, 2)), ids="-".join)
def test_resources_of_two_kinds_may_have_the_same_name(one: str, other: str) -> None:
    assert CLAIMS[one]("a").keys & CLAIMS[other]("a").keys == set()
