"""The conversation: every request of the controller protocol, in an order that reaches all its answers.

It expects a controller that was never asked anything before. Group `b1` goes from unknown to cleaned over one
connection; group `q` shows the first election; group `r` has a connection for each broker, closed one after
another, because to a controller a closed connection is a dead broker. What a broker asks in its own name goes
over its own connection, as real brokers do: a controller may take it for a sign of life.

Labels up to "first elect unknown id 99" are those of an earlier recording of the same conversation,
so that both can be compared.

Source: ControllerRequestProcessor.java and ReplicasInfoManager.java of 5.4.0 for the
possible requests and refusals.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from controller_core.remoting.bodies import SyncStateSet, encode_names
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    BrokerHeartbeatRequestHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    GetNextBrokerIdRequestHeader,
    GetReplicaInfoRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)

CLUSTER: Final = "c1"
MAIN_LINK: Final = "main"
ALTER_LINK: Final = "alter"
"""A second connection of the master's host: controllers take a 1001 only from there."""
ALIVE_MS: Final = 240_000
"""No participant falls silent before the conversation ends, even on a slow machine."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Send one request and write down the answer.

    Attributes:
        label: name of the line.
        request: the request to send.
        link: over which connection; one is opened for each new name.
        until: asked again until this holds of an answer and stays so for a moment; None to ask once. For what
            a controller does in its own time.
    """

    label: str
    request: RemotingCommand
    link: str = MAIN_LINK
    until: Callable[[RemotingCommand], bool] | None = None


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close one connection; no line."""

    link: str


Step = Ask | CloseConnection


def conversation() -> Iterator[Step]:
    """Give the steps in order."""
    yield from _an_unknown_group()
    yield from _ids()
    yield from _a_group_without_master()
    yield from _a_master()
    yield from _refused_alterations()
    yield from _designation()
    yield from _odd_codes_and_settings()
    yield from _cleaning()
    yield from _first_election_of_a_stranger()
    yield from _metadata()
    yield from _elections_of_three()
    yield from _connections_that_close()
    yield from _cleaning_of_the_living()


def _get(label: str, group: str, until: Callable[[RemotingCommand], bool] | None = None) -> Ask:
    ext = GetReplicaInfoRequestHeader(group).to_ext()
    return Ask(label, RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, ext), until=until)


def _register(label: str, group: str, broker_id: int, address: str) -> Ask:
    ext = RegisterBrokerToControllerRequestHeader(CLUSTER, group, broker_id, address).to_ext()
    return Ask(label, RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, ext))


def _elect(label: str, group: str, broker_id: int, *, designate: bool = False, link: str = MAIN_LINK) -> Ask:
    ext = ElectMasterRequestHeader(group, CLUSTER, broker_id, designate).to_ext()
    return Ask(label, RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, ext), link)


def _next(label: str, group: str) -> Ask:
    ext = GetNextBrokerIdRequestHeader(CLUSTER, group).to_ext()
    return Ask(label, RemotingCommand.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, ext))


def _apply(label: str, group: str, broker_id: int, check_code: str) -> Ask:
    ext = ApplyBrokerIdRequestHeader(CLUSTER, group, broker_id, check_code).to_ext()
    return Ask(label, RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, ext))


def _alter(
    label: str, group: str, master_id: int, master_epoch: int, wanted: list[int] | None, set_epoch: int
) -> Ask:
    ext = AlterSyncStateSetRequestHeader(group, master_id, master_epoch).to_ext()
    if wanted is None:
        body = json.dumps({"syncStateSet": None, "syncStateSetEpoch": set_epoch}).encode()
    else:
        body = SyncStateSet.of(wanted, set_epoch).encode()
    request = RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, ext, body)
    return Ask(label, request, ALTER_LINK)


def _sync_state(label: str, *groups: str) -> Ask:
    body = encode_names(groups)
    return Ask(label, RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, body))


def _beat(label: str, group: str, broker_id: int | None, address: str, link: str = MAIN_LINK) -> Ask:
    ext = BrokerHeartbeatRequestHeader(
        CLUSTER, address, group, broker_id, heartbeat_timeout_mills=ALIVE_MS
    ).to_ext()
    return Ask(label, RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, ext), link)


def _clean(label: str, group: str, ids: str | None, *, living: bool = False) -> Ask:
    ext = CleanControllerBrokerDataRequestHeader(group, CLUSTER, ids, living).to_ext()
    return Ask(label, RemotingCommand.request(RequestCode.CLEAN_BROKER_DATA, ext))


def _update(label: str, text: str) -> Ask:
    body = text.encode()
    return Ask(label, RemotingCommand.request(RequestCode.UPDATE_CONTROLLER_CONFIG, None, body))


def _an_unknown_group() -> Iterator[Step]:
    yield _get("getReplica unknown", "b1")
    yield _register("register unknown", "b1", 1, "127.0.0.1:1")
    yield _elect("elect unknown", "b1", 1)


def _ids() -> Iterator[Step]:
    yield _next("next", "b1")
    yield _apply("apply 2 first", "b1", 2, "127.0.0.1:2;1")
    yield _apply("apply 1", "b1", 1, "127.0.0.1:1;1")
    yield _apply("apply 1 again same code", "b1", 1, "127.0.0.1:1;1")
    yield _apply("apply 1 other code", "b1", 1, "127.0.0.1:1;2")
    yield _next("next", "b1")
    yield _apply("apply 2", "b1", 2, "127.0.0.1:2;1")
    yield _apply("apply 7 (gap)", "b1", 7, "127.0.0.1:7;1")
    yield _next("next", "b1")


def _a_group_without_master() -> Iterator[Step]:
    yield _register("register 1 no master", "b1", 1, "127.0.0.1:1")
    yield _register("register 9 unknown id", "b1", 9, "127.0.0.1:9")
    yield _get("getReplica no master", "b1")
    yield _sync_state("sss no master", "b1")
    yield _sync_state("sss empty")
    yield Ask("sss nobody", RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA))
    yield _alter("alter no master equal", "b1", 1, 0, [], 0)
    yield _alter("alter no master", "b1", 1, 0, [1], 0)


def _a_master() -> Iterator[Step]:
    yield _beat("hb no id", "b1", None, "127.0.0.1:1")
    yield _beat("hb1", "b1", 1, "127.0.0.1:1")
    yield _beat("hb2", "b1", 2, "127.0.0.1:2")
    yield _elect("elect first by 1", "b1", 1)
    yield _elect("elect by 2 (still exist)", "b1", 2)
    yield _register("register 2 master exist", "b1", 2, "127.0.0.1:22")
    yield _get("getReplica", "b1")


def _refused_alterations() -> Iterator[Step]:
    yield _alter("alter equal", "b1", 1, 1, [1], 1)
    yield _alter("alter wrong master", "b1", 2, 1, [1, 2], 1)
    yield _alter("alter wrong epoch", "b1", 1, 2, [1, 2], 1)
    yield _alter("alter wrong sss epoch", "b1", 1, 1, [1, 2], 9)
    yield _alter("alter unknown rep", "b1", 1, 1, [1, 9], 1)
    yield _alter("alter dead rep", "b1", 1, 1, [1, 7], 1)
    yield _alter("alter w/o master", "b1", 1, 1, [2], 1)
    yield _alter("alter unknown set", "zz", 1, 1, [1, 2], 1)
    yield _alter("alter ok", "b1", 1, 1, [1, 2], 1)
    yield _alter("alter null body field", "b1", 1, 1, None, 2)
    yield _sync_state("sss", "b1")


def _designation() -> Iterator[Step]:
    yield _elect("admin elect 7 (dead)", "b1", 7, designate=True)
    yield _elect("admin elect 2", "b1", 2, designate=True)
    yield _get("getReplica", "b1")


def _odd_codes_and_settings() -> Iterator[Step]:
    yield Ask("unknown code", RemotingCommand.request(9999))
    yield Ask("1014", RemotingCommand.request(1014))
    yield Ask("1018", RemotingCommand.request(1018))
    yield _update("update cfg blk", "configStorePath=/nowhere\n")
    yield _update("update cfg rocketmqHome", "rocketmqHome=/nowhere\n")
    yield _update(
        "update cfg ok",
        "enableElectUncleanMaster=true\nprocessReadEvent=true\nscanInactiveMasterInterval=4000\n",
    )
    yield Ask("cfg", RemotingCommand.request(RequestCode.GET_CONTROLLER_CONFIG))
    yield Ask("update nobody", RemotingCommand.request(RequestCode.UPDATE_CONTROLLER_CONFIG))


def _cleaning() -> Iterator[Step]:
    yield _clean("clean alive master noids", "b1", None)
    yield _clean("clean alive id", "b1", "2")
    yield _clean("clean bad fmt", "b1", "1,2")
    yield _clean("clean dead 7", "b1", "7")
    yield _next("next after clean", "b1")
    yield _clean("clean unknown", "zz", None)
    yield _clean("clean living id=1 only", "b1", "1", living=True)
    yield _sync_state("sss after -l -b 1", "b1")
    ext = {"clusterName": CLUSTER, "brokerName": "q", "appliedBrokerId": "1"}
    yield Ask("apply missing code", RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, ext))


def _first_election_of_a_stranger() -> Iterator[Step]:
    yield _apply("apply 1 in q", "q", 1, "a:1;1")
    yield _elect("first elect unknown id 99", "q", 99)


def _metadata() -> Iterator[Step]:
    yield Ask("metadata", RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO))


def _elections_of_three() -> Iterator[Step]:
    yield _update("update cfg clean elections only", "enableElectUncleanMaster=false\n")
    for broker_id in (1, 2, 3):
        yield _apply(f"apply {broker_id} in r", "r", broker_id, f"127.0.0.1:{30 + broker_id};1")
    for broker_id in (1, 2, 3):
        yield _beat(f"hb r{broker_id}", "r", broker_id, f"127.0.0.1:{30 + broker_id}", f"r{broker_id}")
    yield _elect("elect r first by 2", "r", 2, link="r2")
    yield _elect("elect r by 1 (2 lives)", "r", 1, link="r1")
    yield _elect("elect r by nobody (2 lives)", "r", -1)
    yield _elect("admin elect r 1 (outside the set)", "r", 1, designate=True)
    yield _elect("admin elect r 2 (is master)", "r", 2, designate=True)
    yield _alter("alter r to 1 2", "r", 2, 1, [1, 2], 1)
    yield _alter("alter r with a stale set epoch", "r", 2, 1, [2], 1)
    yield _clean("clean r 3 (alive)", "r", "3")


def _has(**wanted: str | None) -> Callable[[RemotingCommand], bool]:
    """Hold for an answer whose header has these values; None for absence."""
    return lambda answer: all((answer.ext or {}).get(key) == value for key, value in wanted.items())


def _connections_that_close() -> Iterator[Step]:
    yield CloseConnection("r2")
    yield _get("getReplica r, connection of master 2 closed", "r", until=_has(masterBrokerId="1"))
    yield _sync_state("sss r, connection of master 2 closed", "r")
    yield _alter("alter r by the master before", "r", 2, 1, [1, 2], 3)
    yield _alter("alter r with the epoch before", "r", 1, 1, [1, 3], 3)
    yield _alter("alter r to 1 3", "r", 1, 2, [1, 3], 3)
    yield CloseConnection("r1")
    yield _get("getReplica r, connection of master 1 closed", "r", until=_has(masterBrokerId="3"))
    yield CloseConnection("r3")
    yield _get("getReplica r, connection of the last member closed", "r", until=_has(masterBrokerId=None))
    yield _beat("hb r1 again", "r", 1, "127.0.0.1:31", "r1 again")
    yield _elect("elect r by 1 (alive, outside the set)", "r", 1, link="r1 again")
    yield _sync_state("sss r without master", "r")


def _cleaning_of_the_living() -> Iterator[Step]:
    yield _clean("clean living r", "r", None, living=True)
    yield _get("getReplica r after clean living", "r")
    yield _next("next in r after clean living", "r")
