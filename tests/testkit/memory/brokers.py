"""Brokers and name servers in memory, for the operator's tests: topics, consumer groups and users by address.

As Java's: a write replaces all but attributes, which are merged; one that cannot change is
refused, also with the same value. A user has no attributes.
"""

import copy
from typing import Any

from controller_core.access.signing import Credentials
from rocketmq_operator.clients.api import PeerUnavailableError, RequestRefusedError

Json = dict[str, Any]
UNCHANGEABLE = ("cleanup.policy", "queue.type")
_NAMES = {"Topic": "topicName", "ConsumerGroup": "groupName", "User": "username"}


class MemoryBrokers:
    """All brokers.

    Attributes:
        tables: by address, then by (kind, name): what the broker there has.
        silent: addresses at which no broker answers.
        refused: names that brokers refuse to take or to forget.
        routes: (address of a name server, cluster, topic) of each route that was deleted.
        calls: the requests that change something, in words.
        credentials: the user whose signature brokers ask for; None for none.
        signers: by address, the user as which that broker signs; "rocketmq-ha" where absent.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[str, str], Json]] = {}
        self.silent: set[str] = set()
        self.refused: set[str] = set()
        self.routes: list[tuple[str, str, str]] = []
        self.calls: list[str] = []
        self.credentials: Credentials | None = None
        self.signers: dict[str, str] = {}

    async def read(
        self, address: str, kind: str, name: str, credentials: Credentials | None = None
    ) -> Json | None:
        """Return what the broker has."""
        self._authenticate(address, credentials)
        return copy.deepcopy(self._table(address).get((kind, name)))

    async def write(
        self, address: str, kind: str, config: Json, credentials: Credentials | None = None
    ) -> None:
        """Make or change one."""
        self._authenticate(address, credentials)
        name = config[_NAMES[kind]]
        table = self._table(address)
        self._take(f"write {kind} {name} at {address}", name)
        if kind == "User":
            table[kind, name] = copy.deepcopy(config)
            return
        before = table.get((kind, name))
        attributes = dict(before["attributes"]) if before else {}
        for key, value in config.get("attributes", {}).items():
            if not key.startswith("+") or (before is not None and key[1:] in UNCHANGEABLE):
                raise RequestRefusedError(
                    f"{address}: attempt to update an unchangeable attribute. key: {key[1:]}"
                )
            attributes[key[1:]] = value
        table[kind, name] = copy.deepcopy(config) | {"attributes": attributes}

    async def delete(
        self, address: str, kind: str, name: str, credentials: Credentials | None = None
    ) -> None:
        """Forget one."""
        self._authenticate(address, credentials)
        table = self._table(address)
        self._take(f"delete {kind} {name} at {address}", name)
        table.pop((kind, name), None)

    async def signs_as(self, address: str, credentials: Credentials) -> str:
        """Return the user as which the broker signs."""
        self._authenticate(address, credentials)
        self._table(address)
        return self.signers.get(address, "rocketmq-ha")

    async def delete_route(self, address: str, cluster: str, topic: str) -> None:
        """Forget a topic's routes."""
        self._table(address)
        self.routes.append((address, cluster, topic))

    def _authenticate(self, address: str, credentials: Credentials | None) -> None:
        if self.credentials is not None and credentials != self.credentials:
            raise RequestRefusedError(f"{address}: request was answered 16: check signature failed")

    def _take(self, words: str, name: str) -> None:
        self.calls.append(words)
        if name in self.refused:
            raise RequestRefusedError(f"{words}: the topic[{name}] is conflict with system topic.")

    def _table(self, address: str) -> dict[tuple[str, str], Json]:
        if address in self.silent:
            raise PeerUnavailableError(f"{address}: connection refused")
        return self.tables.setdefault(address, {})
