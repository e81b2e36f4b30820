"""What a cluster's status says of its certificates."""

from datetime import datetime

from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.plan.common.actions import Wait
from rocketmq_operator.plan.tls.controllers import TlsMode
from rocketmq_operator.plan.tls.observed import ObservedTls
from rocketmq_operator.plan.tls.steps import CertificateSecrets, expiry, first_end

CERTIFICATES_VALID = "CertificatesValid"


def certificates_finding(
    observed: ObservedTls,
    mode: TlsMode,
    secrets: CertificateSecrets,
    now: datetime,
    trouble: Wait | None = None,
) -> Finding:
    """Return whether all certificates of a cluster are valid for at least a week, and are issued as asked.

    Args:
        observed: the certificates.
        mode: how the controllers speak.
        secrets: their names.
        now: the wall clock.
        trouble: why cert-manager does not issue some; None without one.
    """
    if mode is TlsMode.DISABLED:
        return make_finding(
            CERTIFICATES_VALID, holds=None, reason="Disabled", message="the controllers speak plain TCP"
        )
    if trouble is not None and not observed.controllers:
        return make_finding(CERTIFICATES_VALID, holds=False, reason=trouble.reason, message=trouble.message)
    if observed.authority is None or not observed.controllers:
        text = observed.given_problem or "the first certificates are being made"
        reason = "AuthorityMissing" if observed.given_problem else "CertificatesPending"
        return make_finding(CERTIFICATES_VALID, holds=False, reason=reason, message=text)
    if (soon := expiry(observed, secrets, now)) is not None:
        return make_finding(CERTIFICATES_VALID, holds=False, reason=soon.reason, message=soon.message)
    end, name = first_end(observed, secrets)
    if trouble is not None:
        text = f"{trouble.message}; the first certificate in use ends on {end:%Y-%m-%d}: {name}"
        return make_finding(CERTIFICATES_VALID, holds=False, reason=trouble.reason, message=text)
    text = f"all certificates are valid; the first ends on {end:%Y-%m-%d}: {name}"
    return make_finding(CERTIFICATES_VALID, holds=True, reason="Valid", message=text)
