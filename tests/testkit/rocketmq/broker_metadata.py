"""What a real broker knows besides its log.

A test makes it in one broker, awaits it there and in others, and compares.

Topics with and without attributes, a subscription group and offsets that it committed, by the
requests that mqadmin and consumers use. It compares the parts that a consumer depends on: the
names, and of offsets the numbers.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.client_headers import CreateTopicRequestHeader
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.header import Header
from ha_sidecar.address import host_port
from ha_sidecar.common import metadata
from ha_sidecar.decisions.metadata_comparison import (
    GROUPS,
    OFFSETS,
    TOPICS,
    UpdateConsumerOffsetRequestHeader,
    table,
)
from ha_sidecar.decisions.metadata_tables import MetadataSnapshot
from testkit.rocketmq.processes import JavaBroker

WAIT_S: Final = 60.0
PLAIN: Final = "Plain"
FIFO: Final = "InOrder"
CONSUMERS: Final = "readers"
OFFSETS_MADE: Final = {f"{PLAIN}@{CONSUMERS}": {"1": 3}, f"{FIFO}@{CONSUMERS}": {"1": 7, "2": 12}}
"""What the group has committed: the offset in each queue, by topic and group."""
_POLL_S: Final = 0.2


DELETE_GROUP: Final = 207


class DeleteGroupRequestHeader(Header, frozen=True):
    """207 DELETE_SUBSCRIPTIONGROUP, with the group's offsets if wanted."""

    group_name: str
    clean_offset: bool = False


@contextlib.asynccontextmanager
async def asking(broker: JavaBroker, sign: Sign | None = None) -> AsyncIterator[Asker]:
    """Hold a connection to a broker; with `sign`, for signed requests."""
    asker = Asker(host_port(broker.address), sign)
    try:
        yield asker
    finally:
        asker.close()


async def wait_known(asker: Asker, holds: Callable[[MetadataSnapshot], bool]) -> MetadataSnapshot:
    """Wait until what the broker knows is as wanted; return it.

    Raises:
        TimeoutError: it never is.
    """
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(AskError):
                found = await metadata.fetch(asker)
                if holds(found):
                    return found
            await asyncio.sleep(_POLL_S)


async def must(broker: Asker, code: int, header: Header | None = None, body: bytes = b"") -> None:
    """Ask until there is an answer, which must be a success.

    A JVM may take longer for its first answers than an ask waits.

    Raises:
        AskError: the broker refused.
        TimeoutError: no answer came.
    """
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await broker.ask(code, header, body)
            except AskError as error:
                if error.code is not None:
                    raise
            else:
                return


async def create(master: Asker) -> None:
    """Make a plain topic, one with attributes, and a group that has read of both."""
    for topic, attributes in ((PLAIN, None), (FIFO, "+message.type=FIFO")):
        header = CreateTopicRequestHeader(topic, 4, 4, 6, attributes=attributes)
        await must(master, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    await must(
        master,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        None,
        json.dumps({"groupName": CONSUMERS}).encode(),
    )
    for name, queues in OFFSETS_MADE.items():
        for queue, offset in queues.items():
            topic = name.partition("@")[0]
            committed = UpdateConsumerOffsetRequestHeader(CONSUMERS, topic, int(queue), offset)
            await must(master, RequestCode.UPDATE_CONSUMER_OFFSET, committed)


async def delete_group(broker: Asker) -> None:
    """Delete the group that `create` made, and its offsets, in this one broker."""
    await must(broker, DELETE_GROUP, DeleteGroupRequestHeader(CONSUMERS, clean_offset=True))


def made_in(snapshot: MetadataSnapshot) -> dict[str, Any]:
    """Return by name what a broker knows of all that `create` makes.

    That is topics and the group with all their settings, and offsets.
    """
    wanted = ((TOPICS, (PLAIN, FIFO)), (GROUPS, (CONSUMERS,)), (OFFSETS, tuple(OFFSETS_MADE)))
    found: dict[str, Any] = {}
    for kind, names in wanted:
        known = table(kind, snapshot.get(kind, b"")) or {}
        found |= {name: known[name] for name in names if name in known}
    return found


def has_all_made(snapshot: MetadataSnapshot) -> bool:
    """Say whether all that `create` makes is there, offsets to the number."""
    found = made_in(snapshot)
    names = {PLAIN, FIFO, CONSUMERS, *OFFSETS_MADE}
    return found.keys() == names and {name: found[name] for name in OFFSETS_MADE} == OFFSETS_MADE
