"""Say whether a tool that deployed a resource should wait for it, or give up.

`Reconciling` and `Stalled` are the conditions that kstatus reads, and with it Flux, kpt and others. At most
one of them is True:

    Stalled       the operator cannot continue until a person changes something: kstatus computes Failed
    Reconciling   the resource is not as the spec says, or not ready: kstatus computes InProgress
    neither       it is as asked and ready, or paused: kstatus computes Current if `Ready` is True

A reason that may end without a person is not in `_NEEDS_PERSON`: a tool that applies several objects at once
must not give up because one of them comes later.

Source: sigs.k8s.io/cli-utils, pkg/kstatus, README.md and pkg/kstatus/status/generic.go.
"""

from typing import Final

from rocketmq_operator.api.conditions import Finding, make_finding

RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
_NEEDS_PERSON: Final = frozenset(
    {
        "Conflict",
        "AuthorityUnknown",
        "CertManagerMissing",
        "CertManagerNotAllowed",
        "CertificateUnusable",
        "ControllerHasLog",
        "Drifted",
        "NameTaken",
        "NotAllowed",
        "PasswordInvalid",
        "PodRefused",
        "RunFailed",
        "SecretNotAllowed",
        "SignsForMembers",
        "StepRefused",
        "SwitchoverRefused",
        "TooManyNames",
    }
)
"""Reasons with which the operator waits for a person, or repeats a refused write."""
_LEFT_AS_IT_IS: Final = frozenset(
    {
        *("AuthorityMissing", "CertificateNotIssued", "Expired", "ExpiresSoon", "FieldRewritten"),
        *("NoBroker", "Paused"),
    }
)
"""Reasons of `Progressing` for which a tool need not wait if the resource is ready.

A cluster with proxies has NoBroker until its first group exists, and a tool may apply groups only after the
cluster.
"""


def needs_person(reason: str) -> bool:
    """Tell whether a wait for this reason ends only when a person acts."""
    return reason in _NEEDS_PERSON


def health_findings(
    ready: Finding, progressing: Finding | None = None, *, paused: bool = False
) -> tuple[Finding, Finding]:
    """Return the findings for `Reconciling` and `Stalled`.

    Args:
        ready: the finding for `Ready`.
        progressing: the finding for `Progressing`; None if work that is left shows in `ready`.
        paused: whether the operator changes nothing.
    """
    open_ = [] if ready.status == "True" else [ready]
    if progressing is not None and progressing.status == "True":
        open_.append(progressing)
    stalled = next((one for one in open_ if needs_person(one.reason)), None)
    if stalled is not None:
        return _no(RECONCILING), make_finding(
            STALLED, holds=True, reason=stalled.reason, message=stalled.message
        )
    if ready.status == "True":
        open_ = [one for one in open_ if one.reason not in _LEFT_AS_IT_IS]
    if paused or not open_:
        return _no(RECONCILING), _no(STALLED)
    first = open_[-1]
    return make_finding(RECONCILING, holds=True, reason=first.reason, message=first.message), _no(STALLED)


def stalled_findings(problem: Finding) -> tuple[Finding, Finding]:
    """Return both findings for a spec that the operator refuses."""
    return _no(RECONCILING), make_finding(STALLED, holds=True, reason=problem.reason, message=problem.message)


def _no(type_: str) -> Finding:
    return make_finding(type_, holds=False, reason=f"Not{type_}")
