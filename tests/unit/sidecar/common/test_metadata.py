"""What a broker knows and its log does not hold: kept as it came, and never lost to an empty answer."""

from pathlib import Path

import pytest

from controller_core.remoting.codes import RequestCode
from ha_sidecar.common.metadata import CONFIG_DIRECTORY, keep, read
from ha_sidecar.decisions.metadata_tables import BY_CODE, MetadataKind, holds_entries

TOPICS = BY_CODE[RequestCode.GET_ALL_TOPIC_CONFIG]
OFFSETS = BY_CODE[RequestCode.GET_ALL_CONSUMER_OFFSET]
SOME_TOPICS = b'{"dataVersion":{"counter":{"value":3}},"topicConfigTable":{"T":{"topicName":"T"}}}'
NO_TOPICS = b'{"dataVersion":{"counter":{"value":4}},"topicConfigTable":{}}'
# As Java writes it: the queue's number is a key without quotes.
SOME_OFFSETS = b'{"dataVersion":{},"offsetTable":{"T@g":{0:5,1:7}}}'


def test_what_came_is_kept_byte_for_byte_where_a_broker_looks_for_it(tmp_path: Path) -> None:
    assert keep(tmp_path, {TOPICS: SOME_TOPICS, OFFSETS: SOME_OFFSETS}) == [TOPICS, OFFSETS]
    assert (tmp_path / CONFIG_DIRECTORY / "topics.json").read_bytes() == SOME_TOPICS
    assert (tmp_path / CONFIG_DIRECTORY / "consumerOffset.json").read_bytes() == SOME_OFFSETS
    assert read(tmp_path, TOPICS) == SOME_TOPICS


def test_an_empty_table_replaces_nothing_that_has_entries(tmp_path: Path) -> None:
    keep(tmp_path, {TOPICS: SOME_TOPICS})
    assert keep(tmp_path, {TOPICS: NO_TOPICS}) == []
    assert read(tmp_path, TOPICS) == SOME_TOPICS


def test_an_empty_table_is_kept_where_there_is_nothing_else(tmp_path: Path) -> None:
    assert keep(tmp_path, {TOPICS: NO_TOPICS}) == [TOPICS]
    assert keep(tmp_path, {TOPICS: SOME_TOPICS}) == [TOPICS]


def test_the_same_again_is_not_written(tmp_path: Path) -> None:
    keep(tmp_path, {TOPICS: SOME_TOPICS})
    assert keep(tmp_path, {TOPICS: SOME_TOPICS}) == []


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (TOPICS, SOME_TOPICS, True),
        (TOPICS, NO_TOPICS, False),
        (TOPICS, b'{ "topicConfigTable" : {\n} }', False),
        (OFFSETS, SOME_OFFSETS, True),
        (TOPICS, SOME_OFFSETS, None),
        (TOPICS, b"", None),
        (TOPICS, b"<html>", None),
    ],
)
def test_a_text_is_known_by_its_table(kind: MetadataKind, text: bytes, expected: bool | None) -> None:
    assert holds_entries(kind, text) is expected
