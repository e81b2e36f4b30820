"""A cluster whose certificates cert-manager issues, under load of Java clients in TLS.

The tests follow each other: a first installation that waits for its issuer, renewal, an issuer that is gone,
and the change to the operator's own authority. The cluster and its group are of their own, so that they can
begin in TLS. `testkit.kube.issuing.cert_manager` stands in for cert-manager, in the process of the tests.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from testkit.kube.client_tls import IN_TLS
from testkit.kube.group import KubeGroup
from testkit.kube.issuing.cert_manager import DEFINITIONS, StandInCertManager, definitions, issuer
from testkit.kube.kubectl import Cluster, Json, until
from testkit.kube.pods.load_pod import ONE_OF_EACH_THREAD, LoadPod
from testkit.kube.release import ROCKETMQ_IMAGE, Release, as_shown, shown_commands
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_500),
]

CLUSTER, GROUP, ISSUER = "issued", "signed", "company"
API: Final = "rocketmq-ha.dev/v1alpha1"
OF_CONTROLLERS: Final = f"{CLUSTER}-controller-tls"
OF_MEMBERS: Final = f"{CLUSTER}-member-tls"
SENDS_PER_S: Final = 100
SAID_WITHIN_S: Final = 60.0
READY_WITHIN_S: Final = 420.0
RENEWED_WITHIN_S: Final = 300.0
CHANGED_WITHIN_S: Final = 700.0
"""An authority changes in two waits of five minutes each."""


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def authorities(release: Release, alone: None) -> Iterator[StandInCertManager]:
    """Install the definitions and the right to use them; remove them and the cluster in the end."""
    asyncio.run(_prepare(release.cluster))
    found = StandInCertManager(release.cluster)
    found.new_authority(ISSUER)
    yield found
    asyncio.run(_remove(release.cluster, found))


@pytest.fixture
async def cert_manager(authorities: StandInCertManager) -> AsyncIterator[StandInCertManager]:
    """Let cert-manager work for the time of a test."""
    async with authorities.working():
        yield authorities


@pytest.fixture
async def tls_load(
    release: Release, cert_manager: StandInCertManager, request: pytest.FixtureRequest
) -> AsyncIterator[LoadPod]:
    """Send in TLS, from an unmodified Java producer in a pod of its own."""
    name = f"issued-{request.node.name.removeprefix('test_').replace('_', '-')[:30].rstrip('-')}"
    pod = LoadPod(release.cluster, name, ROCKETMQ_IMAGE, f"{CLUSTER}-nameserver:9876", name)
    await pod.start(LoadSettings(threads=ONE_OF_EACH_THREAD, rate=SENDS_PER_S, jvm=(IN_TLS,)))
    yield pod
    await pod.remove()


async def _prepare(cluster: Cluster) -> None:
    await cluster.apply(*definitions())
    names = [f"crd/{name}" for name in DEFINITIONS]
    await cluster.kubectl("wait", "--for=condition=Established", *names, "--timeout=30s")
    (upgrade,) = shown_commands("Certificates from cert-manager", "docs/operations/tls.md")
    await as_shown(cluster, upgrade.replace("{main}", f"{{main,{CLUSTER}}}"))
    deployment = "deployment/rocketmq-ha-operator"
    await cluster.kubectl("rollout", "status", deployment, "--timeout=120s", timeout_s=130.0)
    main, orders = await cluster.get("rmqc", "main"), await cluster.get("brokergroup", "orders")
    spec = {key: main["spec"][key] for key in ("nameServers", "controllers", "images") if key in main["spec"]}
    tls = {"clients": "Enforcing", "issuerRef": {"name": ISSUER}}
    brokers = {"cluster": CLUSTER, "storage": {"size": "1Gi"}, "resources": orders["spec"]["resources"]}
    await cluster.apply(
        _object("RocketMQCluster", CLUSTER, spec | {"tls": tls}), _object("BrokerGroup", GROUP, brokers)
    )


async def _remove(cluster: Cluster, authorities: StandInCertManager) -> None:
    for what in (f"rmqbg/{GROUP}", f"rmqc/{CLUSTER}"):
        await cluster.kubectl("delete", what, "--ignore-not-found", timeout_s=READY_WITHIN_S)
    mine = f"rocketmq-ha.dev/cluster={CLUSTER}"
    await cluster.kubectl("delete", "pvc", "-l", mine, timeout_s=READY_WITHIN_S)
    fao = "controller.cert-manager.io/fao=true"
    await cluster.kubectl("delete", "secrets", "-l", fao, timeout_s=READY_WITHIN_S)
    names = [f"crd/{name}" for name in DEFINITIONS]
    await cluster.kubectl("delete", *names, "--ignore-not-found", timeout_s=READY_WITHIN_S)


async def _valid(cluster: Cluster) -> tuple[str, str, str]:
    """Return status, reason and message of the condition `CertificatesValid`."""
    found = (await cluster.get("rmqc", CLUSTER)).get("status", {}).get("conditions", [])
    one: Json = next((one for one in found if one["type"] == "CertificatesValid"), {})
    return one.get("status", ""), one.get("reason", ""), one.get("message", "")


async def _texts(cluster: Cluster, secret: str) -> dict[str, str]:
    data = (await cluster.get("secret", secret))["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


async def _pods(cluster: Cluster) -> dict[str, str]:
    found = await cluster.find("pods", f"rocketmq-ha.dev/cluster={CLUSTER}")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


async def _exists(cluster: Cluster, kind: str, name: str) -> bool:
    return name in {one["metadata"]["name"] for one in await cluster.find(kind)}


async def test_a_first_installation_waits_for_its_issuer_and_then_serves_in_tls(
    release: Release, cert_manager: StandInCertManager
) -> None:
    cluster = release.cluster

    async def is_told() -> bool:
        status, reason, message = await _valid(cluster)
        return (status, reason) == ("False", "DoesNotExist") and f"Issuer {ISSUER}" in message

    await until("the status names the missing certificate", is_told, SAID_WITHIN_S, poll_s=1.0)
    assert not await _exists(cluster, "statefulsets", f"{CLUSTER}-controller")
    assert not await _exists(cluster, "secrets", OF_CONTROLLERS)
    await cluster.apply(issuer(ISSUER))
    for what in (f"rmqc/{CLUSTER}", f"rmqbg/{GROUP}"):
        timeout = f"--timeout={READY_WITHIN_S:.0f}s"
        await cluster.kubectl("wait", "--for=condition=Ready", what, timeout, timeout_s=READY_WITHIN_S + 10)
    assert (await _valid(cluster))[:2] == ("True", "Valid")
    authority = cert_manager.issuers[ISSUER].pem
    trust = (await cluster.get("configmap", f"{CLUSTER}-trust"))["data"]
    assert (trust["ca.crt"], trust["clients-tls"]) == (authority, "enforcing")
    assert "tls.key" not in await _texts(cluster, f"{CLUSTER}-ca")


async def test_what_cert_manager_renews_is_served_and_no_pod_restarts(
    release: Release, tls_load: LoadPod
) -> None:
    cluster = release.cluster
    view, pods = await KubeGroup(cluster, GROUP).until_whole(READY_WITHIN_S), await _pods(cluster)
    before = await _texts(cluster, OF_MEMBERS)
    for entry in ("n0", "groups", "nameserver"):
        await cluster.kubectl("delete", "secret", f"{CLUSTER}-issued-{entry}")

    async def is_mounted() -> bool:
        now = await _texts(cluster, OF_MEMBERS)
        mounted = await cluster.shell(view.master, "broker", "cat /etc/rocketmq-tls/tls.crt")
        key = f"group-{GROUP}.crt"
        return now[key] != before[key] and mounted.decode() == now[key]

    await until("the master's pod has the new certificate", is_mounted, RENEWED_WITHIN_S, poll_s=2.0)
    assert (await _texts(cluster, OF_CONTROLLERS))["n0.crt"] == (
        await _texts(cluster, f"{CLUSTER}-issued-n0")
    )["tls.crt"]
    assert await _pods(cluster) == pods
    await tls_load.stop_without_loss(failed_max=0)


async def test_an_issuer_that_is_gone_is_told_and_pods_keep_their_certificates(
    release: Release, cert_manager: StandInCertManager
) -> None:
    cluster = release.cluster
    before, pods = await _texts(cluster, OF_CONTROLLERS), await _pods(cluster)
    await cluster.kubectl("delete", "issuers.cert-manager.io", ISSUER)
    await cluster.kubectl("delete", "secret", f"{CLUSTER}-issued-n1")

    async def is_told() -> bool:
        status, reason, message = await _valid(cluster)
        return (status, reason) == ("False", "DoesNotExist") and f"{CLUSTER}-issued-n1" in message

    # A running cluster tells of an issue that takes longer than two minutes.
    await until("the status names the missing certificate", is_told, RENEWED_WITHIN_S, poll_s=2.0)

    async def has_event() -> bool:
        found = await cluster.find("events.events.k8s.io")
        return any(
            (one["reason"], one["regarding"]["name"]) == ("CertificateNotIssued", CLUSTER) for one in found
        )

    await until("an Event tells it", has_event, SAID_WITHIN_S)
    assert await _texts(cluster, OF_CONTROLLERS) == before
    assert await _pods(cluster) == pods
    await cluster.apply(issuer(ISSUER))

    async def is_valid() -> bool:
        return (await _valid(cluster))[:2] == ("True", "Valid")

    await until("the certificates are valid again", is_valid, RENEWED_WITHIN_S, poll_s=2.0)


async def test_the_cluster_changes_to_its_own_authority_under_load(
    release: Release, tls_load: LoadPod
) -> None:
    cluster = release.cluster
    pods, former = await _pods(cluster), (await _texts(cluster, OF_MEMBERS))["ca.crt"]
    patch = json.dumps({"spec": {"tls": {"issuerRef": None}}})
    await cluster.kubectl("patch", "rmqc", CLUSTER, "--type=merge", f"--patch={patch}")

    async def are_gone() -> bool:
        return await cluster.find("certificates.cert-manager.io") == []

    await until("the Certificates are gone", are_gone, SAID_WITHIN_S)
    bundles = list[str]()

    async def is_own() -> bool:
        bundle = (await _texts(cluster, OF_MEMBERS))["ca.crt"]
        if bundle not in bundles:
            bundles.append(bundle)
        return former not in bundle

    await until("the former authority is forgotten", is_own, CHANGED_WITHIN_S, poll_s=5.0)
    assert any(former in one and one != former for one in bundles), "both were trusted for a while"
    assert "tls.key" in await _texts(cluster, f"{CLUSTER}-ca")
    assert await _pods(cluster) == pods
    await tls_load.stop_without_loss(failed_max=0)
