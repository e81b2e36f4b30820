"""Rules of the custom resources, as the operator holds them.

Tests in tests/kube show the CEL twins to a real API server.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from rocketmq_operator.api.access.user import UserSpec
from rocketmq_operator.api.broker_group import ACCESS_CONTROL_KEYS, HARMFUL_KEYS, OWNED_KEYS, BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.consumer_group import ConsumerGroupSpec
from rocketmq_operator.api.proxy import OWNED_PROXY_KEYS
from rocketmq_operator.api.slo_report import SLOReportSpec
from rocketmq_operator.api.topic import TopicSpec
from rocketmq_operator.handlers.observing.clusters_and_groups import InvalidSpecError, parse_spec
from testkit.worlds.cluster_cases import ACCEPTED_CLUSTER_CHANGES, CLUSTER_REFUSALS
from testkit.worlds.crd_cases import ACCEPTED_CHANGES, REFUSALS, RefusedChange, base_spec, merged
from testkit.worlds.member_cases import ACCEPTED_MEMBER_CHANGES, MEMBER_REFUSALS
from testkit.worlds.pod_cases import ACCEPTED_POD_CHANGES, POD_REFUSALS
from testkit.worlds.storage_cases import ACCEPTED_STORAGE_CHANGES, STORAGE_REFUSALS
from testkit.worlds.user_cases import ACCEPTED_USER_CHANGES, USER_REFUSALS

MODELS = {
    "RocketMQCluster": RocketMQClusterSpec,
    "BrokerGroup": BrokerGroupSpec,
    "SLOReport": SLOReportSpec,
    "Topic": TopicSpec,
    "ConsumerGroup": ConsumerGroupSpec,
    "User": UserSpec,
}


@pytest.mark.parametrize(
    "refusal",
    [
        case
        for case in (
            *(*REFUSALS, *MEMBER_REFUSALS, *POD_REFUSALS, *CLUSTER_REFUSALS),
            *(*STORAGE_REFUSALS, *USER_REFUSALS),
        )
        if not case.update
    ],
    ids=lambda case: case.name,
)
def test_a_spec_that_breaks_a_rule_is_refused_with_field_and_value(refusal: RefusedChange) -> None:
    spec = merged(merged(base_spec(refusal.kind), refusal.before), refusal.change)
    with pytest.raises(ValidationError) as refused:
        MODELS[refusal.kind].model_validate(spec)
    text = str(refused.value)
    assert [word for word in refusal.words if word not in text] == []


@pytest.mark.parametrize("kind", MODELS)
def test_the_smallest_spec_is_accepted(kind: str) -> None:
    spec = MODELS[kind].model_validate(base_spec(kind))
    assert spec.model_fields_set == {name for name in type(spec).model_fields if name in base_spec(kind)}


@pytest.mark.parametrize(
    ("name", "kind", "change"),
    [
        *ACCEPTED_CHANGES,
        *ACCEPTED_MEMBER_CHANGES,
        *ACCEPTED_POD_CHANGES,
        *ACCEPTED_CLUSTER_CHANGES,
        *ACCEPTED_STORAGE_CHANGES,
        *ACCEPTED_USER_CHANGES,
    ],
)
def test_a_change_within_the_rules_is_accepted(name: str, kind: str, change: dict[str, Any]) -> None:
    spec = MODELS[kind].model_validate(merged(base_spec(kind), change))
    assert spec.model_dump(by_alias=True, exclude_unset=True).keys() >= change.keys()


@pytest.mark.parametrize("key", OWNED_KEYS)
def test_no_key_that_the_operator_writes_may_be_given(key: str) -> None:
    with pytest.raises(ValidationError, match=f"config.{key} is written by the operator"):
        BrokerGroupSpec.model_validate(base_spec("BrokerGroup") | {"config": {key: "x"}})


@pytest.mark.parametrize("key", ACCESS_CONTROL_KEYS)
def test_no_key_of_access_control_may_be_given(key: str) -> None:
    with pytest.raises(ValidationError, match=f"config.{key} belongs to access control"):
        BrokerGroupSpec.model_validate(base_spec("BrokerGroup") | {"config": {key: "x"}})


@pytest.mark.parametrize(("key", "why"), HARMFUL_KEYS.items())
def test_a_key_that_breaks_failovers_is_refused_with_the_reason(key: str, why: str) -> None:
    with pytest.raises(ValidationError, match=f"HarmfulKey: config.{key} {why}: remove it"):
        BrokerGroupSpec.model_validate(base_spec("BrokerGroup") | {"config": {"aKey": "1", key: "x"}})
    assert "'" not in why, "the reason is a text in CEL"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("minInSyncReplicas ", "1"),
        (" minInSyncReplicas", "1"),
        ("\taclEnable", "true"),
        ("minInSync\\u0052eplicas", "1"),
        ("aclEnab\\le", "true"),
        ("allAckInSyncStateSet:", "false"),
        ("aclEnable=true", "x"),
        ("aclEnable:true", "x"),
        ("zz\nbrokerIP1=6.6.6.6\ncontrollerAddr", "evil:9878"),
        ("zz\raclEnable", "true"),
        ("traceTopicEnable", "true\nallAckInSyncStateSet=false"),
        ("traceTopicEnable", "true\raclEnable=true"),
        ("traceTopicEnable", "true\n"),
        ("zz", "a\x00b"),
        ("zz", "a\tb"),
        ("zz", "a\x7fb"),
        ("zz", "a\x85b"),
        ("a.b", "true"),
        ("1a", "true"),
        ("käse", "true"),
        ("#aclEnable", "true"),
        ("!aclEnable", "true"),
        ("", "true"),
        ("aclEnable\u2003", "true"),
    ],
)
def test_no_entry_may_have_another_key_than_letters_and_digits_or_a_control_character(
    key: str, value: str
) -> None:
    with pytest.raises(ValidationError, match="config"):
        BrokerGroupSpec.model_validate(base_spec("BrokerGroup") | {"config": {key: value}})


@pytest.mark.parametrize("value", ["", " a b ", "a=b:c", "C:\\store\\", "\\u00", "käse", "#x"])
def test_values_of_one_line_are_accepted(value: str) -> None:
    config = {"flushDiskType": value}
    assert BrokerGroupSpec.model_validate(base_spec("BrokerGroup") | {"config": config}).config == config


@pytest.mark.parametrize(
    "name", ["main\nx=y", "../x", "a b", "Main", "-main", "main-", "main\n", "ma:in", "mäin"]
)
@pytest.mark.parametrize("kind", ["BrokerGroup", "Topic", "ConsumerGroup", "User"])
def test_a_cluster_has_a_name_that_a_cluster_can_have(kind: str, name: str) -> None:
    with pytest.raises(ValidationError, match="cluster"):
        MODELS[kind].model_validate(base_spec(kind) | {"cluster": name})


@pytest.mark.parametrize("key", ["proxy_mode", "proxy-mode", " proxyMode"])
def test_no_key_of_a_proxy_has_other_characters_than_letters_and_digits(key: str) -> None:
    with pytest.raises(ValidationError, match=f"proxy.config has the key '{key}' with value 'x'"):
        RocketMQClusterSpec.model_validate({"proxy": {"config": {key: "x"}}})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": {"aKey": "a\tb"}}, ("spec.config.aKey", r"a\tb")),
        ({"config": {"a b": "c"}}, ("config", "'a b'", "'c'")),
        ({"cluster": "a b"}, ("spec.cluster", "'a b'")),
    ],
)
def test_the_operator_names_field_and_value_of_an_older_spec(
    change: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        parse_spec(BrokerGroupSpec, {"spec": base_spec("BrokerGroup") | change})
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("key", OWNED_PROXY_KEYS)
def test_no_key_of_a_proxy_that_the_operator_writes_may_be_given(key: str) -> None:
    with pytest.raises(ValidationError, match=f"proxy.config.{key} is written by the operator"):
        RocketMQClusterSpec.model_validate({"proxy": {"config": {key: "x"}}})


def test_a_misspelt_field_is_refused_and_not_without_effect() -> None:
    with pytest.raises(ValidationError, match="replica"):
        BrokerGroupSpec.model_validate(base_spec("BrokerGroup") | {"replica": 3})


def test_a_group_of_one_broker_needs_to_say_async() -> None:
    spec = BrokerGroupSpec.model_validate(base_spec("BrokerGroup") | {"replicas": 1, "durability": "Async"})
    assert spec.replicas == 1
