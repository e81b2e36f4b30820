"""The headers of the canary and of the revive watch: one builder each.

The fields are as they have always been on the wire.
"""

import pytest

from controller_core.remoting import client_headers
from ha_sidecar.decisions import revive_log
from slo_pipeline.canary.requests import pull_request, send_request

BORN_MS = 1_763_710_000_123
TOPIC = "rmq_sys_REVIVE_LOG_main"


def _sent(topic: str, queue: str, properties: str) -> dict[str, str]:
    return {
        "a": "SELF_TEST_P_GROUP", "b": topic, "c": "TBW102", "d": "1", "e": queue, "f": "0",
        "g": "1763710000123", "h": "0", "i": properties, "j": "0", "k": "false", "m": "false", "n": "orders",
    }  # fmt: skip


def _pulled(topic: str, queue: str) -> dict[str, str]:
    return {
        "consumerGroup": "SELF_TEST_C_GROUP", "topic": topic, "queueId": queue, "queueOffset": "70",
        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip


def _revived() -> dict[str, str]:
    checkpoint = revive_log.ReviveLogEntry(5, "ck", b"{}", "1763710000999")
    return revive_log.send(TOPIC, 3, checkpoint, "orders", BORN_MS).to_ext()


def test_both_senders_and_both_readers_write_the_fields_they_always_wrote() -> None:
    """In the same order too, as the bytes of JSON depend on it."""
    revived = "TAGS\x01ck\x02WAIT\x01true\x02TIMER_DELIVER_MS\x011763710000999\x02"
    written = [
        send_request("Canary", "orders", 1, 42, b"body", BORN_MS).ext,
        pull_request("Canary", 1, 70).ext,
        _revived(),
        revive_log.pull(TOPIC, 3, 70).to_ext(),
    ]
    expected = [
        _sent("Canary", "1", "KEYS\x01orders-42\x02WAIT\x01true\x02"),
        _pulled("Canary", "1"),
        _sent(TOPIC, "3", revived),
        _pulled(TOPIC, "3"),
    ]
    assert [list((one or {}).items()) for one in written] == [list(one.items()) for one in expected]


def test_the_canary_and_the_revive_watch_share_the_builders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_headers, "PRODUCER_GROUP", "P")
    monkeypatch.setattr(client_headers, "CONSUMER_GROUP", "C")
    assert (send_request("t", "g", 0, 1, b"", 1).ext or {})["a"] == _revived()["a"] == "P"
    pulled = revive_log.pull(TOPIC, 0, 1).consumer_group
    assert (pull_request("t", 0, 1).ext or {})["consumerGroup"] == pulled == "C"
