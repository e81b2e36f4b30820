"""A seed fills an empty store from a member that serves, whatever is cut or killed.

It leaves other people's stores alone.
"""

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller_core.remoting.codes import RequestCode
from ha_sidecar.cli import main
from ha_sidecar.commitlog.recovery import walk
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.ha_socket import HaEnd
from ha_sidecar.common.identity import IDENTITY_FILE, IdentityError
from ha_sidecar.common.options import ConfigError
from ha_sidecar.decisions.broker_facts import GroupFacts
from ha_sidecar.decisions.metadata_tables import BY_CODE
from ha_sidecar.epoch import EpochList
from ha_sidecar.replica.slave_streams import HaPortTls
from ha_sidecar.seed import seed as seed_module
from ha_sidecar.seed.config import SeedConfig, from_texts
from ha_sidecar.seed.seed import Seed, SeedError, SeedResult, claim
from ha_sidecar.seed.source import candidates, find_metadata, find_source
from testkit.ha.messages import boundaries, log_bytes
from testkit.ha.seed_member import FILE_BYTES, LOG, SeedMember, config_of
from testkit.ha.stores import append
from testkit.processes.certificates import Authority
from testkit.products.replica import log_prefix_equal

WAIT_S = 30.0


@pytest.fixture
def member(tmp_path: Path) -> Iterator[SeedMember]:
    made = SeedMember(tmp_path / "member")
    yield made
    made.close()


def run(config: SeedConfig) -> SeedResult:
    """Run a seed to its end."""
    assert claim(config) is None
    store = ReplicaStore(config.store, FILE_BYTES)
    try:
        return Seed(config, store, lambda: find_source(config)).run()
    finally:
        store.close()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_module, "AGAIN_S", 0.01)
    monkeypatch.setattr(seed_module, "POLL_S", 0.005)


def assert_equal(directory: Path, member: SeedMember) -> None:
    """The store holds the member's log and epochs, and every record is whole."""
    assert log_prefix_equal(member.store.log.layout.directory, directory / "commitlog", len(LOG))
    store = ReplicaStore(directory, FILE_BYTES)
    assert store.epochs == member.store.epochs
    assert walk(store.log.layout).end.max_offset == len(LOG)
    store.close()


def test_an_empty_store_becomes_a_copy_with_epochs_and_identity(member: SeedMember, tmp_path: Path) -> None:
    result = run(config_of(tmp_path / "new", member, broker_id=7))
    assert (result.seeded, result.max_offset, result.copied_bytes) == (True, len(LOG), len(LOG))
    assert_equal(tmp_path / "new", member)
    assert (tmp_path / "new" / IDENTITY_FILE).read_text() == "c#g#7"


def test_a_named_source_is_dialled_in_tls_as_its_setting_says(tmp_path: Path) -> None:
    directory = Authority(tmp_path).member("replica")
    member = SeedMember(tmp_path / "member", HaPortTls(directory, plain_allowed=False))
    try:
        with pytest.raises(SeedError, match=r"ClosedByMaster|ConnectionLost"):
            run(config_of(tmp_path / "plain", member, tls=directory))
        run(config_of(tmp_path / "new", member, tls=directory, source_tls=True))
        assert_equal(tmp_path / "new", member)
        stranger = Authority(tmp_path, "stranger").member("other")
        with pytest.raises(SeedError, match="TlsFailed"):
            run(config_of(tmp_path / "refused", member, tls=stranger, source_tls=True))
    finally:
        member.close()


@pytest.mark.parametrize("given", [{"tls": ""}, {"source": "", "controllers": "a:1"}])
def test_tls_of_a_source_needs_a_source_and_authorities(tmp_path: Path, given: dict[str, str]) -> None:
    texts = {"cluster": "c", "group": "g", "store": str(tmp_path), "source": "a:1", "tls": str(tmp_path)}
    kept = {key: text for key, text in {**texts, "source_tls": "true", **given}.items() if text}
    with pytest.raises(ConfigError, match="source-tls needs source and tls"):
        from_texts(kept)
    assert from_texts({**texts, "source_tls": "true"}).source_tls


def test_a_seed_without_an_id_leaves_the_broker_to_apply_for_one(member: SeedMember, tmp_path: Path) -> None:
    run(config_of(tmp_path / "new", member))
    assert not (tmp_path / "new" / IDENTITY_FILE).exists()


def test_the_source_never_counts_a_seed_as_a_member(member: SeedMember, tmp_path: Path) -> None:
    seen = []
    session_ended = member.server.ended

    def ended(session: object) -> None:
        seen.append(session.machine.handshake)  # type: ignore[attr-defined]  # a session of the server
        session_ended(session)  # type: ignore[arg-type]  # the same

    member.server.ended = ended  # type: ignore[method-assign]  # to inspect its argument
    run(config_of(tmp_path / "new", member))
    member.server.stop()  # waits for its sessions: the source learns of an end after the seed
    assert [handshake.async_learner for handshake in seen] == [True]


def test_a_killed_seed_goes_on_where_its_log_ends(member: SeedMember, tmp_path: Path) -> None:
    config = config_of(tmp_path / "new", member)
    assert claim(config) is None
    partial = ReplicaStore(config.store, FILE_BYTES)
    partial.adopt(EpochList.of((1, 0)))
    append(partial, LOG[: FILE_BYTES * 2 + 100])  # ends inside a message
    partial.close()
    result = run(config)
    assert result.copied_bytes < len(LOG) - 2 * FILE_BYTES + 200
    assert_equal(config.store, member)


def test_a_copy_of_another_history_is_dropped_and_begun_anew(member: SeedMember, tmp_path: Path) -> None:
    config = config_of(tmp_path / "new", member)
    assert claim(config) is None
    other = ReplicaStore(config.store, FILE_BYTES)
    other.adopt(EpochList.of((2, 0)))
    append(other, log_bytes(50, FILE_BYTES, mark=b"other"))
    other.close()
    run(config)
    assert_equal(config.store, member)
    assert list((config.store / "diverged").iterdir()) == []


def test_what_the_source_writes_meanwhile_is_copied_too(
    member: SeedMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_module, "NEAR_BYTES", 1000)
    sources: list[int] = []
    config = config_of(tmp_path / "new", member)
    assert claim(config) is None
    store = ReplicaStore(config.store, FILE_BYTES)

    def find() -> HaEnd:
        sources.append(store.log.max_offset)
        if len(sources) == 2:
            append(member.store, log_bytes(20, FILE_BYTES, len(LOG)))
            member.store.log.sync()
        return HaEnd(member.address)

    result = Seed(config, store, find).run()
    store.close()
    # The first connection ended at the end of that time, the second still had more to bring than is near.
    assert sources == [0, len(LOG), member.store.log.max_offset]
    assert result.max_offset == member.store.log.max_offset > len(LOG)


def test_a_damaged_record_is_asked_for_again_and_never_kept(member: SeedMember, tmp_path: Path) -> None:
    path = member.store.log.layout.path(FILE_BYTES)
    with path.open("r+b") as file:
        body_at = boundaries(LOG, FILE_BYTES)[40] - FILE_BYTES + 95
        file.seek(body_at)
        good = file.read(1)
        file.seek(body_at)
        file.write(b"!")
    with pytest.raises(SeedError, match="came damaged: body checksum"):
        run(config_of(tmp_path / "new", member))
    with path.open("r+b") as file:
        file.seek(body_at)
        file.write(good)
    run(config_of(tmp_path / "new", member))
    assert_equal(tmp_path / "new", member)


def test_a_damaged_record_ends_the_copy_while_more_is_coming(
    member: SeedMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(seed_module, "CHECK_BYTES", 1)
    monkeypatch.setattr(
        seed_module._LinkNotes, "on_caught_up", lambda self, offset: None
    )  # so it goes on until something ends it
    with member.store.log.layout.path(0).open("r+b") as file:
        file.seek(boundaries(LOG, FILE_BYTES)[5] + 95)
        file.write(b"!")
    with pytest.raises(SeedError, match=f"the record at {boundaries(LOG, FILE_BYTES)[5]} came damaged"):
        run(config_of(tmp_path / "new", member))


def test_how_far_it_is_is_told_while_more_is_coming(
    member: SeedMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tell = Seed._tell_progress
    lines: list[str] = []

    def tell_and_end(seed: Seed, notes: seed_module._LinkNotes) -> None:
        """Let the copy end with the first line."""
        tell(seed, notes)
        lines.extend(record.getMessage() for record in caplog.records if " left" in record.getMessage())
        notes.caught_up = bool(lines)

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(seed_module, "PROGRESS_S", 0.02)
    monkeypatch.setattr(seed_module._LinkNotes, "on_caught_up", lambda self, offset: None)
    monkeypatch.setattr(Seed, "_tell_progress", tell_and_end)
    run(config_of(tmp_path / "new", member))
    found = re.fullmatch(r"([\d.]+) %: (\d+) of (\d+) bytes, \d+ MB/s, \d+ s left", lines[0])
    assert found is not None, lines
    share, have, all_bytes = found.groups()
    assert int(all_bytes) == len(LOG)
    assert float(share) == pytest.approx(100 * int(have) / len(LOG), abs=0.05)


def test_how_far_it_is_is_told_once_a_second(
    member: SeedMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 100.0
    monkeypatch.setattr(seed_module.time, "monotonic", lambda: now_s)
    caplog.set_level(logging.INFO)
    config = config_of(tmp_path / "new", member)
    store = ReplicaStore(config.store, FILE_BYTES)
    store.adopt(EpochList.of((1, 0)))
    seed, notes = Seed(config, store, lambda: HaEnd(member.address)), seed_module._LinkNotes(store)
    notes.master_max_offset = 4 * FILE_BYTES
    append(store, LOG[:FILE_BYTES])
    told = []
    for now_s in (100.5, 101.0, 101.5, 102.0):  # noqa: B007 - the clock reads it
        seed._tell_progress(notes)
        told.append(len(caplog.messages))
    store.close()
    assert told == [0, 1, 1, 2]
    assert caplog.messages[0] == "25.0 %: 4096 of 16384 bytes, 0 MB/s, 3 s left"


def test_what_comes_in_place_of_a_tail_that_was_checked_is_checked_too(
    member: SeedMember, tmp_path: Path
) -> None:
    config = config_of(tmp_path / "new", member)
    assert claim(config) is None
    starts = boundaries(LOG, FILE_BYTES)
    store = ReplicaStore(config.store, FILE_BYTES)
    store.adopt(EpochList.of((1, 0)))
    append(store, LOG[: starts[90]] + log_bytes(30, FILE_BYTES, starts[90], mark=b"other"))
    store.log.sync()
    seed = Seed(config, store, lambda: HaEnd(member.address))
    seed._checked_offset = store.log.max_offset
    with member.store.log.layout.path(starts[100] // FILE_BYTES * FILE_BYTES).open("r+b") as file:
        file.seek(starts[100] % FILE_BYTES + 95)
        file.write(b"!")
    with pytest.raises(SeedError, match=f"the record at {starts[100]} came damaged"):
        seed.run()
    store.close()


def test_a_seed_that_reaches_nobody_gives_up_and_says_so(member: SeedMember, tmp_path: Path) -> None:
    member.server.stop()
    with pytest.raises(SeedError, match=r"2 attempts in a row brought nothing.*ConnectFailed"):
        run(config_of(tmp_path / "new", member))


def test_a_source_that_comes_late_is_waited_for(member: SeedMember, tmp_path: Path) -> None:
    config = config_of(tmp_path / "new", member)
    sources: list[HaEnd | None] = [None, HaEnd(member.address)]
    assert claim(config) is None
    store = ReplicaStore(config.store, FILE_BYTES)
    assert Seed(config, store, lambda: sources.pop(0)).run().max_offset == len(LOG)
    store.close()


def test_a_store_that_is_done_is_left_as_it_is(member: SeedMember, tmp_path: Path) -> None:
    config = config_of(tmp_path / "new", member)
    run(config)
    before = os.listdir(config.store / "commitlog")
    assert claim(config) == "it is seeded already"
    assert os.listdir(config.store / "commitlog") == before


def test_a_broker_s_own_store_is_left_as_it_is(member: SeedMember, tmp_path: Path) -> None:
    (member.store.directory / IDENTITY_FILE).write_text("c#g#2")
    assert claim(config_of(member.store.directory, member)) == "it is the store of broker 2 of this group"


def test_a_store_of_another_group_is_refused(member: SeedMember, tmp_path: Path) -> None:
    (member.store.directory / IDENTITY_FILE).write_text("c#other#2")
    with pytest.raises(IdentityError, match="other"):
        claim(config_of(member.store.directory, member))


def test_a_log_that_no_seed_began_is_refused(member: SeedMember) -> None:
    with pytest.raises(SeedError, match="holds a log from offset 0 that no seed began"):
        claim(config_of(member.store.directory, member))


def test_a_store_that_is_being_seeded_for_another_group_is_refused(
    member: SeedMember, tmp_path: Path
) -> None:
    assert claim(config_of(tmp_path / "new", member, group="other")) is None
    with pytest.raises(SeedError, match="being seeded for"):
        claim(config_of(tmp_path / "new", member))


def test_the_command_fills_a_store_and_prints_what_it_did(
    member: SeedMember, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, port = member.address
    arguments = ["seed", "--output=json", "--cluster", "c", "--group", "g", "--store", str(tmp_path / "new")]
    arguments += ["--source", f"{host}:{port}", "--mapped-file-bytes", str(FILE_BYTES)]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["max_offset"] == len(LOG)
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {"seeded": False, "reason": "it is seeded already"}


def test_slaves_and_log_replicas_are_asked_before_the_master() -> None:
    others = (
        (1, "m:1", True),
        (2, "s:1", True),
        (3, "dead:1", False),
        (4, "out:1", True),
        (5, "own:1", True),
    )
    group = GroupFacts(1, "m:1", 4, (1, 2, 3, 5), others)
    assert candidates(group, 5) == ["s:1", "m:1"]


def test_a_seed_needs_somebody_to_copy_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="source or controllers"):
        from_texts({"cluster": "c", "group": "g", "store": str(tmp_path)})


def test_no_thread_is_left_behind(member: SeedMember, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    run(config_of(tmp_path / "new", member))
    for thread in set(threading.enumerate()) - before:
        if thread.name == "ha-link":
            thread.join(WAIT_S)  # it says that it ends, and then does
            assert not thread.is_alive()


async def test_the_group_is_asked_for_what_is_not_in_the_log(answering_group: Any, tmp_path: Path) -> None:
    master = await answering_group.add()
    master.topics = b'{"topicConfigTable":{"T":{}}}'
    asked = answering_group.config(master)
    config = SeedConfig(cluster="c1", group="b1", store=tmp_path, controllers=asked.controllers)
    found = await asyncio.to_thread(find_metadata, config)
    assert [(kind.file_name, text) for kind, text in found.items()] == [("topics.json", master.topics)]
    # It is master and gives no HA address: no process serves a log here.
    assert await asyncio.to_thread(find_source, config) is None


def test_what_is_not_in_the_log_is_written_where_the_broker_looks_for_it(
    member: SeedMember, tmp_path: Path
) -> None:
    topics = BY_CODE[RequestCode.GET_ALL_TOPIC_CONFIG]
    config = config_of(tmp_path / "new", member)
    assert claim(config) is None
    store = ReplicaStore(config.store, FILE_BYTES)
    Seed(config, store, lambda: find_source(config), lambda: {topics: b'{"topicConfigTable":{"T":{}}}'}).run()
    store.close()
    assert (config.store / "config" / "topics.json").read_bytes() == b'{"topicConfigTable":{"T":{}}}'
