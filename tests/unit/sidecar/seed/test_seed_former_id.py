"""A broker that lost its disk takes its former id back, or begins empty.

It does so only where no acknowledged message is lost by it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ha_sidecar import cli
from ha_sidecar.cli import main
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.ha_socket import HaEnd
from ha_sidecar.common.identity import IdentityFiles
from ha_sidecar.common.options import ConfigError
from ha_sidecar.decisions.broker_facts import GroupFacts
from ha_sidecar.seed import seed as seed_module
from ha_sidecar.seed.config import SeedConfig, from_texts
from ha_sidecar.seed.seed import Seed, SeedError, SeedResult, claim
from ha_sidecar.seed.source import GroupAnswer, former_id
from testkit.ha.messages import log_bytes
from testkit.ha.seed_member import FILE_BYTES, LOG, SeedMember, config_of
from testkit.ha.stores import append
from testkit.products.replica import log_prefix_equal


@pytest.fixture
def member(tmp_path: Path) -> Iterator[SeedMember]:
    made = SeedMember(tmp_path / "member")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_module, "AGAIN_S", 0.0)
    monkeypatch.setattr(seed_module, "POLL_S", 0.005)


MINE, OTHER = "10.96.0.1:10911", "10.96.0.2:10911"
LOST = GroupFacts(
    None, None, 7, (1, 2, 3), ((1, OTHER, False), (2, MINE, False), (3, "10.96.0.3:10921", True))
)
"""Both brokers lost their disks, the log replica of the set lives."""


def test_a_broker_of_the_set_takes_its_id_back_where_no_master_lives() -> None:
    assert former_id(LOST, MINE) == 2


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (replace(LOST, members=(1, 3)), "it was not in the set: others have more"),
        (replace(LOST, others=((1, OTHER, True), *LOST.others[1:]), master_id=1), "a master lives"),
        (replace(LOST, others=(LOST.others[0], (2, MINE, True), LOST.others[2])), "it lives, elsewhere"),
        (
            replace(LOST, others=(*LOST.others, (4, MINE, False))),
            "the id that it had last is not in the set; an older one says nothing",
        ),
        (replace(LOST, others=((1, OTHER, False), (3, "10.96.0.3:10921", True))), "it never had one"),
    ],
)
def test_no_other_broker_takes_an_id_back(group: GroupFacts, why: str) -> None:
    assert former_id(group, MINE) == 0, why


def _with_former_id(config: SeedConfig, member: SeedMember, ids: list[int]) -> tuple[SeedResult, int | None]:
    assert claim(config) is None
    store = ReplicaStore(config.store, FILE_BYTES)
    try:
        result = Seed(config, store, lambda: HaEnd(member.address), dict, lambda: ids.pop(0)).run()
    finally:
        store.close()
    return result, IdentityFiles(config.store, "c", "g").read()


def test_a_store_that_takes_its_id_back_has_every_byte_of_its_source(
    member: SeedMember, tmp_path: Path
) -> None:
    result, broker_id = _with_former_id(config_of(tmp_path / "new", member), member, [2, 2])
    assert (result.max_offset, broker_id) == (len(LOG), 2)
    assert log_prefix_equal(tmp_path / "new" / "commitlog", member.store.log.layout.directory, len(LOG))


def test_a_source_that_grew_meanwhile_is_asked_again_before_an_id_is_taken_back(
    member: SeedMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = log_bytes(3, FILE_BYTES, len(LOG), mark=b"more")
    caught_up = seed_module._LinkNotes.on_caught_up

    def grow_once(notes: seed_module._LinkNotes, offset: int) -> None:
        if member.store.log.max_offset == len(LOG):
            append(member.store, more)
            member.store.log.sync()
        caught_up(notes, offset)

    monkeypatch.setattr(seed_module._LinkNotes, "on_caught_up", grow_once)
    result, _ = _with_former_id(config_of(tmp_path / "new", member), member, [2, 2])
    assert result.max_offset == len(LOG) + len(more)


def test_an_id_is_not_taken_back_where_a_master_lives_when_all_is_copied(
    member: SeedMember, tmp_path: Path
) -> None:
    result, broker_id = _with_former_id(config_of(tmp_path / "new", member), member, [2, 0])
    assert (result.seeded, broker_id) == (True, None)


def _alone(directory: Path, member: SeedMember) -> SeedConfig:
    return config_of(
        directory, member, source=None, controllers=(("127.0.0.1", 1),), advertise=MINE, reclaim=True
    )


def test_a_new_broker_that_nobody_has_anything_for_begins_empty(member: SeedMember, tmp_path: Path) -> None:
    config = _alone(tmp_path / "new", member)
    assert claim(config) is None
    store = ReplicaStore(config.store, FILE_BYTES)
    result = Seed(config, store, lambda: None).run()
    store.close()
    assert (result.seeded, result.copied_bytes) == (False, 0)
    assert claim(config) is None, "the next start may find somebody"


def test_a_broker_that_has_an_id_to_take_back_never_begins_empty(member: SeedMember, tmp_path: Path) -> None:
    config = _alone(tmp_path / "new", member)
    assert claim(config) is None
    store = ReplicaStore(config.store, FILE_BYTES)
    with pytest.raises(SeedError, match="no member of the group serves its log"):
        Seed(config, store, lambda: None, dict, lambda: 2).run()
    store.close()


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"reclaim": "true", "source": "127.0.0.1:1"}, "reclaim needs advertise"),
        ({"advertise": MINE, "source": "127.0.0.1:1"}, "advertise needs controllers"),
        ({"advertise": "here", "controllers": "127.0.0.1:1"}, "'here' is not host:port"),
        ({"reclaim": "yes", "controllers": "127.0.0.1:1"}, "reclaim 'yes' is neither true nor false"),
    ],
)
def test_a_wrong_setting_of_a_former_id_is_named(texts: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        from_texts({"cluster": "c", "group": "g", "store": "s"} | texts)


def test_the_command_leaves_a_store_alone_whose_group_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "find_outlook", lambda config: GroupAnswer(known=False))
    arguments = ["seed", "--output=json", "--cluster", "c", "--group", "g", "--store", str(tmp_path / "new")]
    assert main([*arguments, "--controllers", "127.0.0.1:1", "--advertise", MINE]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "the controllers know no group g: it begins"
    assert not (tmp_path / "new").exists()


def test_the_command_waits_for_the_controllers_before_it_takes_a_store_for_a_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [None, None, GroupAnswer(known=False)]
    monkeypatch.setattr(cli, "find_outlook", lambda config: answers.pop(0))
    arguments = ["seed", "--output=json", "--cluster", "c", "--group", "g", "--store", str(tmp_path / "new")]
    arguments += ["--controllers", "127.0.0.1:1", "--advertise", MINE]
    assert main(arguments) == 0
    answers[:] = [None, None]
    assert main([*arguments, "--attempts", "2"]) == 1
    assert "no controller answered 2 times" in capsys.readouterr().err
