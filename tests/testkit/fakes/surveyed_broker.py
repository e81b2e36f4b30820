"""A broker that predates controller mode, as far as a migration queries one.

It has settings, figures, metadata, queues and permission.
"""

import json
from typing import Any

from controller_core.channel import Connection, Server, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.routes import KVTable
from controller_core.tls.serving import ServerTls


class SurveyedBroker:
    """Answers what a test set, and takes a permission; a name server too, for the two requests that it gets.

    Attributes:
        settings: its answer to 26.
        queues: (oldest, next) offset by topic and queue.
        committed: consumers' offsets, by `topic@group` and queue.
        delivered: delivered offset by delay level.
        told: every (code, brokerName) of 205 and 327.
    """

    def __init__(self, **settings: str) -> None:
        self.settings = {
            "brokerName": "orders",
            "brokerClusterName": "DefaultCluster",
            "brokerId": "0",
            "brokerPermission": "6",
            "storePathRootDir": "/data/store",
            "mappedFileSizeCommitLog": "67108864",
            **settings,
        }
        self.runtime = {"commitLogMinOffset": "0", "commitLogMaxOffset": "1000", "timerCongestNum": "0"}
        self.queues: dict[str, dict[int, tuple[int, int]]] = {}
        self.committed: dict[str, dict[int, int]] = {}
        self.delivered: dict[int, int] = {}
        self.told: list[tuple[int, str]] = []
        self._server: Server | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.port}"

    async def start(self, tls: ServerTls | None = None) -> None:
        """Listen on a free port; with `tls` as it says."""
        self._server = await serve("127.0.0.1", 0, self._accept, tls=tls)

    async def stop(self) -> None:
        """Stop listening."""
        assert self._server is not None
        await self._server.close()

    def _accept(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        ext = request.ext or {}
        body = b""
        match request.code:
            case RequestCode.GET_BROKER_CONFIG:
                body = "".join(f"{key}={value}\n" for key, value in self.settings.items()).encode()
            case RequestCode.GET_BROKER_RUNTIME_INFO:
                body = KVTable(self.runtime).encode()
            case RequestCode.GET_ALL_TOPIC_CONFIG:
                topics = {name: {"readQueueNums": max(queues) + 1} for name, queues in self.queues.items()}
                body = _table("topicConfigTable", topics)
            case RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
                body = _table("subscriptionGroupTable", {"readers": {}})
            case RequestCode.GET_ALL_CONSUMER_OFFSET:
                body = _table("offsetTable", self.committed)
            case RequestCode.GET_ALL_DELAY_OFFSET:
                body = _table("offsetTable", self.delivered)
            case RequestCode.GET_MAX_OFFSET | RequestCode.GET_MIN_OFFSET:
                begin, end = self.queues.get(ext["topic"], {}).get(int(ext["queueId"]), (0, 0))
                offset = end if request.code == RequestCode.GET_MAX_OFFSET else begin
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS, ext={"offset": str(offset)})
            case RequestCode.UPDATE_BROKER_CONFIG:
                key, value = request.body.decode().strip().split("=")
                self.settings[key] = value
            case RequestCode.WIPE_WRITE_PERM_OF_BROKER | RequestCode.ADD_WRITE_PERM_OF_BROKER:
                self.told.append((request.code, ext["brokerName"]))
            case _:
                return RemotingCommand.response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)


def _table(key: str, entries: Any) -> bytes:
    return json.dumps({key: entries}).encode()
