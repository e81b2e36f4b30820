"""The release that the tests of this folder share, the load on it, and their order; all need a cluster."""

import asyncio
import os
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rocketmq_operator.api.definitions.crds import custom_resource_definitions
from testkit.kube import audit
from testkit.kube.kubectl import Cluster, KubeError, kubectl_now
from testkit.kube.pods.load_pod import ONE_OF_EACH_THREAD, SENDS_A_SECOND, LoadPod
from testkit.kube.release import NAMESPACE, ROCKETMQ_IMAGE, Release, install, remove
from testkit.rocketmq.load import LoadSettings

# The rights are judged by what the whole run asked for; the last test removes what the first one installed.
LAST = ("test_rights.py", "test_uninstalling.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files by name, and those of `LAST` after all others."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    ordered = iter(sorted(here, key=_place))
    items[:] = [next(ordered) if item in here else item for item in items]
    if not os.environ.get("RMQHA_KUBECONFIG"):
        for item in here:
            item.add_marker(pytest.mark.skip(reason="RMQHA_KUBECONFIG names no kubeconfig"))


def _place(item: pytest.Item) -> tuple[int, str, int]:
    name = item.path.name
    return LAST.index(name) if name in LAST else -1, name, item.reportinfo()[1] or 0


@pytest.fixture(scope="session")
def whole_run(request: pytest.FixtureRequest) -> bool:
    """Say whether every test of this folder is in this run, none left out by a mark or a name."""
    chosen = {item.path.name for item in request.session.items}
    here = {path.name for path in Path(__file__).parent.rglob("test_*.py")}
    options = request.config.option
    return here <= chosen and not options.markexpr and not options.keyword


@pytest.fixture(scope="module")
def definitions() -> None:
    """Apply the definitions once for all cases of a module: no case changes them."""
    every = custom_resource_definitions()
    listed = {"apiVersion": "v1", "kind": "List", "items": every}
    kubectl_now("apply", "--server-side", "--force-conflicts", "-f", "-", body=listed)
    names = [f"crd/{definition['metadata']['name']}" for definition in every]
    kubectl_now("wait", "--for=condition=Established", *names, "--timeout=30s")


@pytest.fixture
def namespace(definitions: None) -> Iterator[str]:
    """Make a namespace without an operator."""
    name = f"bare-{uuid.uuid4().hex[:8]}"
    kubectl_now("create", "namespace", name)
    yield name
    kubectl_now("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def audit_log(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path | None]:
    """Keep an audit log of the release's accounts, if it can be kept and a test of this run reads it."""
    is_read = any(item.path.name == "test_rights.py" for item in request.session.items)
    if not is_read or audit.why_not():
        yield None
        return
    cluster = Cluster(Path(os.environ["RMQHA_KUBECONFIG"]), NAMESPACE)
    kept = audit.audited(cluster, tmp_path_factory.mktemp("audit"))
    with asyncio.Runner() as runner:
        yield runner.run(kept.__aenter__())
        runner.run(kept.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def release(audit_log: Path | None) -> Iterator[Release]:
    """Install once, as README says; whatever its accounts ask from then on is in the audit log."""
    cluster = Cluster(Path(os.environ["RMQHA_KUBECONFIG"]), NAMESPACE)
    try:
        installed = asyncio.run(install(cluster))
    except KubeError as error:
        pytest.fail(str(error), pytrace=False)
    yield installed
    asyncio.run(remove(cluster))


@pytest.fixture(scope="module")
def alone(release: Release) -> Iterator[None]:
    """Let the release's group hibernate while a module has its own: few cores carry only one well."""
    asyncio.run(_hibernate(release))
    yield
    asyncio.run(release.group.wake())


async def _hibernate(release: Release) -> None:
    await release.group.until_at_home()
    await release.group.hibernate()


@pytest.fixture
async def load(release: Release, request: pytest.FixtureRequest) -> AsyncIterator[LoadPod]:
    """Send from an unmodified Java producer on its defaults, in a pod of its own, to a topic of its own."""
    # Counted by the plugin that runs a test again: what the first try left must not be met.
    tried = getattr(request.node, "execution_count", 1)
    test = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    name = f"{test[:38].rstrip('-')}-{tried}"
    pod = LoadPod(release.cluster, name, ROCKETMQ_IMAGE, "main-nameserver:9876", name)
    await pod.start(LoadSettings(threads=ONE_OF_EACH_THREAD, rate=SENDS_A_SECOND))
    yield pod
    await pod.remove()
