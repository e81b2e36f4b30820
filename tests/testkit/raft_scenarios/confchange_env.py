"""Commands that change a membership and print it with the progress of its members.

`simple`, `enter-joint [autoleave=true]` and `leave-joint`, the changes as words in the input. Each command
counts the last index up by one, which shows in where the next member is first probed.
"""

from controller_core.raft.confchange.changer import Changed, Changer, ConfChangeError
from controller_core.raft.confchange.changes import ConfChangeSingle
from controller_core.raft.tracker.tracker import ProgressTracker
from testkit.raft_scenarios.conf_text import parse_changes
from testkit.raft_scenarios.datadriven import Case, is_true
from testkit.raft_scenarios.printers import describe_membership, describe_progress_map

COMMANDS = frozenset(("simple", "enter-joint", "leave-joint"))


class ConfChangeEnv:
    """A tracker that starts empty and takes what commands make of it."""

    def __init__(self) -> None:
        self._tracker = ProgressTracker(inflight_messages_max=10, inflight_bytes_max=0)
        self._last_index = 0

    def handle(self, case: Case) -> str:
        """Run one command; return the new configuration or the reason for refusing it."""
        try:
            changes = parse_changes(" ".join(case.input).split())
            self._tracker.membership, self._tracker.progress = self._run(case, changes)
        except (ConfChangeError, ValueError) as error:
            return f"{error}\n"
        finally:
            self._last_index += 1
        progress = {node: one.status() for node, one in self._tracker.progress.items()}
        return f"{describe_membership(self._tracker.membership)}\n{describe_progress_map(progress)}"

    def _run(self, case: Case, changes: tuple[ConfChangeSingle, ...]) -> Changed:
        changer = Changer(self._tracker, self._last_index)
        match case.command:
            case "simple":
                return changer.simple(changes)
            case "enter-joint":
                return changer.enter_joint(changes, auto_leave=is_true(dict(case.options()).get("autoleave")))
            case "leave-joint" if changes:
                raise ValueError("this command takes no input")
            case "leave-joint":
                return changer.leave_joint()
            case _:
                raise ValueError("unknown command")
