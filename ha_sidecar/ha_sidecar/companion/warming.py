"""Have a slave's broker load what it will need as a master, before a failover waits for it.

A JVM loads a class when it is first used, and a slave has never served its log nor taken a message: when it
becomes master it does both for the first time, on a machine whose cores are busy with the same failover. Its
first HA connection took 0.7 s of the 1.1 s without sends (5.5.0), the first sends 40 ms of CPU each.

So the companion asks the broker three things once after each of its starts:

- It greets the HA port as a learner, which does not count as a member, and leaves after the answer. A learner
  without an id never enters a SyncStateSet, and a slave's set is not its own to change.
- It says what every client says (34), of the producer group that every client has.
- It sends a reply message (325). A slave refuses to store it, after all that comes before storing; plain
  sends (310) a slave refuses at once. Its properties are longer than any log takes, so that a broker that
  became master in between refuses too.

Never: a broker that is master; there each connection counts for something. Leaves a message behind.

Source: AutoSwitchHAConnection.java, AutoSwitchHAService.removeConnection 5.4.0; ReplyMessageProcessor.java,
SendMessageProcessor.rejectRequest, HookUtils.checkBeforePutMessage, MessageExtEncoder.encode 5.5.0.
"""

import asyncio
import contextlib
import json
import logging
from typing import Final

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.client_headers import SendMessageRequestHeaderV2
from controller_core.remoting.codes import RequestCode
from ha_sidecar.address import HostPort
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.slave import NOBODY_ID

WITHIN_S: Final = 5.0
CLIENTS_GROUP: Final = "CLIENT_INNER_PRODUCER"
_HEARTBEAT: Final = json.dumps(
    {"clientID": "companion", "producerDataSet": [{"groupName": CLIENTS_GROUP}], "consumerDataSet": []}
).encode()
_PROPERTIES: Final = f"TOO_LONG\x01{'-' * (1 << 15)}\x02"
_log = logging.getLogger(__name__)


async def warm(broker: HostPort, ha_address: HostPort, cluster: str, sign: Sign | None = None) -> bool:
    """Send the broker its first request of this kind; say whether it answered. Network errors are not raised.

    Args:
        broker: its remoting address.
        ha_address: its HA port.
        cluster: brokerClusterName; brokers have a topic of that name.
        sign: signs the requests.
    """
    asker = Asker(broker, sign)
    try:
        async with asyncio.timeout(WITHIN_S):
            await _greet(ha_address)
            await asker.ask(RequestCode.HEART_BEAT, body=_HEARTBEAT)
            with contextlib.suppress(AskError):  # it is meant to be refused
                await asker.ask(RequestCode.SEND_REPLY_MESSAGE_V2, _reply_header(cluster), b"-")
    except AskError as error:
        # A refusal comes from the code that should be loaded: a repeat would load nothing more.
        _log.log(
            logging.WARNING if error.is_refusal else logging.DEBUG, "the broker is not warmed: %s", error
        )
        return error.is_refusal
    except (TimeoutError, OSError, EOFError) as error:
        _log.debug("the broker did not answer: %s", error)
        return False
    finally:
        asker.close()
    return True


async def _greet(ha_address: HostPort) -> None:
    reader, writer = await asyncio.open_connection(*ha_address)
    with contextlib.closing(writer):
        writer.write(codec.encode_handshake(codec.Handshake(NOBODY_ID, async_learner=True)))
        await reader.readexactly(codec.REPLY_HEADER_BYTES)


def _reply_header(topic: str) -> SendMessageRequestHeaderV2:
    return SendMessageRequestHeaderV2(
        producer_group=CLIENTS_GROUP,
        topic=topic,
        default_topic=topic,
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=_PROPERTIES,
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )
