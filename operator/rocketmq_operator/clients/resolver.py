"""Where a host of the cluster is, as the API server knows it.

That is the ClusterIP of its Service; DNS answers for all other hosts.

Problem: the node that takes a master with it may take the only DNS server too, and an operator that resolves
names sees no controllers then, just when it should move an address. Shape: a resolver for aiohttp.
`POD.SET.NAMESPACE.svc` and `NAME.NAMESPACE.svc` mean a Service of the first label's name, as it is kept
(`clients.reflection`), else as the API server says; what it was last time holds while that gives no answer.
Never: pods' own addresses. They change with every restart; a Service's stays.
"""

import asyncio
import contextlib
import socket
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from rocketmq_operator.clients.api import Json, KubeApi, PeerUnavailableError

ASK_TIMEOUT_S: Final = 0.5
"""Of the second that a connection to a controller may take."""
_NO_ADDRESS: Final = frozenset({"", "None"})


class ServiceResolver(AbstractResolver):
    """Resolves Services by the cache or the API server, and other hosts by another resolver."""

    def __init__(self, kube: KubeApi, others: AbstractResolver) -> None:
        """Store the source of Services, and the resolver of other hosts."""
        self._kept: KubeApi | None = None
        self._kube: Final = kube
        self._others: Final = others
        self._known: Final[dict[str, str]] = {}

    def prefer(self, cached: KubeApi) -> None:
        """Ask this one first from now on.

        It costs the API server nothing, and need not know every Service.
        """
        self._kept = cached

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return where a host is.

        Raises:
            OSError: the host is unknown.
        """
        address = await self._service_address(host)
        if address is None:
            return await self._others.resolve(host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Close the resolver of other hosts."""
        await self._others.close()

    async def _service_address(self, host: str) -> str | None:
        labels = host.split(".")
        if len(labels) not in {3, 4} or labels[-1] != "svc":
            return None
        name, namespace = labels[0], labels[-2]
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                service = await self._cached_service(namespace, name) or await self._kube.get(
                    "Service", namespace, name
                )
        except (PeerUnavailableError, TimeoutError):
            return self._known.get(host)
        address = "" if service is None else str(service["spec"].get("clusterIP", ""))
        if address in _NO_ADDRESS:
            self._known.pop(host, None)
            return None
        self._known[host] = address
        return address

    async def _cached_service(self, namespace: str, name: str) -> Json | None:
        if self._kept is None:
            return None
        with contextlib.suppress(PeerUnavailableError):
            return await self._kept.get("Service", namespace, name)
        return None
