"""Companions in memory, for the operator's tests: each says what a test has put there, or is silent."""

import copy
from typing import Any

from rocketmq_operator.clients.api import PeerUnavailableError

Json = dict[str, Any]


class MemoryCompanions:
    """All companions there are.

    Attributes:
        told: what each host answers.
        asked: hosts in the order of the requests.
    """

    def __init__(self) -> None:
        self.told: dict[str, Json] = {}
        self.asked: list[str] = []

    async def status(self, host: str) -> Json:
        """Return the facts of the companion at host:port; raise `PeerUnavailableError` without one."""
        self.asked.append(host)
        if host not in self.told:
            raise PeerUnavailableError(f"nobody is at {host}")
        return copy.deepcopy(self.told[host])
