"""Stand by: listen to brokers that other controllers serve, and decide nothing.

A broker may list controllers of two kinds in `controllerAddr`: those that serve it now, and these. It sends
its heartbeats to all of them. It follows the first one that names a leader (1005), in no defined order. So
two kinds that name a leader could elect two masters.

With `controllerStandby=true`, these controllers name no leader, and refuse whatever a leader serves (2007),
until their groups are imported (`groups.members.imported_groups`). That entry of the log ends the standby on
every node as it is applied, and for good: the state then has a history, also after all groups were removed.

Source: ReplicasManager.java 5.5.0, updateControllerMetadata, scanAvailableControllerAddresses.
"""

from collections.abc import Callable

from controller_core.groups.state import GroupsState


class Standby:
    """Says whether a node stands by."""

    def __init__(self, state: GroupsState, is_set: Callable[[], bool]) -> None:
        """Take the applied groups, and a function that returns the setting."""
        self._state = state
        self._is_set = is_set

    def __call__(self) -> bool:
        """Return whether it stands by now."""
        return self._is_set() and self._state.is_new
