"""The whole state as bytes: what a snapshot file holds and what a lagging node is sent.

One magic word, one version, then a msgpack map in a canonical form (groups and members in order), so that
equal states are equal bytes on every node and after every restart. Integrity on disk is the log's concern,
which keeps a checksum; this module checks that the bytes are a snapshot of a version that it knows.
"""

import hashlib

import msgspec
from msgspec.structs import replace

from controller_core.groups.errors import SnapshotDecodeError
from controller_core.groups.group import EpochFloor, Group
from controller_core.groups.history import FailoverRecord, decode_event, encode_event
from controller_core.groups.keys import GroupKey

SNAPSHOT_MAGIC = b"RMQHAGS"
SNAPSHOT_VERSION = 1
_HEADER = SNAPSHOT_MAGIC + bytes([SNAPSHOT_VERSION])


class Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the state is made of, in canonical order.

    Attributes:
        events: encoded, see `history.encode_event`.
    """

    applied_index: int = 0
    applied_term: int = 0
    groups: tuple[Group, ...] = ()
    floors: tuple[tuple[GroupKey, EpochFloor], ...] = ()
    events: tuple[msgspec.Raw, ...] = ()
    last_sequence: int = 0
    failovers: tuple[FailoverRecord, ...] = ()


# msgspec cannot sort maps with integer keys; the code that makes these maps keeps them in order.
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Image)


def encode_image(image: Image) -> bytes:
    """Write a state."""
    return _HEADER + _ENCODER.encode(image)


def decode_image(data: bytes) -> Image:
    """Read a state.

    Raises:
        SnapshotDecodeError: no snapshot, a damaged one, or one of a version that this code does not know.
    """
    if data[: len(SNAPSHOT_MAGIC)] != SNAPSHOT_MAGIC:
        raise SnapshotDecodeError(f"{len(data)} bytes that begin {data[:8]!r} are not a snapshot of groups")
    if data[: len(_HEADER)] != _HEADER:
        version = data[len(SNAPSHOT_MAGIC) : len(_HEADER)]
        raise SnapshotDecodeError(
            f"snapshot version {version.hex()} is unknown; this node knows {SNAPSHOT_VERSION}"
        )
    try:
        image = _DECODER.decode(memoryview(data)[len(_HEADER) :])
        # Encoded again: the bytes of equal events must be equal, also if an earlier release wrote some.
        return replace(image, events=tuple(encode_event(decode_event(event)) for event in image.events))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotDecodeError(f"a snapshot of {len(data)} bytes cannot be read: {error}") from error


def image_digest(image: Image) -> str:
    """Return the SHA-256 of a state's bytes in hex."""
    return hashlib.sha256(encode_image(image)).hexdigest()
