"""Read what cert-manager issued for a cluster: its Certificates, and the Secret of each by its name.

A Kubernetes may lack cert-manager, and the operator may not have the right to its kinds. Both are findings
and not errors: a running cluster goes on with the certificates that it has.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rocketmq_operator.api.names import CERTIFICATE_KIND, CLUSTER_LABEL
from rocketmq_operator.clients.api import KindUnknownError, KubeApi, RequestRefusedError
from rocketmq_operator.clients.certificates import (
    CertificateError,
    check_certificate,
    facts,
    signer,
    split,
)
from rocketmq_operator.handlers.observing.certificates import CURRENT, OLD, certified_key, secret_texts
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import Wait
from rocketmq_operator.plan.common.objects import Live
from rocketmq_operator.plan.tls.controllers import TRUST_KEY
from rocketmq_operator.plan.tls.observed import GivenCertificate, ObservedIssuing, ObservedTls

_NOT_ALLOWED: Final = "the operator may not read {what}: set operator.certManager=true at the chart{more}"


async def with_issuing(
    kube: KubeApi, namespace: str, cluster: str, tls: ObservedTls, *, with_secrets: bool
) -> ObservedTls:
    """Return the certificates of a cluster with what cert-manager made for it.

    Args:
        kube: the API server.
        namespace: of the cluster.
        cluster: its name.
        tls: the other certificates.
        with_secrets: whether the spec names an issuer; else the Certificates will be deleted.

    Raises:
        PeerUnavailableError: the API server does not answer.
    """
    try:
        found = await kube.find(CERTIFICATE_KIND, namespace, {CLUSTER_LABEL: cluster})
    except KindUnknownError:
        text = "spec.tls.issuerRef names an issuer, and this Kubernetes lacks cert-manager: install it"
        return replace(tls, issuing=ObservedIssuing(Wait("CertManagerMissing", text)))
    except RequestRefusedError:
        why = Wait("CertManagerNotAllowed", _NOT_ALLOWED.format(what="Certificates of cert-manager", more=""))
        return replace(tls, issuing=ObservedIssuing(why))
    prefix = names.issued_certificate(cluster, "")
    by_name = {one["metadata"]["name"]: one for one in found}
    live = {name.removeprefix(prefix): one for name, one in by_name.items() if name.startswith(prefix)}
    if not with_secrets:
        return replace(tls, issuing=ObservedIssuing(live=live))
    wanted = sorted(by_name.keys() & set(names.issued_certificates(cluster)))
    try:
        secrets = await asyncio.gather(*(kube.get("Secret", namespace, name) for name in wanted))
    except RequestRefusedError:
        more = f", and list {cluster} in operator.clusters"
        why = Wait("CertManagerNotAllowed", _NOT_ALLOWED.format(what="Secrets of cert-manager", more=more))
        return replace(tls, issuing=ObservedIssuing(why, live))
    issued = {name: one for name, one in zip(wanted, secrets, strict=True) if one is not None}
    trusted = _trusted(tls.secrets.get(names.authority_secret(cluster)))
    given: dict[str, GivenCertificate] = {}
    unusable: dict[str, Wait] = {}
    for name, secret in issued.items():
        read = _read(name, secret_texts(secret), trusted)
        if isinstance(read, Wait):
            unusable[name.removeprefix(prefix)] = read
        elif read is not None:
            given[name.removeprefix(prefix)] = read
    return replace(
        tls, secrets={**tls.secrets, **issued}, issuing=ObservedIssuing(None, live, given, unusable)
    )


def _trusted(authority: Live | None) -> frozenset[str]:
    """Return the fingerprints of the authorities that all processes trust since long enough."""
    texts = secret_texts(authority)
    trusted: set[str] = set()
    for one in split("".join(texts.get(f"{entry}.crt", "") for entry in (CURRENT, OLD))):
        with contextlib.suppress(CertificateError):
            trusted.add(facts(one).fingerprint)
    return frozenset(trusted)


def _read(name: str, texts: Mapping[str, str], trusted: frozenset[str]) -> GivenCertificate | Wait | None:
    """Return what cert-manager issued, or why it cannot be used; None while it is not there."""
    pair = certified_key(texts, CURRENT)
    if pair is None:
        return None
    if not texts.get(TRUST_KEY):
        text = (
            f"Secret {name} lacks ca.crt: the issuer names no authority, as those of ACME; take one that "
            "has its own"
        )
        return Wait("AuthorityUnknown", text)
    try:
        check_certificate(pair)
        text = signer(pair.certificate, texts[TRUST_KEY])
        own, authority = facts(pair.certificate), facts(text)
    except CertificateError as error:
        return Wait("CertificateUnusable", f"Secret {name}: {error}")
    return GivenCertificate(own, authority, text, authority.fingerprint in trusted)
