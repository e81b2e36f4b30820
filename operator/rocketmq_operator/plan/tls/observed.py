"""The certificates of a cluster, as one look found them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

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
        old: it has signed, and is still trusted.
        changed_at: when one of these changed last.
    """

    current: CertificateFacts
    next: CertificateFacts | None = None
    old: CertificateFacts | None = None
    changed_at: datetime | None = None


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
        secrets: the Secrets as they are, by name.
    """

    authority: ObservedAuthority | None = None
    given: CertificateFacts | None = None
    given_problem: str = ""
    bundle: str = ""
    controllers: Mapping[str, CertificateFacts] = field(default_factory=dict)
    controllers_bundle: str = ""
    members: Mapping[str, CertificateFacts] = field(default_factory=dict)
    members_bundle: str = ""
    secrets: Mapping[str, Live] = field(default_factory=dict)


NO_TLS = ObservedTls()
