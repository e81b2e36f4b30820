"""Carry out changes of certificates: make keys, sign, and write the Secrets.

What is written follows from the Secrets that were observed and from new keys. A crash before the write loses
only the new keys.
"""

import base64
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from rocketmq_operator.api.names import CHANGED_ANNOTATION
from rocketmq_operator.clients.api import Json
from rocketmq_operator.clients.certificates import CertifiedKey, issue, new_authority, split
from rocketmq_operator.handlers.observing.certificates import (
    CURRENT,
    NEXT,
    OLD,
    certified_key,
    secret_texts,
)
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import (
    AuthorityChange,
    IssueCertificates,
    WriteAuthority,
)
from rocketmq_operator.plan.common.objects import belonging_labels, child
from rocketmq_operator.plan.tls.controllers import TRUST_KEY
from rocketmq_operator.plan.tls.issuing import next_given, source_entry

_ORDER: Final = (CURRENT, NEXT, OLD)


def authority_secret(observed: ObservedCluster, step: WriteAuthority) -> Json:
    """Return the Secret of the authority after a change.

    Raises:
        CertificateError: the given authority cannot be used.
    """
    texts = secret_texts(observed.tls.secrets.get(step.secret))
    pairs = {
        entry: CertifiedKey(texts[f"{entry}.crt"], texts.get(f"{entry}.key", ""))
        for entry in _ORDER
        if texts.get(f"{entry}.crt")
    }
    match step.change:
        case AuthorityChange.CREATE:
            pairs = {CURRENT: _new_authority(observed)}
        case AuthorityChange.TRUST_NEXT:
            pairs[NEXT] = _new_authority(observed)
        case AuthorityChange.SIGN_WITH_NEXT:
            former = [pairs[entry].certificate for entry in (CURRENT, OLD) if entry in pairs]
            pairs = {CURRENT: pairs[NEXT], OLD: CertifiedKey("".join(former), "")}
        case AuthorityChange.DROP_OLD:
            del pairs[OLD]
    bundle = "".join(split("".join(pairs[entry].certificate for entry in _ORDER if entry in pairs)))
    return _secret(observed, step.secret, _entries(pairs) | {TRUST_KEY: bundle}, changed=True)


def issued_secret(observed: ObservedCluster, step: IssueCertificates) -> Json:
    """Return a Secret with certificates of the authority, or with those that cert-manager issued.

    Raises:
        CertificateError: the authority cannot be used.
    """
    texts = secret_texts(observed.tls.secrets.get(step.secret))
    pairs = {}
    for entry, hosts in step.hosts.items():
        kept = certified_key(texts, entry)
        if entry in step.renewed or kept is None:
            kept = _issued(observed, entry, hosts)
        pairs[entry] = kept
    written = _entries(pairs) | {TRUST_KEY: observed.tls.bundle}
    return _secret(observed, step.secret, written, changed=bool(step.renewed))


def _issued(observed: ObservedCluster, entry: str, hosts: Iterable[str]) -> CertifiedKey:
    """Return a new certificate: signed here, or taken from cert-manager's Secret."""
    owner, spec, secrets = observed.owner, observed.spec.tls, observed.tls.secrets
    if spec.issuer_ref is not None:
        name = names.issued_certificate(owner.name, source_entry(entry))
        taken = certified_key(secret_texts(secrets.get(name)), CURRENT)
        if taken is None:
            raise TypeError("a plan copies a certificate only if cert-manager issued it")
        return taken
    authority = certified_key(secret_texts(secrets.get(names.authority_secret(owner.name))), CURRENT)
    if authority is None:
        raise TypeError("a plan issues certificates only if there is an authority")
    validity = timedelta(days=spec.certificates.validity_days)
    return issue(authority, f"{owner.name} {entry}", hosts, validity, observed.now)


def _new_authority(observed: ObservedCluster) -> CertifiedKey:
    spec, owner = observed.spec.tls.authority, observed.owner
    if observed.spec.tls.issuer_ref is not None:
        newcomer = next_given(observed.tls, observed.now)
        if newcomer is None:
            raise TypeError("a plan trusts an authority only if it signed a certificate")
        return CertifiedKey(newcomer.authority_text, "")
    if spec.secret_name is not None:
        given = certified_key(secret_texts(observed.tls.secrets.get(spec.secret_name)), CURRENT)
        if given is None:
            raise TypeError("a plan takes a given authority only if it can be read")
        return given
    name = f"rocketmq-ha {owner.namespace}/{owner.name}"
    return new_authority(name, timedelta(days=spec.validity_days), observed.now)


def _entries(pairs: Mapping[str, CertifiedKey]) -> dict[str, str]:
    certificates = {f"{entry}.crt": pair.certificate for entry, pair in pairs.items()}
    return certificates | {f"{entry}.key": pair.key for entry, pair in pairs.items() if pair.key}


def _secret(observed: ObservedCluster, name: str, texts: Mapping[str, str], *, changed: bool = False) -> Json:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    labels = belonging_labels(observed.owner.name)
    body = child(observed.owner, "Secret", name, labels=labels, type="Opaque", data=data)
    former = (observed.tls.secrets.get(name) or {"metadata": {}})["metadata"].get("annotations") or {}
    when = observed.now.strftime("%Y-%m-%dT%H:%M:%SZ") if changed else former.get(CHANGED_ANNOTATION)
    if when is not None:
        body["metadata"]["annotations"] = {CHANGED_ANNOTATION: when}
    return body
