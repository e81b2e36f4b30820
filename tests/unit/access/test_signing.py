"""Signatures of requests.

The expected signatures are what RocketMQ's own AclClientRPCHook (rocketmq-client 5.5.0) gave for these
requests on Java 17.
"""

import pytest

from controller_core.access.signing import ACCESS_KEY, SIGNATURE, Credentials, signed
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import decode_frame, encode

ADMIN = Credentials("rocketmq", "12345678")
FIELDS = {"topic": "orders", "queueId": "0", "a": "x", "Zeta": "", "AccessKex": "1", "AccessKez": "2"}


@pytest.mark.parametrize(
    ("ext", "body", "user", "expected"),
    [
        pytest.param(None, b"", ADMIN, "wmnVRiuXwvgUxJ6oySLyc1qu7Z4=", id="nothing"),
        pytest.param(None, b"minInSyncReplicas=2\n", ADMIN, "sAYyWdTuuWal7tBscim00sTZAQY=", id="a body"),
        pytest.param(FIELDS, b"", ADMIN, "l+uNSVuMWGtrzgolRXsxyuomcMI=", id="fields"),
        pytest.param(
            {**FIELDS, "properties": "KEYS\x01k\x02ü中", "Signature": "old"},
            "héllo".encode(),
            Credentials("alïce", "päss wörd"),
            "1/+SO3pCs7vEPVeE6dvS2Z9xpyA=",
            id="other letters, and an earlier signature",
        ),
    ],
)
def test_a_request_is_signed_as_javas_client_signs_it(
    ext: dict[str, str] | None, body: bytes, user: Credentials, expected: str
) -> None:
    found = signed(RemotingCommand.request(25, ext, body), user)
    assert found.ext is not None
    assert (found.ext[ACCESS_KEY], found.ext[SIGNATURE]) == (user.username, expected)
    assert {name: value for name, value in found.ext.items() if name not in (ACCESS_KEY, SIGNATURE)} == {
        name: value for name, value in (ext or {}).items() if name != SIGNATURE
    }
    assert decode_frame(encode(found)[4:]).ext == found.ext


def test_a_signature_does_not_depend_on_the_opaque_or_the_order_of_fields() -> None:
    request = RemotingCommand.request(310, FIELDS, b"-")
    turned = RemotingCommand.request(310, dict(reversed(FIELDS.items())), b"-", oneway=True).with_opaque(7)
    assert signed(request, ADMIN).ext == signed(turned, ADMIN).ext
    assert signed(turned, ADMIN).opaque == 7


def test_no_text_of_credentials_has_the_password() -> None:
    assert "12345678" not in f"{ADMIN!r} {ADMIN}"
