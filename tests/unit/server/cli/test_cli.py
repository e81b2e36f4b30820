"""The command line: exit statuses, one clear line per error, output for people and for programs."""

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from controller_core.groups import commands
from controller_core.log.store import DiskStore
from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, NodeId, Ready, Snapshot, Term
from controller_core.server.cli.main import main
from controller_core.server.peers.greeting_rules import store_fingerprint
from testkit.processes.http_served import http_served
from testkit.products.one_controller import OneNode


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


@pytest.mark.parametrize("output", ["table", "json", "yaml", "csv"])
def test_a_store_is_named_by_its_fingerprint_and_its_incarnation_is_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    incarnation = "5e0f" * 8
    initial = Snapshot(LogIndex(1), Term(1), ConfState(voters=(NodeId(1),)))
    DiskStore.open(tmp_path, initial, owner="g/n0", new_incarnation=incarnation).close()
    assert main(["inspect", str(tmp_path), "--output", output]) == 0
    printed = capsys.readouterr().out
    assert f"owner 'g/n0' store {store_fingerprint(incarnation)}" in printed
    assert incarnation not in printed


async def test_running_nodes_are_asked_and_changed(one: OneNode, capsys: pytest.CaptureFixture[str]) -> None:
    async with one.broker() as broker:
        await broker.elect()
        http = ("--server", one.http)
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
    assert (await _run(capsys, "groups", "--server", f"127.0.0.1:1,{one.http}"))[0] == 0
    status, _, problem = await _run(capsys, "groups", "--server", "127.0.0.1:1")
    assert status == 1
    assert "127.0.0.1:1" in problem


async def test_bench_measures_each_workload_and_leaves_nothing_behind(
    one: OneNode, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--controllers", one.remoting, "--duration", "100ms", "--groups", "2", "--in-flight", "4")
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


@pytest.mark.parametrize("name", ["a/b", "../x", "..%2f", "a b", "a?b#c", "%", "\u6ce8"])
async def test_a_name_in_a_command_never_leads_to_another_path(
    one: OneNode, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    async with one.broker() as other, one.broker(group=name) as broker:
        await other.elect()
        await broker.elect()
        status, printed, problem = await _run(capsys, "elect", "--server", one.http, "c1", name, "1")
        assert (status, problem) == (0, "")
        assert f"c1/{name}: broker 1 is master" in printed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "is a relative path"),
        ("..", "is a relative path"),
        ("", "is empty"),
        ("a\nb", "has the control character U+000A"),
        ("x" * 300, "has 300 bytes, at most 255 are allowed"),
    ],
)
async def test_a_name_that_no_path_holds_is_refused_with_one_line(
    capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    for arguments in ((name, "b1", "1"), ("c1", name, "1")):
        status, _, problem = await _run(capsys, "elect", "--server", "127.0.0.1:1", *arguments)
        assert (status, problem.count("\n")) == (1, 1)
        assert words in problem


async def test_a_name_with_a_new_line_does_not_split_what_is_printed(
    one: OneNode, capsys: pytest.CaptureFixture[str]
) -> None:
    stamp = commands.Stamp(utc_ns=1, monotonic_ns=1, clock_id="c")
    claim = commands.ApplyBrokerId(
        cluster="c1", broker_name="b1\nc9/forged\x1b[2J", stamp=stamp, broker_id=1, check_code="h\n:1;1"
    )
    await one.node.propose(commands.encode(claim))
    for command, lines in (("groups", 2), ("watch", 1)):
        more = ("--no-follow",) if command == "watch" else ()
        _, printed, _ = await _run(capsys, command, "--server", one.http, *more)
        assert printed.count("\n") == lines
        assert r"c1/b1\nc9/forged\x1b[2J" in printed
        assert "\x1b" not in printed


async def test_a_node_that_cannot_be_reached_does_not_hide_the_status_of_the_others(
    one: OneNode, capsys: pytest.CaptureFixture[str]
) -> None:
    status, printed, _ = await _run(capsys, "status", "--server", f"127.0.0.1:1,{one.http}")
    first, second = printed.splitlines()
    assert (status, first.startswith("127.0.0.1:1  unreachable: ")) == (0, True)
    assert "leader n0" in second


@pytest.mark.parametrize("body", [b"<html>\x1b[2J\nforged</html>", b"\xff\n", b'["\x1b[2J"]', b"[]"])
@pytest.mark.parametrize("arguments", [("groups",), ("failovers",), ("watch", "--no-follow")], ids="-".join)
async def test_an_answer_of_something_that_is_not_a_controller_is_one_line(
    capsys: pytest.CaptureFixture[str], body: bytes, arguments: tuple[str, ...]
) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="text/html")

    async with http_served(answer) as address:
        status, printed, problem = await _run(capsys, *arguments, "--server", address)
        assert (status, printed, problem.count("\n")) == (1, "", 1)
        assert f"http://{address}/v1/" in problem
        assert "does not answer as a controller" in problem
        assert "\x1b" not in problem


def test_inspect_tells_an_entry_without_effect_from_one_of_a_later_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamp = commands.Stamp(utc_ns=1, monotonic_ns=1, clock_id="c")
    long = commands.ApplyBrokerId(
        cluster="c1", broker_name="x\n" * 100_000, stamp=stamp, broker_id=1, check_code="a;1"
    )
    store = DiskStore.open(tmp_path, Snapshot(LogIndex(1), Term(1), ConfState(voters=(NodeId(1),))))
    payloads = (bytes(2_000_000), bytes([commands.COMMAND_VERSION + 1]), commands.encode(long))
    entries = tuple(Entry(Term(2), LogIndex(index), data=data) for index, data in enumerate(payloads, 2))
    batch = store.prepare(Ready(entries=entries, hard_state=HardState(Term(2), NodeId(1)), must_sync=True))
    store.write(batch)
    store.commit(batch)
    store.close()
    assert main(["inspect", str(tmp_path)]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if " ENTRY " in line]
    assert "NO EFFECT: a command of 2000000 bytes; 1 to 1048576 are possible" in rows[0]
    assert "LATER RELEASE: command version 2 is unknown; this node knows 1" in rows[1]
    assert "ApplyBrokerId" in rows[2]
    assert "(300000 characters)" in rows[2]
    assert max(map(len, rows)) < 6_000


async def test_a_running_nodes_log_says_what_each_entry_was(
    one: OneNode, capsys: pytest.CaptureFixture[str]
) -> None:
    async with one.broker() as broker:
        await broker.elect()
    http = ("--server", one.http)
    _, printed, _ = await _run(capsys, "log", *http, "-o", "json")
    page = json.loads(printed)
    kinds = {entry["kind"]: entry for entry in page["entries"]}
    assert {"Empty", "ApplyBrokerId", "RegisterBroker", "ElectMaster"} <= set(kinds)
    claim = kinds["ApplyBrokerId"]
    assert claim["command"] == {"cluster": "c1", "broker_name": "b1", "broker_id": 1}  # not its check code
    assert claim["committed"]
    assert claim["proposed_ns"] > 0

    index = str(claim["index"])
    for form in ("json", "yaml"):
        _, printed, _ = await _run(capsys, "get", *http, index, "-o", form)
        assert yaml.safe_load(printed) == claim
    _, printed, _ = await _run(capsys, "get", *http, index)
    assert f"{index}  term" in printed
    assert "ApplyBrokerId       cluster=c1 broker_name=b1 broker_id=1" in printed
    _, printed, _ = await _run(capsys, "log", *http, "--first", index, "--limit", "1", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(printed))
    assert (row["index"], row["kind"], json.loads(row["command"])["broker_id"]) == (index, "ApplyBrokerId", 1)


async def test_an_entry_that_the_log_does_not_have_is_refused_with_its_extent(
    one: OneNode, capsys: pytest.CaptureFixture[str]
) -> None:
    for index, why in (("1", "a snapshot took its place"), ("1000000", "it is not written yet")):
        status, _, problem = await _run(capsys, "get", "--server", one.http, index)
        assert status == 1
        assert f"no such entry: {why} (the log has entries 2 to " in problem
        assert f"(index: {index})" in problem
    assert (await _run(capsys, "log", "--server", one.http, "--limit", "-1"))[0] == 1
