"""The definitions on a real API server: it takes them, and its refusals name field and value."""

from typing import Any

import pytest

from rocketmq_operator.api.names import API_VERSION
from testkit.kube.kubectl import kubectl_now
from testkit.worlds.cluster_cases import ACCEPTED_CLUSTER_CHANGES, CLUSTER_REFUSALS
from testkit.worlds.crd_cases import ACCEPTED_CHANGES, REFUSALS, RefusedChange, base_spec, merged
from testkit.worlds.member_cases import ACCEPTED_MEMBER_CHANGES, MEMBER_REFUSALS
from testkit.worlds.pod_cases import ACCEPTED_POD_CHANGES, POD_REFUSALS
from testkit.worlds.storage_cases import ACCEPTED_STORAGE_CHANGES, STORAGE_REFUSALS
from testkit.worlds.user_cases import ACCEPTED_USER_CHANGES, USER_REFUSALS

Json = dict[str, Any]


def _object(kind: str, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "probe"}, "spec": spec}


@pytest.mark.parametrize(
    "refusal",
    [
        *(*REFUSALS, *MEMBER_REFUSALS, *POD_REFUSALS, *CLUSTER_REFUSALS),
        *(*STORAGE_REFUSALS, *USER_REFUSALS),
    ],
    ids=lambda case: case.name,
)
def test_the_api_server_refuses_with_field_and_value(refusal: RefusedChange, namespace: str) -> None:
    valid = merged(base_spec(refusal.kind), refusal.before)
    if refusal.update:
        kubectl_now("-n", namespace, "apply", "-f", "-", body=_object(refusal.kind, valid))
    broken = _object(refusal.kind, merged(valid, refusal.change))
    answer = kubectl_now("-n", namespace, "apply", "-f", "-", body=broken, check=False)
    assert answer.returncode != 0
    assert [word for word in refusal.words if word not in answer.stderr] == [], answer.stderr


_FOR_NEW_OBJECTS = frozenset(
    {"a user whose name is no object's", "clients in TLS or plain TCP with external name servers"}
)
"""Changes of fields that never change later."""


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
def test_the_api_server_takes_a_change_within_the_rules(
    name: str, kind: str, change: Json, namespace: str
) -> None:
    if name not in _FOR_NEW_OBJECTS:
        kubectl_now("-n", namespace, "apply", "-f", "-", body=_object(kind, base_spec(kind)))
    taken = kubectl_now(
        "-n", namespace, "apply", "-f", "-", body=_object(kind, merged(base_spec(kind), change))
    )
    assert taken.returncode == 0
