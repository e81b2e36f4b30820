"""The certificates of a cluster, as one look found them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rocketmq_operator.plan.common.actions import Wait
from rocketmq_operator.plan.common.objects import Live


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What a plan needs to know of a certificate.

    Attributes:
        hosts: its subject alternative names.
        not_before: when it begins to be valid.
        not_after: when it ends.
        fingerprint: tells certificates apart.
        key_id: of its own key, as it identifies itself.
        issuer_key_id: of the key that signed it.
    """

    hosts: frozenset[str]
    not_before: datetime
    not_after: datetime
    fingerprint: str
    key_id: str
    issuer_key_id: str


@dataclass(frozen=True, slots=True)
class ObservedAuthority:
    """The authority of a cluster.

    Attributes:
        current: it signs.
        next: it is trusted, and will sign.
        old: it has signed, and is still trusted; the first if there are several.
        changed_at: when one of these changed last.
        has_key: whether the operator has the key of the current one.
        has_next_key: the same of the next one.
    """

    current: CertificateFacts
    next: CertificateFacts | None = None
    old: CertificateFacts | None = None
    changed_at: datetime | None = None
    has_key: bool = True
    has_next_key: bool = True


@dataclass(frozen=True, slots=True)
class GivenCertificate:
    """A certificate that cert-manager issued, in a Secret of its own.

    Attributes:
        facts: of the certificate.
        authority: that signed it, or the last one of its chain.
        authority_text: the same, PEM.
        is_trusted: whether all processes trust this authority since long enough.
    """

    facts: CertificateFacts
    authority: CertificateFacts
    authority_text: str
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class ObservedIssuing:
    """What cert-manager made for a cluster.

    Attributes:
        problem: why nothing is known of it; None without trouble.
        live: the Certificates by their entry.
        given: the issued certificates by entry.
        unusable: why the Secret of an entry cannot be used.
    """

    problem: Wait | None = None
    live: Mapping[str, Live] = field(default_factory=dict)
    given: Mapping[str, GivenCertificate] = field(default_factory=dict)
    unusable: Mapping[str, Wait] = field(default_factory=dict)


NO_ISSUING = ObservedIssuing()


@dataclass(frozen=True, slots=True)
class ObservedTls:
    """All certificates of a cluster.

    Attributes:
        authority: None while there is none, or none that can be read.
        given: the authority in the Secret that the spec names; None without one, or if it cannot be read.
        given_problem: why it cannot be used; empty without trouble.
        bundle: the trusted authorities in PEM.
        controllers: the certificate of each controller by its id; those that can be read.
        controllers_bundle: the authorities that the controllers' Secret holds.
        members: the certificate of each entry for brokers, log replicas, name servers and proxies.
        members_bundle: the authorities that their Secret holds.
        renewed_at: when one of these certificates was renewed last.
        secrets: the Secrets as they are, by name.
        issuing: what cert-manager made; empty without an issuer.
    """

    authority: ObservedAuthority | None = None
    given: CertificateFacts | None = None
    given_problem: str = ""
    bundle: str = ""
    controllers: Mapping[str, CertificateFacts] = field(default_factory=dict)
    controllers_bundle: str = ""
    members: Mapping[str, CertificateFacts] = field(default_factory=dict)
    members_bundle: str = ""
    renewed_at: datetime | None = None
    secrets: Mapping[str, Live] = field(default_factory=dict)
    issuing: ObservedIssuing = NO_ISSUING


NO_TLS = ObservedTls()
