"""Which requests a route front passes to a name server, and which it refuses.

It passes what clients and tools read. It refuses the rest, for three reasons:

- A name server knows a broker by its connection, and removes the broker when that connection ends. Through a
  route front, all brokers would share one connection.
- A tool sends a change to every name server that it knows. Through a route front, the change would reach only
  one of them, and their answers would differ from then on.
- Name servers check neither users nor permissions. Clients outside must not change what they hold.

Source: RocketMQ 5.1.1 to 5.5.0 DefaultRequestProcessor.java of the name server.
"""

from typing import Final

from controller_core.remoting.codes import RequestCode

PASSED: Final[frozenset[int]] = frozenset(
    {
        RequestCode.GET_KV_CONFIG,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.GET_NAMESRV_CONFIG,
        RequestCode.GET_BROKER_MEMBER_GROUP,
    }
)
"""Requests that read from a name server."""


def refusal(code: int) -> str | None:
    """Return why a request is refused, None if a name server answers it."""
    if code in PASSED:
        return None
    return f"request {code} is not for a route front: it passes only requests that read; use a name server"
