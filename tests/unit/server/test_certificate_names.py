"""The names of certificates: which host one is good for, and whether it is an administrator's."""

from typing import Any

import pytest

from controller_core.server.common.certificate_names import (
    is_administrator,
    names_host,
    shown_names,
    subject_names,
)

CERTIFICATE: dict[str, Any] = {
    "subject": ((("organizationName", "o"),), (("commonName", "Admin"),)),
    "subjectAltName": (("DNS", "c-0.C.ns.svc"), ("DNS", "*.wild.ns"), ("IP Address", "fd00:0:0:0:0:0:0:1")),
}


@pytest.mark.parametrize(
    ("host", "is_named"),
    [
        ("c-0.c.ns.svc", True),
        ("C-0.c.ns.svc.", True),
        ("c-1.c.ns.svc", False),
        ("fd00::1", True),
        ("fd00::2", False),
        ("a.wild.ns", True),
        ("a.b.wild.ns", False),
        ("wild.ns", False),
        ("*.wild.ns", True),
        ("Admin", False),
        ("", False),
    ],
)
def test_a_certificate_is_good_for_its_alternative_names_only(host: str, is_named: bool) -> None:
    assert names_host(CERTIFICATE, host) is is_named
    assert not names_host({}, host)


def test_an_administrator_has_an_allowed_common_or_dns_name() -> None:
    assert is_administrator(CERTIFICATE, {"admin"})
    assert is_administrator(CERTIFICATE, {"c-0.c.ns.svc"})
    assert is_administrator(CERTIFICATE, frozenset())
    assert not is_administrator(CERTIFICATE, {"o", "other"})
    assert not is_administrator(None, frozenset())
    assert not is_administrator({}, frozenset())


def test_names_are_shown_without_the_rest() -> None:
    assert subject_names(CERTIFICATE) == {"admin", "c-0.c.ns.svc", "*.wild.ns"}
    assert shown_names(CERTIFICATE) == "*.wild.ns, c-0.C.ns.svc, fd00:0:0:0:0:0:0:1"
    assert shown_names({}) == "no host"
