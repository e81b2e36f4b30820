"""Ask cert-manager for the certificates of a cluster, and take over those that it issued.

The operator makes one Certificate for each controller, so that each has its own name only, one for all
groups, and one each for name servers, proxies and route fronts. cert-manager fills a Secret of the same name.
The operator copies its content into the Secrets that pods mount, and only when all processes trust the
authority behind it:

    what cert-manager issued                      step
    nothing yet                                   wait
    the first certificates                        trust their authority, then copy
    one of another authority                      trust that one beside the present ones
    that authority is trusted long enough         copy
    no copy is of a former authority              trust the newest one alone

Authorities change as `plan.tls.steps` says. A certificate that is not renewed, or cannot be used, changes
nothing: processes keep what they have, and the status says why.

Source: cert-manager's types_certificate.go, v1.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from rocketmq_operator.api.clusters.tls import IssuerRef, TlsSpec
from rocketmq_operator.api.names import CERTIFICATE_KIND, FIELD_MANAGER
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import (
    NO_STEPS,
    AuthorityChange,
    Delete,
    IssueCertificates,
    ResourcePlan,
    Wait,
    WriteAuthority,
    child_steps,
)
from rocketmq_operator.plan.common.objects import (
    Children,
    Json,
    Live,
    ObjectKey,
    Owner,
    belonging_labels,
    belongs_to,
    child,
)
from rocketmq_operator.plan.common.observation import parse_time
from rocketmq_operator.plan.tls.clients import GROUP_ENTRY_PREFIX
from rocketmq_operator.plan.tls.observed import GivenCertificate, ObservedIssuing, ObservedTls
from rocketmq_operator.plan.tls.steps import (
    SPREAD,
    CertificateSecrets,
    SecretContent,
    expiry_notes,
)

Hosts = Mapping[str, frozenset[str]]
"""The hosts of certificates by entry."""
NAMES_BYTES_MAX: Final = 16_384
"""Of all names in a certificate. Java refuses a handshake whose message has more than 32,768 bytes. Source:
jdk.tls.maxHandshakeMessageSize."""
ISSUING_GRACE: Final = timedelta(minutes=2)
"""How long a Certificate may be without a valid certificate before a running cluster tells of it.

cert-manager issues a changed one in seconds."""
_KEY: Final = {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"}
_USAGES: Final = ("digital signature", "server auth", "client auth")
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_MESSAGE_CHARS_MAX: Final = 500
_FIRST: Final = Wait("CertificatesPending", "cert-manager issues the first certificates of the cluster")
OWN_REASONS: Final = frozenset(
    {"AuthorityUnknown", "CertManagerMissing", "CertManagerNotAllowed", "CertificateUnusable", "TooManyNames"}
)
"""Reasons for which a person must act; others are those of a Certificate's own conditions."""


class IssuingTrouble(NamedTuple):
    """Why a certificate is not as asked, and whether a person must hear of it now."""

    why: Wait
    is_told: bool

    def as_wait(self) -> Wait:
        """Return why a plan waits: a Certificate's own reason stands in the message."""
        if self.why.reason in OWN_REASONS:
            return self.why
        if not self.is_told:
            return Wait("CertificatesPending", self.why.message)
        return Wait("CertificateNotIssued", f"{self.why.message} ({self.why.reason})")


def source_entry(entry: str) -> str:
    """Return the entry of the Certificate from which an entry of a pod's Secret comes."""
    return names.GROUPS_ENTRY if entry.startswith(GROUP_ENTRY_PREFIX) else entry


def requested_hosts(controllers: Hosts, members: Hosts) -> dict[str, frozenset[str]]:
    """Return the hosts of each Certificate by its entry."""
    found = dict(controllers)
    for entry, hosts in members.items():
        source = source_entry(entry)
        found[source] = found.get(source, frozenset()) | hosts
    return found


def certificate(owner: Owner, spec: TlsSpec, issuer: IssuerRef, entry: str, hosts: Iterable[str]) -> Json:
    """Return the Certificate of an entry: as the operator itself would issue it."""
    name, validity = names.issued_certificate(owner.name, entry), spec.certificates
    addresses = [host for host in sorted(hosts) if _is_address(host)]
    return child(
        owner,
        CERTIFICATE_KIND,
        name,
        labels=belonging_labels(owner.name),
        spec={
            "secretName": name,
            "dnsNames": [host for host in sorted(hosts) if not _is_address(host)],
            **({"ipAddresses": addresses} if addresses else {}),
            "usages": list(_USAGES),
            "duration": _hours(validity.validity_days),
            "renewBefore": _hours(validity.renew_before_days),
            "privateKey": dict(_KEY),
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
        },
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _hours(days: int) -> str:
    """Return a duration as cert-manager writes it."""
    return f"{24 * days}h0m0s"


def is_issued(live: Live) -> bool:
    """Tell whether cert-manager calls a Certificate ready, as it is now."""
    ready = _condition(live, "Ready")
    return bool(ready.get("status") == "True") and _is_of_now(live, ready)


def certificate_trouble(live: Live) -> Wait | None:
    """Return why a Certificate has no valid certificate, in cert-manager's words; None if it has one."""
    if is_issued(live):
        return None
    name = live["metadata"]["name"]
    ready, issuing = _condition(live, "Ready"), _condition(live, "Issuing")
    told = issuing if _has_failed(issuing) else ready
    if not told or not _is_of_now(live, ready):
        return Wait("CertificatesPending", f"Certificate {name}: cert-manager has not looked at it yet")
    reason, text = str(told.get("reason", "")), str(told.get("message", ""))[:_MESSAGE_CHARS_MAX]
    message = f"Certificate {name} of {_issuer_of(live)}: {text}"
    return Wait(reason if _REASON.fullmatch(reason) else "CertificatesPending", message)


def _has_failed(issuing: Mapping[str, Any]) -> bool:
    return str(issuing.get("status")) == "False" and str(issuing.get("reason")) != "Issued"


def _issuer_of(live: Live) -> str:
    return str(IssuerRef.model_construct(**live["spec"]["issuerRef"]))


def _condition(live: Live, type_: str) -> Mapping[str, Any]:
    found = (live.get("status") or {}).get("conditions") or []
    matching: list[Mapping[str, Any]] = [one for one in found if one.get("type") == type_]
    return matching[0] if matching else {}


def _is_of_now(live: Live, condition: Mapping[str, Any]) -> bool:
    generation = int(live["metadata"].get("generation", 0))
    return int(condition.get("observedGeneration", generation)) >= generation


def issuing_trouble(observed: ObservedTls, requested: Hosts, now: datetime) -> IssuingTrouble | None:
    """Return the first reason why certificates are not as asked; None without one.

    While processes have certificates, an issue may take as long as `ISSUING_GRACE`.
    """
    issuing = observed.issuing
    if issuing.problem is not None:
        return IssuingTrouble(issuing.problem, is_told=True)
    for entry in sorted(requested):
        if sum(len(host) for host in requested[entry]) > NAMES_BYTES_MAX:
            text = f"the names of {entry} have more than {NAMES_BYTES_MAX} bytes, more than a client accepts"
            why = Wait("TooManyNames", f"{text}: use tls.authority, which makes one for each group")
            return IssuingTrouble(why, is_told=True)
        if entry in issuing.unusable:
            return IssuingTrouble(issuing.unusable[entry], is_told=True)
        live = issuing.live.get(entry)
        found = None if live is None else certificate_trouble(live)
        if live is None or found is None:
            continue
        is_told = not _is_recent(live, now)
        if is_told or not observed.controllers:
            return IssuingTrouble(found, is_told=is_told)
    return None


def _is_recent(live: Live, now: datetime) -> bool:
    """Tell whether a Certificate may just need a moment."""
    if _has_failed(_condition(live, "Issuing")):
        return False
    ready, asked_at = _condition(live, "Ready"), _asked_at(live)
    told_at = parse_time(ready.get("lastTransitionTime")) if _is_of_now(live, ready) else None
    since = max((one for one in (asked_at, told_at) if one is not None), default=now)
    return now - since < ISSUING_GRACE


def _asked_at(live: Live) -> datetime | None:
    """Return when the operator last changed a Certificate."""
    times = [
        one.get("time")
        for one in live["metadata"].get("managedFields") or []
        if one.get("manager") == FIELD_MANAGER
    ]
    return max(filter(None, map(parse_time, times)), default=None)


def leftover_certificates(owner: Owner, issuing: ObservedIssuing, requested: Hosts) -> ResourcePlan:
    """Delete the Certificates that nothing asks for any more; cert-manager leaves their Secrets."""
    return ResourcePlan(
        tuple(
            Delete(
                ObjectKey(CERTIFICATE_KIND, live["metadata"]["name"]),
                live["metadata"].get("uid", ""),
                "nothing uses it",
            )
            for entry, live in sorted(issuing.live.items())
            if entry not in requested and belongs_to(live, owner)
        )
    )


def request_steps(
    owner: Owner, spec: TlsSpec, issuing: ObservedIssuing, requested: Hosts, children: Children
) -> ResourcePlan:
    """Bring the Certificates to the wanted state, if the operator may and Kubernetes knows their kind."""
    if issuing.problem is not None or spec.issuer_ref is None:
        return NO_STEPS
    wanted = [
        certificate(owner, spec, spec.issuer_ref, entry, hosts)
        for entry, hosts in sorted(requested.items())
        if sum(map(len, hosts)) <= NAMES_BYTES_MAX
    ]
    return child_steps(owner, wanted, children)


def issued_plan(
    observed: ObservedTls,
    secrets: CertificateSecrets,
    wanted: Hosts,
    members: Hosts,
    now: datetime,
) -> ResourcePlan:
    """Return the next change of a cluster's certificates that cert-manager issues.

    Args:
        observed: the certificates.
        secrets: the names of the Secrets that pods have.
        wanted: the hosts of each controller's certificate by the controller's id.
        members: the hosts of the certificates of brokers, log replicas, name servers and proxies by entry.
        now: the wall clock.
    """
    requested = requested_hosts(wanted, members)
    trouble = issuing_trouble(observed, requested, now)
    told = (trouble.as_wait(),) if trouble is not None and trouble.is_told else ()
    notes = (*told, *expiry_notes(observed, secrets, now))
    first = None
    if not observed.controllers:
        first = _FIRST if trouble is None else trouble.as_wait()
    change = trust_change(observed, requested, now)
    if change is not None:
        return ResourcePlan((WriteAuthority(secrets.authority, *change),), first, notes)
    if observed.authority is None:
        return ResourcePlan((), first, notes)
    usable = {
        entry: given
        for entry, given in observed.issuing.given.items()
        if given.is_trusted and given.facts.hosts == requested.get(entry) and given.facts.not_after > now
    }
    kept = SecretContent(observed.controllers, observed.controllers_bundle)
    copies = [_copies(secrets.issued, wanted, kept, usable, observed.bundle, needs_all=True)]
    if members:
        kept = SecretContent(observed.members, observed.members_bundle)
        copies.append(_copies(secrets.members, members, kept, usable, observed.bundle, needs_all=False))
    steps = tuple(step for step in copies if step is not None)
    if not steps and not notes and first is None:
        return NO_STEPS
    return ResourcePlan(steps, first, notes)


def _copies(
    secret: str,
    wanted: Hosts,
    kept: SecretContent,
    usable: Mapping[str, GivenCertificate],
    bundle: str,
    *,
    needs_all: bool,
) -> IssueCertificates | None:
    """Return the change of one Secret that pods have, None if it is as it should be."""
    due = set()
    for entry in wanted:
        given, former = usable.get(source_entry(entry)), kept.certificates.get(entry)
        if given is not None and (former is None or former.fingerprint != given.facts.fingerprint):
            due.add(entry)
    hosts = {entry: hosts for entry, hosts in wanted.items() if entry in due or entry in kept.certificates}
    if not hosts or (needs_all and hosts.keys() != wanted.keys()) or not (due or kept.bundle != bundle):
        return None
    why = "cert-manager issued" if due else "trusted authorities changed"
    return IssueCertificates(secret, hosts, frozenset(due), why)


def trust_change(
    observed: ObservedTls, requested: Hosts, now: datetime
) -> tuple[AuthorityChange, str] | None:
    """Return the next change of the trusted authorities and its reason, None if none is due."""
    authority, issuing = observed.authority, observed.issuing
    # A cluster begins to change when all is issued, so that no change is left half done.
    is_complete = requested.keys() <= issuing.given.keys()
    newcomer = next_given(observed, now) if is_complete else None
    if authority is None:
        return None if newcomer is None else (AuthorityChange.CREATE, "missing")
    if newcomer is not None:
        return (AuthorityChange.TRUST_NEXT, "cert-manager's issuer has another authority")
    since = _since(authority.changed_at, now)
    if authority.next is not None:
        if since >= SPREAD or authority.current.not_after <= now:
            return (AuthorityChange.SIGN_WITH_NEXT, "the next authority is trusted everywhere")
        return None
    # Processes may have the certificates from before the last renewal still.
    since = min(since, _since(observed.renewed_at, now))
    if authority.old is not None and since >= SPREAD and _all_of(authority.current.fingerprint, observed):
        return (AuthorityChange.DROP_OLD, "no certificate is of a former authority")
    return None


def _since(when: datetime | None, now: datetime) -> timedelta:
    return SPREAD if when is None else now - when


def next_given(observed: ObservedTls, now: datetime) -> GivenCertificate | None:
    """Return the certificate whose authority is trusted next, None if all are.

    The newest one tells what the issuer signs with now. An older one may have an authority that was never
    trusted: it comes after that.
    """
    valid = [one for one in observed.issuing.given.values() if one.facts.not_after > now]
    if not valid:
        return None
    newest = max(valid, key=lambda one: (one.facts.not_before, one.authority.fingerprint))
    authority = observed.authority
    if authority is None:
        return newest
    known = {one.fingerprint for one in (authority.current, authority.next) if one is not None}
    if newest.authority.fingerprint not in known:
        return newest
    unknown = [one for one in valid if not one.is_trusted and one.authority.fingerprint not in known]
    return unknown[0] if unknown and authority.next is None else None


def _all_of(fingerprint: str, observed: ObservedTls) -> bool:
    """Tell whether all certificates that processes have were issued by one authority."""
    given = observed.issuing.given.values()
    own = {one.facts.fingerprint for one in given if one.authority.fingerprint == fingerprint}
    return all(one.fingerprint in own for one in (*observed.controllers.values(), *observed.members.values()))
