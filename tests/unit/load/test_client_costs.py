"""What `make bench-clients` makes of a ledger, and what it says where Go is missing."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from testkit.rocketmq import other_clients
from testkit.rocketmq.load import LoadSettings, Send
from testkit.tree.files import ROOT

MS = 1_000_000


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_clients", ROOT / "tests/bench/bench_clients.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _send(sequence: int, start_ms: int, end_ms: int, problem: str = "") -> Send:
    status = "MQClientException" if problem else "SEND_OK"
    return Send(sequence, f"k-{sequence}", start_ms * MS, end_ms * MS, status, None, None, None, problem)


def test_a_cost_has_the_longest_gap_and_the_slowest_send_whatever_its_result(bench: ModuleType) -> None:
    sends = [_send(0, 0, 2), _send(1, 5, 3_005, "time-out"), _send(2, 300, 310), _send(3, 400, 410)]
    cost = bench.cost_of("go", "kill", sends, 0)
    assert (cost.gap_ms, cost.failed, cost.slowest_ms, cost.acknowledged) == (308.0, 1, 3_000.0, 3)


def test_problems_that_differ_in_numbers_and_requests_alone_count_as_one(bench: ModuleType) -> None:
    sends = [
        _send(0, 0, 1, "MQClientException: cost [27]ms"),
        _send(1, 0, 1, "MQClientException: cost [3]ms"),
        _send(2, 0, 1, "[request-id=6dfc-9859, response-code=42900] system busy"),
    ]
    assert bench.cost_of("grpc", "kill", sends, 0).problems == {
        "MQClientException: cost [#]ms": 2,
        "[#, response-code=#] system busy": 1,
    }


def test_the_table_has_one_row_for_each_client_and_fault_with_medians_and_sums(bench: ModuleType) -> None:
    costs = [
        bench.cost_of("go", "kill", [_send(0, 0, 1), _send(1, 0, end_ms), _send(2, 0, 2, "x")], 0)
        for end_ms in (101, 301, 3_001)
    ]
    row = "| 5.5.0, go | kill | 3 | 300 ms | 3000 ms | 3001 ms | 3 | 6, 0 |"
    assert bench.table("5.5.0", costs)[2:] == [row]


async def test_without_go_the_client_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(other_clients.GoUnavailableError, match="go is not installed: 'apt-get install"):
        await other_clients.go_program()


async def test_a_go_program_that_cannot_be_built_is_left_out_with_what_go_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'no module'; exit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(other_clients.GoUnavailableError, match="no module"):
        await other_clients.go_program()


async def test_each_client_gets_the_options_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def built() -> Path:
        return Path("/go-client")

    monkeypatch.setattr(other_clients, "go_program", built)
    settings = LoadSettings(threads=2, rate=50, poll_name_server_ms=200)
    load = other_clients.GoLoad("127.0.0.1:1", "T", tmp_path, settings)
    assert await load.command() == [
        *("/go-client", "--name-server", "127.0.0.1:1", "--topic", "T", "--ledger", str(load.ledger)),
        *("--threads", "2", "--rate", "50", "--payload-bytes", "128", "--poll-name-server-ms", "200"),
    ]
