"""A store that predates controller mode becomes ours: moved, without its old identity, complete."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ha_sidecar.commitlog.store import StoreError, lock_store, read_epochs
from ha_sidecar.epoch import EpochList
from ha_sidecar.migration import adoption as adoption
from ha_sidecar.migration.adoption import KeepMode, StoreLocation, adopt
from testkit.ha.messages import log_bytes

FILE_BYTES = 4_096
MESSAGES = 50
LOG = log_bytes(MESSAGES, FILE_BYTES)


def _store(root: Path, log: Path | None = None) -> None:
    """Write what a broker leaves that stopped in good order."""
    log = log or root / "commitlog"
    for directory in (log, root / "consumequeue" / "T" / "0", root / "config", root / "index"):
        directory.mkdir(parents=True)
    for start in range(0, len(LOG), FILE_BYTES):
        (log / f"{start:020d}").write_bytes(LOG[start : start + FILE_BYTES].ljust(FILE_BYTES, b"\0"))
    for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"):
        (root / "config" / name).write_text("{}")
    for name in ("checkpoint", "lock", "epochFileCheckpoint", "epochFileCheckpoint.bak", "brokerIdentity"):
        (root / name).write_text("old")


def _names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


KEPT = {
    *(f"commitlog/{start:020d}" for start in range(0, len(LOG), FILE_BYTES)),
    *(f"config/{name}.json" for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset")),
    "checkpoint",
    "epochFileCheckpoint",
}


@pytest.mark.parametrize(
    ("store", "commit_log"),
    [
        ("store", "store/commitlog"),
        ("", "commitlog"),
        ("home/store", "logs/commitlog"),
        ("home/store", "home/log"),
    ],
)
def test_a_store_is_kept_whole_wherever_it_lay(tmp_path: Path, store: str, commit_log: str) -> None:
    _store(tmp_path / store, tmp_path / commit_log)
    (tmp_path / "lost+found").mkdir()
    place = StoreLocation(tmp_path, store, commit_log, FILE_BYTES)
    for _ in range(2):
        found = adopt(place, KeepMode.KEEP)
        assert (found.min_offset, found.max_offset, found.stopped_in_order) == (0, len(LOG), True)
    assert {name for name in _names(tmp_path / "store") if not name.startswith("logs")} == KEPT
    assert read_epochs(tmp_path / "store") == EpochList.of((0, 0))


def test_a_store_below_the_place_of_ours_is_moved_up(tmp_path: Path) -> None:
    _store(tmp_path / "store" / "broker-0")
    place = StoreLocation(tmp_path, "store/broker-0", "store/broker-0/commitlog", FILE_BYTES)
    for _ in range(2):
        assert adopt(place, KeepMode.KEEP).max_offset == len(LOG)
    assert _names(tmp_path / "store") == KEPT


def test_a_log_without_a_byte_gets_no_epoch(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    assert (
        adopt(StoreLocation(tmp_path, "store", "store/commitlog", FILE_BYTES), KeepMode.KEEP).max_offset == 0
    )
    assert _names(tmp_path) == set()


def test_a_broker_that_did_not_stop_in_good_order_is_told_of(tmp_path: Path) -> None:
    _store(tmp_path / "store")
    (tmp_path / "store" / "abort").touch()
    found = adopt(StoreLocation(tmp_path, "store", "store/commitlog", FILE_BYTES), KeepMode.KEEP)
    assert not found.stopped_in_order
    assert (tmp_path / "store" / "abort").exists(), "Java looks closely at such a store, and must"


@pytest.mark.parametrize(
    ("keeping", "left"),
    [
        (KeepMode.EMPTY, set()),
        (
            KeepMode.METADATA,
            {
                "store/config/topics.json",
                "store/config/subscriptionGroup.json",
                "store/config/users/000004.log",
                "store/config/acls/000004.log",
            },
        ),
    ],
)
def test_a_store_is_emptied_but_for_what_is_kept(tmp_path: Path, keeping: KeepMode, left: set[str]) -> None:
    _store(tmp_path / "home")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "broker.log").touch()
    for name in ("users", "acls"):
        (tmp_path / "home" / "config" / name).mkdir()
        (tmp_path / "home" / "config" / name / "000004.log").touch()
    for _ in range(2):
        adopt(StoreLocation(tmp_path, "home", "home/commitlog", FILE_BYTES), keeping)
    assert _names(tmp_path) == left | {"logs/broker.log"}


def test_a_store_that_is_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _store(tmp_path / "store")

    def taken(_: Path) -> int:
        raise StoreError("it is open in another process")

    monkeypatch.setattr(adoption, "lock_store", taken)
    with pytest.raises(StoreError, match="open in another process"):
        adopt(StoreLocation(tmp_path, "store", "store/commitlog", FILE_BYTES), KeepMode.EMPTY)
    assert (tmp_path / "store" / "checkpoint").exists()
    os.close(lock_store(tmp_path / "store"))


@pytest.mark.parametrize("bad", ["/etc", "../other"])
def test_a_place_outside_the_volume_is_refused(tmp_path: Path, bad: str) -> None:
    with pytest.raises(StoreError, match="inside the volume"):
        adopt(StoreLocation(tmp_path, bad, "store/commitlog", FILE_BYTES), KeepMode.EMPTY)


def test_what_lies_where_the_store_is_to_go_is_not_overwritten(tmp_path: Path) -> None:
    _store(tmp_path / "home")
    _store(tmp_path / "store")
    with pytest.raises(StoreError, match="exists already"):
        adopt(StoreLocation(tmp_path, "home", "home/commitlog", FILE_BYTES), KeepMode.KEEP)


class _KilledError(BaseException):
    """The process was killed here."""


@pytest.mark.parametrize("store", ["", "home/store"])
@pytest.mark.parametrize("keeping", list(KeepMode))
def test_one_that_was_killed_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, keeping: KeepMode
) -> None:
    """Kill it after each change of the disk that it makes, and let another one do it again."""
    commit_log = str(Path(store) / "commitlog")
    whole = tmp_path / "whole"
    _store(whole / store)
    adopt(StoreLocation(whole, store, commit_log, FILE_BYTES), keeping)
    number = 0
    while True:
        root = tmp_path / f"killed-{number}"
        _store(root / store)
        with monkeypatch.context() as patch:
            counted = _killed_after(patch, number)
            try:
                adopt(StoreLocation(root, store, commit_log, FILE_BYTES), keeping)
            except _KilledError:
                pass
            else:
                break
        adopt(StoreLocation(root, store, commit_log, FILE_BYTES), keeping)
        assert _names(root) == _names(whole), f"killed after change {number}"
        shutil.rmtree(root)
        number += 1
        assert counted
    assert number > 1


def _killed_after(patch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Count renames, removals and writes of the epoch file; the one after `number` is the last."""
    counted: list[str] = []

    def then(what: str, do: Callable[..., None]) -> Callable[..., None]:
        def done(*given: object) -> None:
            do(*given)
            counted.append(what)
            if len(counted) == number + 1:
                raise _KilledError(what)

        return done

    for name in ("_rename", "_remove", "write_epochs"):
        patch.setattr(adoption, name, then(name, getattr(adoption, name)))
    return counted
