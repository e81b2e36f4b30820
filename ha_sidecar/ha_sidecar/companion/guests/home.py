"""Does the address of a former master still lead to this broker?

Only a master has such addresses, and a group has one master at a time. So where a master answers at the
address of another member, that address leads here.

Never: an answer from memory; where an address leads is decided when a connection is made.
"""

import asyncio
from typing import Final

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.address import HostPort
from ha_sidecar.common.questions import ask_ha_status
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, parsed_address

ANSWER_WITHIN_S: Final = 1.0


async def is_lent(broker: BrokerFacts | None, group: GroupFacts | None, sign: Sign | None) -> bool:
    """Say whether the address of another member may lead to this broker; True if that is unknown.

    Args:
        broker: this broker; None if it does not answer.
        group: what the controllers say of its group; None if they do not answer.
        sign: signs the questions, for brokers with access control.
    """
    if broker is None or group is None:
        return True
    if not broker.is_master or group.master_id != broker.broker_id:
        return False
    others = (text for broker_id, text, _ in group.others if broker_id != broker.broker_id)
    addresses = [address for text in others if (address := parsed_address(text)) is not None]
    return any(await asyncio.gather(*(_may_be_master_at(address, sign) for address in addresses)))


async def _may_be_master_at(address: HostPort, sign: Sign | None) -> bool:
    asker = Asker(address, sign)
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return (await ask_ha_status(asker)).master
    except TimeoutError:
        return True
    except (AskError, RemotingProtocolError):
        return False
    finally:
        asker.close()
