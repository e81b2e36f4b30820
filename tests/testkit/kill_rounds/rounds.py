"""Rounds of kill -9 of a group's members under load.

It has victims and times, the state that each kill meets, and the final logs.

Of every three rounds each member is the victim of one. Victims and times follow from the seed; the state that
a kill meets does not, since the processes are real.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from testkit.demo.cluster import CLUSTER, GROUP
from testkit.demo.story import GroupInfo, wait_whole
from testkit.demo.under_load import UnderLoad
from testkit.products.replica import LogReplicaProcess, log_prefix_equal
from testkit.rocketmq.load import ReadBackResult, summarise
from testkit.rocketmq.processes import JavaBroker

MEMBERS: Final = ("master", "slave", "replica")
PAUSE_S_MAX: Final = 1.0
ACKS_AFTER_KILL: Final = 50
ACKS_TIMEOUT_S: Final = 60.0
WHOLE_TIMEOUT_S: Final = 120.0
EQUAL_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Round:
    """What one kill met.

    Attributes:
        victim: one of `MEMBERS`.
        name: the victim's process.
        gap_s: longest time between two acknowledgements, from the kill to the end of the round.
        whole_s: time from the kill until the victim was back in the set.
        epochs: master epoch before and after.
    """

    victim: str
    name: str
    gap_s: float
    whole_s: float
    epochs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class RoundsVerdict:
    """The findings at the end."""

    rounds: list[Round]
    read_back: ReadBackResult
    logs_equal: bool

    @property
    def passed(self) -> bool:
        """Whether nothing acknowledged was lost and all members hold the same bytes."""
        return not self.read_back.lost and self.logs_equal


def schedule(random: Random, rounds: int) -> Iterator[tuple[str, float]]:
    """Yield a victim and a pause in seconds for each round; every three rounds take each victim once."""
    order: list[str] = []
    for number in range(rounds):
        if number % len(MEMBERS) == 0:
            order = random.sample(MEMBERS, len(MEMBERS))
        yield order[number % len(MEMBERS)], random.uniform(0, PAUSE_S_MAX)


async def run_rounds(running: UnderLoad, random: Random, rounds: int) -> RoundsVerdict:
    """Run that many rounds, end the load, and inspect the final logs."""
    found = []
    for number, (victim, pause_s) in enumerate(schedule(random, rounds), 1):
        found.append(await _round(running, victim, pause_s))
        last = found[-1]
        running.progress.say(
            f"round {number}: {victim} ({last.name}), gap {last.gap_s * 1000:.0f} ms, "
            f"whole after {last.whole_s:.1f} s, epoch {last.epochs[0]} -> {last.epochs[1]}"
        )
    read_back = await running.read_back()
    return RoundsVerdict(found, read_back, await _logs_equal(running))


async def _round(running: UnderLoad, victim: str, pause_s: float) -> Round:
    before = await wait_whole(running.cluster)
    await asyncio.sleep(pause_s)
    member = _member(running, victim, before)
    killed_ns, killed_s = time.time_ns(), time.monotonic()
    await member.process.kill()
    await running.load.wait_for_acknowledged(ACKS_AFTER_KILL, ACKS_TIMEOUT_S, after_ns=killed_ns)
    await member.start()
    after = await _wait_back(running, before)
    gap_s = summarise([send for send in running.load.sends() if send.end_ns > killed_ns]).longest_gap_s
    epochs = before["master_epoch"], after["master_epoch"]
    return Round(victim, member.process.name, gap_s, time.monotonic() - killed_s, epochs)


def _member(running: UnderLoad, victim: str, group: GroupInfo) -> JavaBroker | LogReplicaProcess:
    cluster = running.cluster
    if victim == "replica":
        return cluster.log_replica
    master = cluster.broker_at(group["master_address"])
    return next(one for one in cluster.brokers if (one is master) == (victim == "master"))


async def _wait_back(running: UnderLoad, before: GroupInfo) -> GroupInfo:
    """Wait until the set is whole and changed: a set that still names the victim does not count."""

    def is_back(group: GroupInfo) -> bool:
        is_newer = group["sync_state_set_epoch"] > before["sync_state_set_epoch"]
        return is_newer and group["master_id"] is not None and len(group["sync_state_set"]) == len(MEMBERS)

    return await running.cluster.controllers.wait_group(CLUSTER, GROUP, is_back, WHOLE_TIMEOUT_S)


async def _logs_equal(running: UnderLoad) -> bool:
    """Say whether both brokers have what the replica has; a slave may need a while for its last bytes."""
    replica = running.cluster.log_replica
    deadline_s = asyncio.get_running_loop().time() + EQUAL_TIMEOUT_S
    max_offset = await replica.wait_max_offset()
    for broker in running.cluster.brokers:
        while not log_prefix_equal(replica.store / "commitlog", broker.store / "commitlog", max_offset):
            if asyncio.get_running_loop().time() > deadline_s:
                return False
            await asyncio.sleep(_POLL_S)
    return max_offset > 0
