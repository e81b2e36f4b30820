"""What people see of the log's entries: kind and command, and no secret of brokers or stores."""

from controller_core.groups import commands
from controller_core.raft.confchange.changes import (
    ConfChange,
    ConfChangeType,
    encode_conf_change,
)
from controller_core.raft.types import Entry, EntryType, LogIndex, NodeId, Term
from controller_core.server.common.log_views import LIST_VALUES_MAX, TEXT_CHARS_MAX, bounded, entry_json
from controller_core.server.http_api.log_pages import LOG_BYTES_MAX, LOG_ENTRIES_MAX, log_json
from testkit.raft.nodes import NodeCluster

STAMP = commands.Stamp(utc_ns=17, monotonic_ns=1, clock_id="c")


def entry(data: bytes, kind: EntryType = EntryType.NORMAL) -> Entry:
    return Entry(Term(3), LogIndex(9), kind, data)


def test_a_claim_is_shown_without_its_check_code() -> None:
    claim = commands.ApplyBrokerId(
        cluster="c1", broker_name="b1", stamp=STAMP, broker_id=1, check_code="h:1;17"
    )
    assert entry_json(entry(commands.encode(claim)), 9) == {
        "index": 9,
        "term": 3,
        "kind": "ApplyBrokerId",
        "committed": True,
        "size_bytes": len(commands.encode(claim)),
        "proposed_ns": 17,
        "problem": None,
        "command": {"cluster": "c1", "broker_name": "b1", "broker_id": 1},
    }


def test_a_change_of_membership_is_shown_without_the_store_of_the_member() -> None:
    kind, data = encode_conf_change(ConfChange(ConfChangeType.ADD_LEARNER_NODE, NodeId(4), b"secret store"))
    value = entry_json(entry(data, kind), 9)
    assert value["kind"] == "ChangeMembers"
    assert value["command"] == {"changes": [{"change": "ADD_LEARNER_NODE", "raft_id": 4}]}
    assert "secret" not in str(value)


def test_an_entry_that_may_yet_be_replaced_says_so() -> None:
    value = entry_json(entry(b""), 8)
    assert (value["kind"], value["committed"], value["command"]) == ("Empty", False, None)


def test_an_entry_that_is_no_command_of_this_release_says_what_nodes_do_with_it() -> None:
    assert entry_json(entry(b"rubbish"), 9)["problem"].startswith("NO EFFECT: ")
    assert entry_json(entry(bytes([commands.COMMAND_VERSION + 1])), 9)["problem"].startswith("LATER RELEASE")


def test_long_texts_and_lists_are_cut() -> None:
    value = bounded({"text": "x" * (TEXT_CHARS_MAX + 1), "ids": [[1] * (LIST_VALUES_MAX + 1)]})
    assert isinstance(value, dict)
    assert value["text"] == "x" * TEXT_CHARS_MAX + f"... ({TEXT_CHARS_MAX + 1} characters)"
    assert value["ids"] == [[1] * LIST_VALUES_MAX + [f"... ({LIST_VALUES_MAX + 1} values)"]]


async def test_a_page_is_bounded_by_entries_and_bytes() -> None:
    async with NodeCluster(1) as cluster:
        node = (await cluster.leader()).node
        small = [node.propose(b"x") for _ in range(LOG_ENTRIES_MAX + 10)]
        await small[-1]
        page = log_json(node, None, 10 * LOG_ENTRIES_MAX)
        assert len(page["entries"]) == LOG_ENTRIES_MAX
        assert page["entries"][-1]["index"] == page["last_index"] == page["commit_index"]
        for _ in range(4):
            await node.propose(bytes(LOG_BYTES_MAX // 2 + 1))
        assert len(log_json(node, None, 4)["entries"]) == 1
        assert log_json(node, None, 0)["entries"] == []
        assert log_json(node, 10**9, 5)["entries"] == []
