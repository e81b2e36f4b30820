"""A user of a broker over remoting, in the form that `plan.metadata.accounts` compares.

A write looks first, and sends what differs: 3001 for a user that the broker lacks, 3002 for one that it has
otherwise, 3007 for each right, 3008 for each that is not wanted. So it may end anywhere and be done again.
Rights of the policy type `Default` are left alone.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from controller_core.access.user_table import UserTable, changes
from controller_core.access.users import (
    CUSTOM,
    AclInfo,
    AclRequestHeader,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserRequestHeader,
    subject,
)
from controller_core.remoting import lenient_json
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.header import Header
from rocketmq_operator.clients.api import Json, PeerUnavailableError

_SIGNER: Final = "innerClientAuthenticationCredentials"
"""Key of a broker's settings. A broker reads it when it starts, so its value is that of the process."""
Ask = Callable[[RequestCode, Header | None, bytes], Awaitable[bytes]]
"""Sends a request to one broker, and returns the body of the answer; raises `PeerUnavailableError`."""


async def read_account(ask: Ask, name: str) -> Json | None:
    """Return a user with its rights, None if the broker has no such user."""
    table = await _table(ask, name)
    user = table.users.get(name)
    if user is None:
        return None
    return {
        "username": name,
        "password": user.password or "",
        "userType": user.user_type or "",
        "userStatus": user.user_status or "",
        "rights": {
            entry.resource: {
                "actions": list(entry.actions),
                "sourceIps": list(entry.source_ips or ()),
                "decision": entry.decision or "",
            }
            for entry in table.rights.values()
        },
    }


async def write_account(ask: Ask, wanted: Json) -> None:
    """Give a broker a user with exactly these rights."""
    name = wanted["username"]
    own = await _table(ask, name)
    user = UserInfo(name, wanted["password"], wanted["userType"], wanted["userStatus"])
    entries = tuple(
        PolicyEntryInfo(resource, tuple(one["actions"]), tuple(one["sourceIps"]), one["decision"])
        for resource, one in wanted["rights"].items()
    )
    target = UserTable.of((user,), (_rights(name, entries),))
    for request in changes(own, target, own.minus(target)):
        await ask(request.code, request.header, request.body)


async def delete_account(ask: Ask, name: str) -> None:
    """Have a broker forget a user with its rights; a missing one is not an error."""
    await ask(RequestCode.AUTH_DELETE_USER, UserRequestHeader(name), b"")


async def read_signer(ask: Ask) -> str:
    """Return the user as which a broker signs since its process started; empty for none."""
    settings = (await ask(RequestCode.GET_BROKER_CONFIG, None, b"")).decode(errors="replace")
    values = [line.partition("=")[2] for line in settings.splitlines() if line.startswith(f"{_SIGNER}=")]
    try:
        found = lenient_json.decode(values[-1].encode()) if values else {}
    except RemotingProtocolError as error:
        # Not its text, which quotes a password.
        raise PeerUnavailableError(f"the answer of a broker has an invalid {_SIGNER}") from error
    return str(found.get("accessKey", "")) if isinstance(found, dict) else ""


def _rights(name: str, entries: Iterable[PolicyEntryInfo]) -> AclInfo:
    return AclInfo(subject(name), (PolicyInfo(CUSTOM, tuple(entries)),))


async def _table(ask: Ask, name: str) -> UserTable:
    """Return what a broker has of one user."""
    body = await ask(RequestCode.AUTH_GET_USER, UserRequestHeader(name), b"")
    if not body or body == b"null":
        return UserTable()
    rights = await ask(RequestCode.AUTH_GET_ACL, AclRequestHeader(subject(name)), b"")
    try:
        user = UserInfo.decode(body)
        found = AclInfo() if not rights or rights == b"null" else AclInfo.decode(rights)
    except RemotingProtocolError as error:
        # Not its text, which may quote a password.
        raise PeerUnavailableError(f"the answer about user {name} cannot be read") from error
    policies = tuple(one for one in found.policies or () if (one.policy_type or CUSTOM) == CUSTOM)
    return UserTable.of((user,), (AclInfo(found.subject or subject(name), policies),))
