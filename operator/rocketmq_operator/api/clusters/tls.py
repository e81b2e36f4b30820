"""TLS of a RocketMQCluster: how its processes speak, and who signs their certificates."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel
from rocketmq_operator.api.common import SUBDOMAIN_PATTERN, ObjectName
from rocketmq_operator.api.names import CERT_MANAGER_GROUP

CERTIFICATE_DAYS_MAX: Final = 3_650
ISSUER_KINDS: Final = ("Issuer", "ClusterIssuer")
"""The kinds of issuers that cert-manager itself has."""
KIND_LENGTH_MAX: Final = 63


class InternalTls(StrEnum):
    """Whether our own processes speak TLS with the controllers."""

    ENFORCED = "Enforced"
    """Controllers speak TLS only with each other, and take changes over HTTPS only."""
    DISABLED = "Disabled"
    """Plain TCP and HTTP."""


class ClientsTls(StrEnum):
    """Whether brokers, name servers and proxies speak TLS with their clients."""

    DISABLED = "Disabled"
    """Plain TCP; RocketMQ also answers TLS, with a certificate that it makes for itself."""
    PERMISSIVE = "Permissive"
    """TLS and plain TCP, as each client chooses."""
    ENFORCING = "Enforcing"
    """TLS only, also between the processes of the cluster."""


def _renewed_in_time(where: str) -> Rule:
    """Return the rule that a certificate is renewed while it is valid."""
    return Rule(
        name="RenewedTooEarly",
        expression="self.renewBeforeDays < self.validityDays",
        message=f"'{where}.renewBeforeDays is %d: it must be less than validityDays, %d'"
        ".format([self.renewBeforeDays, self.validityDays])",
        holds=lambda spec: spec.renew_before_days < spec.validity_days,
        problem=lambda spec: (
            f"{where}.renewBeforeDays is {spec.renew_before_days}: it must be less than validityDays, "
            f"{spec.validity_days}"
        ),
    )


class AuthoritySpec(SpecModel):
    """Who signs the certificates of a cluster."""

    RULES: ClassVar[tuple[Rule, ...]] = (_renewed_in_time("tls.authority"),)

    secret_name: ObjectName | None = None
    """A Secret of this namespace with the certificate (`tls.crt`) and key (`tls.key`) of your authority, for
    instance that of a cert-manager Certificate with `isCA: true`. When it changes, the operator lets both
    authorities be trusted for a while. Absent: the operator makes an authority."""
    validity_days: Annotated[int, Field(ge=2, le=CERTIFICATE_DAYS_MAX)] = 1_825
    """How long an authority of the operator is valid."""
    renew_before_days: Annotated[int, Field(ge=1, le=CERTIFICATE_DAYS_MAX)] = 180
    """How long before its end the operator makes the next one."""


class CertificatesSpec(SpecModel):
    """The certificates of a cluster's processes."""

    RULES: ClassVar[tuple[Rule, ...]] = (_renewed_in_time("tls.certificates"),)

    validity_days: Annotated[int, Field(ge=2, le=CERTIFICATE_DAYS_MAX)] = 90
    """How long a certificate is valid."""
    renew_before_days: Annotated[int, Field(ge=1, le=CERTIFICATE_DAYS_MAX)] = 30
    """How long before its end the operator renews it. Processes take new certificates without a restart."""


class IssuerRef(SpecModel):
    """An issuer of cert-manager."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="UnknownIssuerKind",
            expression=f"self.group != '{CERT_MANAGER_GROUP}' || self.kind in {list(ISSUER_KINDS)}",
            message="'tls.issuerRef.kind is ' + self.kind + ' with group ' + self.group + "
            "': it must be Issuer or ClusterIssuer'",
            holds=lambda spec: spec.group != CERT_MANAGER_GROUP or spec.kind in ISSUER_KINDS,
            problem=lambda spec: (
                f"tls.issuerRef.kind is {spec.kind} with group {spec.group}: it must be Issuer or "
                "ClusterIssuer"
            ),
        ),
    )

    name: ObjectName
    """Its name."""
    kind: Annotated[str, Field(max_length=KIND_LENGTH_MAX, pattern=r"^[A-Z][A-Za-z0-9]*$")] = "Issuer"
    """Issuer, of this namespace, or ClusterIssuer. Issuers of other groups have kinds of their own."""
    group: Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN_PATTERN)] = CERT_MANAGER_GROUP
    """Its API group: that of cert-manager, or of an issuer beside it."""

    def __str__(self) -> str:
        """Say it as people name it."""
        suffix = "" if self.group == CERT_MANAGER_GROUP else f".{self.group}"
        return f"{self.kind}{suffix} {self.name}"


class TlsSpec(SpecModel):
    """TLS within a cluster."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="TwoAuthorities",
            expression="!has(self.issuerRef) || !has(self.authority.secretName)",
            message="'tls.issuerRef names ' + self.issuerRef.kind + ' ' + self.issuerRef.name + ' and "
            "tls.authority.secretName is ' + self.authority.secretName + ': one of them signs, so remove the "
            "other'",
            holds=lambda spec: spec.issuer_ref is None or spec.authority.secret_name is None,
            problem=lambda spec: (
                f"tls.issuerRef names {spec.issuer_ref.kind} {spec.issuer_ref.name} and "
                f"tls.authority.secretName is {spec.authority.secret_name}: one of them signs, so remove the "
                "other"
            ),
            reason="FieldValueForbidden",
        ),
    )

    internal: InternalTls | None = None
    """Whether our own processes speak TLS with the controllers: Enforced or Disabled. Absent: a new cluster
    does, and a cluster from before this field stays as it is. When it changes, the operator replaces the
    controllers twice, one at a time; in between they speak both."""
    clients: ClientsTls = ClientsTls.DISABLED
    """Whether brokers, name servers and proxies speak TLS with their clients: Disabled, Permissive (TLS and
    plain TCP) or Enforcing (TLS only). When it changes, the operator replaces their pods one at a time, once
    for each stage between; no stage refuses what the former one spoke."""
    authority: AuthoritySpec = AuthoritySpec()
    """Who signs the certificates, unless `issuerRef` names an issuer."""
    issuer_ref: IssuerRef | None = None
    """An issuer of cert-manager that signs the certificates: the operator makes Certificates, and copies what
    cert-manager issues into the Secrets of the pods. The issuer must name its authority in `ca.crt`, so ACME
    cannot be used. When it changes, the operator lets both authorities be trusted for a while."""
    certificates: CertificatesSpec = CertificatesSpec()
    """How long certificates are valid."""
