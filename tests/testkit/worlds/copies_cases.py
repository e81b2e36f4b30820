"""Numbers of copies that a BrokerGroup must not have: name, change of a valid spec, words of the refusal."""

from typing import Any, Final

COPIES_CASES: Final[tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...]] = (
    (
        "a quorum of which a log replica is a part",
        {"durability": "Quorum", "logReplicas": 1},
        ("Quorum", "logReplicas 1", "AllInSync"),
    ),
    (
        "copies without a quorum",
        {"inSyncReplicas": 2},
        ("inSyncReplicas is 2", "AllInSync", "Quorum"),
    ),
    (
        "more copies than brokers",
        {"durability": "Quorum", "replicas": 3, "inSyncReplicas": 4},
        ("inSyncReplicas is 4", "2 to replicas", "replicas 3"),
    ),
    (
        "a quorum of one",
        {"durability": "Quorum", "replicas": 3, "inSyncReplicas": 1},
        ("inSyncReplicas", "1", "2"),
    ),
    (
        "a set that cannot be",
        {"logReplicas": 1, "minInSyncReplicas": 4},
        ("minInSyncReplicas is 4", "replicas 2", "logReplicas 1"),
    ),
    (
        "writes before there are two",
        {"minInSyncReplicas": 1},
        ("minInSyncReplicas is 1", "AllInSync", "at least", "2"),
    ),
    (
        "writes before there are enough for a quorum",
        {"durability": "Quorum", "replicas": 5, "inSyncReplicas": 3, "minInSyncReplicas": 2},
        ("minInSyncReplicas is 2", "Quorum", "at least", "3"),
    ),
    (
        "a set of brokers that have none",
        {"mode": "Static", "replicas": 3, "minInSyncReplicas": 2},
        ("minInSyncReplicas is 2", "mode Static", "Controllers"),
    ),
)
