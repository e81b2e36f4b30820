"""A POP consumer of one broker, which acknowledges the messages that a test names."""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from controller_core.channel import ChannelError, Connection, connect
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.header import Header, JavaInt, JavaLong
from ha_sidecar.address import host_port
from slo_pipeline.canary.requests import send_request
from slo_pipeline.canary.stored import decode_messages

POP_MESSAGE: Final = 200_050
ACK_MESSAGE: Final = 200_051
_ANSWER_WITHIN_S: Final = 5.0
_AGAIN_S: Final = 0.1
_AT_ONCE: Final = 32
_ANY_QUEUE: Final = -1
_FROM_THE_BEGINNING: Final = 0


class PopMessageRequestHeader(Header, frozen=True):
    """200050 POP_MESSAGE; times are in milliseconds."""

    consumer_group: str
    topic: str
    queue_id: JavaInt
    max_msg_nums: JavaInt
    invisible_time: JavaLong
    poll_time: JavaLong
    born_time: JavaLong
    init_mode: JavaInt
    exp_type: str
    exp: str
    order: bool


class PopMessageResponseHeader(Header, frozen=True):
    r"""Answer to 200050; `start_offset_info` is `retry queue offset` of each queue, with `;` between."""

    pop_time: JavaLong
    invisible_time: JavaLong
    revive_qid: JavaInt
    start_offset_info: str | None = None


class AckMessageRequestHeader(Header, frozen=True):
    """200051 ACK_MESSAGE; `extra_info` names the pop."""

    consumer_group: str
    topic: str
    queue_id: JavaInt
    extra_info: str
    offset: JavaLong


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that was taken, and the request that acknowledges it; None if it is from a retry topic."""

    body: str
    acknowledgement: AckMessageRequestHeader | None


@dataclass(frozen=True, slots=True)
class PopConsumer:
    """A consumer group's consumer of one topic, which sends to that topic, too.

    Attributes:
        broker_name: brokerName of the group of brokers.
        invisible_s: after which a message that was taken and not acknowledged comes again.
    """

    topic: str
    group: str
    broker_name: str
    invisible_s: float

    async def send(self, address: str, bodies: Sequence[str], within_s: float = 60.0) -> None:
        """Have the master at an address store messages, each tried until it is acknowledged.

        Raises:
            TimeoutError: it does not take them.
        """
        async with asyncio.timeout(within_s):
            for sequence, body in enumerate(bodies):
                while not await self._is_stored(address, sequence, body):  # noqa: ASYNC110 - without a notification
                    await asyncio.sleep(_AGAIN_S)

    async def take(self, address: str, wanted: Collection[str], within_s: float) -> list[Taken]:
        """Take messages until all wanted bodies have come; return everything that came.

        Raises:
            TimeoutError: they have not come in time; names those that came.
        """
        found: list[Taken] = []
        try:
            async with asyncio.timeout(within_s):
                while not set(wanted) <= {each.body for each in found}:
                    found += await self.take_some(address)
        except TimeoutError as error:
            came = len(set(wanted) & {each.body for each in found})
            raise TimeoutError(f"{came} of {len(wanted)} messages came within {within_s} s") from error
        return found

    async def take_some(self, address: str) -> list[Taken]:
        """Take up to 32 messages; return an empty list after a pause if the queue is empty."""
        header = PopMessageRequestHeader(
            consumer_group=self.group,
            topic=self.topic,
            queue_id=_ANY_QUEUE,
            max_msg_nums=_AT_ONCE,
            invisible_time=int(self.invisible_s * 1000),
            poll_time=0,
            born_time=_now_ms(),
            init_mode=_FROM_THE_BEGINNING,
            exp_type="TAG",
            exp="*",
            order=False,
        )
        answer = await self._ask(address, RemotingCommand.request(POP_MESSAGE, header.to_ext()))
        if answer.code != ResponseCode.SUCCESS:
            await asyncio.sleep(_AGAIN_S)
            return []
        pop = PopMessageResponseHeader.from_ext(answer.ext)
        firsts = [part.split() for part in (pop.start_offset_info or "").split(";") if part]
        first = {int(queue): offset for retry, queue, offset in firsts if retry == "0"}
        return [
            Taken(
                message.body.decode(),
                self._acknowledgement(pop, first[message.queue_id], message.queue_id, message.queue_offset)
                if message.queue_id in first and len(firsts) == len(first)
                else None,
            )
            for message in decode_messages(answer.body)
        ]

    async def acknowledge(self, address: str, taken: Sequence[Taken]) -> None:
        """Acknowledge messages; raise `ValueError` if the broker refuses one."""
        for each in taken:
            if each.acknowledgement is None:
                raise ValueError(f"{each.body} is from a retry topic")
            request = RemotingCommand.request(ACK_MESSAGE, each.acknowledgement.to_ext())
            answer = await self._ask(address, request)
            if answer.code != ResponseCode.SUCCESS:
                raise ValueError(f"{each.body} was not acknowledged: {answer.code} {answer.remark}")

    def _acknowledgement(
        self, pop: PopMessageResponseHeader, first: str, queue: int, offset: int
    ) -> AckMessageRequestHeader:
        words = (first, pop.pop_time, pop.invisible_time, pop.revive_qid, 0, self.broker_name, queue, offset)
        return AckMessageRequestHeader(
            self.group, self.topic, queue, " ".join(str(word) for word in words), offset
        )

    async def _is_stored(self, address: str, sequence: int, body: str) -> bool:
        request = send_request(self.topic, self.broker_name, 0, sequence, body.encode(), _now_ms())
        return (await self._ask(address, request)).code == ResponseCode.SUCCESS

    async def _ask(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """Return the answer, or SERVICE_NOT_AVAILABLE if none comes."""
        connection: Connection | None = None
        try:
            connection = await connect(*host_port(address), _ANSWER_WITHIN_S)
            return await connection.call(request, _ANSWER_WITHIN_S)
        except ChannelError as error:
            return RemotingCommand.response_to(request, ResponseCode.SERVICE_NOT_AVAILABLE, remark=str(error))
        finally:
            if connection is not None:
                connection.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
