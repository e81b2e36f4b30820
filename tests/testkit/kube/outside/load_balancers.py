"""The part of a platform that gives Services of type LoadBalancer their addresses.

It watches the Services of a namespace and writes `status.loadBalancer.ingress` of those of its class, as a
cloud's controller does. It balances nothing: the kernel of `testkit.nodes.outside_network` leads each address
to a node port of its Service.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import Final, NamedTuple, Self

from testkit.kube.kubectl import Cluster, KubeError, program
from testkit.nodes.outside_network import BALANCED

_COLUMNS: Final = (
    "{.metadata.name}",
    "{.spec.type}",
    "{.spec.loadBalancerClass}",
    "{.status.loadBalancer.ingress[0].ip}",
)
_AGAIN_S: Final = 1.0


class BalancedService(NamedTuple):
    """A Service as far as load balancers matter; `address` is empty until it has one."""

    name: str
    type: str
    load_balancer_class: str
    address: str


def service_of(line: str) -> BalancedService:
    """Return the Service of a line of the watch.

    Raises:
        ValueError: the line has other columns.
    """
    name, type_, class_, address = line.split("|")
    return BalancedService(name, type_, class_, address)


def next_address(service: BalancedService, load_balancer_class: str, taken: Iterable[str]) -> str | None:
    """Return the address that a Service must get; None if it has one, or belongs to another controller.

    Raises:
        KubeError: no address is left.
    """
    is_ours = service.type == "LoadBalancer" and service.load_balancer_class == load_balancer_class
    if not is_ours or service.address:
        return None
    used = set(taken)
    free = next((str(host) for host in BALANCED.hosts() if str(host) not in used), None)
    if free is None:
        raise KubeError(f"no address of {BALANCED} is left for {service.name}")
    return free


class LoadBalancerController:
    """The controller of one class of load balancers.

    Attributes:
        given: the address of each Service that it gave one.
    """

    def __init__(self, cluster: Cluster, load_balancer_class: str = "") -> None:
        """Take the cluster, of which it watches one namespace, and the class; empty is the default class."""
        self._cluster: Final = cluster
        self._class: Final = load_balancer_class
        self.given: Final[dict[str, str]] = {}

    @contextlib.asynccontextmanager
    async def balancing(self) -> AsyncIterator[Self]:
        """Work for as long as the context lasts.

        Raises:
            KubeError: it could not go on; told at the end.
        """
        task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def ports(self) -> dict[tuple[str, int], int]:
        """Return the node port by address and port of each Service that has an address."""
        services = await self._cluster.find("services")
        return {
            (self.given[service["metadata"]["name"]], port["port"]): port["nodePort"]
            for service in services
            if service["metadata"]["name"] in self.given
            for port in service["spec"]["ports"]
        }

    async def _run(self) -> None:
        while True:
            await self._watch()
            # A watch ends now and then, and begins again with all Services.
            await asyncio.sleep(_AGAIN_S)

    async def _watch(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(program("kubectl") or "kubectl", f"--kubeconfig={self._cluster.kubeconfig}"),
            *(f"--namespace={self._cluster.namespace}", "get", "services", "--watch"),
            *("-o", "jsonpath=" + "|".join(_COLUMNS) + r'{"\n"}'),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        if process.stdout is None:
            raise KubeError("kubectl has no output")
        try:
            async for line in process.stdout:
                await self._take(service_of(line.decode().strip()))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()

    async def _take(self, service: BalancedService) -> None:
        address = next_address(service, self._class, self.given.values())
        if address is None or service.name in self.given:
            return
        status = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}})
        arguments = ("patch", "service", service.name, "--subresource=status", "--type=merge")
        # A Service may have been deleted meanwhile; the watch tells of the next one.
        with contextlib.suppress(KubeError):
            await self._cluster.kubectl(*arguments, f"--patch={status}")
            self.given[service.name] = address
