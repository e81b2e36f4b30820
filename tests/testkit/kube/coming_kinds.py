"""An operator on a real API server whose definitions come late, go, and come back.

Objects of somebody else are in its way.

Run it as root: `python -m testkit.kube.coming_kinds FOLDER`. It prints one line for each thing that was seen,
and ends with 1 if one was not. The API server is in a network namespace of its own (`testkit.kube.bare`).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

from rocketmq_operator.api.definitions.crds import custom_resource_definitions
from rocketmq_operator.api.names import API_VERSION
from testkit.kube.bare import BareKube, enter_own_network, sent
from testkit.kube.kubectl import KubeError, until
from testkit.processes.process import ManagedProcess

Json = dict[str, Any]
OPERATOR: Final = "operator"
HTTP_PORT: Final = 8080
WITHIN_S: Final = 60.0
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OURS: Final = f"/apis/{API_VERSION}/namespaces/default"
_LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases/rocketmq-operator"
ENDS_WITHIN_S: Final = 4.0
"""Time in seconds in which an operator ends after SIGTERM, with the Lease given away.

A busy machine can pause for half of it.
"""
_TOPICS: Final = "topics.rocketmq-ha.dev"
_REFUSED: Final = (
    "main-controller",
    "main-nameserver",
    "main-proxy",
    "main-controller-4",
    "main-nameserver-0",
)
_ACCEPTED: Final = ("main-controllers", "main-controller-x", "audit-log")
_FOREIGN: Final[tuple[tuple[str, str, Json], ...]] = (
    ("services", "Service", {"spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}}),
    ("configmaps", "ConfigMap", {"data": {"app.properties": "db=prod"}}),
)


class KindsScene:
    """The API server, the operator's health, and what a person does there."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Take a session of the API server's administrator."""
        self._session: Final = session

    async def apply_definitions(self, *, but: str = "") -> None:
        """Create all definitions but one."""
        for definition in custom_resource_definitions():
            if definition["metadata"]["name"] != but:
                await self._try_to_create(_DEFINITIONS, definition)

    async def _try_to_create(self, path: str, body: Json) -> None:
        try:
            await sent(self._session, "POST", path, body)
        except KubeError as error:
            if "409" not in str(error):
                raise

    async def create(self, plural: str, kind: str, name: str, spec: Json) -> None:
        """Create an object of ours, as soon as its kind is served."""
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}

        async def taken() -> bool:
            try:
                await sent(self._session, "POST", f"{_OURS}/{plural}", body)
            except aiohttp.ContentTypeError:
                return False  # 404 page not found: the kind is not served yet
            return True

        await until(f"{kind} {name} is taken", taken, WITHIN_S)

    async def refusal(self, plural: str, kind: str, name: str, spec: Json) -> str:
        """Return why an object of ours is refused, empty if it is not."""
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        try:
            await sent(self._session, "POST", f"{_OURS}/{plural}", body)
        except KubeError as error:
            return str(error)
        return ""

    async def delete_definition(self, name: str) -> None:
        """Delete a definition and wait until it is gone."""
        await sent(self._session, "DELETE", f"{_DEFINITIONS}/{name}")

        async def gone() -> bool:
            async with self._session.get(f"{_DEFINITIONS}/{name}") as response:
                return response.status == 404

        await until(f"{name} is gone", gone, WITHIN_S)

    async def get(self, path: str) -> Json:
        """Return an object."""
        return await sent(self._session, "GET", path)

    async def create_foreign(self, name: str) -> None:
        """Create objects of somebody else with a name."""
        for plural, kind, body in _FOREIGN:
            whole = {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": {"name": name, "labels": {"app": "web"}},
                **body,
            }
            await sent(self._session, "POST", f"/api/v1/namespaces/default/{plural}", whole)

    async def delete_foreign(self, name: str) -> None:
        """Delete them."""
        for plural, _, _ in _FOREIGN:
            await sent(self._session, "DELETE", f"/api/v1/namespaces/default/{plural}/{name}")

    async def has_reason(self, plural: str, name: str) -> str:
        """Return the reason of the status of an object of ours, empty while it is unset."""
        reason: str = (await self.get(f"{_OURS}/{plural}/{name}")).get("status", {}).get("reason", "")
        return reason

    async def until_reason(self, plural: str, name: str, holds: Callable[[str], bool]) -> str:
        """Wait until the reason in a status is as it should be; return it."""

        async def is_so() -> bool:
            return holds(await self.has_reason(plural, name))

        await until(f"{plural} {name} has its reason", is_so, WITHIN_S)
        return await self.has_reason(plural, name)

    async def until_health(self, path: str, status: int, words: str = "") -> None:
        """Wait until the operator answers so."""
        async with aiohttp.ClientSession(f"http://127.0.0.1:{HTTP_PORT}") as session:

            async def is_so() -> bool:
                try:
                    async with session.get(path) as response:
                        return response.status == status and words in await response.text()
                except aiohttp.ClientError:
                    return False

            await until(f"{path} answers {status} {words}", is_so, WITHIN_S)


async def late_kind(scene: KindsScene) -> None:
    """See an operator that started before a definition take up an object of it."""
    await scene.until_health("/readyz", 503, "Topic")
    await scene.until_health("/livez", 200)
    await scene.apply_definitions()
    await scene.until_health("/readyz", 200)
    await scene.create("topics", "Topic", "early", {"cluster": "main"})
    await scene.until_reason("topics", "early", bool)


async def deleted_kind(scene: KindsScene) -> None:
    """See an operator take up an object of a definition that was deleted and applied again."""
    await scene.delete_definition(_TOPICS)
    await scene.until_health("/readyz", 503, "Topic")
    await scene.until_health("/livez", 200)
    await scene.apply_definitions()
    await scene.until_health("/readyz", 200)
    await scene.create("topics", "Topic", "prices", {"cluster": "main"})
    await scene.until_reason("topics", "prices", bool)


async def foreign_objects(scene: KindsScene) -> None:
    """See that foreign objects are left alone, and that a group goes on when they are gone."""
    await scene.create("rocketmqclusters", "RocketMQCluster", "main", {})
    await scene.create_foreign("pay")
    before = await scene.get("/api/v1/namespaces/default/services/pay")
    await scene.create("brokergroups", "BrokerGroup", "pay", {"cluster": "main", "storage": {"size": "1Gi"}})
    await scene.until_reason("brokergroups", "pay", lambda reason: reason == "NameTaken")
    assert await scene.get("/api/v1/namespaces/default/services/pay") == before
    await scene.delete_foreign("pay")
    await scene.until_reason("brokergroups", "pay", lambda reason: reason != "NameTaken")


async def group_names(scene: KindsScene) -> None:
    """See that names of a cluster's objects are refused to its groups, and others are not."""
    spec = {"cluster": "main", "storage": {"size": "1Gi"}}
    for name in _ACCEPTED:
        await scene.create("brokergroups", "BrokerGroup", name, spec)
    for name in _REFUSED:
        assert "has objects of that name" in await scene.refusal("brokergroups", "BrokerGroup", name, spec)


async def ending(scene: KindsScene, operator: ManagedProcess) -> None:
    """See an operator end in good order after SIGTERM, and leave the Lease to the next one."""
    assert (await scene.get(_LEASE))["spec"]["holderIdentity"]
    assert await operator.stop(ENDS_WITHIN_S) == 0
    assert not (await scene.get(_LEASE))["spec"].get("holderIdentity")


SIGHTS: Final[tuple[Callable[[KindsScene], Awaitable[None]], ...]] = (
    late_kind,
    deleted_kind,
    foreign_objects,
    group_names,
)


async def _main(folder: Path) -> int:
    failed = 0
    async with BareKube(folder, (OPERATOR,)) as kube, kube.session() as session:
        scene = KindsScene(session)
        await scene.apply_definitions(but=_TOPICS)
        program = [sys.executable, "-c", "from rocketmq_operator.cli import main; raise SystemExit(main())"]
        arguments = [
            "run",
            "--namespace",
            "default",
            "--http",
            f"127.0.0.1:{HTTP_PORT}",
        ]
        environment = {"KUBECONFIG": str(kube.kubeconfig(OPERATOR))}
        operator = ManagedProcess(
            "operator", [*program, *arguments], folder / "operator.log", env=environment
        )
        await operator.start()
        try:
            for sight in SIGHTS:
                try:
                    await sight(scene)
                    sys.stdout.write(f"ok {sight.__name__}\n")
                except Exception as error:
                    failed += 1
                    sys.stdout.write(f"FAILED {sight.__name__}: {error!r}\n")
            sys.stdout.write(f"{'ok' if operator.running else 'FAILED'} the operator never ended\n")
            failed += not operator.running
            try:
                await ending(scene, operator)
                sys.stdout.write(f"ok {ending.__name__}\n")
            except Exception as error:
                failed += 1
                sys.stdout.write(f"FAILED {ending.__name__}: {error!r}\n")
        finally:
            await operator.stop()
    if failed:
        sys.stdout.write((folder / "operator.log").read_text()[-4_000:])
    return min(failed, 1)


if __name__ == "__main__":
    enter_own_network()
    raise SystemExit(asyncio.run(_main(Path(sys.argv[1]))))
