"""A group of nodes with storage and a bag of messages, driven by commands one step at a time.

Nothing happens by itself: a node campaigns, a message is delivered, a Ready is processed because a command
says so. The output shows each Ready and each message in etcd's text form. `log-level none` silences the
output of everything but errors; the core writes no log, so the other levels are alike.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from controller_core.raft.confchange.changes import (
    ConfChange,
    ConfChangeTransition,
    ConfChangeV2,
)
from controller_core.raft.errors import RaftError
from controller_core.raft.log.storage import CompactedError
from controller_core.raft.types import (
    ConfState,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    Term,
)
from testkit.raft_scenarios.conf_text import parse_changes
from testkit.raft_scenarios.datadriven import Case, is_true
from testkit.raft_scenarios.printers import (
    MESSAGE_TYPES,
    describe_entries,
    describe_message,
    describe_progress_map,
    describe_ready,
    state_name,
)
from testkit.raft_scenarios.scenario_node import ScenarioNode, scenario_config

_LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE")
_TRANSITIONS = {
    "auto": ConfChangeTransition.AUTO,
    "implicit": ConfChangeTransition.JOINT_IMPLICIT,
    "explicit": ConfChangeTransition.JOINT_EXPLICIT,
}
STEPS_MAX = 10_000
"""Rounds of `stabilize` before a group is called unstable."""


class ScenarioError(Exception):
    """A command cannot be carried out; its text is part of the output."""


class NotApplicableError(Exception):
    """The text needs something that the core does not offer."""


class Output:
    """Collected text; silent at level NONE."""

    def __init__(self) -> None:
        self.quiet = False
        self._parts: list[str] = []

    def write(self, text: str) -> None:
        """Add `text` unless silent."""
        if not self.quiet:
            self._parts.append(text)

    def take(self) -> str:
        """Return and clear the collected output."""
        text = "".join(self._parts)
        self._parts = []
        return text

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent by two everything written inside."""
        outer, self._parts = self._parts, []
        try:
            yield
        finally:
            text = "".join(self._parts)
            self._parts = outer
            self._parts.extend(f"  {line}\n" for line in text.splitlines())


class InteractionEnv:
    """The nodes, the message bag, and a method a command."""

    def __init__(self) -> None:
        self.nodes: list[ScenarioNode] = []
        self.messages: list[Message] = []
        self.output = Output()
        self._commands: dict[str, Callable[[Case], None]] = {
            "_breakpoint": lambda _case: None,
            "add-nodes": self._add_nodes,
            "campaign": lambda case: self._first(case).raw.campaign(),
            "compact": self._compact,
            "deliver-msgs": self._deliver_command,
            "forget-leader": lambda case: self._first(case).raw.forget_leader(),
            "log-level": self._log_level,
            "process-append-thread": self._not_applicable,
            "process-apply-thread": self._not_applicable,
            "process-ready": self._process_ready_command,
            "propose": self._propose,
            "propose-conf-change": self._propose_conf_change,
            "raft-log": lambda case: self._raft_log(self._first(case)),
            "raft-state": self._raft_state,
            "report-unreachable": self._report_unreachable,
            "send-snapshot": self._send_snapshot,
            "set-randomized-election-timeout": self._set_election_timeout,
            "stabilize": self._stabilize_command,
            "status": lambda case: self.output.write(
                describe_progress_map(self._first(case).raw.status().progress)
            ),
            "tick-election": lambda case: self._tick(case, self._first(case).config.election_ticks),
            "tick-heartbeat": lambda case: self._tick(case, self._first(case).config.heartbeat_ticks),
            "transfer-leadership": self._transfer_leadership,
        }

    def handle(self, case: Case) -> str:
        """Run one command and return its output; "ok" if it is empty.

        Raises:
            NotApplicableError: the text needs asynchronous storage writes.
        """
        error = ""
        try:
            self._commands.get(case.command, self._unknown)(case)
        except (ScenarioError, RaftError, CompactedError, ValueError) as raised:
            error = str(raised)
        return (self.output.take() + error) or "ok"

    # -- commands

    def _add_nodes(self, case: Case) -> None:
        options = dict(case.options())
        if is_true(options.get("async-storage-writes")):
            self._not_applicable(case)
        snapshot = Snapshot(
            index=LogIndex(int(options.get("index", ("0",))[0])),
            conf_state=ConfState(
                voters=tuple(NodeId(int(voter)) for voter in options.get("voters", ())),
                learners=tuple(NodeId(int(learner)) for learner in options.get("learners", ())),
            ),
            data=options.get("content", ("",))[0].encode(),
        )
        if snapshot != Snapshot():
            if snapshot.index <= 1:
                raise ScenarioError("index must be specified as > 1 due to bootstrap")
            snapshot = replace(snapshot, term=Term(1))
        for _ in range(int(case.positional()[0])):
            node = len(self.nodes) + 1
            self.nodes.append(ScenarioNode(node, scenario_config(node, options), [snapshot]))

    def _compact(self, case: Case) -> None:
        node = self._first(case)
        node.store.compact(LogIndex(int(case.positional()[1])))
        self._raft_log(node)

    def _deliver_command(self, case: Case) -> None:
        options = dict(case.options())
        kind = MESSAGE_TYPES[options["type"][0]] if "type" in options else None
        delivered = 0
        for argument in case.arguments:
            if not argument.values:
                delivered += self._deliver(int(argument.key), kind)
            elif argument.key == "drop":
                delivered += sum(self._deliver(int(to), kind, drop=True) for to in argument.values)
        if not delivered:
            self.output.write("no messages\n")

    def _log_level(self, case: Case) -> None:
        level = case.positional()[0].upper()
        if level not in _LEVELS:
            raise ScenarioError(f"log levels must be either of [{' '.join(_LEVELS)}]")
        self.output.quiet = level == "NONE"

    def _process_ready_command(self, case: Case) -> None:
        nodes = self._selected(case)
        for node in nodes:
            if len(nodes) == 1:
                self._process_ready(node)
                continue
            self.output.write(f"> {node.id} handling Ready\n")
            with self.output.indented():
                self._process_ready(node)

    def _propose(self, case: Case) -> None:
        self._first(case).raw.propose(case.positional()[1].encode())

    def _propose_conf_change(self, case: Case) -> None:
        options = dict(case.options())
        changes = parse_changes(" ".join(case.input).split())
        transition = _TRANSITIONS[options.get("transition", ("auto",))[0]]
        change: ConfChange | ConfChangeV2 = ConfChangeV2(changes, transition)
        if is_true(options.get("v1")):
            if len(changes) != 1 or transition != ConfChangeTransition.AUTO:
                raise ScenarioError("v1 conf change can only have one operation and no transition")
            change = ConfChange(changes[0].type, changes[0].node_id)
        self._first(case).raw.propose_conf_change(change)

    def _raft_log(self, node: ScenarioNode) -> None:
        first, last = node.store.first_index(), node.store.last_index()
        if last < first:
            self.output.write(f"log is empty: first index={first}, last index={last}")
        else:
            self.output.write(describe_entries(node.store.entries(first, LogIndex(last + 1))))

    def _raft_state(self, _case: Case) -> None:
        for node in self.nodes:
            status = node.raw.status()
            votes = node.id in (*status.conf_state.voters, *status.conf_state.voters_outgoing)
            self.output.write(
                f"{node.id}: {state_name(status.role)} {'(Voter)' if votes else '(Non-Voter)'} "
                f"Term:{status.term} Lead:{status.lead}\n"
            )

    def _report_unreachable(self, case: Case) -> None:
        self._first(case).raw.report_unreachable(int(case.positional()[1]))

    def _send_snapshot(self, case: Case) -> None:
        source, to = (int(word) for word in case.positional())
        node = self.nodes[source - 1]
        message = Message(
            MessageType.SNAP,
            to=NodeId(to),
            from_=NodeId(source),
            term=node.raw.status().term,
            snapshot=node.store.snapshot(),
        )
        self.messages.append(message)
        self.output.write(describe_message(message) + "\n")

    def _set_election_timeout(self, case: Case) -> None:
        self._first(case).raw.set_randomized_election_ticks(int(dict(case.options())["timeout"][0]))

    def _stabilize_command(self, case: Case) -> None:
        quiet = self.output.quiet
        level = dict(case.options()).get("log-level")
        if level is not None:
            self.output.quiet = level[0].upper() == "NONE"
        try:
            self._stabilize(self._selected(case))
        finally:
            self.output.quiet = quiet

    def _tick(self, case: Case, ticks: int) -> None:
        for _ in range(ticks):
            self._first(case).raw.tick()

    def _transfer_leadership(self, case: Case) -> None:
        options = dict(case.options())
        self.nodes[int(options["from"][0]) - 1].raw.transfer_leadership(int(options["to"][0]))

    def _unknown(self, case: Case) -> None:
        raise ScenarioError(f"unknown command {case.command}")

    def _not_applicable(self, _case: Case) -> None:
        raise NotApplicableError("async storage")

    # -- what they are made of

    def _first(self, case: Case) -> ScenarioNode:
        return self.nodes[int(case.positional()[0]) - 1]

    def _selected(self, case: Case) -> list[ScenarioNode]:
        words = case.positional()
        return [self.nodes[int(word) - 1] for word in words] if words else list(self.nodes)

    def _process_ready(self, node: ScenarioNode) -> None:
        ready = node.raw.ready()
        self.output.write(describe_ready(ready))
        node.persist(ready)
        node.apply(ready.committed_entries)
        self.messages.extend(ready.messages)
        node.raw.advance()

    def _deliver(self, to: int, kind: MessageType | None = None, *, drop: bool = False) -> int:
        """Deliver or drop the messages to `to`, in order; return how many there were."""
        taken = [message for message in self.messages if _selects(message, to, kind)]
        self.messages = [message for message in self.messages if not _selects(message, to, kind)]
        for message in taken:
            self.output.write(("dropped: " if drop else "") + describe_message(message) + "\n")
            if not drop:
                try:
                    self.nodes[to - 1].raw.step(message)
                except RaftError as error:
                    self.output.write(f"{error}\n")
        return len(taken)

    def _stabilize(self, nodes: list[ScenarioNode]) -> None:
        """Process Ready and deliver messages among `nodes` until nothing is left to do."""
        for _ in range(STEPS_MAX):
            if not self._stabilize_round(nodes):
                return
        raise ScenarioError(f"not stable after {STEPS_MAX} rounds")

    def _stabilize_round(self, nodes: list[ScenarioNode]) -> bool:
        busy = False
        for node in nodes:
            if node.raw.has_ready():
                busy = True
                self.output.write(f"> {node.id} handling Ready\n")
                with self.output.indented():
                    self._process_ready(node)
        for node in nodes:
            if any(message.to == node.id for message in self.messages):
                busy = True
                self.output.write(f"> {node.id} receiving messages\n")
                with self.output.indented():
                    self._deliver(node.id)
        return busy


def _selects(message: Message, to: int, kind: MessageType | None) -> bool:
    return message.to == to and (kind is None or message.type == kind)
