"""Forbids writes to a broker group, and allows them again, as mqadmin does.

Brokers and name servers hold the permission. The broker announces its own with each of its topics (25,
`brokerPermission`), and looks at it itself only for topics with ordered queues. Name servers tell clients the
announced permission, or the one that requests 205 and 327 set. A client on its defaults asks them every 30 s,
so writes end some time after this is done, and not with it.

Source: AdminBrokerProcessor.updateBrokerConfig, DefaultRequestProcessor.java of the name server 5.5.0.
"""

from collections.abc import Sequence
from enum import IntEnum

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker
from controller_core.remoting.client_headers import WritePermOfBrokerRequestHeader
from controller_core.remoting.codes import RequestCode
from ha_sidecar.address import host_port
from ha_sidecar.common.questions import change_settings


class BrokerPermission(IntEnum):
    """What a broker announces. Source: PermName.java."""

    READ = 4
    READ_AND_WRITE = 6


async def permit(
    permission: BrokerPermission,
    name: str,
    brokers: Sequence[str],
    name_servers: Sequence[str],
    sign: Sign | None = None,
) -> None:
    """Give a group's brokers a permission, and tell it to the name servers.

    Args:
        permission: the new one.
        name: brokerName of the group.
        brokers: host:port each.
        name_servers: host:port each.
        sign: signs the requests.

    Raises:
        AskError: somebody did not answer, or refused.
    """
    for address in brokers:
        asker = Asker(host_port(address), sign)
        try:
            await change_settings(asker, {"brokerPermission": int(permission)})
        finally:
            asker.close()
    closes = permission is BrokerPermission.READ
    code = RequestCode.WIPE_WRITE_PERM_OF_BROKER if closes else RequestCode.ADD_WRITE_PERM_OF_BROKER
    for address in name_servers:
        asker = Asker(host_port(address), sign)
        try:
            await asker.ask(code, WritePermOfBrokerRequestHeader(name))
        finally:
            asker.close()
