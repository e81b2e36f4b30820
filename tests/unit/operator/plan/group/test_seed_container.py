"""Before a broker starts for the first time its volume is filled; existing data stays unchanged."""

import os
import subprocess
from pathlib import Path

import pytest

from rocketmq_operator.plan.common import names
from testkit.worlds.operator import OperatorWorld

ADDRESS = "10.96.7.7"


async def _configured(durability: str = "AllInSync") -> dict[str, str]:
    world = OperatorWorld({"durability": durability, "logReplicas": 0 if durability == "Quorum" else 1})
    await world.settle()
    data: dict[str, str] = world.get("ConfigMap", "orders")["data"]
    return data


def _started(volume: Path, script: str, pod: str = "orders-1") -> str:
    """Run a start script on a volume; return the arguments of its `ha-sidecar` call, or empty."""
    config, programs = volume / "config", volume / "bin"
    for directory in (config, programs):
        directory.mkdir(exist_ok=True)
    for path, here in ((names.STORE_PATH, volume), (names.CONFIG_PATH, config)):
        script = script.replace(path, str(here))
    (config / "addresses").write_text(f"{pod}={ADDRESS}\n")
    (programs / "ha-sidecar").write_text('#!/bin/sh\necho "$@"\n')
    (programs / "ha-sidecar").chmod(0o755)
    environment = {"POD_NAME": pod, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def _store(volume: Path, *files: str) -> None:
    for name in files:
        path = volume / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


async def test_an_empty_volume_is_seeded_for_the_address_that_its_broker_announces(tmp_path: Path) -> None:
    assert (
        _started(tmp_path, (await _configured())["start-seed.sh"])
        == f"seed -c {tmp_path}/config/seed.conf --advertise {ADDRESS}:10911"
    )


@pytest.mark.parametrize(
    "files",
    [
        ("brokerIdentity", "commitlog/00000000000000000000"),
        ("brokerIdentity", "seed.json", "commitlog/00000000000000000000"),
        ("commitlog/00000000000000000000",),
    ],
)
async def test_a_volume_that_is_a_broker_s_or_was_brought_by_somebody_is_left_alone(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    _store(tmp_path, *files)
    assert _started(tmp_path, (await _configured())["start-seed.sh"]) == ""


@pytest.mark.parametrize("files", [("seed.json", "commitlog/00000000000000000000"), ("config/topics.json",)])
async def test_a_seed_that_was_killed_goes_on(tmp_path: Path, files: tuple[str, ...]) -> None:
    _store(tmp_path, *files)
    assert (_started(tmp_path, (await _configured())["start-seed.sh"])).startswith("seed ")


@pytest.mark.parametrize(
    ("durability", "reclaims"), [("AllInSync", "true"), ("Quorum", "false"), ("Async", "false")]
)
async def test_an_id_is_taken_back_only_where_nothing_is_acknowledged_without_its_broker(
    durability: str, reclaims: str
) -> None:
    lines = (await _configured(durability))["seed.conf"].splitlines()
    assert f"reclaim = {reclaims}" in lines
    assert "store = /var/lib/rocketmq/store" in lines


@pytest.mark.parametrize(
    ("pod", "keep"), [("orders-0", "keep"), ("orders-1", "empty"), ("orders-10", "empty")]
)
async def test_a_store_with_a_static_role_is_adopted_once(tmp_path: Path, pod: str, keep: str) -> None:
    _store(tmp_path, "staticRoles", "commitlog/00000000000000000000")
    script = (await _configured())["start-seed.sh"]
    adopted = f"adopt {tmp_path} --keep {keep} --mapped-file-bytes {1 << 30}"
    assert _started(tmp_path, script, pod) == adopted
    assert not (tmp_path / "store" / "staticRoles").exists()
    assert _started(tmp_path, script, pod) == ""
