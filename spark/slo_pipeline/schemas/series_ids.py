"""The 64-bit id of a series: equal exactly for samples of one metric, one set of labels and one instance.

Problem: a reader of millions of samples would compare the labels of each with those of the next. Shape: two
digests of texts, of the metric with its labels in order of their names and of the instance, joined by
exclusive or. A writer computes the first one once for each series and not for each sample; a reader of
segments without ids computes the same. Never: the id is not a place in a list, so that it is the same in
every segment and for every writer.

Source: docs/reference/segments.md.
"""

import hashlib
from collections.abc import Iterable

_DIGEST_BYTES = 8


def metric_digest(metric: str, labels: Iterable[tuple[str, str]]) -> int:
    """Return the digest of a metric and its labels, in whatever order these are."""
    return _digest(b"series", [metric, *(text for label in sorted(labels) for text in label)])


def instance_digest(instance: str) -> int:
    """Return the digest of an instance."""
    return _digest(b"instance", [instance])


def series_id(metric: str, labels: Iterable[tuple[str, str]], instance: str) -> int:
    """Return the id of a series as the signed number that a segment holds."""
    return metric_digest(metric, labels) ^ instance_digest(instance)


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
