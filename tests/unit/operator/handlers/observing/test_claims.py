"""Of two objects with one name the older has it; a kept list spares listing and never hides an older one."""

from datetime import UTC, datetime
from typing import Any

from rocketmq_operator.handlers.observing.claims import CLAIMS_CACHED, BrokerNameClaims
from testkit.memory.kubernetes import MemoryKube

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class _Counting(MemoryKube):
    """Counts lists."""

    lists = 0

    async def find(self, kind: str, namespace: str, labels: Any) -> list[Json]:
        self.lists += 1
        return await super().find(kind, namespace, labels)


def _put(kube: MemoryKube, name: str, second: int, **spec: str) -> Json:
    metadata = {"name": name, "namespace": "shop", "creationTimestamp": f"2026-01-01T00:00:{second:02d}Z"}
    kube.put({"kind": "Topic", "metadata": metadata, "spec": {"cluster": "main"} | spec})
    return kube.objects["Topic", "shop", name]


async def test_many_passes_share_one_list_for_some_seconds() -> None:
    kube, claims = _Counting(), BrokerNameClaims()
    topics = [_put(kube, f"t{number}", number) for number in range(20)]
    for topic in topics:
        assert await claims.older_owner(kube, "Topic", topic, NOW) == ""
    assert kube.lists == 1
    await claims.older_owner(kube, "Topic", topics[0], NOW + CLAIMS_CACHED)
    assert kube.lists == 2


async def test_one_that_came_after_the_list_sees_every_older_one() -> None:
    kube, claims = _Counting(), BrokerNameClaims()
    await claims.older_owner(kube, "Topic", _put(kube, "first", 0), NOW)
    _put(kube, "b", 1, topicName="prices")
    later = _put(kube, "a", 2, topicName="prices")
    assert await claims.older_owner(kube, "Topic", later, NOW) == "b"


async def test_of_two_of_the_same_second_the_name_decides_for_both() -> None:
    kube, claims = _Counting(), BrokerNameClaims()
    one = _put(kube, "a", 1, topicName="prices")
    other = _put(kube, "prices", 1)
    assert await claims.older_owner(kube, "Topic", one, NOW) == ""
    assert await claims.older_owner(kube, "Topic", other, NOW) == "a"


async def test_an_older_one_that_is_gone_is_no_rival_once_the_list_is_old() -> None:
    kube, claims = _Counting(), BrokerNameClaims()
    _put(kube, "a", 1, topicName="prices")
    later = _put(kube, "prices", 2)
    assert await claims.older_owner(kube, "Topic", later, NOW) == "a"
    kube.remove("Topic", "shop", "a")
    assert await claims.older_owner(kube, "Topic", later, NOW + CLAIMS_CACHED) == ""
