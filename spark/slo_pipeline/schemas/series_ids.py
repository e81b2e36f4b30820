"""The 64-bit id of a metric and its labels, which with the instance tells a series.

Problem: a reader of millions of samples would compare the labels of each with those of the next. Shape: a
digest of the metric and the labels in order of their names. A writer computes it once for each series and not
for each sample; a reader of segments without ids computes the same. The instance is not part of it: members
of a group expose the same labels, and an id that they share takes a third of the disk. Never: the id is not a
place in a list, so that it is the same in every segment and for every writer.

Source: docs/reference/segments.md.
"""

import hashlib
from collections.abc import Iterable

_DIGEST_BYTES = 8


def series_id(metric: str, labels: Iterable[tuple[str, str]]) -> int:
    """Return the id of a metric and its labels, in whatever order these are, as a signed number."""
    return _digest(b"series", [metric, *(text for label in sorted(labels) for text in label)])


def instance_digest(instance: str) -> int:
    """Return a number for an instance, to tell the series of two instances in memory."""
    return _digest(b"instance", [instance])


def _digest(kind: bytes, texts: Iterable[str]) -> int:
    """Return BLAKE2b of texts, each after its length in bytes, as a signed number of 64 bits.

    Args:
        kind: the personalisation of the digest: a metric and an instance of the same name must differ.
        texts: in UTF-8.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=kind)
    for text in texts:
        content = text.encode()
        digest.update(len(content).to_bytes(4, "big"))
        digest.update(content)
    return int.from_bytes(digest.digest(), "big", signed=True)
