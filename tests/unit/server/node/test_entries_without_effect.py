"""A committed entry that no node can apply: every node skips it, reports it, keeps the same digest."""

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controller_core.groups import commands, state
from controller_core.groups.commands import COMMAND_BYTES_MAX, AnyCommand, ApplyBrokerId, LiftWriteGuard
from controller_core.groups.errors import CommandTooLargeError, NewerCommandError
from controller_core.remoting.codes import ResponseCode
from controller_core.server.node.state_machine import GroupsMachine
from testkit.raft.groups import GroupsDriver, stamp


def _claim(broker_id: int = 1, name: str = "b1") -> ApplyBrokerId:
    return ApplyBrokerId(
        cluster="c1", broker_name=name, stamp=stamp(1), broker_id=broker_id, check_code="h:1;1"
    )


def _packed(fields: object, version: int = commands.COMMAND_VERSION) -> bytes:
    return bytes([version]) + msgspec.msgpack.encode(fields)


FIELDS = msgspec.to_builtins(_claim())
HUGE = _packed(FIELDS | {"broker_name": "x" * (COMMAND_BYTES_MAX + 100)})
NO_COMMAND = [
    pytest.param(HUGE, id="too large"),
    pytest.param(b"\xff\x00rubbish", id="no version"),
    pytest.param(_packed("text"), id="no map"),
    pytest.param(_packed(FIELDS)[:-3], id="cut short"),
    pytest.param(_packed(FIELDS | {"broker_id": "one"}), id="a field of another type"),
    pytest.param(_packed(FIELDS | {"broker_id": 2**63}), id="an id beyond Java's long"),
    pytest.param(_packed({"kind": "ApplyBrokerId"}), id="fields missing"),
    pytest.param(_packed({"kind": 7}), id="a kind that is no text"),
    pytest.param(b"\x01" + b"\x91" * 100_000, id="nested without end"),
]
LATER_RELEASE = [
    pytest.param(_packed(FIELDS, version=commands.VERSION_RESERVED_MAX), id="version"),
    pytest.param(_packed({"kind": "MergeGroups", "first": "a"}), id="kind"),
    pytest.param(_packed(FIELDS | {"rack": "r1"}), id="field"),
    pytest.param(
        _packed({"kind": "ElectMaster", "cluster": "c", "broker_name": "b", "cause": "Drill"}), id="cause"
    ),
]


@pytest.mark.parametrize("data", NO_COMMAND)
def test_every_node_passes_over_what_is_no_command(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    first, second = GroupsMachine(), GroupsMachine()
    for machine in (first, second):
        machine.apply(7, 2, commands.encode(_claim(1)))
        before = machine.state.snapshot()
        outcome = machine.apply(8, 2, data)
        assert (outcome.reply.code, machine.skipped) == (ResponseCode.SYSTEM_ERROR, 1)
        assert "log entry 8 was skipped" in (outcome.reply.remark or "")
        assert (machine.state.applied_index, len(machine.state)) == (8, 1)
        assert machine.state.snapshot() != before  # the applied index counts
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [vars(record)["rmqha_fields"]["index"] for record in errors] == [8, 8]
    restarted = GroupsMachine()
    restarted.restore(first.snapshot())
    for machine in (first, second, restarted):
        machine.apply(9, 3, commands.encode(_claim(2)))
    assert first.state.digest() == second.state.digest() == restarted.state.digest()
    assert restarted.skipped == 0


@pytest.mark.parametrize("data", LATER_RELEASE)
def test_a_node_ends_at_an_entry_that_a_later_release_applies(data: bytes) -> None:
    machine = GroupsMachine()
    with pytest.raises(NewerCommandError):
        machine.apply(1, 1, data)
    assert (machine.state.applied_index, machine.skipped) == (0, 0)


@pytest.mark.parametrize("error", [KeyError("x" * 5_000), ValueError("no"), OverflowError(), TypeError()])
def test_a_command_that_does_not_fit_the_state_changes_nothing_but_the_applied_index(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = GroupsDriver().group_of_three()
    machine = GroupsMachine()
    machine.restore(driver.state.snapshot())
    index, groups = machine.state.applied_index, tuple(machine.state.groups())
    monkeypatch.setattr(state, "lift_write_guard", _raiser(error))
    outcome = machine.apply(index + 1, 1, commands.encode(_lift()))
    assert (outcome.reply.code, machine.skipped) == (ResponseCode.SYSTEM_ERROR, 1)
    assert len(outcome.reply.remark or "") < 400
    driver.state.skip(index + 1, 1)
    assert machine.state.digest() == driver.state.digest()
    assert tuple(machine.state.groups()) == groups


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), OSError("disk"), RuntimeError("loop")])
def test_what_only_this_process_suffers_ends_the_node(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = GroupsMachine()
    monkeypatch.setattr(state, "lift_write_guard", _raiser(error))
    with pytest.raises(type(error)):
        machine.apply(1, 1, commands.encode(_lift()))
    assert machine.skipped == 0


def test_an_observer_that_fails_is_not_taken_for_a_bad_entry() -> None:
    machine = GroupsMachine()
    machine.observe(_raiser(KeyError("mine")))
    with pytest.raises(KeyError):
        machine.apply(1, 1, commands.encode(_claim()))


def test_a_command_larger_than_an_entry_is_not_encoded() -> None:
    with pytest.raises(CommandTooLargeError, match=f"at most {COMMAND_BYTES_MAX} are allowed"):
        commands.encode(_claim(name="x" * COMMAND_BYTES_MAX))
    with pytest.raises(CommandTooLargeError, match="cannot be encoded"):
        commands.encode(_claim(name="\ud800"))
    with pytest.raises(CommandTooLargeError, match="cannot be encoded"):
        commands.encode(_claim(2**64))


def _lift() -> AnyCommand:
    return LiftWriteGuard(cluster="c1", broker_name="b1", stamp=stamp(1), broker_id=1)


def _raiser(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail
