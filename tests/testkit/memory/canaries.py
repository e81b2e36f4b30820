"""Canaries in memory, for the operator's tests: each host says what a test has put there, or is silent."""

import asyncio
import copy
from typing import Any

from rocketmq_operator.clients.api import PeerUnavailableError

Json = dict[str, Any]


class MemoryCanaries:
    """All canaries there are.

    Attributes:
        told: what each host answers.
        silent: hosts that never answer, and do not refuse either.
        asked: hosts in the order of the requests.
    """

    def __init__(self) -> None:
        self.told: dict[str, Json] = {}
        self.silent: set[str] = set()
        self.asked: list[str] = []

    async def gaps(self, host: str) -> Json:
        """Return what the canary at host:port knows; raise `PeerUnavailableError` if no canary is there."""
        self.asked.append(host)
        if host in self.silent:
            await asyncio.Event().wait()
        if host not in self.told:
            raise PeerUnavailableError(f"nobody is at {host}")
        return copy.deepcopy(self.told[host])
