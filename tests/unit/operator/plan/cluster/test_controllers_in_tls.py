"""Certificates in the life of a cluster: the first ones, moving to TLS and back, renewal, new authorities."""

import base64
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from controller_core.server.settings.certificates import Tls
from controller_core.server.settings.config import load
from controller_core.server.settings.properties import parse
from rocketmq_operator.api.clusters.tls import TlsSpec
from rocketmq_operator.clients.certificates import new_authority
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.pods.observed import ObservedPod
from rocketmq_operator.plan.tls.controllers import VARIABLE, TlsMode, live_mode, tls_mode
from rocketmq_operator.plan.tls.steps import SPREAD
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
SET = "main-controller"
KIND = "RocketMQCluster"


def _texts(world: OperatorWorld, secret: str) -> dict[str, str]:
    data = world.get("Secret", secret)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def _signers(world: OperatorWorld) -> set[bytes]:
    """Return the identifiers of the keys that signed the controllers' certificates."""
    found = set()
    for key, text in _texts(world, f"{SET}-tls").items():
        if key.startswith("n") and key.endswith(".crt"):
            certificate = x509.load_pem_x509_certificate(text.encode())
            extension = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
            found.add(extension.value.key_identifier or b"")
    return found


def _trusted(world: OperatorWorld) -> int:
    return _texts(world, f"{SET}-tls")["ca.crt"].count("BEGIN CERTIFICATE")


def _mode(world: OperatorWorld) -> str:
    return str(live_mode(world.get("StatefulSet", SET)))


async def test_a_new_cluster_has_certificates_before_its_controllers_and_speaks_tls_only() -> None:
    world = OperatorWorld(cluster={})
    await world.settle()
    assert _mode(world) == "enforcing"
    trust = world.get("ConfigMap", "main-trust")["data"]
    assert trust["controllers-https"] == "required"
    assert trust["ca.crt"] == _texts(world, "main-ca")["ca.crt"]
    assert world.condition("CertificatesValid", KIND, "main") == ("True", "Valid")
    world.kube.writes.clear()
    await world.settle()
    assert not world.kube.writes, "a settled cluster is left alone"


async def test_the_start_script_gives_each_controller_its_own_certificate(tmp_path: Path) -> None:
    world = OperatorWorld(cluster={})
    await world.settle()
    certificates = tmp_path / "tls"
    certificates.mkdir()
    for key, text in _texts(world, f"{SET}-tls").items():
        (certificates / key).write_text(text)
    script = world.get("ConfigMap", SET)["data"]["start.sh"]
    own = tmp_path / "own"
    part = script[script.index(f'case "${{{VARIABLE}') : script.index("exec ")]
    part = part.replace(names.TLS_PATH, str(certificates))
    for mode, plain in (("enforcing", "reads"), ("permissive", "all"), ("", "none")):
        text = "controllerDLegerGroup=main\ncontrollerDLegerPeers=n0-a:1;n1-b:1\ncontrollerDLegerSelfId=n1\n"
        own.write_text(text)
        _run(f"set -eu\nid=n1\nown={own}\n{part}", {VARIABLE: mode} if mode else {})
        settings = load(parse(own.read_text()))[0]
        tls = Tls(settings)
        assert settings.http_plain == plain
        peers = tls.peers()
        assert (peers is None) is (not mode)
        if peers is not None:
            assert peers.plain_allowed is (mode == "permissive")
            assert settings.peer_tls_cert_path == settings.tls_server_cert_path == f"{certificates}/n1.crt"


def _run(script: str, env: dict[str, str]) -> None:
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_a_cluster_without_tls_stays_as_it_is_until_it_is_asked_for() -> None:
    world = OperatorWorld(cluster={"tls": {"internal": "Disabled"}})
    await world.settle()
    assert not world.has("Secret", "main-ca")
    births = dict(world.kube.births)
    world.write_cluster({})
    await world.settle()
    assert _mode(world) == "disabled"
    assert births == world.kube.births
    assert world.condition("CertificatesValid", KIND, "main") == ("Unknown", "Disabled")


async def test_a_cluster_moves_to_tls_and_back_by_one_controller_and_one_mode_at_a_time() -> None:
    world = OperatorWorld(cluster={"tls": {"internal": "Disabled"}})
    await world.settle()
    for internal, way in (
        ("Enforced", ["disabled", "permissive", "enforcing"]),
        ("Disabled", ["enforcing", "permissive", "disabled"]),
    ):
        world.write_cluster({"tls": {"internal": internal}})
        modes = [way[0]]
        for _ in range(40):
            before = {name: world.kube.births[name] for name in _pods(world)}
            await world.one_pass()
            world.advance(seconds=1)
            restarted = [name for name in _pods(world) if world.kube.births[name] > before.get(name, 0)]
            assert len(restarted) <= 1
            if _mode(world) != modes[-1]:
                assert {_pod_mode(pod) for pod in _controller_pods(world)} <= {modes[-1], _mode(world)}
                modes.append(_mode(world))
        assert modes == way
        assert {_pod_mode(pod) for pod in _controller_pods(world)} == {way[-1]}
    assert not world.has("ConfigMap", "main-trust")


def test_pods_that_outlived_their_stateful_set_are_heard_while_they_are_replaced() -> None:
    pod = ObservedPod(f"{SET}-0", "uid", "10.0.0.1", ready=True, deleting=False, revision="former")
    assert tls_mode(TlsSpec(), None, [pod]) is TlsMode.PERMISSIVE
    assert tls_mode(TlsSpec(), None, []) is TlsMode.ENFORCING


async def test_certificates_are_renewed_while_the_spec_is_refused() -> None:
    world = OperatorWorld(cluster={})
    await world.settle()
    before = _texts(world, f"{SET}-tls")
    world.write_cluster({"controllers": {"podOverride": {"spec": {"hostNetwork": True}}}})
    world.advance(seconds=timedelta(days=61).total_seconds())
    await world.one_pass()
    assert world.condition("PodsAccepted", KIND, "main") == ("False", "PodRefused")
    assert _texts(world, f"{SET}-tls") != before


def _controller_pods(world: OperatorWorld) -> list[Json]:
    return [pod for pod in world.kube.pods() if pod["metadata"]["name"].startswith(f"{SET}-")]


def _pods(world: OperatorWorld) -> list[str]:
    return [pod["metadata"]["name"] for pod in _controller_pods(world)]


def _pod_mode(pod: Json) -> str:
    return str(live_mode({"spec": {"template": pod}}))


async def test_certificates_are_renewed_before_they_end_and_no_pod_restarts() -> None:
    world = OperatorWorld(cluster={})
    await world.settle()
    births, before = dict(world.kube.births), _texts(world, f"{SET}-tls")
    world.advance(seconds=timedelta(days=59).total_seconds())
    await world.settle()
    assert _texts(world, f"{SET}-tls") == before
    world.advance(seconds=timedelta(days=2).total_seconds())
    await world.settle()
    after = _texts(world, f"{SET}-tls")
    assert all(after[key] != before[key] for key in before if key != "ca.crt")
    assert after["ca.crt"] == before["ca.crt"]
    assert births == world.kube.births


async def test_a_new_authority_is_trusted_before_it_signs_and_the_old_one_after_that() -> None:
    world = OperatorWorld(cluster={})
    await world.settle()
    births, first = dict(world.kube.births), _signers(world)
    seen = [(_signers(world) == first, _trusted(world))]
    world.advance(seconds=timedelta(days=1_650).total_seconds())
    for _ in range(8):
        await world.settle()
        seen.append((_signers(world) == first, _trusted(world)))
        world.advance(seconds=SPREAD.total_seconds() / 2)
    steps = list(dict.fromkeys(seen))
    assert steps == [(True, 1), (True, 2), (False, 2), (False, 1)]
    assert births == world.kube.births


async def test_an_authority_of_a_person_signs_and_its_successor_is_trusted_first() -> None:
    world = OperatorWorld(cluster={"tls": {"authority": {"secretName": "mine"}}})
    for _ in range(3):
        await world.one_pass()
    assert world.condition("CertificatesValid", KIND, "main") == ("False", "AuthorityMissing")
    assert not world.has("StatefulSet", SET)
    _give(world, "one")
    await world.settle()
    first = _signers(world)
    assert _mode(world) == "enforcing"
    _give(world, "two")
    await world.settle()
    assert (_signers(world), _trusted(world)) == (first, 2)
    world.advance(seconds=SPREAD.total_seconds() + 1)
    await world.settle()
    assert len(_signers(world)) == 1
    assert _signers(world) != first


async def test_certificates_that_a_person_deletes_are_made_anew() -> None:
    world = OperatorWorld(cluster={})
    await world.settle()
    first = _signers(world)
    births = dict(world.kube.births)
    world.kube.remove("Secret", "shop", f"{SET}-tls")
    await world.settle()
    assert _signers(world) == first
    world.kube.remove("Secret", "shop", f"{SET}-tls")
    world.kube.remove("Secret", "shop", "main-ca")
    await world.settle()
    assert _signers(world) != first
    assert births == world.kube.births
    assert world.condition("CertificatesValid", KIND, "main") == ("True", "Valid")


@pytest.mark.parametrize("name", ["main-ca", f"{SET}-tls"])
async def test_a_secret_of_somebody_else_is_not_written_over(name: str) -> None:
    world = OperatorWorld(cluster={})
    metadata = {"name": name, "namespace": "shop"}
    world.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"own": "eA=="}})
    for _ in range(3):
        await world.one_pass()
    assert world.get("Secret", name)["data"] == {"own": "eA=="}
    assert world.condition("Ready", KIND, "main") == ("False", "NameTaken")


def _give(world: OperatorWorld, name: str) -> None:
    pair = new_authority(name, timedelta(days=1_000), world.controllers.now)
    data = {"tls.crt": pair.certificate, "tls.key": pair.key}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    metadata = {"name": "mine", "namespace": "shop"}
    world.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded})
