"""Planted bugs in the rules for lost nodes: who is lost, and which requests of that time still count."""

from testkit.mutants.mutant import Mutant

LOST_NODE_MUTANTS = (
    Mutant(
        "a broker that is silent alone is lost with its node",
        "groups/liveness/node_agents.py",
        "        if any(\n            not self._is_silent(agent.pace,",
        "        if all(\n            not self._is_silent(agent.pace,",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "a starved node is judged as early as another",
        "groups/liveness/node_agents.py",
        "not self._is_silent(member.node_pace, NODE_PAUSES,",
        "not self._is_silent(member.node_pace, 0,",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "a member whose agent is silent is lost with its node",
        "groups/liveness/node_agents.py",
        "        if self._silence_ms(entry.last_beat_ms, now_ms) <= patience_ms:",
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
        "return max(timeout_ms, pauses * self.longest_ms)",
        "return timeout_ms",
        test="tests/unit/groups/liveness/test_node_agents.py",
    ),
    Mutant(
        "a request that waited at a lost controller changes the SyncStateSet",
        "server/requests/sender_rules.py",
        "        if self._heartbeats.delivers_late(channel_id):",
        "        if False:",
        test="tests/unit/server/requests/test_sender_rules.py",
    ),
    Mutant(
        "a request in one burst with late heartbeats is in time",
        "groups/liveness/deliveries.py",
        "            channel.late_until_ms = now_ms + BURST_MS\n",
        "            pass\n",
        test="tests/unit/groups/liveness/test_deliveries.py",
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
)
