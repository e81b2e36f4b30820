"""The planted bugs of reads, at the leader and at followers."""

from testkit.mutants.mutant import Mutant

READ_MUTANTS = (
    Mutant(
        "a leader reads without asking anybody",
        "raft/raw_node.py",
        "return lease_ticks_left(self._raft) > 0",
        "return self.is_leader",
        # Why a test: a schedule that shows it is rarer than one in 200 since reads are
        # answered without a pause between.
        test="tests/unit/raft/test_reads.py",
    ),
    Mutant(
        "a read at a follower is served before its index is applied",
        "server/node/read_rounds.py",
        "ready = [waiters for needed, waiters in self._applying if needed <= index]",
        "ready = [waiters for _, waiters in self._applying]",
        # Why a test: a schedule that shows it is rarer than one in 60, since entries mostly come first.
        test="tests/simulation/test_follower_reads.py",
    ),
    Mutant(
        "a deposed leader gives a follower its index",
        "raft/reads.py",
        "    if lease_ticks_left(raft) > 0:",
        "    if True:",
        test="tests/simulation/test_follower_reads.py",
    ),
    Mutant(
        "a leader that has slept gives a follower its index",
        "server/node/raft_node.py",
        "if message.type is MessageType.READ_INDEX and not is_on_time:",
        "if False:",
        # Why no schedule: each message that wakes it lets the lease run out a little more.
        test="tests/unit/server/node/test_follower_reads.py",
    ),
    Mutant(
        "a read joins a question that has left",
        "server/node/follower_reads.py",
        "        if self._rounds.is_unserved:\n            return\n",
        "        self._rounds._round += self._rounds._waiting if self._rounds._round else []\n"
        "        if self._rounds.is_unserved:\n            return\n",
        test="tests/unit/server/node/test_follower_reads.py",
    ),
    Mutant(
        "a follower tells of a new master before its turn",
        "server/requests/direct/follower_answers.py",
        "if group is not None and self._is_new(group):",
        "if False:",
        test="tests/unit/server/requests/test_follower_answers.py",
    ),
)
