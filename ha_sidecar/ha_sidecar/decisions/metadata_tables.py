"""The four kinds of metadata of a broker beside its log, and whether a text of one kind holds entries.

A broker writes each of the four as one JSON file below `config`, and answers requests for them (21, 201, 43,
45) with the same text. So a process of ours keeps the answer as it came, and it serves both ways: as the file
    for a broker that starts on this store, and as the answer for a broker that follows us. Nothing here reads
    more of a text than whether its table
exists and has an entry: Java writes map keys without quotes, which is not valid JSON.

Source: AdminBrokerProcessor.java (getAllTopicConfig, getAllSubscriptionGroup, getAllConsumerOffset,
getAllDelayOffset), BrokerPathConfigHelper.java 5.4.0.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller_core.remoting.codes import RequestCode


@dataclass(frozen=True, slots=True)
class MetadataKind:
    """One kind of metadata: the request for it, its file, and the key of its table in both."""

    code: int
    file_name: str
    table: str


KINDS: Final = (
    MetadataKind(RequestCode.GET_ALL_TOPIC_CONFIG, "topics.json", "topicConfigTable"),
    MetadataKind(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroup.json", "subscriptionGroupTable"
    ),
    MetadataKind(RequestCode.GET_ALL_CONSUMER_OFFSET, "consumerOffset.json", "offsetTable"),
    MetadataKind(RequestCode.GET_ALL_DELAY_OFFSET, "delayOffset.json", "offsetTable"),
)
BY_CODE: Final = {kind.code: kind for kind in KINDS}

MetadataSnapshot = Mapping[MetadataKind, bytes]


def holds_entries(kind: MetadataKind, text: bytes) -> bool | None:
    """Say whether the table has an entry; None for a text of another kind."""
    found = re.search(rb'"%s"\s*:\s*\{\s*(\}?)' % kind.table.encode(), text)
    return None if found is None or not text.lstrip().startswith(b"{") else not found.group(1)
