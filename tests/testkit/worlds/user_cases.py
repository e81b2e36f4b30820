"""Specs of users that must be refused, with the words of the refusal, and some that must be accepted."""

from typing import Any, Final

from testkit.worlds.crd_cases import RefusedChange

Json = dict[str, Any]


def rights(**right: object) -> Json:
    """Return a change with one right, these fields laid over a valid one."""
    return {"rights": [{"resource": "Topic:orders", "actions": ["Pub"]} | right]}


def _refused(name: str, change: Json, *words: str) -> RefusedChange:
    return RefusedChange(name, "User", change, words)


USER_REFUSALS: Final = (
    _refused("a user of the operator's own", {"username": "rocketmq-ha-2"}, "username", "rocketmq-ha-2"),
    _refused("a username with a space", {"username": "al ice"}, "username", "al ice"),
    _refused("a username with a colon", {"username": "User:alice"}, "username", "User:alice"),
    _refused("an unknown type of user", {"type": "Admin"}, "type", "Admin"),
    _refused("a super user with rights", {"type": "Super"} | rights(), "type is Super", "1 rights"),
    _refused("a resource of an unknown kind", rights(resource="Queue:orders"), "resource", "Queue:orders"),
    _refused("an asterisk within a resource", rights(resource="Topic:a*b"), "resource", "Topic:a*b"),
    _refused("a resource without a name", rights(resource="Topic:"), "resource", "Topic:"),
    _refused("an unknown action", rights(actions=["Write"]), "actions", "Write"),
    _refused("a right to nothing", rights(actions=[]), "actions"),
    _refused("an address out of range", rights(sourceIps=["10.0.0.256"]), "sourceIps", "10.0.0.256"),
    _refused("a network out of range", rights(sourceIps=["10.0.0.0/33"]), "sourceIps", "10.0.0.0/33"),
    _refused("an address of IPv6", rights(sourceIps=["::1"]), "sourceIps", "::1"),
    _refused("an unknown decision", rights(decision="Maybe"), "decision", "Maybe"),
    _refused("a Secret in a folder", {"passwordSecret": {"name": "../x"}}, "passwordSecret", "../x"),
    _refused(
        "a key with a slash", {"passwordSecret": {"name": "keys", "key": "a/b"}}, "passwordSecret", "a/b"
    ),
    RefusedChange(
        "a user that gets another name",
        "User",
        {"username": "bob"},
        ("username cannot change from alice to bob",),
        {"username": "alice"},
        update=True,
    ),
    RefusedChange(
        "a user that moves", "User", {"cluster": "other"}, ("cluster", "main", "other"), update=True
    ),
)
ACCEPTED_USER_CHANGES: Final = (
    (
        "rights of many kinds",
        "User",
        {
            "rights": [
                {"resource": resource, "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.0/8", "192.0.2.1"]}
                for resource in ("*", "Topic:*", "Topic:%RETRY%a|b", "Group:readers-*", "Cluster:main")
            ]
        },
    ),
    ("a right that denies", "User", rights(decision="Deny", actions=["All"])),
    ("a super user", "User", {"type": "Super"}),
    ("a user that is off", "User", {"enabled": False}),
    ("a password of one's own", "User", {"passwordSecret": {"name": "keys", "key": "alice.v2"}}),
    ("a user whose name is no object's", "User", {"username": "Order_Service@shop.2"}),
)
