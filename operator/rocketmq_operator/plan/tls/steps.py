"""What certificates a cluster must have, and the next step towards them.

An authority changes in three steps, so that each process always trusts the certificate of every other one:

    the authority                            step
    it is missing                            make one, or take the given one
    must be replaced: near its end, or       trust the next one beside it
      another one is given
    the next one is trusted long enough      sign with the next one; the former one stays trusted
    all certificates are of the new one      trust it alone
      for long enough

"Long enough" is `SPREAD`: the kubelet brings a changed Secret to its pods within about two minutes, and
processes look at their files every 2 s. An authority that has ended cannot wait, and is replaced at once.

Certificates are renewed some days before their end, when their names change, and when their authority does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rocketmq_operator.api.clusters.tls import TlsSpec
from rocketmq_operator.plan.common.actions import (
    NO_STEPS,
    AuthorityChange,
    IssueCertificates,
    ResourcePlan,
    Wait,
    WriteAuthority,
)
from rocketmq_operator.plan.tls.observed import CertificateFacts, ObservedAuthority, ObservedTls


@dataclass(frozen=True, slots=True)
class CertificateSecrets:
    """The names of a cluster's Secrets with certificates: the authority's, the controllers', the others'."""

    authority: str
    issued: str
    members: str


SPREAD: Final = timedelta(minutes=5)
EXPIRES_SOON: Final = timedelta(days=7)
"""A certificate this near to its end was not renewed for some reason, and a person must look."""


def certificates_plan(
    observed: ObservedTls,
    spec: TlsSpec,
    secrets: CertificateSecrets,
    wanted: Mapping[str, frozenset[str]],
    now: datetime,
    members: Mapping[str, frozenset[str]] | None = None,
) -> ResourcePlan:
    """Return the next change of a cluster's certificates; it waits while a Secret is missing.

    Args:
        observed: the certificates.
        spec: what a person asks of them.
        secrets: the names of the Secrets.
        wanted: the hosts of each controller's certificate by the controller's id.
        now: the wall clock.
        members: the hosts of the certificates of brokers, log replicas, name servers and proxies by entry.
    """
    notes = _given_notes(observed, spec) + expiry_notes(observed, secrets, now)
    change = authority_change(observed, spec, now)
    if change is not None:
        return ResourcePlan(
            (WriteAuthority(secrets.authority, *change),),
            _FIRST if observed.authority is None else None,
            notes,
        )
    if observed.authority is None:
        return ResourcePlan((), Wait("AuthorityMissing", observed.given_problem))
    kept = SecretContent(observed.controllers, observed.controllers_bundle)
    issues = [_issue(secrets.issued, wanted, kept, observed, spec, now)]
    if members:
        kept = SecretContent(observed.members, observed.members_bundle)
        issues.append(_issue(secrets.members, members, kept, observed, spec, now))
    steps = tuple(step for step in issues if step is not None)
    if steps:
        is_complete = observed.controllers and (observed.members or not members)
        return ResourcePlan(steps, None if is_complete else _FIRST, notes)
    return ResourcePlan((), None, notes) if notes else NO_STEPS


class SecretContent(NamedTuple):
    """What a Secret holds: its certificates by entry, and the authorities beside them."""

    certificates: Mapping[str, CertificateFacts]
    bundle: str


def _issue(
    secret: str,
    wanted: Mapping[str, frozenset[str]],
    kept: SecretContent,
    observed: ObservedTls,
    spec: TlsSpec,
    now: datetime,
) -> IssueCertificates | None:
    """Return the change of one Secret with certificates, None if it is as it should be."""
    if observed.authority is None:
        return None
    due = {
        entry: why
        for entry, hosts in wanted.items()
        if observed.authority.has_key
        and (why := renewal_reason(kept.certificates.get(entry), hosts, observed.authority, spec, now))
    }
    if not due and kept.bundle == observed.bundle:
        return None
    why = next(iter(due.values()), "trusted authorities changed")
    # Without the key of the authority, what is missing must wait for the next one.
    written = {one: hosts for one, hosts in wanted.items() if one in due or one in kept.certificates}
    return IssueCertificates(secret, written, frozenset(due), why) if written else None


_FIRST: Final = Wait("CertificatesPending", "the first certificates of the cluster are being made")


def _given_notes(observed: ObservedTls, spec: TlsSpec) -> tuple[Wait, ...]:
    if spec.authority.secret_name is None or not observed.given_problem or observed.authority is None:
        return ()
    return (Wait("AuthorityMissing", observed.given_problem),)


def expiry(observed: ObservedTls, secrets: CertificateSecrets, now: datetime) -> Wait | None:
    """Return which certificate has ended or will within a week; None if all hold longer."""
    if observed.authority is None or not observed.controllers:
        return None
    end, name = first_end(observed, secrets)
    if end - now > EXPIRES_SOON:
        return None
    reason, verb = ("Expired", "ended") if end <= now else ("ExpiresSoon", "ends")
    problem = f"; {observed.given_problem}" if observed.given_problem else ""
    return Wait(reason, f"{name} {verb} on {end:%Y-%m-%d}{problem}")


def first_end(observed: ObservedTls, secrets: CertificateSecrets) -> tuple[datetime, str]:
    """Return when the first certificate ends, and which one that is."""
    ends = [
        (one.not_after, f"{entry}.crt of Secret {secret}")
        for secret, found in ((secrets.issued, observed.controllers), (secrets.members, observed.members))
        for entry, one in found.items()
    ]
    if observed.authority is not None:
        ends.append((observed.authority.current.not_after, "the authority"))
    return min(ends)


def expiry_notes(observed: ObservedTls, secrets: CertificateSecrets, now: datetime) -> tuple[Wait, ...]:
    """Return the same as a note, for an Event."""
    found = expiry(observed, secrets, now)
    return () if found is None else (found,)


def authority_change(
    observed: ObservedTls, spec: TlsSpec, now: datetime
) -> tuple[AuthorityChange, str] | None:
    """Return the next change of the authority and its reason, None if none is due."""
    authority = observed.authority
    if authority is None:
        if spec.authority.secret_name is not None and observed.given is None:
            return None
        return (AuthorityChange.CREATE, "missing")
    since = now - authority.changed_at if authority.changed_at is not None else SPREAD
    if why := _replacement_reason(authority, observed, spec, now):
        return (AuthorityChange.TRUST_NEXT, why)
    if authority.next is not None:
        if since >= SPREAD or authority.current.not_after <= now:
            return (AuthorityChange.SIGN_WITH_NEXT, "the next authority is trusted everywhere")
        return None
    if authority.old is not None and since >= SPREAD and _all_signed_by(authority.current, observed):
        return (AuthorityChange.DROP_OLD, "no certificate is of the former authority")
    return None


def _replacement_reason(
    authority: ObservedAuthority, observed: ObservedTls, spec: TlsSpec, now: datetime
) -> str:
    newest = authority.next or authority.current
    has_key = authority.has_key if authority.next is None else authority.has_next_key
    if spec.authority.secret_name is not None:
        given = observed.given
        is_new = given is not None and given.fingerprint not in {
            authority.current.fingerprint,
            newest.fingerprint,
        }
        return "another authority is given" if is_new or (given is not None and not has_key) else ""
    if not has_key:
        return "an issuer of cert-manager has its key"
    if newest.not_after - now <= timedelta(days=spec.authority.renew_before_days):
        return f"ends on {newest.not_after:%Y-%m-%d}"
    return ""


def _all_signed_by(authority: CertificateFacts, observed: ObservedTls) -> bool:
    issued = (*observed.controllers.values(), *observed.members.values())
    return all(one.issuer_key_id == authority.key_id for one in issued)


def renewal_reason(
    found: CertificateFacts | None,
    hosts: frozenset[str],
    authority: ObservedAuthority,
    spec: TlsSpec,
    now: datetime,
) -> str:
    """Return why a certificate must be renewed; empty if it need not."""
    if found is None:
        return "missing"
    if found.hosts != hosts:
        return "names changed"
    if found.issuer_key_id != authority.current.key_id:
        return "the authority changed"
    remaining = found.not_after - now
    if remaining <= timedelta(days=spec.certificates.renew_before_days) and (
        # A certificate never outlives its authority: another one would end at the same time.
        found.not_after < authority.current.not_after
    ):
        return f"ends on {found.not_after:%Y-%m-%d}"
    return ""
