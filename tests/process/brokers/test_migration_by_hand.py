"""Migrations of real brokers outside Kubernetes, by the commands of the reference.

A master and a slave that want signed requests, and a DLedger group of three.
"""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_core.access.signing import Credentials
from controller_core.remoting.codes import RequestCode
from ha_sidecar.decisions.metadata_comparison import UpdateConsumerOffsetRequestHeader
from testkit.processes.credentials import write_credentials
from testkit.products.controllers import command_path
from testkit.products.store_commands import printed_by
from testkit.rocketmq.broker_metadata import CONSUMERS, asking, create, must
from testkit.rocketmq.group_without_controllers import (
    CLUSTER,
    GROUP,
    OLD_STORE,
    TOPIC,
    OldGroup,
    dledger,
)
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import read_back
from testkit.rocketmq.processes import NameServer
from testkit.tree.files import ROOT

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

MEMBERS = ("a", "b", "c")
USER = Credentials("admin", "12345678")
_AUTH = "org.apache.rocketmq.auth"
SIGNED = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{USER.username}","password":"{USER.password}"}}',
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
PAGE = ROOT / "docs" / "operations" / "brokers_on_hosts.md"


@pytest.fixture
async def old(tmp_path: Path, name_server: NameServer) -> AsyncIterator[OldGroup]:
    group = OldGroup(await jars(), tmp_path, name_server)
    yield group
    await group.stop()


def _shown(begins: str, **values: str) -> list[str]:
    """Return the words of the page's command that begins so, with values of this test in it."""
    lines = re.findall(rf"^({begins} .*)$", PAGE.read_text(), re.MULTILINE)
    assert lines, begins
    words = shlex.split(lines[0])
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        assert option in words, f"{option} in {lines[0]}"
        words[words.index(option) + 1] = value
    return [command_path(words[0]), *words[1:], "--output=json"]


async def test_signed_brokers_answer_the_commands_of_the_page_with_credentials_alone(old: OldGroup) -> None:
    broker = await old.start_old("a", {**SIGNED, "brokerId": "0", "brokerRole": "ASYNC_MASTER"})
    credentials = str(write_credentials(old.directory / "user", USER))
    survey = _shown("ha-sidecar survey", brokers=broker.address)
    (refused,) = (await printed_by(survey))["brokers"]
    assert "16" in refused["problem"]
    (told,) = (await printed_by([*survey, "--credentials", credentials]))["brokers"]
    assert (told["name"], told["broker_id"], told["permission"]) == (GROUP, 0, 6)
    where = {"brokers": broker.address, "name_servers": old.name_server.address, "group": GROUP}
    permission = _shown("ha-sidecar permission read", **where)
    await printed_by([*permission, "--credentials", credentials])
    (told,) = (await printed_by([*survey, "--credentials", credentials]))["brokers"]
    assert told["permission"] == 4
    await broker.stop()
    log = old.volume("a") / OLD_STORE / "commitlog"
    verify = [command_path("ha-sidecar"), "verify", str(log), "--output=json"]
    assert (await printed_by(verify))["first_damage"] is None
    await old.adopt("a", "keep")
    assert {path.name for path in (old.volume("a") / "store").iterdir()} >= {
        "commitlog",
        "epochFileCheckpoint",
    }


async def test_three_members_of_dledger_become_a_group_of_three(old: OldGroup) -> None:
    brokers = await asyncio.gather(
        *(old.start_old(name, given) for name, given in zip(MEMBERS, dledger(3), strict=True))
    )
    sends = await old.send(60)
    told = await old.survey(*brokers)
    ids = [one["broker_id"] for one in told["brokers"]]
    assert ids.count(0) == 1, ids
    leader = brokers[ids.index(0)]
    async with asking(leader) as asker:
        await create(asker)
        for queue in {send.queue for send in sends if send.queue is not None}:
            end = 1 + max(send.offset or 0 for send in sends if send.queue == queue)
            await must(
                asker,
                RequestCode.UPDATE_CONSUMER_OFFSET,
                UpdateConsumerOffsetRequestHeader(CONSUMERS, TOPIC, queue, end),
            )
    async with asyncio.timeout(60.0):
        # Members copy the leader's topics and groups every 10 s.
        while True:
            told = await old.survey(*brokers, unread=True)
            if len({(one["topics"], one["groups"]) for one in told["brokers"]}) == 1:
                break
    assert told["unread"] == []
    await old.permit("read", *brokers)
    await old.until_permissions(4)
    await asyncio.gather(*(broker.stop() for broker in brokers))
    for name in MEMBERS:
        await old.adopt(name, "metadata")

    await old.controllers.start()
    first = await old.start_new("a")
    await old.name_server.wait_for_master(first.place.group)
    await asyncio.gather(*(old.start_new(name) for name in MEMBERS[1:]))
    await old.controllers.wait_group(
        CLUSTER, GROUP, lambda found: found["sync_state_set"] == [1, 2, 3], 120.0
    )
    (after,) = (await old.survey(first))["brokers"]
    assert after["topics"] >= told["brokers"][0]["topics"]
    assert after["groups"] >= told["brokers"][0]["groups"]
    more = await old.send(60)
    result = await read_back(old.jars, old.name_server.address, TOPIC, more, old.directory / "read")
    assert (result.lost, result.unexpected) == (frozenset(), frozenset())
