"""Certificates that cert-manager issues: the first ones, renewal, other authorities, and trouble."""

import base64
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from cryptography import x509

from rocketmq_operator.clients.api import KindUnknownError, PeerUnavailableError, RequestRefusedError
from rocketmq_operator.clients.certificates import new_authority, split
from rocketmq_operator.plan.tls.steps import SPREAD
from testkit.worlds.issuing import ISSUER, IssuingWorld, asked

Json = dict[str, Any]
KIND = "RocketMQCluster"
CONTROLLERS = "main-controller-tls"
MEMBERS = "main-member-tls"
N0 = "main-issued-n0"
LAG = timedelta(minutes=4)
"""Less than `SPREAD`: a process may have what was in its Secret so long ago."""


def condition(world: IssuingWorld, type_: str = "CertificatesValid") -> tuple[str, str, str]:
    found = next(one for one in world.status(KIND, "main")["conditions"] if one["type"] == type_)
    return found["status"], found["reason"], found["message"]


async def passes(world: IssuingWorld, count: int = 4) -> None:
    for _ in range(count):
        await world.one_pass()
        world.advance(seconds=1)


async def settled(tls: Json | None = None) -> IssuingWorld:
    world = IssuingWorld(tls)
    await world.settle()
    return world


class Handshakes:
    """What processes showed and trusted, to check that each was understood by each other one."""

    def __init__(self, world: IssuingWorld) -> None:
        self._world = world
        self._seen: list[tuple[Any, frozenset[str], frozenset[str]]] = []

    def note(self) -> None:
        """Note what the Secrets of pods hold now."""
        for secret in (CONTROLLERS, MEMBERS):
            if self._world.has("Secret", secret):
                texts = self._world.texts(secret)
                trusted = frozenset(split(texts["ca.crt"]))
                shown = {_signer(text, trusted) for key, text in texts.items() if _is_own(key)}
                self._seen.append((self._world.controllers.now, frozenset(shown), trusted))

    def check(self) -> None:
        """Fail if one process did not trust what another one showed, both at most `LAG` behind."""
        for when, shown, _ in self._seen:
            for other, _, trusted in self._seen:
                if abs(when - other) <= LAG:
                    assert shown <= trusted, f"{when} and {other}"


def _is_own(key: str) -> bool:
    return key.endswith(".crt") and key != "ca.crt"


def _signer(text: str, trusted: Iterable[str]) -> str:
    found = x509.load_pem_x509_certificate(text.encode())
    key_id = found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    for one in trusted:
        authority = x509.load_pem_x509_certificate(one.encode())
        own = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
        if own == key_id:
            return one
    return "nobody who is trusted"


async def test_a_new_cluster_gets_its_certificates_from_cert_manager() -> None:
    world = await settled()
    assert world.certificates() == [f"main-issued-n{number}" for number in range(5)]
    certificate = world.get("Certificate", N0)
    host = "main-controller-0.main-controller.shop.svc"
    assert certificate["spec"] == {
        "secretName": N0,
        "dnsNames": ["localhost", host],
        "ipAddresses": ["127.0.0.1"],
        "usages": ["digital signature", "server auth", "client auth"],
        "duration": "2160h0m0s",
        "renewBefore": "720h0m0s",
        "privateKey": {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"},
        "issuerRef": {"name": ISSUER, "kind": "Issuer", "group": "cert-manager.io"},
    }
    assert certificate["metadata"]["ownerReferences"][0]["name"] == "main"
    assert certificate["metadata"]["labels"]["rocketmq-ha.dev/cluster"] == "main"
    texts = world.texts(CONTROLLERS)
    assert texts["n0.crt"] == world.texts(N0)["tls.crt"]
    assert texts["n0.key"] == world.texts(N0)["tls.key"]
    assert world.hosts(CONTROLLERS, "n0") == {host, "localhost", "127.0.0.1"}
    authority = world.cert_manager.issuers[ISSUER].pem
    assert texts["ca.crt"] == world.get("ConfigMap", "main-trust")["data"]["ca.crt"] == authority
    assert "tls.key" not in world.texts("main-ca"), "cert-manager has the key of the authority"
    assert condition(world)[:2] == ("True", "Valid")
    assert world.status(KIND, "main")["issuer"] == f"Issuer {ISSUER}"
    world.kube.writes.clear()
    await world.settle()
    assert not world.kube.writes, "a settled cluster is left alone"


async def test_members_of_all_groups_share_a_certificate_and_the_others_have_their_own() -> None:
    world = await settled(asked(ISSUER, clients="Permissive"))
    await world.settle()
    assert {"main-issued-groups", "main-issued-nameserver"} <= set(world.certificates())
    texts = world.texts(MEMBERS)
    assert texts["group-orders.crt"] == world.texts("main-issued-groups")["tls.crt"]
    assert texts["nameserver.crt"] == world.texts("main-issued-nameserver")["tls.crt"]
    assert {"orders-0", "orders.shop.svc"} <= world.hosts(MEMBERS, "group-orders")
    assert "orders-0" not in world.hosts(MEMBERS, "nameserver")
    assert world.get("ConfigMap", "main-trust")["data"]["clients-tls"] == "permissive"


async def test_a_first_installation_waits_and_says_what_it_waits_for() -> None:
    world = IssuingWorld(has_issuer=False)
    await passes(world)
    assert not world.has("StatefulSet", "main-controller")
    assert not world.has("Secret", "main-ca")
    status, reason, message = condition(world)
    assert (status, reason) == ("False", "DoesNotExist")
    assert message.startswith(f"Certificate {N0} of Issuer {ISSUER}: ")
    assert condition(world, "Ready")[:2] == ("False", "CertificatesPending")
    assert "CertificateNotIssued" not in dict(world.events()), "cert-manager may just need a moment"
    world.advance(seconds=180)
    await passes(world)
    assert condition(world, "Ready")[:2] == ("False", "CertificateNotIssued")
    assert [reason for reason, _ in world.events()].count("CertificateNotIssued") == 1
    world.make_issuer(ISSUER)
    await world.settle()
    assert condition(world)[:2] == ("True", "Valid")


async def test_half_of_the_certificates_is_not_enough() -> None:
    world = IssuingWorld(has_issuer=False)
    await passes(world)
    world.make_issuer(ISSUER)
    world.kube.objects["Certificate", "shop", "main-issued-n4"]["spec"]["issuerRef"]["name"] = "other"
    world.cert_manager.work(world.controllers.now)
    assert world.has("Secret", N0)
    assert not world.has("Secret", "main-issued-n4")
    await super(IssuingWorld, world).one_pass()
    assert not world.has("Secret", CONTROLLERS)


async def test_what_cert_manager_renews_reaches_pods_without_a_restart() -> None:
    world = await settled(asked(ISSUER, clients="Permissive"))
    await world.settle()
    births, before = dict(world.kube.births), world.texts(CONTROLLERS) | world.texts(MEMBERS)
    world.advance(seconds=timedelta(days=59).total_seconds())
    await world.settle()
    assert world.texts(CONTROLLERS) | world.texts(MEMBERS) == before
    world.advance(seconds=timedelta(days=2).total_seconds())
    await world.settle()
    after = world.texts(CONTROLLERS) | world.texts(MEMBERS)
    assert all(after[key] != before[key] for key in before if key != "ca.crt")
    assert after["ca.crt"] == before["ca.crt"]
    assert births == world.kube.births


async def test_a_new_group_gets_a_certificate_with_its_names() -> None:
    world = await settled(asked(ISSUER, clients="Permissive"))
    await world.settle()
    world.write_group({"replicas": 5})
    for _ in range(3):
        await world.settle()
    assert "orders-4.shop.svc" in world.hosts(MEMBERS, "group-orders")


async def test_another_authority_of_the_issuer_is_trusted_before_its_certificates_are_shown() -> None:
    world = await settled(asked(ISSUER, clients="Enforcing"))
    await world.settle()
    births, handshakes = dict(world.kube.births), Handshakes(world)
    first = world.cert_manager.issuers[ISSUER].pem
    second = world.make_issuer(ISSUER).pem
    await world.settle()
    assert split(world.texts("main-ca")["ca.crt"]) == [first], "cert-manager renews nothing because of it"
    world.kube.remove("Secret", "shop", N0)
    for _ in range(8):
        handshakes.note()
        await world.settle()
        world.advance(seconds=SPREAD.total_seconds() / 4)
    assert split(world.texts("main-ca")["ca.crt"]) == [second, first], "most certificates are of the first"
    assert world.texts(CONTROLLERS)["n0.crt"] == world.texts(N0)["tls.crt"]
    world.advance(seconds=timedelta(days=61).total_seconds())
    for _ in range(8):
        handshakes.note()
        await world.settle()
        world.advance(seconds=SPREAD.total_seconds() / 4)
    assert split(world.texts("main-ca")["ca.crt"]) == [second]
    handshakes.check()
    assert births == world.kube.births


@pytest.mark.parametrize(
    "way",
    [
        [{}, asked(ISSUER), {}],
        [asked(ISSUER), {"authority": {"secretName": "mine"}}, asked(ISSUER)],
        [asked(ISSUER), asked("other"), asked(ISSUER)],
        [{"authority": {"secretName": "mine"}}, asked("other"), {}],
    ],
)
async def test_a_serving_cluster_changes_who_signs_and_every_handshake_holds(way: list[Json]) -> None:
    world = IssuingWorld(way[0] | {"clients": "Enforcing"})
    world.make_issuer("other")
    _give(world, "mine")
    await world.settle()
    await world.settle()
    births, handshakes = dict(world.kube.births), Handshakes(world)
    for former, tls in pairwise(way):
        shown = world.texts(CONTROLLERS)
        world.write_cluster({"tls": tls | {"clients": "Enforcing"}})
        for _ in range(12):
            for _ in range(3):
                await world.one_pass()
                handshakes.note()
            world.advance(seconds=SPREAD.total_seconds() / 3)
        assert all(text != shown[key] for key, text in world.texts(CONTROLLERS).items()), former
        assert len(split(world.texts(MEMBERS)["ca.crt"])) == 1
        assert bool(world.certificates()) is ("issuerRef" in tls)
        assert condition(world)[:2] == ("True", "Valid")
    handshakes.check()
    assert births == world.kube.births


async def test_certificates_are_deleted_when_the_field_goes_and_tls_ends() -> None:
    world = await settled()
    world.write_cluster({"tls": {"internal": "Disabled"}})
    for _ in range(3):
        await world.settle()
    assert world.certificates() == []
    assert world.status(KIND, "main").get("issuer", "") == ""


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (KindUnknownError("no kind Certificate"), "CertManagerMissing"),
        (RequestRefusedError("403"), "CertManagerNotAllowed"),
    ],
)
async def test_without_cert_manager_a_new_cluster_waits_and_a_serving_one_goes_on(
    refusal: PeerUnavailableError, reason: str
) -> None:
    world = IssuingWorld()
    world.refusal = refusal
    await passes(world)
    assert world.certificates() == []
    assert not world.has("StatefulSet", "main-controller")
    assert condition(world)[:2] == ("False", reason)
    assert condition(world, "Ready")[:2] == ("False", reason)
    assert condition(world, "Stalled")[:2] == ("True", reason)
    assert reason in dict(world.events())
    serving = await settled({})
    serving.refusal = refusal
    before, births = serving.texts(CONTROLLERS), dict(serving.kube.births)
    serving.write_cluster({"tls": asked(ISSUER), "nameServers": {"replicas": 3}})
    await serving.settle()
    assert serving.texts(CONTROLLERS) == before
    assert condition(serving)[:2] == ("False", reason)
    assert condition(serving, "Ready")[0] == "True"
    assert reason in dict(serving.events())
    assert serving.get("StatefulSet", "main-nameserver")["spec"]["replicas"] == 3
    kept = {name for name in births if "controller" in name}
    assert {name: serving.kube.births[name] for name in kept} == {name: births[name] for name in kept}
    serving.refusal = None
    for _ in range(6):
        await serving.settle()
        serving.advance(seconds=SPREAD.total_seconds())
    assert serving.texts(CONTROLLERS)["n0.crt"] == serving.texts(N0)["tls.crt"]


async def test_an_issuer_that_fails_leaves_a_serving_cluster_its_certificates() -> None:
    world = await settled()
    before, births = world.texts(CONTROLLERS), dict(world.kube.births)
    world.cert_manager.issuers[ISSUER].failure = "vault is sealed"
    world.write_cluster({"tls": asked(ISSUER, certificates={"validityDays": 60, "renewBeforeDays": 59})})
    world.advance(seconds=timedelta(days=40).total_seconds())
    await world.settle()
    assert condition(world)[:2] == ("True", "Valid"), "cert-manager calls them ready until they end"
    world.advance(seconds=timedelta(days=44).total_seconds())
    await world.settle()
    assert condition(world)[:2] == ("False", "ExpiresSoon")
    world.kube.remove("Secret", "shop", N0)
    await world.settle()
    assert "CertificateNotIssued" in dict(world.events())
    assert "vault is sealed" in dict(world.events())["CertificateNotIssued"]
    assert world.texts(CONTROLLERS) == before
    assert births == world.kube.births


async def test_the_condition_has_the_reason_of_the_certificate() -> None:
    world = await settled()
    world.cert_manager.issuers[ISSUER].failure = "vault is sealed"
    world.kube.remove("Secret", "shop", N0)
    await world.settle()
    status, reason, message = condition(world)
    assert (status, reason) == ("False", "Failed")
    assert "vault is sealed" in message
    assert "the first certificate in use ends on" in message
    assert condition(world, "Ready")[0] == "True"


async def test_an_issuer_without_an_authority_is_refused() -> None:
    world = IssuingWorld()
    world.cert_manager.issuers[ISSUER].tells_authority = False
    await passes(world)
    status, reason, message = condition(world)
    assert (status, reason) == ("False", "AuthorityUnknown")
    assert "ACME" in message
    assert not world.has("Secret", CONTROLLERS)
    assert not world.has("StatefulSet", "main-controller")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"ca.crt": "other"}, "does not have the authority"),
        ({"tls.key": "other"}, "the key is not that of the certificate"),
        ({"tls.key": "RSA PRIVATE KEY"}, "not in PKCS#8"),
        ({"ca.crt": "own"}, "does not have the authority"),
        ({"tls.crt": "other"}, ""),
    ],
)
async def test_a_secret_that_cannot_be_used_is_not_copied(broken: dict[str, str], words: str) -> None:
    world = await settled()
    before, texts = world.texts(CONTROLLERS), world.texts(N0)
    other = new_authority("other", timedelta(days=9), world.controllers.now)
    ((key, kind),) = broken.items()
    value = {
        "other": other.key if key == "tls.key" else other.certificate,
        "own": texts["tls.crt"],
        "RSA PRIVATE KEY": texts["tls.key"].replace("PRIVATE KEY", "EC PRIVATE KEY"),
    }[kind]
    data = {name: base64.b64encode(text.encode()).decode() for name, text in (texts | {key: value}).items()}
    world.kube.objects["Secret", "shop", N0]["data"] = data
    await super(IssuingWorld, world).one_pass()
    assert world.texts(CONTROLLERS) == before
    assert condition(world)[:2] == ("False", "CertificateUnusable")
    assert words in condition(world)[2]


async def test_a_certificate_with_other_names_is_not_copied() -> None:
    world = await settled()
    before = world.texts(CONTROLLERS)
    issuer = world.cert_manager.issuers[ISSUER]
    spec = world.get("Certificate", N0)["spec"] | {"dnsNames": ["main-controller-1.main-controller.shop.svc"]}
    texts = issuer.sign(spec, world.controllers.now)
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    world.kube.objects["Secret", "shop", N0]["data"] = data
    await super(IssuingWorld, world).one_pass()
    assert world.texts(CONTROLLERS) == before


async def test_somebody_elses_certificate_is_not_written_over() -> None:
    world = IssuingWorld()
    metadata = {"name": N0, "namespace": "shop"}
    spec = world.cert_manager.issuers[ISSUER]
    assert spec is not None
    foreign = {"secretName": "theirs", "issuerRef": {"name": "nobody"}, "renewBefore": "1h", "duration": "2h"}
    world.kube.put(
        {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata, "spec": foreign}
    )
    await passes(world)
    assert world.get("Certificate", N0)["spec"] == foreign
    assert condition(world, "Ready")[:2] == ("False", "NameTaken")


async def test_a_lost_authority_and_lost_copies_are_made_again() -> None:
    world = await settled()
    births, before = dict(world.kube.births), world.texts(CONTROLLERS)
    world.kube.remove("Secret", "shop", CONTROLLERS)
    world.kube.remove("Secret", "shop", "main-ca")
    await world.settle()
    assert world.texts(CONTROLLERS) == before
    assert births == world.kube.births


def _give(world: IssuingWorld, name: str) -> None:
    pair = new_authority(name, timedelta(days=1_000), world.controllers.now)
    data = {"tls.crt": pair.certificate, "tls.key": pair.key}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    metadata = {"name": name, "namespace": "shop"}
    world.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded})
