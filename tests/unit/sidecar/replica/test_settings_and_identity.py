"""The replica's small parts: identity files, settings, what is known of the group, events, and the store tools."""

import json
import re
from pathlib import Path

import pytest

from controller_core.remoting.bodies import SyncStateSet
from ha_sidecar import cli
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.events import EVENTS_MAX, EventLog
from ha_sidecar.common.identity import Application, IdentityError, IdentityFiles
from ha_sidecar.common.options import ConfigError, read_file
from ha_sidecar.epoch import EpochList
from ha_sidecar.replica import config
from ha_sidecar.replica.group_view import FollowedGroup, MasterRole
from testkit.ha.messages import boundaries, log_bytes

TEXTS = {
    "cluster": "c",
    "group": "g",
    "controllers": "a:1;b:2;[::1]:3",
    "listen": "127.0.0.1:4",
    "store": "somewhere",
    "http": "127.0.0.1:5",
}


def test_an_id_lives_in_java_s_files(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path, "c", "g")
    assert (files.read(), files.read_application()) == (None, None)
    files.write_application(Application(3, "1.2.3.4:5;67"))
    assert (tmp_path / "brokerIdentity-temp").read_text() == "c#g#3#1.2.3.4:5;67"
    assert files.read_application() == Application(3, "1.2.3.4:5;67")
    files.promote(3)
    assert (tmp_path / "brokerIdentity").read_text() == "c#g#3"
    assert (files.read(), files.read_application()) == (3, None)


@pytest.mark.parametrize("text", ["c#other#3", "c#g#0", "c#g#x", "c#g", ""])
def test_an_identity_that_is_not_ours_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "brokerIdentity").write_text(text)
    with pytest.raises(IdentityError):
        IdentityFiles(tmp_path, "c", "g").read()


def test_settings_are_read_with_their_types() -> None:
    made = config.from_texts({**TEXTS, "mapped_file_bytes": "4096", "unclean_election": "true"})
    assert made.controllers == (("a", 1), ("b", 2), ("::1", 3))
    assert (made.mapped_file_bytes, made.unclean_election, made.address) == (4096, True, "127.0.0.1:4")
    assert not made.sync_from_last_file
    assert config.from_texts({**TEXTS, "sync_from_last_file": "true"}).sync_from_last_file


def test_every_setting_of_a_replica_is_in_the_reference() -> None:
    text = (Path(__file__).parents[4] / "docs" / "reference" / "replica.md").read_text()
    keys = {key.replace("_", "-") for key in config.KEYS}
    assert {key for key in keys if not re.search(rf"^\|[^|]*\b{key}\b[^|]*\|", text, re.MULTILINE)} == set()


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("cluster", "", "missing: cluster"),
        ("controllers", ";", "controllers"),
        ("listen", "nowhere", "host:port"),
        ("listen", "h:70000", "host:port"),
        ("mapped_file_bytes", "-5", "mapped-file-bytes"),
        ("mapped_file_bytes", "5", "at least 1024"),
        ("heartbeat_timeout_ms", "1500", "3 \\* heartbeat-interval-ms"),
        ("ack_after", "maybe", "ack-after"),
        ("on_divergence", "delete", "on-divergence"),
        ("unclean_election", "1", "true or false"),
        ("sync_from_last_file", "yes", "sync-from-last-file 'yes'"),
        ("group", "a#b", "separates"),
    ],
)
def test_a_wrong_setting_is_named(key: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config.from_texts({**TEXTS, key: text})


def test_a_settings_file_has_the_keys_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "replica.conf"
    path.write_text("# a comment\n\nmapped-file-bytes = 4096\ngroup=g\n")
    assert read_file(path, config.KEYS) == {"mapped_file_bytes": "4096", "group": "g"}
    path.write_text("gruop=g\n")
    with pytest.raises(ConfigError, match=":1: 'gruop=g'"):
        read_file(path, config.KEYS)


async def test_what_the_controllers_say_again_is_no_new_role() -> None:
    view = FollowedGroup()
    view.broker_id = 2
    assert view.learn(3, 1, "a:1", SyncStateSet.of([1], 5))
    assert not view.learn(3, 1, "a:1", SyncStateSet.of([1, 2], 6))
    assert (view.role, view.in_sync) == (MasterRole(3, 1, "a:1"), True)
    assert view.learn(5, 1, "a:1", SyncStateSet.of([1], 7))
    assert not view.in_sync


async def test_an_answer_to_a_later_question_wins_whatever_its_epochs_are() -> None:
    view = FollowedGroup()
    view.learn(2**31 - 1, 9, "evil:9", SyncStateSet.of([1, 9], 2**31 - 1))
    assert view.learn(1, 1, "a:1", SyncStateSet.of([1, 2], 6), asked_at=view.version)
    assert (view.role, view.members, view.members_epoch) == (MasterRole(1, 1, "a:1"), {1, 2}, 6)
    assert view.learn(1, 1, "b:1", None, asked_at=view.version), "the master has moved"
    assert view.learn(1, None, None, None, asked_at=view.version), "it is taken for dead in its epoch"
    assert view.role == MasterRole(1)


async def test_an_older_answer_that_comes_late_changes_nothing() -> None:
    view = FollowedGroup()
    asked_at = view.version
    view.learn(3, 1, "a:1", SyncStateSet.of([1, 2], 6))
    assert not view.learn(2, 9, "z:9", SyncStateSet.of([1], 5), asked_at=asked_at)
    assert not view.learn(3, 1, "z:9", None, asked_at=asked_at)
    assert (view.role, view.members) == (MasterRole(3, 1, "a:1"), {1, 2})
    assert view.learn(4, 9, "z:9", SyncStateSet.of([1], 7), asked_at=asked_at), "newer is newer"
    assert (view.role, view.members) == (MasterRole(4, 9, "z:9"), {1})


async def test_an_epoch_without_a_master_is_a_role_that_may_still_get_one() -> None:
    view = FollowedGroup()
    assert view.learn(4, None, None, None)
    assert view.role == MasterRole(4)
    assert not view.learn(4, None, None, None)
    assert view.learn(4, 2, "b:1", None)


async def test_controllers_that_begin_anew_do_not_part_a_replica_from_the_master_that_it_follows() -> None:
    view = FollowedGroup()
    view.broker_id = 1
    view.learn(8, 3, "a:3", SyncStateSet.of([1, 2, 3], 19))
    assert not view.learn(0, None, None, SyncStateSet.of([], 0), asked_at=view.version)
    assert (view.role, view.in_sync) == (MasterRole(8, 3, "a:3"), True)
    assert view.learn(1009, 3, "a:3", SyncStateSet.of([3], 1), asked_at=view.version)
    assert not view.in_sync


async def test_events_are_numbered_bounded_and_complete() -> None:
    events = EventLog("c", "g", "ns")
    events.broker_id = 2
    for number in range(EVENTS_MAX + 5):
        events.add("RoleChanged", number, {"master_id": "1"})
    kept = events.after(EVENTS_MAX + 3)
    assert [event["sequence"] for event in kept] == [EVENTS_MAX + 4, EVENTS_MAX + 5]
    assert len(events.after(0)) == EVENTS_MAX
    assert set(kept[0]) == {
        *(
            "sequence",
            "event_id",
            "ts_ns",
            "monotonic_ns",
            "clock_id",
            "source",
            "kind",
            "namespace",
            "cluster",
        ),
        *("group", "broker_id", "epoch", "term", "index", "correlation_id", "attrs"),
    }
    assert kept[0]["correlation_id"] == f"c/g/{EVENTS_MAX + 3}"


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
    assert cli.main(["verify", str(directory)]) == 0
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
    assert cli.main(["verify", str(directory)]) == 1
    assert json.loads(capsys.readouterr().out)["first_damage"]["offset"] == starts[3]


def test_truncate_cuts_log_and_epochs_between_records_only(
    filled: tuple[Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, starts = filled
    assert cli.main(["truncate", str(directory), "--to", str(starts[3] + 1)]) == 1
    assert "no record starts" in capsys.readouterr().err
    assert cli.main(["truncate", str(directory), "--to", str(starts[3])]) == 0
    capsys.readouterr()
    assert cli.main(["epochs", str(directory)]) == 0
    assert json.loads(capsys.readouterr().out) == {"epochs": [{"epoch": 1, "start_offset": 0}]}
    assert cli.main(["verify", str(directory)]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 3


def test_tools_say_when_there_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(tmp_path)]) == 1
    assert "no log files" in capsys.readouterr().err
    assert cli.main(["replica", "--cluster", "c"]) == 2
    assert "missing: group" in capsys.readouterr().err
