"""Which change of its certificates a cluster needs now: each line of the tables, and whole lives of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rocketmq_operator.api.clusters.tls import TlsSpec
from rocketmq_operator.handlers.metrics import OperatorMetrics
from rocketmq_operator.plan.common.actions import (
    AuthorityChange,
    IssueCertificates,
    WriteAuthority,
)
from rocketmq_operator.plan.tls.controllers import TlsMode
from rocketmq_operator.plan.tls.observed import CertificateFacts, ObservedAuthority, ObservedTls
from rocketmq_operator.plan.tls.status import certificates_finding
from rocketmq_operator.plan.tls.steps import (
    SPREAD,
    CertificateSecrets,
    authority_change,
    certificates_plan,
    renewal_reason,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = frozenset({"main-controller-0.main-controller.shop.svc"})
SPEC = TlsSpec()
GIVEN = TlsSpec.model_validate({"authority": {"secretName": "mine"}})
SECRET = "main-controller-tls"  # noqa: S105 - a Secret's name
SECRETS = CertificateSecrets("main-ca", SECRET, "main-member-tls")


def authority(key: str, days: float = 1_000) -> CertificateFacts:
    return CertificateFacts(frozenset(), NOW, NOW + timedelta(days=days), f"print-{key}", key, key)


def certificate(signer: str = "a", days: float = 80, hosts: frozenset[str] = HOSTS) -> CertificateFacts:
    return CertificateFacts(hosts, NOW, NOW + timedelta(days=days), f"leaf-{signer}-{days}", "own", signer)


def observed(current: CertificateFacts, **more: object) -> ObservedTls:
    parts = {"next": None, "old": None, "changed_at": NOW - SPREAD} | more
    found = ObservedAuthority(current, parts["next"], parts["old"], parts["changed_at"])  # type: ignore[arg-type]
    return ObservedTls(found, bundle="bundle", controllers={"n0": certificate()}, controllers_bundle="bundle")


@pytest.mark.parametrize(
    ("found", "spec", "change"),
    [
        (ObservedTls(), SPEC, AuthorityChange.CREATE),
        (ObservedTls(given=authority("mine")), GIVEN, AuthorityChange.CREATE),
        (ObservedTls(given_problem="Secret mine is missing"), GIVEN, None),
        (observed(authority("a")), SPEC, None),
        (observed(authority("a", days=180)), SPEC, AuthorityChange.TRUST_NEXT),
        (observed(authority("a", days=180), next=authority("b")), SPEC, AuthorityChange.SIGN_WITH_NEXT),
        (observed(authority("a", days=180), next=authority("b"), changed_at=NOW), SPEC, None),
        (
            observed(authority("a", days=-1), next=authority("b"), changed_at=NOW),
            SPEC,
            AuthorityChange.SIGN_WITH_NEXT,
        ),
        (observed(authority("a"), old=authority("z")), SPEC, AuthorityChange.DROP_OLD),
        (observed(authority("a"), old=authority("z"), changed_at=NOW), SPEC, None),
        (observed(authority("b"), old=authority("a")), SPEC, None),
        (replace(observed(authority("a")), given=authority("mine")), GIVEN, AuthorityChange.TRUST_NEXT),
        (replace(observed(authority("a", days=10)), given=authority("a", days=10)), GIVEN, None),
        (
            replace(observed(authority("a"), next=authority("b")), given=authority("mine")),
            GIVEN,
            AuthorityChange.TRUST_NEXT,
        ),
    ],
)
def test_an_authority_changes_in_steps(
    found: ObservedTls, spec: TlsSpec, change: AuthorityChange | None
) -> None:
    step = authority_change(found, spec, NOW)
    assert (None if step is None else step[0]) is change


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "missing"),
        (certificate(), ""),
        (certificate(days=30), "ends on 2026-01-31"),
        (certificate(days=31), ""),
        (certificate(signer="z"), "the authority changed"),
        (certificate(hosts=frozenset({"other"})), "names changed"),
    ],
)
def test_a_certificate_is_renewed_for_a_reason(found: CertificateFacts | None, reason: str) -> None:
    signer = ObservedAuthority(authority("a"))
    assert renewal_reason(found, HOSTS, signer, SPEC, NOW) == reason


def test_a_certificate_that_ends_with_its_authority_is_not_renewed_in_a_circle() -> None:
    signer = ObservedAuthority(authority("a", days=20))
    assert renewal_reason(certificate(days=20), HOSTS, signer, GIVEN, NOW) == ""


def test_a_plan_waits_for_the_first_certificates_and_never_for_later_ones() -> None:
    wanted = {"n0": HOSTS}
    first = certificates_plan(ObservedTls(), SPEC, SECRETS, wanted, NOW)
    assert first.steps == (WriteAuthority("main-ca", AuthorityChange.CREATE, "missing"),)
    assert first.wait is not None
    without = replace(observed(authority("a")), controllers={})
    second = certificates_plan(without, SPEC, SECRETS, wanted, NOW)
    assert second.steps == (IssueCertificates(SECRET, wanted, frozenset({"n0"}), "missing"),)
    assert second.wait is not None
    later = replace(observed(authority("a")), controllers={"n0": certificate(days=3)})
    third = certificates_plan(later, SPEC, SECRETS, wanted, NOW)
    assert [step.why for step in third.steps if isinstance(step, IssueCertificates)] == ["ends on 2026-01-04"]
    assert third.wait is None
    bundle = replace(observed(authority("a")), controllers_bundle="older")
    fourth = certificates_plan(bundle, SPEC, SECRETS, wanted, NOW)
    assert fourth.steps == (IssueCertificates(SECRET, wanted, frozenset(), "trusted authorities changed"),)


def test_a_certificate_near_its_end_is_noted_for_an_event_while_it_is_renewed() -> None:
    found = replace(observed(authority("a")), controllers={"n0": certificate(days=7)})
    plan = certificates_plan(found, SPEC, SECRETS, {"n0": HOSTS}, NOW)
    assert [(note.reason, note.message) for note in plan.notes] == [
        ("ExpiresSoon", f"n0.crt of Secret {SECRET} ends on 2026-01-08")
    ]


def test_a_given_authority_that_is_gone_is_noted_and_blocks_nothing() -> None:
    found = replace(observed(authority("a")), given_problem="Secret mine is missing")
    plan = certificates_plan(found, GIVEN, SECRETS, {"n0": HOSTS}, NOW)
    assert (plan.steps, plan.wait) == ((), None)
    assert [note.message for note in plan.notes] == ["Secret mine is missing"]


@pytest.mark.parametrize(
    ("found", "mode", "status", "reason"),
    [
        (ObservedTls(), TlsMode.DISABLED, "Unknown", "Disabled"),
        (ObservedTls(), TlsMode.ENFORCING, "False", "CertificatesPending"),
        (ObservedTls(given_problem="gone"), TlsMode.ENFORCING, "False", "AuthorityMissing"),
        (observed(authority("a")), TlsMode.ENFORCING, "True", "Valid"),
        (observed(authority("a", days=7)), TlsMode.ENFORCING, "False", "ExpiresSoon"),
        (
            replace(observed(authority("a")), controllers={"n0": certificate(days=0)}),
            TlsMode.PERMISSIVE,
            "False",
            "Expired",
        ),
    ],
)
def test_the_condition_names_the_certificate_that_ends_first(
    found: ObservedTls, mode: TlsMode, status: str, reason: str
) -> None:
    finding = certificates_finding(found, mode, SECRETS, NOW)
    assert (finding.status, finding.reason) == (status, reason)
    if reason == "Expired":
        assert finding.message == f"n0.crt of Secret {SECRET} ended on 2026-01-01"


def test_metrics_show_when_certificates_end_until_the_cluster_is_gone() -> None:
    metrics = OperatorMetrics(lambda: True)
    for found, end in ((observed(authority("a")), NOW + timedelta(days=80)), (ObservedTls(), None)):
        metrics.note_certificates("shop", "main", found)
        value = metrics.registry.get_sample_value(
            "rmqha_operator_certificate_end_timestamp_seconds", {"namespace": "shop", "cluster": "main"}
        )
        assert value == (None if end is None else end.timestamp())
