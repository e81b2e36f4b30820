"""The table of SECURITY.md about stolen tokens is what the chart's Roles allow, no more and no less."""

import re
from typing import Final

import pytest

from rocketmq_operator.plan.common.names import issued_certificates
from testkit.kube.kubectl import program
from testkit.products.helm import Json, rendered
from testkit.tree.files import ROOT
from testkit.worlds.operator import pod_templates

pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
ISSUED = issued_certificates("main")
CLUSTER_SECRETS = ("controller-token", "broker-credentials", "ca", "controller-tls", "member-tls")


ALL_ON: Final = (
    "measure.enabled=true",
    "measure.report.executors=true",
    "nodeAgent.enabled=true",
    "operator.certManager=true",
    'networkPolicies.nodes=[{"ipBlock":{"cidr":"10.0.0.0/8"}}]',
)
_READS: Final = {"get", "list", "watch"}
_HEADING: Final = "### What a stolen token allows"


def _rights(objects: list[Json], account: str) -> dict[str, set[str]]:
    """Return the verbs of an account by resource; a resource of named objects has their names."""
    bound = {
        (one["roleRef"]["kind"], one["roleRef"]["name"])
        for one in objects
        if one["kind"].endswith("RoleBinding") and one["subjects"][0]["name"] == account
    }
    found: dict[str, set[str]] = {}
    for role in objects:
        if (role["kind"], role["metadata"]["name"]) not in bound:
            continue
        for rule in role["rules"]:
            for resource in rule["resources"]:
                names = rule.get("resourceNames")
                shown = f"{resource} {', '.join(names)}" if names else resource
                found.setdefault(shown, set()).update(rule["verbs"])
    return found


def _row(rights: dict[str, set[str]]) -> tuple[str, str, str]:
    """Return the cells of an account's row: reads, writes, deletes."""
    reads, writes, deletes = (
        ", ".join(sorted(name for name, has in rights.items() if has & verbs)) or "nothing"
        for verbs in (_READS, {"create", "update", "patch"}, {"delete", "deletecollection"})
    )
    return reads, writes, deletes


def _table() -> dict[str, tuple[str, str, str]]:
    text = (ROOT / "SECURITY.md").read_text().partition(_HEADING)[2].partition("\n#")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip().split("`")[1]: (row[1].strip(), row[2].strip(), row[3].strip()) for row in rows}


def test_the_table_says_what_each_account_of_the_chart_may_do() -> None:
    objects = rendered(*ALL_ON)
    accounts = [one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"]
    expected = {name.replace("demo", "RELEASE"): _row(_rights(objects, name)) for name in accounts}
    assert _table() == expected


def test_an_authority_of_a_person_is_only_read() -> None:
    rights = _rights(rendered('operator.authoritySecrets=["mine"]'), "demo-operator")
    assert rights["secrets mine"] == {"get"}


def test_certificates_of_cert_manager_are_made_only_if_asked_for_and_their_secrets_only_read() -> None:
    assert "certificates" not in _rights(rendered(), "demo-operator")
    rights = _rights(rendered("operator.certManager=true"), "demo-operator")
    assert rights["certificates"] == {"get", "list", "create", "patch", "delete"}
    assert rights[f"secrets {', '.join(ISSUED)}"] == {"get"}
    anything = _rights(rendered("operator.certManager=true", 'operator.clusters=["*"]'), "demo-operator")
    assert anything["secrets"] == {"create", "get", "patch"}


def test_secrets_of_users_are_read_and_written_by_name() -> None:
    rights = _rights(rendered('operator.userSecrets=["alice-user"]'), "demo-operator")
    assert rights["secrets alice-user"] == {"get", "patch"}


def test_no_account_lists_secrets_and_secrets_are_read_by_name_alone() -> None:
    for role in rendered(*ALL_ON):
        for rule in role.get("rules", ()) if role["kind"].endswith("Role") else ():
            if "secrets" in rule["resources"]:
                assert not {"list", "watch", "*"} & set(rule["verbs"])
                assert rule.get("resourceNames") or rule["verbs"] == ["create"]
            assert "*" not in rule["resources"] + rule["verbs"]


def test_a_cluster_that_is_listed_has_its_secrets_and_any_may_be_allowed() -> None:
    two = _rights(rendered('operator.clusters=["main","orders"]'), "demo-operator")
    secrets = [f"{cluster}-{name}" for cluster in ("main", "orders") for name in CLUSTER_SECRETS]
    assert two[f"secrets {', '.join(secrets)}"] == {"get", "patch"}
    assert _rights(rendered('operator.clusters=["*"]'), "demo-operator")["secrets"] == {
        "create",
        "get",
        "patch",
    }


def test_no_pod_of_a_cluster_has_a_token() -> None:
    for component, pod in pod_templates().items():
        assert pod["spec"]["automountServiceAccountToken"] is False, component


def test_an_executors_account_makes_and_deletes_executors_alone() -> None:
    (policy,) = [one for one in rendered(*ALL_ON) if one["kind"] == "ValidatingAdmissionPolicy"]
    (binding,) = [one for one in rendered(*ALL_ON) if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    (condition,) = policy["spec"]["matchConditions"]
    assert "system:serviceaccount:mq:demo-executors" in condition["expression"]
    (resources,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert set(resources["operations"]) == {"CREATE", "UPDATE", "DELETE"}
    text = " ".join(one["expression"] for one in policy["spec"]["validations"])
    fields = {"component", "secretRef", "secretKeyRef", "serviceAccountName", "hostNetwork", "privileged"}
    assert {field for field in fields if field not in text} == set()
    volumes = {"emptyDir", "configMap", "downwardAPI", "persistentVolumeClaim", "projected"}
    assert set(re.findall(r"has\(volume\.(\w+)\)", text)) == volumes
    assert "!has(one.secret)" in text, "of a projected volume"
