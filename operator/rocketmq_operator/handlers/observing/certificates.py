"""Read the certificates of a cluster from its Secrets, each by its name.

A Secret that cannot be read counts as missing: the operator then makes its content anew. That is never true
of a Secret that a person gives.
"""

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from rocketmq_operator.api.clusters.tls import TlsSpec
from rocketmq_operator.api.names import CHANGED_ANNOTATION
from rocketmq_operator.clients.api import Json, KubeApi
from rocketmq_operator.clients.certificates import CertificateError, CertifiedKey, check_authority, facts
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Live
from rocketmq_operator.plan.common.observation import parse_time
from rocketmq_operator.plan.pods.observed import ObservedPod
from rocketmq_operator.plan.tls.clients import ClientsStage, is_in_tls
from rocketmq_operator.plan.tls.controllers import TRUST_KEY, TlsMode, tls_mode
from rocketmq_operator.plan.tls.observed import CertificateFacts, ObservedAuthority, ObservedTls

CURRENT: Final = "tls"
NEXT: Final = "next"
OLD: Final = "old"
"""Entries of the authority's Secret: NAME.crt and NAME.key."""


def wanted_certificates(
    spec: TlsSpec, live: Live | None, pods: Collection[ObservedPod], stage: ClientsStage
) -> tuple[bool, bool]:
    """Return whether a cluster has certificates, and whether its brokers and name servers have some.

    Args:
        spec: what a person asks of TLS.
        live: the controllers' StatefulSet; None before there is one.
        pods: those of the controllers.
        stage: how far TLS with clients is.
    """
    mode = tls_mode(spec, live, pods, is_needed=stage.has_certificates)
    return mode is not TlsMode.DISABLED, is_in_tls(spec, stage)


async def observe_tls(
    kube: KubeApi, namespace: str, cluster: str, spec: TlsSpec, *, with_members: bool
) -> ObservedTls:
    """Return the certificates of a cluster; those of its members if they speak TLS with clients.

    What cert-manager issued is not among them (`observing.issuing`).

    Raises:
        PeerUnavailableError: the API server does not answer.
    """
    authority_name, issued_name = names.authority_secret(cluster), names.controller_certificates(cluster)
    given_name = spec.authority.secret_name
    members_name = names.member_certificates(cluster)
    authority, issued, members, given = await asyncio.gather(
        kube.get("Secret", namespace, authority_name),
        kube.get("Secret", namespace, issued_name),
        kube.get("Secret", namespace, members_name) if with_members else _nothing(),
        _nothing() if given_name is None else kube.get("Secret", namespace, given_name),
    )
    given_facts, problem = _given(given, given_name)
    found = {
        authority_name: authority,
        issued_name: issued,
        members_name: members,
        given_name or "": given,
    }
    data, members_data = secret_texts(issued), secret_texts(members)
    return ObservedTls(
        authority=_authority(authority),
        given=given_facts,
        given_problem=problem,
        bundle=secret_texts(authority).get(TRUST_KEY, ""),
        controllers=_certificates(data),
        controllers_bundle=data.get(TRUST_KEY, ""),
        members=_certificates(members_data),
        members_bundle=members_data.get(TRUST_KEY, ""),
        renewed_at=max(filter(None, map(_changed_at, (issued, members))), default=None),
        secrets={name: one for name, one in found.items() if one is not None},
    )


def secret_texts(secret: Live | None) -> dict[str, str]:
    """Return the entries of a Secret that are text."""
    found = {}
    for key, value in ((secret or {}).get("data") or {}).items():
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            found[key] = base64.b64decode(value, validate=True).decode()
    return found


def certified_key(texts: Mapping[str, str], entry: str) -> CertifiedKey | None:
    """Return an entry of a Secret with its key, None without one."""
    certificate, key = texts.get(f"{entry}.crt"), texts.get(f"{entry}.key")
    return None if not certificate or not key else CertifiedKey(certificate, key)


async def _nothing() -> Json | None:
    return None


def _authority(secret: Live | None) -> ObservedAuthority | None:
    texts = secret_texts(secret)
    current = _authority_facts(texts, CURRENT)
    if secret is None or current is None:
        return None
    return ObservedAuthority(
        current=current,
        next=_authority_facts(texts, NEXT),
        old=_facts(texts.get(f"{OLD}.crt", "")),
        changed_at=_changed_at(secret),
        has_key=_has_key(texts, CURRENT),
        has_next_key=_has_key(texts, NEXT),
    )


def _authority_facts(texts: Mapping[str, str], entry: str) -> CertificateFacts | None:
    """Return an authority; one whose key another one has is without a key."""
    found = texts.get(f"{entry}.crt", "")
    return _facts(found) if f"{entry}.key" not in texts or _has_key(texts, entry) else None


def _has_key(texts: Mapping[str, str], entry: str) -> bool:
    pair = certified_key(texts, entry)
    if pair is None:
        return False
    try:
        check_authority(pair)
    except CertificateError:
        return False
    return True


def _given(secret: Live | None, name: str | None) -> tuple[CertificateFacts | None, str]:
    if name is None:
        return None, ""
    pair = certified_key(secret_texts(secret), CURRENT)
    if pair is None:
        return None, f"Secret {name} of spec.tls.authority.secretName does not hold tls.crt and tls.key"
    try:
        check_authority(pair)
        return facts(pair.certificate), ""
    except CertificateError as error:
        return None, f"Secret {name} of spec.tls.authority.secretName: {error}"


def _certificates(texts: Mapping[str, str]) -> dict[str, CertificateFacts]:
    """Return the certificates that have a key, by their entry."""
    entries = [key.removesuffix(".crt") for key in texts if key.endswith(".crt")]
    found = {entry: _facts(texts[f"{entry}.crt"]) for entry in entries if f"{entry}.key" in texts}
    return {entry: one for entry, one in found.items() if one is not None}


def _facts(pem: str) -> CertificateFacts | None:
    try:
        return facts(pem)
    except CertificateError:
        return None


def _changed_at(secret: Live | None) -> datetime | None:
    annotations = (secret or {"metadata": {}})["metadata"].get("annotations") or {}
    try:
        return parse_time(annotations.get(CHANGED_ANNOTATION))
    except ValueError:
        return None
