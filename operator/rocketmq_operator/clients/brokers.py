"""Brokers and name servers over remoting.

Topics, consumer groups and users read, written and forgotten, as mqadmin does.

Each call opens a new connection. Calls are rare, and an open connection would lead to the broker that had the
address when the client connected: after a takeover and back that may be a slave.

Never 352 (GET_SUBSCRIPTIONGROUP_CONFIG): asked for a group that is not there, a broker on its defaults makes
it.

Source: RocketMQ 5.3.3 AdminBrokerProcessor.java, DefaultRequestProcessor.java of the name server; tried with
5.2.0 and 5.5.0.
"""

import json
from functools import partial
from typing import Any, Final

from controller_core.access.signing import Credentials, Sign, signed
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting import lenient_json
from controller_core.remoting.client_headers import (
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.header import Header
from controller_core.remoting.host_port import read_host_port
from rocketmq_operator.api.names import TOPIC_KIND, USER_KIND
from rocketmq_operator.clients.api import Json, PeerUnavailableError, RequestRefusedError
from rocketmq_operator.clients.broker_users import (
    Ask,
    delete_account,
    read_account,
    read_signer,
    write_account,
)

_TABLE: Final = "subscriptionGroupTable"


class BrokersClient:
    """`BrokerApi` over remoting."""

    async def read(
        self, address: str, kind: str, name: str, credentials: Credentials | None = None
    ) -> Json | None:
        """Return one as the broker at host:port has it, None if it has none."""
        sign = _sign(credentials)
        if kind == USER_KIND.kind:
            return await read_account(_ask(address, sign), name)
        if kind == TOPIC_KIND.kind:
            try:
                header = GetTopicConfigRequestHeader(name)
                body = await _answer(address, RequestCode.GET_TOPIC_CONFIG, header, sign=sign)
            except _MissingError:
                return None
            return _object(address, _decoded(address, body))
        body = await _answer(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, sign=sign)
        table = _object(address, _object(address, _decoded(address, body)).get(_TABLE))
        return _object(address, table[name]) if name in table else None

    async def write(
        self, address: str, kind: str, config: Json, credentials: Credentials | None = None
    ) -> None:
        """Make or change one; raise `RequestRefusedError` if the broker would not."""
        sign = _sign(credentials)
        if kind == USER_KIND.kind:
            await write_account(_ask(address, sign), config)
        elif kind == TOPIC_KIND.kind:
            attributes = config.get("attributes") or {}
            header = CreateTopicRequestHeader.of_config(config["topicName"], config, attributes)
            await _answer(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header, sign=sign)
        else:
            body = json.dumps(config).encode()
            await _answer(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body, sign=sign)

    async def delete(
        self, address: str, kind: str, name: str, credentials: Credentials | None = None
    ) -> None:
        """Have a broker forget a topic with its messages, a consumer group with its offsets, or a user."""
        sign = _sign(credentials)
        if kind == USER_KIND.kind:
            await delete_account(_ask(address, sign), name)
        elif kind == TOPIC_KIND.kind:
            topic = DeleteTopicRequestHeader(name)
            await _answer(address, RequestCode.DELETE_TOPIC_IN_BROKER, topic, sign=sign)
        else:
            header = DeleteSubscriptionGroupRequestHeader(name, clean_offset=True)
            await _answer(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header, sign=sign)

    async def signs_as(self, address: str, credentials: Credentials) -> str:
        """Return the user as which the broker at host:port signs its own requests, empty for none."""
        return await read_signer(_ask(address, _sign(credentials)))

    async def delete_route(self, address: str, cluster: str, topic: str) -> None:
        """Have the name server at host:port forget a topic's routes to the brokers of a cluster."""
        header = DeleteTopicFromNamesrvRequestHeader(topic, cluster)
        await _answer(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)


class _MissingError(RequestRefusedError):
    """The topic does not exist in the broker."""


def _sign(credentials: Credentials | None) -> Sign | None:
    return None if credentials is None else partial(signed, credentials=credentials)


def _ask(address: str, sign: Sign | None) -> Ask:
    return lambda code, header, body: _answer(address, code, header, body, sign)


async def _answer(
    address: str,
    code: RequestCode,
    header: Header | None = None,
    body: bytes = b"",
    sign: Sign | None = None,
) -> bytes:
    asker = Asker(read_host_port(address), sign)
    try:
        return (await asker.ask(code, header, body)).body
    except AskError as error:
        problem = f"{address}: {error}"
        if error.code is None:
            raise PeerUnavailableError(problem) from error
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            raise _MissingError(problem) from error
        raise RequestRefusedError(problem) from error
    finally:
        asker.close()


def _decoded(address: str, body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return lenient_json.decode(body)
    except RemotingProtocolError as error:
        raise PeerUnavailableError(f"{address}: {error}") from error


def _object(address: str, value: object) -> Json:
    if not isinstance(value, dict):
        raise PeerUnavailableError(f"the answer of {address} lacks the expected JSON object")
    return value
