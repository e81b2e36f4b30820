"""The connections that a controller accepts: each line of the rule's table."""

from dataclasses import replace

import pytest

from controller_core.server.peers.codec import PROTOCOL_VERSION, Greeting, GreetingAnswer
from controller_core.server.peers.greeting_rules import Identity, KnownPeer, judge, store_fingerprint

OWN = Identity("main", 1, "store1", "host1:9878")
PEERS = {1: KnownPeer((("h", 1),), "store1"), 2: KnownPeer((("h", 2),), "store2"), 3: KnownPeer((("h", 3),))}
WELCOME = Greeting(PROTOCOL_VERSION, "main", 2, 1, "store2", "store1")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, GreetingAnswer.NONE),
        ({"expected": ""}, GreetingAnswer.NONE),
        ({"from_id": 3, "incarnation": "first seen"}, GreetingAnswer.NONE),
        ({"version": 1}, GreetingAnswer.PROTOCOL),
        ({"cluster": "other"}, GreetingAnswer.PROTOCOL),
        ({"to_id": 2}, GreetingAnswer.PROTOCOL),
        ({"expected": "store0"}, GreetingAnswer.PROTOCOL),
        ({"from_id": 4}, GreetingAnswer.UNKNOWN),
        ({"from_id": 1}, GreetingAnswer.UNKNOWN),
        ({"incarnation": "new"}, GreetingAnswer.INCARNATION),
        ({"incarnation": ""}, GreetingAnswer.INCARNATION),
    ],
)
def test_a_member_is_judged_by_who_it_is(changed: dict[str, object], why: GreetingAnswer) -> None:
    reply = judge(replace_greeting(changed), OWN, PEERS, waiting=False)
    assert reply.why == why
    assert bool(reply.reason) == (why is not GreetingAnswer.NONE)
    assert reply.incarnation == ""
    assert not any(store in reply.reason for store in ("store1", "store2"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, GreetingAnswer.NONE),
        ({"from_id": 9}, GreetingAnswer.NONE),
        ({"expected": ""}, GreetingAnswer.EMPTY),
        ({"expected": "store0"}, GreetingAnswer.EMPTY),
        ({"cluster": "other"}, GreetingAnswer.PROTOCOL),
    ],
)
def test_a_node_without_a_cluster_is_open_only_to_who_knows_its_store(
    changed: dict[str, object], why: GreetingAnswer
) -> None:
    assert judge(replace_greeting(changed), OWN, {}, waiting=True).why == why


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize(("host", "is_welcome"), [("h", True), ("other", False)])
def test_a_certificate_must_name_a_host_of_the_member_that_shows_it(
    host: str, is_welcome: bool, waiting: bool
) -> None:
    certificate = {"subjectAltName": (("DNS", host),)}
    reply = judge(replace_greeting({}), OWN, PEERS, waiting=waiting, certificate=certificate)
    assert (reply.why == GreetingAnswer.NONE) is is_welcome
    if not is_welcome:
        assert reply.reason == "the certificate of node 2 is for other, expected h: the hosts of the member"


def test_a_node_without_an_incarnation_is_open_to_nobody_while_it_waits() -> None:
    assert (
        judge(replace_greeting({"expected": ""}), Identity("main", 1), {}, waiting=True).why
        == GreetingAnswer.EMPTY
    )


def test_the_refusal_of_a_lost_store_says_what_to_do() -> None:
    reply = judge(replace_greeting({"incarnation": "new"}), OWN, PEERS, waiting=False)
    old, new = store_fingerprint("store2"), store_fingerprint("new")
    assert reply.reason == (
        f"node 2 is a member with store {old} and comes with store {new}: "
        "remove the member, then add it again"
    )


def test_an_identity_greets_with_all_that_it_is() -> None:
    greeting = replace(OWN).greeting(2, "store2", asks=True)
    assert greeting == Greeting(PROTOCOL_VERSION, "main", 1, 2, "store1", "store2", "host1:9878", asks=True)


def replace_greeting(changed: dict[str, object]) -> Greeting:
    fields = {name: getattr(WELCOME, name) for name in WELCOME.__struct_fields__}
    return Greeting(**{**fields, **changed})
