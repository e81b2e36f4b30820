"""A name server's answers with the addresses of a listener in place of those that brokers announce.

These answers name brokers:

| request | body | where |
|---|---|---|
| 105 GET_ROUTEINFO | TopicRouteData | `brokerDatas[].brokerAddrs{}`; `filterServerTable` is emptied |
| 106 GET_BROKER_CLUSTER_INFO | ClusterInfo | `brokerAddrTable{}.brokerAddrs{}` |
| 304 GET_SYSTEM_TOPIC_LIST_FROM_NS | TopicList | `brokerAddr` |
| 901 GET_BROKER_MEMBER_GROUP | GetBrokerMemberGroupResponseBody | `brokerMemberGroup.brokerAddrs{}` |

A broker without an address of the listener is left out, because a client would wait for a connection to an
address that it cannot reach. A group without any is left out of a route, but its queues stay: consumers of
one group, inside and outside, divide the same queues. A route without any reachable broker is an error:
RocketMQ's Java client keeps an empty route and does not ask for it again.

All other parts of a body stay as they are. Map keys that are numbers become texts, which every client reads.

Source: TopicRouteData.java, BrokerData.java, ClusterInfo.java, TopicList.java, BrokerMemberGroup.java of
RocketMQ 5.1.1 to 5.5.0.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from controller_core.remoting import lenient_json
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import BodyError, RemotingProtocolError, shown
from controller_core.route_front.addresses import ListenerAddresses

GROUPS_SHOWN_MAX: Final = 5
_ENCODER: Final = msgspec.json.Encoder()


class UnreachableError(Exception):
    """The listener lacks the address of every broker of a route; the text names their groups."""


def rewrite(code: int, answer: RemotingCommand, addresses: ListenerAddresses) -> RemotingCommand:
    """Return a name server's answer to request `code` with the addresses of a listener.

    Raises:
        BodyError: the body is not what this request is answered with.
        UnreachableError: no broker of the route has an address.
    """
    rewriter = _REWRITERS.get(code)
    if rewriter is None or answer.code != ResponseCode.SUCCESS or not answer.body:
        return answer
    name, change = rewriter
    try:
        value = lenient_json.decode(answer.body)
    except RemotingProtocolError as error:
        raise BodyError(name, str(error)) from error
    return msgspec.structs.replace(answer, body=_ENCODER.encode(change(_Body(name, addresses), value)))


class _Body:
    """One body on its way; every method returns a changed copy of its argument."""

    def __init__(self, name: str, addresses: ListenerAddresses) -> None:
        self._name = name
        self._addresses = addresses

    def route(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Change a topic's route (105); raise `UnreachableError` if no broker has an address for outside."""
        route = self._object(value, "body")
        datas = [self._members(data, "brokerDatas") for data in self._list(route.get("brokerDatas"))]
        reachable = [data for data in datas if data["brokerAddrs"]]
        if datas and not reachable:
            groups = ", ".join(shown(str(data.get("brokerName", ""))) for data in datas[:GROUPS_SHOWN_MAX])
            raise UnreachableError(f"the listener does not have an address of any broker of {groups}")
        rest = {key: member for key, member in route.items() if key != "filterServerTable"}
        return rest | {"brokerDatas": reachable, "filterServerTable": {}}

    def cluster_info(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Change the list of clusters and brokers (106); groups without an outside address are left out."""
        info = self._object(value, "body")
        table = self._object(info.get("brokerAddrTable"), "brokerAddrTable")
        members = {name: self._members(data, "brokerAddrTable") for name, data in table.items()}
        reachable = {name: data for name, data in members.items() if data["brokerAddrs"]}
        clusters = self._object(info.get("clusterAddrTable"), "clusterAddrTable")
        return info | {
            "brokerAddrTable": reachable,
            "clusterAddrTable": {
                cluster: [group for group in self._list(groups) if group in reachable or group not in table]
                for cluster, groups in clusters.items()
            },
        }

    def topic_list(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Change a list of system topics (304), which names one broker."""
        topics = dict(self._object(value, "body"))
        address = topics.pop("brokerAddr", None)
        outside = None if address is None else self._outside(address)
        return topics if outside is None else topics | {"brokerAddr": outside}

    def member_group(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Change the members of one group (901)."""
        body = self._object(value, "body")
        if body.get("brokerMemberGroup") is None:
            return body
        return body | {"brokerMemberGroup": self._members(body["brokerMemberGroup"], "brokerMemberGroup")}

    def _members(self, value: Any, place: str) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
        """Return a group with the listener's addresses of its members."""
        data = self._object(value, place)
        members = self._object(data.get("brokerAddrs"), "brokerAddrs")
        outside = {id_: self._outside(address) for id_, address in members.items()}
        return data | {"brokerAddrs": {id_: address for id_, address in outside.items() if address}}

    def _outside(self, address: Any) -> str | None:  # noqa: ANN401 - any JSON value
        if not isinstance(address, str):
            raise BodyError(self._name, f"address {shown(address)} is not a text")
        return self._addresses.outside(address)

    def _object(self, value: Any, place: str) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
        """Return a JSON object; an absent one is empty, as in Java."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise BodyError(self._name, f"{place} is not an object")
        return value

    def _list(self, value: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
        if value is None:
            return []
        if not isinstance(value, list):
            raise BodyError(self._name, f"{shown(value)} is not a list")
        return value


_REWRITERS: Final[Mapping[int, tuple[str, Callable[[_Body, Any], Any]]]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: ("TopicRouteData", _Body.route),
    RequestCode.GET_BROKER_CLUSTER_INFO: ("ClusterInfo", _Body.cluster_info),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: ("TopicList", _Body.topic_list),
    RequestCode.GET_BROKER_MEMBER_GROUP: ("GetBrokerMemberGroupResponseBody", _Body.member_group),
}
