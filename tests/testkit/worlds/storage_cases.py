"""Storage of groups that must be refused, and the words of the refusal."""

from testkit.worlds.crd_cases import RefusedChange

STORAGE_REFUSALS = (
    RefusedChange(
        "a group that becomes ephemeral",
        "BrokerGroup",
        {"storage": {"ephemeral": True}},
        ("storage.ephemeral", "false", "true"),
        update=True,
    ),
    *(
        RefusedChange(
            f"an ephemeral group with {field}",
            "BrokerGroup",
            {"storage": {"ephemeral": True, field: value}},
            ("storage.ephemeral is true", f"storage.{field}", "remove it"),
        )
        for field, value in (
            ("storageClassName", "fast"),
            ("volumeAttributesClassName", "fast"),
            ("labels", {"team": "payments"}),
            ("annotations", {"team": "payments"}),
            ("tiered", {"size": "1Gi"}),
        )
    ),
    RefusedChange(
        "an ephemeral group with a class for its learners",
        "BrokerGroup",
        {"storage": {"ephemeral": True}, "learners": {"storage": {"size": "1Gi", "storageClassName": "far"}}},
        ("storage.ephemeral is true", "learners.storage.storageClassName far", "remove it"),
    ),
    *(
        RefusedChange(
            f"{field} of claims that are the operator's",
            "BrokerGroup",
            {"storage": {field: {"rocketmq-ha.dev/group": "x"}}},
            (f"storage.{field}", "rocketmq-ha.dev/group"),
        )
        for field in ("labels", "annotations")
    ),
    RefusedChange(
        "a second volume that is added",
        "BrokerGroup",
        {"storage": {"tiered": {"size": "7Gi"}}},
        ("storage.tiered", "none", "7Gi"),
        update=True,
    ),
    RefusedChange(
        "another path of tiered storage than the second volume",
        "BrokerGroup",
        {"storage": {"tiered": {"size": "1Gi"}}, "config": {"tieredStoreFilePath": "/elsewhere"}},
        ("config.tieredStoreFilePath", "/elsewhere", "remove it"),
    ),
)

ACCEPTED_STORAGE_CHANGES = (
    (
        "labels and a class of volumes",
        "BrokerGroup",
        {"storage": {"labels": {"team": "payments"}, "volumeAttributesClassName": "fast"}},
    ),
)
