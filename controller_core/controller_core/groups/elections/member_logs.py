"""Compare the logs of a group's members: the order of (last epoch with messages, end of log).

A broker's heartbeat tells the last epoch of its list, and that epoch may be empty: the broker became master
and took no message. Such an epoch must not outrank a longer log. An example, with the logs of both brokers
ending at offset 100 when it begins; a list is `epoch:start`:

    broker A is master in epoch 2, no message             A {1:0, 2:100}
    A dies, broker B is master in epoch 3, no message     B {1:0, 3:100}
    B dies; A is elected before it was a slave of B       A {1:0, 2:100}
    (`enableElectUncleanMaster`, or a person chose A
    after the controllers lost their stores): epoch 4
    A takes messages up to offset 150                     A {1:0, 2:100} to 150

A does not add epoch 4, because a broker refuses an epoch that starts where its last one starts; its messages
of epoch 4 lie under 2. B's heartbeat tells 3, that of A tells 2. If the controllers lose their stores now,
the heartbeats put B first, and A would be cut to 100. The lists tell the truth: B's last epoch with messages
is 1. (A slave of B drops 2:100 in the handshake. So an election from the SyncStateSet alone does not lead
here.)

An epoch ends where the next one starts, and the last one ends at the end of the log. The ends that the list
itself carries are not used: a broker that truncated its list keeps an old end in memory.

A member without a list (`server.elections.member_logs`) is compared by its last heartbeat, whose epoch counts
as one with messages: nearly always it is, and a master that wrote in it must not lose to an older log.

Source: EpochFileCache.appendEntry, truncateSuffixByOffset, AutoSwitchHAService.changeToMaster,
AutoSwitchHAClient.doTruncate of 5.3.3 and 5.5.0.
"""

from collections.abc import Iterable, Mapping

from controller_core.groups.commands import UNKNOWN_EPOCH, ElectMaster, LiveBroker, MemberLog
from controller_core.groups.keys import BrokerId, LogOffset


def log_of_list(broker_id: BrokerId, starts: Iterable[tuple[int, int]], max_offset: LogOffset) -> MemberLog:
    """Return what a list of epochs says of a log.

    Args:
        broker_id: the member.
        starts: the epochs with their start offsets, in any order.
        max_offset: the end of the log.
    """
    ascending = sorted(starts)
    ends = [*(start for _, start in ascending[1:]), max_offset]
    written = [epoch for (epoch, start), end in zip(ascending, ends, strict=False) if end > start]
    last_epoch = ascending[-1][0] if ascending else UNKNOWN_EPOCH
    return MemberLog(broker_id, last_epoch, written[-1] if written else UNKNOWN_EPOCH, max_offset)


def compared_logs(command: ElectMaster, alive: Mapping[BrokerId, LiveBroker]) -> dict[BrokerId, MemberLog]:
    """Return the log of each living member: by its list, else by its last heartbeat."""
    told = {
        member.id: MemberLog(member.id, member.epoch, member.epoch, member.max_offset)
        for member in alive.values()
    }
    return told | {log.id: log for log in command.logs if log.id in told}


def rank_of_log(log: MemberLog, priority: int) -> tuple[int, int, int, int, int]:
    """Return what sorts the best log first; among equal logs, that of the last master."""
    return (-log.written_epoch, -log.max_offset, -log.last_epoch, priority, log.id)
