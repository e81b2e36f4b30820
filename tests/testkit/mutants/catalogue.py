"""The planted bugs, as data: the place, the replacement, and the check that must find it.

A mutant is found by schedules of whole controllers (`schedules`), by schedules of Raft's core (`raft`), or by
one test. The text that is replaced must occur exactly once in its file; a test of the table sees to that, so
a mutant cannot silently turn into no change when the code around it moves.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    Attributes:
        name: the bug, in words.
        file: below the package `controller_core`.
        old: the text that is there.
        new: the replacement text.
        schedules: how many schedules of whole controllers may be needed to find it.
        raft: the same of Raft's core.
        test: a test that must fail instead.
    """

    name: str
    file: str
    old: str
    new: str
    schedules: int = 0
    raft: int = 0
    test: str = ""


MUTANTS = (
    Mutant(
        "entries of old terms are committed by counting",
        "raft/log/raft_log.py",
        "if term == 0 or index <= self.committed or not self.matches(index, term):",
        "if term == 0 or index <= self.committed:",
        test="tests/unit/raft/test_paper.py",
    ),
    Mutant(
        "a candidate with a shorter log gets votes",
        "raft/roles/election.py",
        "if not can_vote or not raft.log.is_up_to_date(message.index, message.log_term):",
        "if not can_vote:",
        schedules=60,
    ),
    Mutant(
        "a voter votes twice in a term",
        "raft/roles/election.py",
        "or (raft.vote == NONE and raft.lead == NONE)",
        "or raft.lead == NONE",
        raft=300,
    ),
    Mutant(
        "half of the voters are a quorum",
        "raft/quorum/majority.py",
        "return sorted(indexes)[count - (count // 2 + 1)]",
        "return sorted(indexes)[-1 if count < 4 else count - count // 2]",
        schedules=200,
    ),
    Mutant(
        "a vote is sent before it is on disk",
        "raft/raw_node.py",
        "must_sync=bool(entries) or hard.vote != previous.vote or hard.term != previous.term,",
        "must_sync=bool(entries),",
        schedules=60,
    ),
    Mutant(
        "entries are acknowledged without fsync",
        "log/wal.py",
        "        if batch.must_sync:\n            self._file.sync()\n",
        "        if batch.must_sync:\n",
        schedules=60,
    ),
    Mutant(
        "a failed fsync counts as done",
        "log/store.py",
        "        except OSError as error:\n            raise self._fail(error) from error\n\n    def commit(",
        "        except OSError:\n            return\n\n    def commit(",
        test="tests/unit/log/test_crash.py",
    ),
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
        schedules=60,
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
        "if message.type is MessageType.READ_INDEX and not self._ticker.catch_up():",
        "if False:",
        test="tests/simulation/test_follower_reads.py",
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
    Mutant(
        "a request of unknown fate is carried out again",
        "server/requests/leader_rule.py",
        "                if request.code not in _REPEATABLE:\n                    return fate_unknown(",
        "                if False:\n                    return fate_unknown(",
        test="tests/unit/server/requests/test_leader_rule.py",
    ),
    Mutant(
        "a broker outside the SyncStateSet is elected",
        "groups/elections/policy.py",
        "winner = elect_from(group.sync_state_set, group, alive, preferred_id)",
        "winner = elect_from(group.replicas, group, alive, preferred_id)",
        schedules=60,
    ),
    Mutant(
        "a log replica is elected",
        "groups/elections/policy.py",
        "return replica is not None and replica.electable",
        "return replica is not None",
        schedules=60,
    ),
    Mutant(
        "an election does not go above the epochs of its members' logs",
        "groups/elections/first_elections.py",
        "return MasterEpoch(max(group.master_epoch, told + untold) + 1)",
        "return MasterEpoch(group.master_epoch + 1)",
        test="tests/unit/groups/elections/test_first_elections.py",
    ),
    Mutant(
        "of members with a past, the first to ask is elected",
        "groups/elections/election.py",
        "        return FailureReason.WAITING_FOR_MEMBERS",
        "        return command.requester_id",
        test="tests/unit/groups/elections/test_first_elections.py",
    ),
    Mutant(
        "an epoch without messages outranks a longer log",
        "groups/elections/member_logs.py",
        "return (-log.written_epoch, -log.max_offset,",
        "return (-log.last_epoch, -log.max_offset,",
        test="tests/unit/groups/elections/test_member_logs.py",
    ),
    Mutant(
        "an election with quorum acknowledgements goes by heartbeats",
        "groups/elections/log_ends.py",
        "    return replace(broker, epoch=group.master_epoch, max_offset=ends[broker.id])",
        "    return broker",
        test="tests/unit/groups/elections/test_log_ends.py",
    ),
    Mutant(
        "an election does not wait for members that may hold the second copy",
        "groups/elections/log_ends.py",
        "    if len(group.sync_state_set) - len(ends) >= copies:",
        "    if False:",
        test="tests/unit/groups/elections/test_log_ends.py",
    ),
    Mutant(
        "a broker is elected although a log replica may hold the second copy",
        "groups/elections/log_ends.py",
        "    return LOG_REPLICA_AHEAD if furthest",
        '    return "" if furthest',
        test="tests/unit/groups/elections/test_log_ends.py",
    ),
    Mutant(
        "an election uses the old epoch again",
        "groups/elections/election.py",
        "        master_id=winner,\n        master_epoch=next_epoch(group, command),\n",
        "        master_id=winner,\n        master_epoch=max(group.master_epoch, 1),\n",
        schedules=20,
    ),
    Mutant(
        "an election raises the epoch of a master that stays",
        "groups/elections/election.py",
        "    if winner == group.master_id:\n        return Change(_keep_reply(group))\n",
        "",
        schedules=60,
    ),
    Mutant(
        "a new master keeps the old SyncStateSet",
        "groups/elections/election.py",
        "        sync_state_set=members,\n",
        "",
        schedules=20,
    ),
    Mutant(
        "a preceding set outlives that somebody joined",
        "groups/members/sync_state.py",
        ", preceding_set=())",
        ")",
        schedules=60,
    ),
    Mutant(
        "the epoch of a changed set is not checked",
        "groups/members/sync_state.py",
        "if group.set_epoch != command.set_epoch:",
        "if group.set_epoch > command.set_epoch + 9:",
        schedules=60,
    ),
    Mutant(
        "a dead member may stay in a changed set",
        "groups/members/sync_state.py",
        "        if member not in command.alive:\n",
        "        if False:\n",
        test="tests/unit/groups/test_upstream_bugs.py",
    ),
    Mutant(
        "a deposed master still changes the set",
        "groups/members/sync_state.py",
        "    if group.master_epoch != command.master_epoch:\n",
        "    if group.master_epoch < command.master_epoch:\n",
        test="tests/unit/groups/test_upstream_bugs.py",
    ),
    Mutant(
        "a snapshot forgets the failovers",
        "groups/state.py",
        "            failovers=self.history.failovers,\n",
        "            failovers=(),\n",
        schedules=60,
    ),
    Mutant(
        "two nodes apply the same entry differently",
        "groups/state.py",
        "        self.skip(index, term)\n",
        "        self.skip(index, id(self) % 97)\n",
        schedules=5,
    ),
    Mutant(
        "no scan for dead masters",
        "groups/liveness/scan.py",
        "    if not group.sync_state_set or (master_key is not None and liveness.is_alive(master_key)):",
        "    if not group.sync_state_set or master_key is None or not liveness.is_alive(master_key):",
        test="tests/unit/groups/liveness/test_scan.py",
    ),
    Mutant(
        "silence counts right after a start",
        "groups/liveness/scan.py",
        "return now_ms >= listening_since_ms + hold_ms",
        "return True",
        test="tests/unit/groups/liveness/test_scan.py",
    ),
    Mutant(
        "the end of an old connection removes a member that came back",
        "groups/liveness/table.py",
        "            if not self.holders.move_on(entry, now_ms):\n",
        "            if True:\n",
        test="tests/unit/groups/liveness/test_holders.py",
    ),
    Mutant(
        "a broker that is silent alone is lost with its node",
        "groups/liveness/node_agents.py",
        "        if any(not self._is_silent(agent.pace,",
        "        if all(not self._is_silent(agent.pace,",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "a member whose agent is silent is lost with its node",
        "groups/liveness/node_agents.py",
        "        if self._silence_ms(entry.last_beat_ms, now_ms) <= pace.patience_ms(timeout_ms) - early_ms:",
        "        if False:",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "a fresh agent is relied on",
        "groups/liveness/node_agents.py",
        "self.pace.last_ms - self.named_since_ms[key] >= TRUST_MS",
        "True",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "an agent that stopped alone is relied on",
        "groups/liveness/node_agents.py",
        "                agent.is_doubted = True\n",
        "                pass\n",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "an agent that ended counts as silent",
        "groups/liveness/node_agents.py",
        "        agent = self._agents.pop(channel_id, None)\n        if agent is not None:\n",
        "        agent = self._agents.get(channel_id)\n        if not agent:\n",
        test="tests/simulation/test_lost_nodes.py",
    ),
    Mutant(
        "a broker that is starting is lost with its node",
        "groups/liveness/node_agents.py",
        " or now_ms < entry.starting_until_ms:",
        ":",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "a write lease binds no controller",
        "groups/liveness/node_agents.py",
        "        if now_ms < entry.lease_until_ms:\n",
        "        if False:\n",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "heartbeats that are rare count as silence",
        "groups/liveness/node_agents.py",
        "return max(timeout_ms, 2 * self.longest_ms)",
        "return timeout_ms",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "a controller that stood still takes nodes for lost",
        "groups/liveness/node_agents.py",
        "        if now_ms - self._called_ms > LATE_MS_MAX:\n",
        "        if False:\n",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "the leader alone declares a node lost",
        "server/elections/node_losses.py",
        "needed = len(self._controllers()) // 2 + 1",
        "needed = 1",
        test="tests/simulation/test_lost_nodes.py",
    ),
    Mutant(
        "a heartbeat that comes during the question does not count",
        "server/elections/node_losses.py",
        "if count >= needed and self._is_lost(key)]",
        "if count >= needed]",
        test="tests/unit/server/elections/test_node_losses.py",
    ),
    Mutant(
        "a cause is used that a controller cannot read",
        "server/elections/node_losses.py",
        "        if self._older or not self._node.is_leader:",
        "        if not self._node.is_leader:",
        test="tests/unit/server/elections/test_node_losses.py",
    ),
    Mutant(
        "an agent may name a member of another host",
        "server/requests/node_requests.py",
        'if host and host.strip("[]") == member.host.strip("[]"):',
        "if host:",
        test="tests/unit/server/requests/test_node_requests.py",
    ),
    Mutant(
        "every process may send heartbeats of agents",
        "server/requests/sender_rules.py",
        "            if is_admin or self._is_agent(channel_id, request):\n",
        "            if True:\n",
        test="tests/unit/server/requests/test_node_requests.py",
    ),
    Mutant(
        "writes that were stopped stay stopped",
        "server/write_guards/write_guard.py",
        "await self._set(address, setting + found - OUT_OF_REACH)",
        "pass",
        schedules=60,
    ),
    Mutant(
        "a death during an election is forgotten",
        "server/elections/leader_elections.py",
        "                self._again.add(death.key.group)  # it may be the winner, who is not recorded yet\n",
        "                pass\n",
        test="tests/scenarios/test_upstream_catalogue.py::test_the_scenario_holds[winner dies]",
    ),
    Mutant(
        "only a leader hears heartbeats",
        "server/requests/handlers.py",
        "        if header.broker_id is None:\n",
        "        if header.broker_id is None or not self._node.is_leader:\n",
        test="tests/scenarios/test_upstream_catalogue.py::test_the_scenario_holds[10812]",
    ),
    Mutant(
        "a forwarded request of unknown fate is sent again",
        "server/requests/leader_rule.py",
        "        if FATE_UNKNOWN_FIELD in (answer.ext or {}):\n",
        "        if False:\n",
        test="tests/unit/server/requests/test_leader_rule.py",
    ),
    Mutant(
        "a replica stays in the set although fewer copies acknowledge",
        "server/proposals/log_ends.py",
        "return replace(told, kept=tuple(kept)) if answers.all_acknowledge else told",
        "return replace(told, kept=tuple(kept))",
        test="tests/unit/server/proposals/test_asked_log_ends.py",
    ),
    Mutant(
        "a broker stays in the set with the winner",
        "groups/elections/kept_replicas.py",
        "set(command.kept) & set(log_replicas_in_sync(group))",
        "set(command.kept) & set(group.sync_state_set)",
        test="tests/unit/groups/elections/test_kept_replicas.py",
    ),
    Mutant(
        "a new master drops its kept replica",
        "groups/elections/kept_replicas.py",
        "kept = set(record.sync_state_set_after) - {record.new_master_id}",
        "kept: set[BrokerId] = set()",
        test="tests/unit/server/proposals/test_kept_replicas.py",
    ),
)
