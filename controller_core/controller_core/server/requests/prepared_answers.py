"""Answers that brokers get again and again, written once.

The poll (1004), an unchanged registration (1003), the heartbeat.

Nearly all answers of a controller repeat an earlier one, given to another broker or five seconds ago. The
cache holds whole frames except for the opaque.

Why it cannot be stale: a group is an immutable value, and each cached answer holds the very value from which
it was made. The caller passes the present group; for another value, even an equal one, the answer is made
again. All other inputs of an answer (whether the master is alive, the names as in the request) are part of
the key.

Bound: `ANSWERS_MAX` of each kind, the oldest goes first.

Never here: whether the state may be read now.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.groups.members.broker_ids import register_reply
from controller_core.groups.reads import replica_info_reply
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import PreparedAnswer
from controller_core.server.requests.answers import answer

ANSWERS_MAX: Final = 32_768
"""Of each kind; about a kilobyte each."""
HEARTBEAT_REMARK: Final = "Heart beat success"
_NOBODY: Final = RemotingCommand.request(0)

Key = TypeVar("Key", bound=Hashable)


class _AnswerCache(Generic[Key]):
    """Answers by key, each with the group that it was made from."""

    def __init__(self) -> None:
        self._answers: dict[Key, tuple[Group, PreparedAnswer]] = {}

    def get(self, key: Key, group: Group, reply: Callable[[], GroupReply]) -> PreparedAnswer:
        """Return the answer for this value of the group, made from `reply()` if it is not kept."""
        kept = self._answers.get(key)
        if kept is not None and kept[0] is group:
            return kept[1]
        if kept is None and len(self._answers) >= ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        made = PreparedAnswer(answer(_NOBODY, reply()))
        self._answers[key] = (group, made)
        return made


class PreparedAnswers:
    """What one node has written already."""

    def __init__(self) -> None:
        self.heartbeat: Final = PreparedAnswer(
            RemotingCommand.response_to(_NOBODY, ResponseCode.SUCCESS, remark=HEARTBEAT_REMARK)
        )
        self._replica_infos = _AnswerCache[GroupKey]()
        self._registrations = _AnswerCache[tuple[str, str, bool]]()

    def replica_info(self, group: Group) -> PreparedAnswer:
        """Return the answer to 1004."""
        return self._replica_infos.get(group.key, group, lambda: replica_info_reply(group))

    def registration(
        self, group: Group, cluster: str, broker_name: str, *, master_alive: bool
    ) -> PreparedAnswer:
        """Return the answer to 1003 of a member that is registered as it says.

        The names are those that it gave.
        """
        return self._registrations.get(
            (cluster, broker_name, master_alive),
            group,
            lambda: register_reply(group, cluster, broker_name, master_alive=master_alive),
        )
