"""Sign requests as RocketMQ's clients do, for brokers, name servers and proxies with access control.

A signed request has two more header fields: `AccessKey` names the user, `Signature` is the HMAC-SHA1 of all
other fields' values and the body, with the user's password as the key, in base64. The values follow each
other without a separator, in the order of their names. Code, opaque and flag are not signed, so a signed
request may be sent again with another opaque.

A signature does not contain a time, so a recorded request can be sent again. Only TLS prevents that.

Source: AclClientRPCHook.doBeforeRequest, AclUtils.combineRequestContent, AclSigner.calSignature (in the jar
rocketmq-client 5.5.0); DefaultAuthenticationContextBuilder.build checks it (rocketmq-auth 5.5.0).
"""

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from controller_core.remoting.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"

Sign = Callable[[RemotingCommand], RemotingCommand]
"""Returns a request with a signature; the same request without credentials."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user of brokers.

    Attributes:
        username: RocketMQ's access key.
        password: RocketMQ's secret key; never part of a text of this object.
    """

    username: str
    password: str = field(repr=False)


def signed(request: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return the request with the signature of this user, in place of one that it may have."""
    fields = {name: value for name, value in (request.ext or {}).items() if name != SIGNATURE}
    fields[ACCESS_KEY] = credentials.username
    # Java compares names as UTF-16, which differs from Python's order only beyond any name of RocketMQ's.
    content = "".join(fields[name] for name in sorted(fields)).encode() + request.body
    digest = hmac.digest(credentials.password.encode(), content, "sha1")
    fields[SIGNATURE] = base64.b64encode(digest).decode()
    return msgspec.structs.replace(request, ext=fields)
