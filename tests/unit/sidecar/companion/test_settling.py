"""The command `handover` settles the POP debt itself, or has the running companion do it, and never both."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ha_sidecar.common import questions
from ha_sidecar.companion import revive_watch, settling
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.debt_store import DEBT_FILE, DebtStore
from ha_sidecar.companion.handover import HandoverResult
from ha_sidecar.companion.settling import hand_over_and_settle
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts
from ha_sidecar.decisions.revive_debt import DebtRecord
from testkit.fakes.revive_broker import ReviveBroker

OWED = frozenset({("T", "G")})
CHECKPOINT = {"t": "T", "c": "G", "q": 0, "pt": 1, "n": 1, "bm": 0, "bn": "g"}


class GroupWithDebt:
    """A master with ten checkpoints, of which it revived three, and a successor by a handover."""

    def __init__(self, directory: Path) -> None:
        self.broker, self.successor = ReviveBroker(), ReviveBroker()
        for each in (self.broker, self.successor):
            each.log[1] = [("ck", CHECKPOINT | {"so": first}) for first in range(10)]
        self.broker.committed = {1: 2}
        self.store = DebtStore(directory / "state", "c", "g")
        self.is_handed_over = False
        self.refused_while_guarded = 0

    def config(self, **values: Any) -> CompanionConfig:
        """Return settings of the command."""
        given = {
            "cluster": "c",
            "group": "g",
            "broker": self.broker.address,
            "controllers": (("127.0.0.1", 1),),
            "broker_metrics": self.broker.page,
            "state": self.store.directory,
            **values,
        }
        return CompanionConfig(**given)

    def owe(self) -> None:
        """Leave the debt of a companion that ended."""
        assert self.store.take()
        self.store.write(DebtRecord({1: 2}, {1: 5}, {1: 2}, OWED, {("T", "G"): 0}, 3))
        self.store.release()

    async def hand_over(self) -> HandoverResult:
        """Stand in for the handover: its write guard may refuse puts."""
        self.is_handed_over = True
        if self.refused_while_guarded:
            self.broker.refused["T", "G"] = self.refused_while_guarded
            self.broker.committed[1] = 7
        return HandoverResult(True, "done", 1, 2, 2, 1)

    async def ask_broker(self, *_: object) -> BrokerFacts:
        """Stand in for the question."""
        return BrokerFacts(1, "", not self.is_handed_over, 1, 0, 0, ())

    async def ask_group(self, *_: object) -> GroupFacts:
        """Stand in for the question."""
        host, port = (self.successor if self.is_handed_over else self.broker).address
        return GroupFacts(2 if self.is_handed_over else 1, f"{host}:{port}", 1, (1, 2), ())


@pytest.fixture
async def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[GroupWithDebt]:
    made = GroupWithDebt(tmp_path)
    await made.broker.start()
    await made.successor.start()

    class StandIn:
        def __init__(self, _: CompanionConfig) -> None:
            self.run = made.hand_over

    monkeypatch.setattr(settling, "Handover", StandIn)
    monkeypatch.setattr(settling, "ask_broker", made.ask_broker)
    monkeypatch.setattr(questions, "ask_group", made.ask_group)
    monkeypatch.setattr(revive_watch, "SETTLE_LOOK_S", 0.001)
    monkeypatch.setattr(revive_watch, "SETTLE_WITHIN_S", 60.0)
    yield made
    made.store.release()
    await made.broker.stop()
    await made.successor.stop()


def firsts(broker: ReviveBroker) -> list[int]:
    return [value["so"] for _, value, _ in broker.sent]


async def test_the_debt_of_a_companion_that_ended_is_settled_at_the_successor(group: GroupWithDebt) -> None:
    group.owe()
    group.broker.takes_max = 0
    result = await hand_over_and_settle(group.config())
    assert (firsts(group.successor), result.pop_revives_owed) == ([3, 4, 5], False)
    assert not (group.store.directory / DEBT_FILE).exists()


async def test_puts_that_the_handover_itself_has_refused_are_settled_too(group: GroupWithDebt) -> None:
    group.refused_while_guarded = 5
    result = await hand_over_and_settle(group.config())
    assert (firsts(group.successor), result.pop_revives_owed) == ([3, 4, 5, 6, 7], False)


async def test_a_debt_that_the_successor_does_not_take_stays_for_the_next_companion(
    group: GroupWithDebt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revive_watch, "SETTLE_WITHIN_S", 0.05)
    group.owe()
    group.broker.takes_max = group.successor.takes_max = 0
    result = await hand_over_and_settle(group.config())
    assert result.pop_revives_owed
    assert group.store.take(), "the command let the folder go"
    assert group.store.read() is not None


@pytest.mark.parametrize(
    ("answer", "owed"),
    [
        pytest.param({"pop_revives_owed": False}, False, id="settled"),
        pytest.param({"pop_revives_owed": True}, True, id="owed"),
        pytest.param([], None, id="not-an-object"),
    ],
)
async def test_a_running_companion_is_asked_to_settle(
    group: GroupWithDebt, answer: object, owed: bool | None
) -> None:
    group.owe()
    assert group.store.take()
    asked: list[bool] = []

    async def settle(_: web.Request) -> web.Response:
        asked.append(group.is_handed_over)
        return web.json_response(answer)

    app = web.Application()
    app.router.add_post("/v1/settle", settle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    result = await hand_over_and_settle(group.config(http=("0.0.0.0", runner.addresses[0][1])))  # noqa: S104
    await runner.cleanup()
    assert (asked, result.pop_revives_owed) == ([True], owed)
    assert firsts(group.broker) + firsts(group.successor) == []


@pytest.mark.parametrize("missing", ["state", "broker_metrics"])
async def test_without_folder_or_metrics_the_command_hands_over_and_does_not_know_of_a_debt(
    group: GroupWithDebt, missing: str
) -> None:
    group.owe()
    result = await hand_over_and_settle(group.config(**{missing: None}))
    assert (result.handed_over, result.pop_revives_owed) == (True, None)
    assert firsts(group.broker) + firsts(group.successor) == []


async def test_a_folder_that_cannot_be_made_does_not_stop_the_handover(
    group: GroupWithDebt, caplog: pytest.LogCaptureFixture
) -> None:
    group.store.directory.write_text("a file in its place")
    assert (await hand_over_and_settle(group.config())).pop_revives_owed is None
    assert "does not settle POP checkpoints" in caplog.text
