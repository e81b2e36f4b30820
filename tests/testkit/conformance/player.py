"""Holds the conversation with one controller over real connections and gives its transcript."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from controller_core.channel import ChannelError, Connection, connect
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from testkit.conformance.script import CLUSTER, Ask, CloseConnection, Step
from testkit.conformance.transcript import Answer, Line, masked_metadata, settings

CONNECT_TIMEOUT_S: Final = 5.0
CALL_TIMEOUT_S: Final = 15.0
"""Much longer than the 5 s that a Java controller may wait for its log."""
READY_TIMEOUT_S: Final = 60.0
EVENT_TIMEOUT_S: Final = 40.0
"""For what a controller does by itself, such as an election after a connection closed."""
SETTLED_S: Final = 1.0
"""How long such an answer must stay the same: Java tries a failed election three times."""
_POLL_S: Final = 0.05


class PlayError(Exception):
    """The controller could not be reached, or did not do the expected thing in time."""


async def wait_until_serving(host: str, port: int) -> None:
    """Wait until a controller leads and answers leader-only requests.

    Raises:
        PlayError: it does not within `READY_TIMEOUT_S`.
    """
    ext = {"clusterName": CLUSTER, "brokerName": "nobody"}
    request = RemotingCommand.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, ext)
    deadline_s = asyncio.get_running_loop().time() + READY_TIMEOUT_S
    while asyncio.get_running_loop().time() < deadline_s:
        with contextlib.suppress(ChannelError):
            connection = await connect(host, port, CONNECT_TIMEOUT_S)
            try:
                if (await connection.call(request, CALL_TIMEOUT_S)).code == ResponseCode.SUCCESS:
                    return
            finally:
                connection.close()
        await asyncio.sleep(_POLL_S)
    raise PlayError(f"{host}:{port} does not lead after {READY_TIMEOUT_S} s")


async def play(host: str, port: int, steps: Iterable[Step]) -> list[Line]:
    """Hold a conversation and return one line for each step that asks.

    Raises:
        PlayError: something awaited did not happen.
        ChannelError: the controller hung up or did not answer.
    """
    links: dict[str, Connection] = {}
    lines: list[Line] = []
    try:
        for step in steps:
            if isinstance(step, CloseConnection):
                links.pop(step.link).close()
                continue
            if step.link not in links:
                links[step.link] = await connect(host, port, CONNECT_TIMEOUT_S)
            lines.append(_line(step, await _answer(links[step.link], step)))
    finally:
        for connection in links.values():
            connection.close()
    return lines


async def _answer(connection: Connection, step: Ask) -> RemotingCommand:
    if step.until is None:
        return await connection.call(step.request, CALL_TIMEOUT_S)
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + EVENT_TIMEOUT_S
    last: RemotingCommand | None = None
    since_s = now_s()
    while now_s() < deadline_s:
        answer = await connection.call(step.request, CALL_TIMEOUT_S)
        if last is None or (answer.code, answer.ext, answer.body) != (last.code, last.ext, last.body):
            since_s = now_s()
        last = answer
        if step.until(answer) and now_s() - since_s >= SETTLED_S:
            return answer
        await asyncio.sleep(_POLL_S)
    raise PlayError(f"{step.label}: not within {EVENT_TIMEOUT_S} s; the last answer was {last}")


def _line(step: Ask, answer: RemotingCommand) -> Line:
    if step.request.code == RequestCode.GET_CONTROLLER_CONFIG:
        return settings(answer.body.decode().splitlines())
    ext = answer.ext
    if step.request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
        ext = masked_metadata(ext)
    return Answer(step.label, answer.code, ext, answer.remark, answer.body.decode())
