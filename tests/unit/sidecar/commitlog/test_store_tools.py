"""The tools for a closed store: verify, epochs and truncate."""

import json
from pathlib import Path

import pytest

from ha_sidecar import cli
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.epoch import EpochList
from testkit.ha.messages import boundaries, log_bytes


@pytest.fixture
def filled(tmp_path: Path) -> tuple[Path, list[int]]:
    """A closed store with ten messages and two epochs, and where its records start."""
    log = log_bytes(10, 4096)
    starts = boundaries(log, 4096)
    store = ReplicaStore(tmp_path, 4096)
    store.log.append(0, [memoryview(log)])
    store.adopt(EpochList.of((1, 0), (4, starts[5])))
    store.close()
    return tmp_path, starts


def test_verify_says_what_a_store_holds(
    filled: tuple[Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, starts = filled
    assert cli.main(["verify", str(directory), "--output=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["messages"], found["min_offset"], found["max_offset"]) == (10, 0, starts[-1])
    assert found["epochs"] == [{"epoch": 1, "start_offset": 0}, {"epoch": 4, "start_offset": starts[5]}]
    assert found["first_damage"] is None


def test_verify_names_the_first_damage(
    filled: tuple[Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, starts = filled
    path = directory / "commitlog" / ("0" * 20)
    data = bytearray(path.read_bytes())
    data[starts[3] + 4] ^= 0xFF
    path.write_bytes(data)
    assert cli.main(["verify", str(directory), "--output=json"]) == 1
    assert json.loads(capsys.readouterr().out)["first_damage"]["offset"] == starts[3]


def test_truncate_cuts_log_and_epochs_between_records_only(
    filled: tuple[Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, starts = filled
    assert cli.main(["truncate", str(directory), "--offset", str(starts[3] + 1)]) == 1
    assert "no record starts" in capsys.readouterr().err
    assert cli.main(["truncate", str(directory), "--offset", str(starts[3]), "--output=json"]) == 0
    capsys.readouterr()
    assert cli.main(["epochs", str(directory), "--output=json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"epochs": [{"epoch": 1, "start_offset": 0}]}
    assert cli.main(["verify", str(directory), "--output=json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 3


def test_tools_say_when_there_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(tmp_path)]) == 1
    assert "no log files" in capsys.readouterr().err
    assert cli.main(["replica", "--cluster", "c"]) == 2
    assert "missing: group" in capsys.readouterr().err
