"""Errors around the state machine: misuse by our own code, or bytes that no version of ours wrote.

A refusal that the protocol knows (a fenced epoch, an unknown id) is an answer with a code, not an exception:
see `replies`. Exceptions mean our own misuse or foreign bytes.
"""


class GroupsError(Exception):
    """Parent of all errors of this package."""


class GroupsUsageError(GroupsError):
    """The caller broke a rule of this package: our own fault."""


class CommandTooLargeError(GroupsError):
    """A command does not fit a log entry; it must not be proposed."""


class CommandDecodeError(GroupsError):
    """A log entry's payload is not a command of any release: every node passes over it."""


class NewerCommandError(CommandDecodeError):
    """A log entry's payload looks like a command of a later release.

    A node that meets one must stop applying: nodes of that release apply the entry, so their states would
    differ.
    """


class CommandApplyError(GroupsError):
    """A command cannot be applied to this state.

    Every node passes over it, and the state is as it was before.
    """


class SnapshotDecodeError(GroupsError):
    """A snapshot's bytes are damaged or were written by a version that this one does not know."""


class AmbiguousGroupError(GroupsError):
    """A request names a group without its cluster, and two clusters have a group of that name."""

    def __init__(self, broker_name: str, clusters: tuple[str, ...]) -> None:
        """Say which clusters have a group called `broker_name`."""
        self.broker_name = broker_name
        self.clusters = clusters
        super().__init__(
            f"Broker-set: {broker_name} exists in the clusters {', '.join(clusters)}, "
            "and the request does not tell which one is meant: name it in clusterName"
        )
