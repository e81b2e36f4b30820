"""A fake broker with a revive log in memory.

It answers reads of the log and of offsets, takes sends, and serves metrics.
"""

import asyncio
import json
from typing import Any, Final

from aiohttp import web

from controller_core.channel import Connection, Server, serve
from controller_core.remoting.client_headers import (
    GetOffsetResponseHeader,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SendMessageRequestHeaderV2,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from testkit.ha.messages import message

QUEUES: Final = 2
_AT_ONCE: Final = 3
"""Messages of one answer to a pull; few, so that reading a log takes several."""


class ReviveBroker:
    """One broker.

    Attributes:
        log: body and tag of each message, by revive queue.
        committed: offset up to which it revived, by revive queue.
        refused: refused puts, by topic and consumer group.
        sent: bodies that were sent to each revive queue, in order.
        takes_max: how many sends it takes before it refuses; None for all.
        refused_send: set when it has refused a send.
        answers: it answers sends that it took only while this is set.
        least: offset of the oldest message in each queue.
    """

    def __init__(self) -> None:
        self.log: dict[int, list[tuple[str, dict[str, Any]]]] = {queue: [] for queue in range(QUEUES)}
        self.committed: dict[int, int] = {}
        self.refused: dict[tuple[str, str], int] = {}
        self.sent: list[tuple[int, dict[str, Any], str]] = []
        self.takes_max: int | None = None
        self.refused_send: Final = asyncio.Event()
        self.answers: Final = asyncio.Event()
        self.answers.set()
        self._late: Final[set[asyncio.Task[None]]] = set()
        self.least = 0
        self.address = self.page = ("", 0)
        self._server: Server | None = None
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        self._runner: Final = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def start(self) -> None:
        """Listen at both ports."""
        self._server = await serve("127.0.0.1", 0, self._accept)
        self.address = ("127.0.0.1", self._server.port)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.page = self._runner.addresses[0]

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()
        await self.stop_page()

    async def stop_page(self) -> None:
        """Stop serving metrics."""
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        name = "rocketmq_pop_revive_retry_messages_total"
        lines = [
            f'{name}{{consumer_group="{group}",put_status="IN_SYNC_REPLICAS_NOT_ENOUGH",topic="{topic}"}} '
            f"{count}.0"
            for (topic, group), count in self.refused.items()
        ]
        return web.Response(text="\n".join(lines) + "\n")

    def _accept(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        code, ext, body = ResponseCode.SUCCESS, None, b""
        match request.code:
            case RequestCode.GET_BROKER_CONFIG:
                body = f"reviveQueueNum={QUEUES}\n".encode()
            case RequestCode.QUERY_CONSUMER_OFFSET:
                queue = QueryConsumerOffsetRequestHeader.from_ext(request.ext).queue_id
                if queue in self.committed:
                    ext = GetOffsetResponseHeader(self.committed[queue]).to_ext()
                else:
                    code = ResponseCode.QUERY_NOT_FOUND
            case RequestCode.GET_MIN_OFFSET:
                ext = GetOffsetResponseHeader(self.least).to_ext()
            case RequestCode.PULL_MESSAGE:
                header = PullMessageRequestHeader.from_ext(request.ext)
                body = self._read(header.queue_id, header.queue_offset)
                code = ResponseCode.SUCCESS if body else ResponseCode.PULL_NOT_FOUND
                if header.queue_offset < self.least:
                    code, body = ResponseCode.PULL_OFFSET_MOVED, b""
            case RequestCode.SEND_MESSAGE_V2 if self.takes_max is None or len(self.sent) < self.takes_max:
                sent = SendMessageRequestHeaderV2.from_ext(request.ext)
                self.sent.append((sent.queue_id, json.loads(request.body), sent.properties or ""))
                if not self.answers.is_set():
                    task = asyncio.ensure_future(self._answer_late(connection, request))
                    self._late.add(task)
                    task.add_done_callback(self._late.discard)
                    return None
            case RequestCode.SEND_MESSAGE_V2:
                self.refused_send.set()
                code = ResponseCode.SYSTEM_ERROR
            case _:
                code = ResponseCode.SYSTEM_ERROR
        return RemotingCommand.response_to(request, code, ext, body=body)

    async def _answer_late(self, connection: Connection, request: RemotingCommand) -> None:
        await self.answers.wait()
        connection.send(RemotingCommand.response_to(request, ResponseCode.SUCCESS))

    def _read(self, queue: int, offset: int) -> bytes:
        found = self.log[queue][offset : offset + _AT_ONCE]
        return b"".join(
            message(
                0,
                json.dumps(value).encode(),
                b"R",
                properties=f"TAGS\x01{tag}\x02TIMER_DELIVER_MS\x0177\x02".encode(),
                queue_offset=offset + place,
            )
            for place, (tag, value) in enumerate(found)
        )
