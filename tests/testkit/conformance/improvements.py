"""Everything our controller answers otherwise than Java's, on purpose: the only place where that may be said.

An entry allows one named difference of one step and nothing else: what ours must answer instead
is part of it, so a second deviation in the same answer is still reported. An entry that no step
needs any more is reported too.

Two differences concern every body and are therefore part of the comparison itself, not of the table:

- Java writes map keys without quotes, ours with. Every reader takes quoted keys; `mqadmin electMaster` of
  5.4.0 and later fails on the others.
- The answer to ELECT_MASTER repeats the group's members at the top level of its body. mqadmin prints members
  only from there; brokers ignore what they do not know.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

EVERY_OCCURRENCE: Final = 0


@dataclass(frozen=True, slots=True)
class Improvement:
    """One allowed difference.

    Attributes:
        label: of the step.
        ours: what ours answers instead, by field (`code`, `ext`, `remark`, `body`), in the canonical form of
            `comparison.canonical`; a pattern must match the whole field.
        what: what ours does, in a sentence for the report.
        why: the failure that Java's way allows.
        occurrence: which step of that label, from 1; 0 for all.
    """

    label: str
    ours: Mapping[str, str | re.Pattern[str]]
    what: str
    why: str
    occurrence: int = EVERY_OCCURRENCE


_NEXT_ID = "the next id is above every id in use"
_NEXT_ID_WHY = (
    "Java counts applications: after ids 1, 2 and 7 it offers 4, later 7 again, and the broker loops"
)
_OWN_WORDS = "the remark is ours"
_OWN_WORDS_WHY = "Java's remark is the text of an exception inside it"
_NO_JUMP = "the master epoch rises once when no member is left"
_NO_JUMP_WHY = "Java tries the election three times and raises the epoch at each failure"

IMPROVEMENTS: Final[tuple[Improvement, ...]] = (
    Improvement(
        "next",
        {"ext": '{"brokerName":"b1","clusterName":"c1","nextBrokerId":"8"}'},
        _NEXT_ID,
        _NEXT_ID_WHY,
        occurrence=3,
    ),
    Improvement(
        "sss no master",
        {
            "body": '{"replicasInfoTable":{"b1":{"inSyncReplicas":[],"masterEpoch":0,"notInSyncReplicas":['
            '{"alive":true,"brokerAddress":"127.0.0.1:1","brokerId":1,"brokerName":"b1"},'
            '{"alive":false,"brokerAddress":"127.0.0.1:2","brokerId":2,"brokerName":"b1"},'
            '{"alive":false,"brokerAddress":"127.0.0.1:7","brokerId":7,"brokerName":"b1"}'
            '],"syncStateSetEpoch":0}}}'
        },
        "a broker that has just registered over its connection is alive",
        "Java waits for its heartbeat, which the broker sends on another thread: "
        "its request to be elected may lose that race",
    ),
    Improvement(
        "next after clean",
        {"ext": '{"brokerName":"b1","clusterName":"c1","nextBrokerId":"8"}'},
        _NEXT_ID,
        _NEXT_ID_WHY,
    ),
    Improvement(
        "alter null body field", {"remark": re.compile(r".*syncStateSet.*")}, _OWN_WORDS, _OWN_WORDS_WHY
    ),
    Improvement(
        "clean bad fmt",
        {
            "remark": re.compile(
                r"Please set the option <brokerControllerIdsToClean> according to the format, exception: .+"
            )
        },
        _OWN_WORDS,
        _OWN_WORDS_WHY,
    ),
    Improvement(
        "clean living id=1 only",
        {"code": "2009", "remark": re.compile(r".+")},
        "cleaning living brokers together with ids is refused",
        "Java ignores the ids and removes the whole group",
    ),
    Improvement(
        "sss after -l -b 1",
        {
            "body": '{"replicasInfoTable":{"b1":{"inSyncReplicas":['
            '{"alive":true,"brokerAddress":"127.0.0.1:22","brokerId":2,"brokerName":"b1"}'
            '],"masterAddress":"127.0.0.1:22","masterBrokerId":2,"masterEpoch":2,"notInSyncReplicas":['
            '{"alive":true,"brokerAddress":"127.0.0.1:1","brokerId":1,"brokerName":"b1"}'
            '],"syncStateSetEpoch":3}}}'
        },
        "the group is still there",
        "Java ignores the ids and removes the whole group",
    ),
    Improvement(
        "apply missing code", {"remark": re.compile(r".*registerCheckCode.*")}, _OWN_WORDS, _OWN_WORDS_WHY
    ),
    Improvement(
        "first elect unknown id 99",
        {
            "code": re.compile("2010|2012"),
            "ext": re.compile(r"\{\}"),
            "remark": re.compile(r".+"),
            "body": "",
        },
        "the first master must be a registered, living broker",
        "Java makes any id the master: the group then has a master without an address",
    ),
    Improvement(
        "getReplica r, connection of the last member closed",
        {"ext": '{"masterEpoch":"4"}'},
        _NO_JUMP,
        _NO_JUMP_WHY,
    ),
    Improvement(
        "sss r without master",
        {
            "body": '{"replicasInfoTable":{"r":{"inSyncReplicas":['
            '{"alive":false,"brokerAddress":"127.0.0.1:33","brokerId":3,"brokerName":"r"}'
            '],"masterEpoch":4,"notInSyncReplicas":['
            '{"alive":true,"brokerAddress":"127.0.0.1:31","brokerId":1,"brokerName":"r"},'
            '{"alive":false,"brokerAddress":"127.0.0.1:32","brokerId":2,"brokerName":"r"}'
            '],"precedingSyncStateSet":[1,3],"syncStateSetEpoch":5}}}'
        },
        f"{_NO_JUMP}; the answer names the set before the last election until a slave has joined its winner",
        f"{_NO_JUMP_WHY}; with the winner's disk lost, no controller could name a member "
        "with all acknowledged messages",
    ),
)
