"""Specs of learners and of static roles that must be refused, as in `crd_cases`."""

from typing import Any

from testkit.worlds.crd_cases import RefusedChange

_TWO_STATIC: dict[str, Any] = {"mode": "Static", "durability": "Async"}

MEMBER_REFUSALS = (
    RefusedChange(
        "a quorum that a learner would be a part of",
        "BrokerGroup",
        {"durability": "Quorum", "learners": {"count": 1}},
        ("durability is Quorum", "learners.count 1"),
    ),
    RefusedChange("four learners", "BrokerGroup", {"learners": {"count": 4}}, ("learners.count", "4")),
    RefusedChange("a kind of learner", "BrokerGroup", {"learners": {"kind": "Witness"}}, ("Witness",)),
    RefusedChange(
        "a log replica of a master with a static role",
        "BrokerGroup",
        {"mode": "Static", "logReplicas": 1},
        ("mode is Static", "logReplicas 1"),
    ),
    RefusedChange(
        "a learner of a master with a static role",
        "BrokerGroup",
        {"mode": "Static", "learners": {"count": 2}},
        ("mode is Static", "learners.count 2"),
    ),
    RefusedChange("a mode", "BrokerGroup", {"mode": "Manual"}, ("mode", "Manual")),
    RefusedChange(
        "controllers for two brokers with static roles",
        "BrokerGroup",
        {"mode": "Controllers"},
        ("mode cannot change from Static to Controllers", "replicas 2"),
        before=_TWO_STATIC,
        update=True,
    ),
    RefusedChange(
        "static roles after controllers",
        "BrokerGroup",
        {"mode": "Static"},
        ("mode cannot change from Controllers to Static",),
        update=True,
    ),
)
ACCEPTED_MEMBER_CHANGES = (
    ("a learner in another zone", "BrokerGroup", {"learners": {"count": 1, "kind": "Broker"}}),
    ("a log replica from the newest file", "BrokerGroup", {"logReplicas": 1, "logSyncFromLastFile": True}),
)
