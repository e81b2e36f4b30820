"""A broker with the operator's settings spends no CPU when it idles.

RocketMQ 5.5.0 spins on a core, for ever, from 3 s after the last transaction on (apache/rocketmq#10966).
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from controller_core.channel.asking import Asker
from controller_core.remoting.client_headers import (
    GetOffsetRequestHeader,
    GetOffsetResponseHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.header import Header, JavaInt, JavaLong
from ha_sidecar.address import host_port
from testkit.processes.ports import free_port
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import BrokerPlace, JavaBroker
from testkit.worlds.pod_templates import broker_settings

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
COMMIT: Final = 8
"""MessageSysFlag.TRANSACTION_COMMIT_TYPE"""
WRITTEN_S = 2.0
IDLE_S = 6.0
"""RocketMQ's own interval is 3 s: a thread that spins does so for the other half."""
OF_TRANSACTIONS = ("transactionMetricFlushInterval", "transactionOpBatchInterval", "transactionOpMsgMaxSize")
THREADS = ("TransactionalOp", "TransactionFlus")
"""As Linux cuts the names of the threads that RocketMQ has for transactions."""


class EndTransactionRequestHeader(Header, frozen=True):
    """37 END_TRANSACTION."""

    topic: str
    producer_group: str
    tran_state_table_offset: JavaLong
    commit_log_offset: JavaLong
    commit_or_rollback: JavaInt
    from_transaction_check: bool
    msg_id: str


@dataclass(frozen=True)
class IdleBroker:
    """A broker that nothing asks but this test."""

    broker: JavaBroker
    asker: Asker

    async def carry_transaction(self) -> None:
        """Send a transaction and commit it."""
        properties = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "0" * 32}
        now_ms = int(time.time() * 1_000)
        header = SendMessageRequestHeaderV2.of_message("T", 0, properties, now_ms, group="g")
        answer = await self.asker.ask(RequestCode.SEND_MESSAGE_V2, header, b"-")
        sent = SendMessageResponseHeader.from_ext(answer.ext)
        commit_log_offset = int(sent.msg_id[-16:], 16)
        end = EndTransactionRequestHeader(
            "T", "g", sent.queue_offset, commit_log_offset, COMMIT, False, sent.msg_id
        )
        await self.asker.ask(RequestCode.END_TRANSACTION, end)

    async def wait_ends_written(self, count: int) -> None:
        """Wait until as many ends of transactions are in the broker's log.

        Raises:
            TimeoutError: they are not.
        """
        async with asyncio.timeout(WRITTEN_S):
            while await self._ends_written() < count:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.02)

    async def _ends_written(self) -> int:
        answer = await self.asker.ask(RequestCode.GET_MAX_OFFSET, GetOffsetRequestHeader(OP_TOPIC, 0))
        return GetOffsetResponseHeader.from_ext(answer.ext).offset

    def cpu_s(self) -> float:
        """Return the CPU seconds that the threads for transactions have used."""
        tasks = Path(f"/proc/{self.broker.process.pid}/task").iterdir()
        found = [task for task in tasks if (task / "comm").read_text().strip() in THREADS]
        assert len(found) == len(THREADS)
        stats = [(task / "stat").read_text().rpartition(")")[2].split() for task in found]
        return sum(int(ticks) for stat in stats for ticks in stat[11:13]) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[IdleBroker]:
    conf = broker_settings({"cluster": "c", "storage": {"size": "1Gi"}})
    settings = {key: conf[key] for key in OF_TRANSACTIONS}
    place = BrokerPlace("c", "g", "broker", tmp_path / "broker")
    broker = JavaBroker(await jars("5.5.0"), place, f"127.0.0.1:{free_port()}", settings)
    async with broker.process:
        await broker.process.wait_for_text("boot success", 150.0)
        asker = Asker(host_port(broker.address))
        yield IdleBroker(broker, asker)
        asker.close()


async def test_the_end_of_a_transaction_is_written_at_once_and_no_thread_spins_after_it(
    idle: IdleBroker,
) -> None:
    await idle.carry_transaction()
    await idle.wait_ends_written(1)
    before_s = idle.cpu_s()
    await asyncio.sleep(IDLE_S)
    assert idle.cpu_s() - before_s < IDLE_S / 20
    await idle.carry_transaction()
    await idle.wait_ends_written(2)
