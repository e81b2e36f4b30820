"""Requests about users and rights; tests/process/brokers/test_users.py has real brokers' answers."""

import pytest

from controller_core.access.users import (
    AclInfo,
    DeleteAclRequestHeader,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    decode_list,
)
from controller_core.remoting.errors import BodyError

ALICE = UserInfo("alice", "secret-1", "Normal", "enable")
RIGHTS = AclInfo(
    "User:alice",
    (PolicyInfo("Custom", (PolicyEntryInfo("Topic:orders", ("Pub", "Sub"), ("10.0.0.0/8",), "Allow"),)),),
)


def test_bodies_are_written_as_java_reads_them() -> None:
    assert ALICE.encode() == (
        b'{"password":"secret-1","userStatus":"enable","userType":"Normal","username":"alice"}'
    )
    assert UserInfo(None, "secret-2").encode() == b'{"password":"secret-2"}'
    assert RIGHTS.encode() == (
        b'{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:orders",'
        b'"sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"}],"subject":"User:alice"}'
    )
    assert DeleteAclRequestHeader("User:alice", "Custom", "Topic:orders").to_ext() == {
        "subject": "User:alice",
        "policyType": "Custom",
        "resource": "Topic:orders",
    }


def test_lists_are_read_with_unknown_fields_and_without_absent_ones() -> None:
    body = b'[{"username":"alice","password":"secret-1","userType":"Normal","userStatus":"enable","x":1},{}]'
    assert decode_list(body, UserInfo) == (ALICE, UserInfo())
    assert decode_list(b"[" + RIGHTS.encode() + b"]", AclInfo) == (RIGHTS,)
    assert decode_list(b"", AclInfo) == decode_list(b"null", AclInfo) == ()


def test_no_text_has_a_password() -> None:
    with pytest.raises(BodyError) as raised:
        decode_list(b'[{"username":"alice","password":"secret-1","userType":7}, "secret-1"]', UserInfo)
    assert "secret-1" not in f"{raised.value} {ALICE!r} {ALICE}"
