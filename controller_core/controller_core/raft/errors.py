"""The ways Raft's core can refuse, told apart by whose fault it is.

Three families. `LocalError`: this process called the core wrongly, a bug to fix. `PeerMessageError`: a peer
sent a message that no correct peer sends; count it and drop it. `ProposalDroppedError`: neither side is
wrong, the request cannot be taken now and the caller may try again, here or at the leader. `InvariantError`
stands apart: the state contradicts itself, and the node must end rather than go on (crash over corruption).
"""


class RaftError(Exception):
    """Parent of everything the core raises on purpose."""


class LocalError(RaftError):
    """The caller in this process broke the contract of a method."""


class RaftConfigError(LocalError, ValueError):
    """A setting, or a combination of settings, is out of range."""


class PeerMessageError(RaftError):
    """A message from outside that no correct peer sends; drop it."""


class RefusedMessageError(PeerMessageError):
    """A message that no member of the cluster sends: its sender is not one, or is broken (see `peer_checks`).

    Attributes:
        reason: one word, for counting.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class LocalMessageError(PeerMessageError):
    """A message type that never travels between nodes came in as if from one."""

    def __init__(self) -> None:
        super().__init__("raft: cannot step raft local message")


class PeerNotFoundError(PeerMessageError):
    """A response from a node that is not (or no longer) a member."""

    def __init__(self) -> None:
        super().__init__("raft: cannot step as peer not found")


class ProposalDroppedError(RaftError):
    """The proposal was not appended; the caller may try again later or elsewhere."""

    def __init__(self, reason: str = "") -> None:
        super().__init__("raft proposal dropped")
        self.reason = reason


class InvariantError(RaftError):
    """The state contradicts itself; the node must stop before it spreads."""


def invariant(condition: bool, text: str, **values: object) -> None:
    """Raise InvariantError with `text` and the named values unless `condition` holds.

    Not an `assert` statement: `python -O` removes those, and these must stay in production.
    """
    if not condition:
        raise InvariantError(text + "".join(f" {name}={value!r}" for name, value in values.items()))
