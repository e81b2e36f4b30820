"""Who the members are and where they are reached: what a change of membership carries besides Raft's id.

Raft's membership is a set of ids. What else a node must know of a member, its name, its address and which
store it has, stands in the context of the entries that change the membership, so every node has the same book
after the same entry. A snapshot carries the book before the state machine's bytes; a node that is brought up
by one knows its peers without any setting.

    AddLearner id, context            the member is added or replaced
    AddNode id (promotion), context   the same; without a context the book stays as it is
    UpdateNode id, context            the member is replaced; Raft's membership is unchanged
    RemoveNode id                     the member is removed; in a joint change when that is left: until then
                                      the member votes in the old half and must be reached

The incarnation is what keeps a lost store from voting again. It is chosen when a store is made and recorded
here at the first contact; after that, a node with this name and another store is refused (`peers.links`).

Pure: values and bytes.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from controller_core.raft.confchange.changes import ConfChange, ConfChangeType, ConfChangeV2
from controller_core.raft.types import ConfState
from controller_core.remoting.text_bounds import ADDRESS_BYTES_MAX, NAME_BYTES_MAX, text_problem

_MAGIC: Final = b"RMQHAMB1"
_SIZE_BYTES: Final = 4
INCARNATION_BYTES_MAX: Final = 64
"""Bytes of the text that tells one store from another."""


class MemberBookError(ValueError):
    """A snapshot's or an entry's bytes hold no members.

    The node must stop, since the others may read them.
    """


class ControllerMember(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One member.

    Attributes:
        name: as in the list of peers, `n0`.
        address: remoting `host:port`, as brokers and the other nodes dial it.
        incarnation: of the store that it joined with; empty while none was seen.
    """

    name: str
    address: str
    incarnation: str = ""


_encoder = msgspec.msgpack.Encoder()
_member_decoder = msgspec.msgpack.Decoder(ControllerMember)
_book_decoder = msgspec.msgpack.Decoder(list[tuple[int, ControllerMember]])


class MemberBook:
    """Members by Raft id; a value that is replaced, never changed."""

    __slots__ = ("_members",)

    def __init__(self, members: Mapping[int, ControllerMember] | None = None) -> None:
        self._members = dict(sorted((members or {}).items()))

    def get(self, raft_id: int) -> ControllerMember | None:
        """Return the record of a member."""
        return self._members.get(raft_id)

    def items(self) -> Iterable[tuple[int, ControllerMember]]:
        """Return all members with their ids, ascending."""
        return self._members.items()

    def __len__(self) -> int:
        return len(self._members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemberBook) and self._members == other._members

    __hash__ = None  # type: ignore[assignment] # compared by content, never a key

    def changed(self, change: ConfChange | ConfChangeV2, state: ConfState) -> "MemberBook":
        """Return the book after a change of membership, which led to `state`.

        Raises:
            MemberBookError: this version does not know the context.
        """
        members = dict(self._members)
        gone: set[int] = set(members) if change.as_v2().leaves_joint() else set()
        for single in change.as_v2().changes:
            if single.type is ConfChangeType.REMOVE_NODE:
                gone.add(single.node_id)
            elif change.context:
                members[single.node_id] = decode_member(change.context)
        for raft_id in gone - {*state.voters, *state.voters_outgoing, *state.learners, *state.learners_next}:
            members.pop(raft_id, None)
        return MemberBook(members)


def member_problem(member: ControllerMember) -> str | None:
    """Return why a member must not be written into the book; None if each of its texts keeps its bound."""
    fields = (
        ("name", member.name, NAME_BYTES_MAX),
        ("address", member.address, ADDRESS_BYTES_MAX),
        ("incarnation", member.incarnation, INCARNATION_BYTES_MAX),
    )
    for field, text, bytes_max in fields:
        if (problem := text_problem(text, bytes_max)) is not None:
            return f"{field} {problem}"
    return None


def encode_member(member: ControllerMember) -> bytes:
    """Return the context of an entry that writes `member`."""
    return _encoder.encode(member)


def decode_member(context: bytes) -> ControllerMember:
    """Return the member in an entry's context.

    Raises:
        MemberBookError: it holds none.
    """
    try:
        return _member_decoder.decode(context)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MemberBookError(f"{len(context)} bytes of context hold no member: {error}") from error


def wrap(book: MemberBook, data: bytes) -> bytes:
    """Return a snapshot's bytes: the book, then the state machine's own."""
    written = _encoder.encode(list(book.items()))
    return b"".join((_MAGIC, len(written).to_bytes(_SIZE_BYTES, "big"), written, data))


def unwrap(data: bytes) -> tuple[MemberBook, bytes]:
    """Return the book and the state machine's bytes; of a snapshot without a book, an empty one.

    The first snapshot of a cluster is without one: it is equal on all nodes, which do not know each other
    yet.

    Raises:
        MemberBookError: the book cannot be read.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        return MemberBook(), data
    begin = len(_MAGIC) + _SIZE_BYTES
    end = begin + int.from_bytes(data[len(_MAGIC) : begin], "big")
    try:
        members = dict(_book_decoder.decode(data[begin:end]))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MemberBookError(f"a snapshot of {len(data)} bytes has unreadable members: {error}") from error
    return MemberBook(members), data[end:]
