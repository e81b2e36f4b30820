"""The release that the tests of this folder share, and their order."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kube.kubectl import Cluster, KubeError
from testkit.kube.release import NAMESPACE, Release, install, remove


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the order of the files: what the first test installs, the last one removes."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    ordered = iter(sorted(here, key=lambda item: (item.path.name, item.reportinfo()[1] or 0)))
    items[:] = [next(ordered) if item in here else item for item in items]


@pytest.fixture(scope="session")
def release() -> Iterator[Release]:
    """Install once, as README says."""
    cluster = Cluster(Path(os.environ["RMQHA_KUBECONFIG"]), NAMESPACE)
    try:
        installed = asyncio.run(install(cluster))
    except KubeError as error:
        pytest.fail(str(error), pytrace=False)
    yield installed
    asyncio.run(remove(cluster))
