"""Rounds of kill -9 of a group's members under load.

It has victims and times, the state that each kill meets, and the final logs.

Successive rounds take each of a group's `victims` once. Victims and times follow from the seed; the state
that a kill meets does not, since the processes are real.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from controller_core.channel.asking import Asker
from controller_core.remoting.bodies import EpochEntryCache
from controller_core.remoting.codes import RequestCode
from ha_sidecar.address import host_port
from testkit.demo.cluster import CLUSTER, GROUP
from testkit.demo.story import GroupInfo, wait_whole
from testkit.demo.under_load import UnderLoad, under_load
from testkit.kill_rounds.groups import MASTER, REPLICA, KilledGroup
from testkit.products.replica import LogReplicaProcess, log_prefix_equal
from testkit.rocketmq.load import ReadBackResult, longest_gap_since_s
from testkit.rocketmq.processes import JavaBroker

SENDS_PER_S: Final = 200
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
        victims: who was killed at once.
        names: the victims' processes.
        gap_s: longest time between two acknowledgements; the first is the last one before the kill.
        whole_s: time from the kill until the victims were back in the set.
        epochs: master epoch before and after.
    """

    victims: tuple[str, ...]
    names: tuple[str, ...]
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


@asynccontextmanager
async def killed_group(directory: Path, group: KilledGroup) -> AsyncIterator[UnderLoad]:
    """Run the group under load; end it afterwards."""
    async with under_load(
        directory,
        rate=SENDS_PER_S,
        settings=group.settings,
        brokers=group.brokers,
        log_replicas=group.log_replicas,
    ) as running:
        yield running


def schedule(random: Random, group: KilledGroup, rounds: int) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield victims and a pause in seconds for each round; successive rounds take each victims once."""
    order: list[tuple[str, ...]] = []
    for number in range(rounds):
        if number % len(group.victims) == 0:
            order = random.sample(group.victims, len(group.victims))
        yield order[number % len(group.victims)], random.uniform(0, PAUSE_S_MAX)


async def run_rounds(running: UnderLoad, random: Random, group: KilledGroup, rounds: int) -> RoundsVerdict:
    """Run that many rounds, end the load, and inspect the final logs."""
    found = []
    for number, (victims, pause_s) in enumerate(schedule(random, group, rounds), 1):
        found.append(await _round(running, random, victims, pause_s))
        last = found[-1]
        running.progress.say(
            f"round {number}: {' and '.join(victims)} ({', '.join(last.names)}), "
            f"gap {last.gap_s * 1000:.0f} ms, whole after {last.whole_s:.1f} s, "
            f"epoch {last.epochs[0]} -> {last.epochs[1]}"
        )
    read_back = await running.read_back()
    return RoundsVerdict(found, read_back, await _logs_equal(running))


async def _round(running: UnderLoad, random: Random, victims: tuple[str, ...], pause_s: float) -> Round:
    before = await wait_whole(running.cluster)
    await asyncio.sleep(pause_s)
    members = _members(running, random, victims, before)
    killed_ns, killed_s = time.time_ns(), time.monotonic()
    await asyncio.gather(*(member.process.kill() for member in members))
    await running.load.wait_for_acknowledged(ACKS_AFTER_KILL, ACKS_TIMEOUT_S, after_ns=killed_ns)
    await asyncio.gather(*(member.start() for member in members))
    after = await _wait_back(running, before)
    gap_s = longest_gap_since_s(running.load.sends(), killed_ns)
    epochs = before["master_epoch"], after["master_epoch"]
    names = tuple(member.process.name for member in members)
    return Round(victims, names, gap_s, time.monotonic() - killed_s, epochs)


def _members(
    running: UnderLoad, random: Random, victims: tuple[str, ...], before: GroupInfo
) -> list[JavaBroker | LogReplicaProcess]:
    cluster = running.cluster
    master = cluster.broker_at(before["master_address"])
    slaves = [broker for broker in cluster.brokers if broker is not master]
    random.shuffle(slaves)
    found: list[JavaBroker | LogReplicaProcess] = []
    for victim in victims:
        if victim == REPLICA:
            found.append(cluster.log_replica)
        else:
            found.append(master if victim == MASTER else slaves.pop())
    return found


async def _wait_back(running: UnderLoad, before: GroupInfo) -> GroupInfo:
    """Wait until the set is whole and changed: a set that still names the victims does not count."""

    def is_back(group: GroupInfo) -> bool:
        is_newer = group["sync_state_set_epoch"] > before["sync_state_set_epoch"]
        is_whole = len(group["sync_state_set"]) == running.cluster.members
        return is_newer and is_whole and group["master_id"] is not None

    return await running.cluster.controllers.wait_group(CLUSTER, GROUP, is_back, WHOLE_TIMEOUT_S)


async def _logs_equal(running: UnderLoad) -> bool:
    """Say whether all members have what the master has; a slave may need a while for its last bytes."""
    cluster = running.cluster
    group = await wait_whole(cluster)
    master = cluster.broker_at(group["master_address"])
    stores = [broker.store for broker in cluster.brokers if broker is not master]
    if cluster.members > len(cluster.brokers):
        stores.append(cluster.log_replica.store)
    deadline_s = asyncio.get_running_loop().time() + EQUAL_TIMEOUT_S
    max_offset = await _end_of(master)
    for store in stores:
        while not log_prefix_equal(master.store / "commitlog", store / "commitlog", max_offset):
            if asyncio.get_running_loop().time() > deadline_s:
                return False
            await asyncio.sleep(_POLL_S)
    return max_offset > 0


async def _end_of(broker: JavaBroker) -> int:
    asker = Asker(host_port(broker.address))
    try:
        answer = await asker.ask(RequestCode.GET_BROKER_EPOCH_CACHE)
    finally:
        asker.close()
    return EpochEntryCache.decode(answer.body).max_offset
