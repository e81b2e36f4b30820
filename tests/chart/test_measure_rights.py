"""What the measuring pod may ask of the cluster, and which of its containers gets the token."""

import pytest

from rocketmq_operator.plan.common.report_servers import parse_report_servers
from slo_pipeline.cli import parser
from testkit.kube.kubectl import KubeError, program
from testkit.products.helm import Json, rendered

pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
PODS = {("pods", "list"), ("pods", "watch")}
ALL = PODS | {("events", "list"), ("events", "watch"), ("nodes/metrics", "get")}


def _rendered(*settings: str) -> list[Json]:
    return rendered("measure.enabled=true", *settings)


def _rights(objects: list[Json], account: str = "demo-measure") -> set[tuple[str, str]]:
    """Return every (resource, verb) of an account, that of the measuring pod if no other is named."""
    bound = {
        (one["roleRef"]["kind"], one["roleRef"]["name"])
        for one in objects
        if one["kind"].endswith("RoleBinding") and one["subjects"][0]["name"] == account
    }
    return {
        (resource, verb)
        for role in objects
        if (role["kind"], role["metadata"]["name"]) in bound
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _measure(objects: list[Json]) -> Json:
    deployments = [one for one in objects if one["kind"] == "Deployment"]
    found: Json = next(one for one in deployments if one["metadata"]["name"] == "demo-measure")
    spec: Json = found["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(
    ("settings", "rights"),
    [
        ((), ALL),
        (("measure.kubelet.enabled=false",), ALL - {("nodes/metrics", "get")}),
        (("measure.kubernetesEvents=false",), PODS | {("nodes/metrics", "get")}),
        (("measure.kubernetesEvents=false", "measure.kubelet.enabled=false"), PODS),
    ],
)
def test_the_rights_are_those_of_what_is_gathered_and_no_more(
    settings: tuple[str, ...], rights: set[tuple[str, str]]
) -> None:
    assert _rights(_rendered(*settings)) == rights


def test_executors_have_an_account_only_on_request_and_it_may_make_pods_and_nothing_else() -> None:
    assert "demo-executors" not in str(_rendered())
    objects = _rendered("measure.report.executors=true")
    verbs = ("create", "get", "list", "watch", "delete", "deletecollection")
    assert _rights(objects, "demo-executors") == {("pods", verb) for verb in verbs}
    (account,) = [
        one
        for one in objects
        if one["metadata"]["name"] == "demo-executors" and one["kind"] == "ServiceAccount"
    ]
    assert account["automountServiceAccountToken"] is False, "a pod must ask for the token by name"
    seen = parse_report_servers(one for one in objects if one["kind"] == "Service")
    assert [one.account for one in seen] == ["demo-executors"]


def test_only_the_collector_gets_a_token_and_it_takes_its_options() -> None:
    pod = _measure(_rendered("measure.kubelet.insecureTLS=true"))
    assert pod["automountServiceAccountToken"] is False
    holders = [
        one["name"]
        for one in pod["containers"]
        if any(mount["mountPath"] == ACCOUNT for mount in one["volumeMounts"])
    ]
    assert holders == ["collector"]
    (account,) = [volume for volume in pod["volumes"] if volume["name"] == "account"]
    assert [next(iter(source)) for source in account["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
    ]
    collector = next(one for one in pod["containers"] if one["name"] == "collector")
    taken = parser("collect").parse_args(collector["args"])
    assert (taken.kubernetes_events, taken.kubelet_metrics) == (["mq"], ["mq"])
    assert (taken.discover, taken.cluster) == (["mq"], "main")
    assert taken.kubelet_insecure_tls is True


@pytest.mark.parametrize(("settings", "found"), [((), ""), (('measure.controllersOf="shared"',), "shared")])
def test_the_collector_follows_the_controllers_that_the_cluster_uses(
    settings: tuple[str, ...], found: str
) -> None:
    containers = _measure(_rendered(*settings))["containers"]
    collector = next(one for one in containers if one["name"] == "collector")
    assert parser("collect").parse_args(collector["args"]).controllers_of == found


@pytest.mark.parametrize("setting", ["measure.kubelet.enable=true", 'measure.kubernetesEvents="yes"'])
def test_a_wrong_value_is_refused(setting: str) -> None:
    with pytest.raises(KubeError, match="kube"):
        _rendered(setting)


def test_canaries_sign_with_a_secret_where_the_values_name_one() -> None:
    def canary(*settings: str) -> Json:
        containers = _measure(_rendered(*settings))["containers"]
        found: Json = next(one for one in containers if one["name"] == "canary-orders")
        return found

    assert "credentials" not in str(canary())
    signing = canary('measure.canaryCredentials="main-broker-credentials"')
    assert "--credentials=/etc/credentials" in signing["args"]
    mount = {"name": "credentials", "mountPath": "/etc/credentials", "readOnly": True}
    assert mount in signing["volumeMounts"]


def test_canaries_dial_in_tls_where_the_values_name_authorities() -> None:
    pod = _measure(_rendered('measure.canaryTrust="main-trust"'))
    canary = next(one for one in pod["containers"] if one["name"] == "canary-orders")
    assert "--cacert=/etc/trust/ca.crt" in canary["args"]
    assert {"name": "trust", "mountPath": "/etc/trust", "readOnly": True} in canary["volumeMounts"]
    assert {"name": "trust", "configMap": {"name": "main-trust"}} in pod["volumes"]
    assert "cacert" not in str(_measure(_rendered()))
