"""The command line: exit statuses, one clear line for what is wrong, output for people and for programs."""

import asyncio
import json
from pathlib import Path

import pytest

from controller_core.groups import commands
from controller_core.log.store import DiskStore
from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, NodeId, Ready, Snapshot, Term
from controller_core.server.cli import main
from testkit.one_node import OneNode


async def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = await asyncio.to_thread(main, arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_a_bad_value_ends_with_2_and_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controller.conf"
    path.write_text("controllerDLegerGroup=g\ncontrollerDLegerPeers=n0-127.0.0.1:1\nsnapshotEntries=lots\n")
    assert main(["serve", "-c", str(path)]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "snapshotEntries='lots'" in printed


def test_a_missing_file_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "-c", str(tmp_path / "none.conf")]) == 2
    assert "none.conf" in capsys.readouterr().err


def test_a_setting_on_the_command_line_is_checked_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--set", "controllerDLegerGroup"]) == 2
    assert "KEY=VALUE" in capsys.readouterr().err


def test_every_setting_is_printed_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings"]) == 0
    assert "enableElectUncleanMaster (bool; default false, live)" in capsys.readouterr().out


def test_a_stopped_nodes_store_is_spelt_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stamp = commands.Stamp(utc_ns=1, monotonic_ns=1, clock_id="c")
    command = commands.ApplyBrokerId(
        cluster="c1", broker_name="b1", stamp=stamp, broker_id=1, check_code="a;1"
    )
    store = DiskStore.open(tmp_path, Snapshot(LogIndex(1), Term(1), ConfState(voters=(NodeId(1),))))
    entry = Entry(Term(2), LogIndex(2), data=commands.encode(command))
    batch = store.prepare(Ready(entries=(entry,), hard_state=HardState(Term(2), NodeId(1)), must_sync=True))
    store.write(batch)
    store.commit(batch)
    store.close()
    assert main(["inspect", str(tmp_path), "--output", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    row = next(row for row in rows if row["kind"] == "ENTRY")
    assert (row["index"], row["term"]) == (2, 2)
    assert row["text"].startswith("ApplyBrokerId cluster=c1 broker_name=b1 broker_id=1")
    assert main(["inspect", str(tmp_path)]) == 0
    assert "ApplyBrokerId" in capsys.readouterr().out


async def test_running_nodes_are_asked_and_changed(one: OneNode, capsys: pytest.CaptureFixture[str]) -> None:
    async with one.broker() as broker:
        await broker.elect()
        http = ("--http", one.http)
        assert "leader n0" in (await _run(capsys, "status", *http))[1]
        assert "c1/b1  epoch 1  in sync 1/1" in (await _run(capsys, "groups", *http))[1]
        assert "c1/b1/1" in (await _run(capsys, "failovers", *http))[1]
        status, printed, _ = await _run(capsys, "groups", *http, "--output", "json")
        assert (status, json.loads(printed)["groups"][0]["master_id"]) == (0, 1)
        assert "MasterElected" in (await _run(capsys, "watch", *http, "--no-follow"))[1]
        assert "broker 1 is master" in (await _run(capsys, "elect", *http, "c1", "b1", "1"))[1]
        assert "is written" in (await _run(capsys, "snapshot", *http))[1]
        status, _, problem = await _run(capsys, "elect", *http, "c1", "b1", "9")
        assert status == 1
        assert "brokerId: 9" in problem


async def test_a_node_that_cannot_be_reached_is_left_out(
    one: OneNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await _run(capsys, "groups", "--http", f"127.0.0.1:1,{one.http}"))[0] == 0
    status, _, problem = await _run(capsys, "groups", "--http", "127.0.0.1:1")
    assert status == 1
    assert "127.0.0.1:1" in problem


async def test_bench_measures_each_workload_and_leaves_nothing_behind(
    one: OneNode, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--controllers", one.remoting, "--seconds", "0.1", "--groups", "2", "--in-flight", "4")
    status, printed, problem = await _run(capsys, "bench", *arguments, "--output", "json")
    assert (status, problem) == (0, "")
    results = [json.loads(line) for line in printed.splitlines()]
    assert [result["workload"] for result in results] == [
        "get-replica-info",
        "heartbeat",
        "register",
        "alter",
    ]
    for result in results:
        assert result["errors"] == 0
        assert result["requests"] > 0
        assert result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
    assert len(one.machine.state) == 0
