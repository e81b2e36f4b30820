"""The definitions on a real API server: it takes them, and its refusals name field and value."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from rocketmq_operator.api.definitions.crds import custom_resource_definitions
from rocketmq_operator.api.names import API_VERSION
from testkit.worlds.cluster_cases import ACCEPTED_CLUSTER_CHANGES, CLUSTER_REFUSALS
from testkit.worlds.crd_cases import ACCEPTED_CHANGES, REFUSALS, RefusedChange, base_spec, merged
from testkit.worlds.member_cases import ACCEPTED_MEMBER_CHANGES, MEMBER_REFUSALS
from testkit.worlds.pod_cases import ACCEPTED_POD_CHANGES, POD_REFUSALS
from testkit.worlds.storage_cases import ACCEPTED_STORAGE_CHANGES, STORAGE_REFUSALS

KUBECONFIG = os.environ.get("RMQHA_KUBECONFIG", "")
Json = dict[str, Any]


def _kubectl(
    *arguments: str, body: Json | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kubectl", "--kubeconfig", KUBECONFIG, *arguments],
        input=None if body is None else json.dumps(body),
        capture_output=True,
        text=True,
        check=check,
        timeout=60,
    )


@pytest.fixture(scope="module")
def definitions() -> None:
    """Apply the definitions once for all cases: no case changes them."""
    every = custom_resource_definitions()
    listed = {"apiVersion": "v1", "kind": "List", "items": every}
    _kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", body=listed)
    names = [f"crd/{definition['metadata']['name']}" for definition in every]
    _kubectl("wait", "--for=condition=Established", *names, "--timeout=30s")


@pytest.fixture
def namespace(definitions: None) -> Iterator[str]:
    name = f"crd-rules-{uuid.uuid4().hex[:8]}"
    _kubectl("create", "namespace", name)
    yield name
    _kubectl("delete", "namespace", name, "--wait=false")


def _object(kind: str, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "probe"}, "spec": spec}


@pytest.mark.parametrize(
    "refusal",
    [*REFUSALS, *MEMBER_REFUSALS, *POD_REFUSALS, *CLUSTER_REFUSALS, *STORAGE_REFUSALS],
    ids=lambda case: case.name,
)
def test_the_api_server_refuses_with_field_and_value(refusal: RefusedChange, namespace: str) -> None:
    valid = merged(base_spec(refusal.kind), refusal.before)
    if refusal.update:
        _kubectl("-n", namespace, "apply", "-f", "-", body=_object(refusal.kind, valid))
    broken = _object(refusal.kind, merged(valid, refusal.change))
    answer = _kubectl("-n", namespace, "apply", "-f", "-", body=broken, check=False)
    assert answer.returncode != 0
    assert [word for word in refusal.words if word not in answer.stderr] == [], answer.stderr


@pytest.mark.parametrize(
    ("name", "kind", "change"),
    [
        *ACCEPTED_CHANGES,
        *ACCEPTED_MEMBER_CHANGES,
        *ACCEPTED_POD_CHANGES,
        *ACCEPTED_CLUSTER_CHANGES,
        *ACCEPTED_STORAGE_CHANGES,
    ],
)
def test_the_api_server_takes_a_change_within_the_rules(
    name: str, kind: str, change: Json, namespace: str
) -> None:
    _kubectl("-n", namespace, "apply", "-f", "-", body=_object(kind, base_spec(kind)))
    taken = _kubectl("-n", namespace, "apply", "-f", "-", body=_object(kind, merged(base_spec(kind), change)))
    assert taken.returncode == 0
