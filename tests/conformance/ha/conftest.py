"""RocketMQ's stores for a module's tests, and an end of ours for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.ha.java_stores import JavaStore, JavaStores
from testkit.ha.peers import OurSlave

FILE_BYTES = 1 << 16
MASTER_ID = 1


@pytest.fixture(scope="module", params=["5.2.0", "5.4.0", "5.5.0"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaStores]:
    with JavaStores(request.param, tmp_path_factory.mktemp("stores")) as made:
        yield made


@pytest.fixture
def master(stores: JavaStores, tmp_path: Path) -> JavaStore:
    """A Java master of epoch 1 without a byte."""
    made = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES)
    assert made.become_master(1)
    return made


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OurSlave]:
    with OurSlave(tmp_path / "ours", FILE_BYTES) as made:
        yield made
