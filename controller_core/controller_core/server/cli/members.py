"""The command `members`: list the controllers, add one, promote it, remove one, replace some by others.

A controller is added in three steps, each of which can be repeated: start it with an empty store and a list
of peers that names it and the others; `members add n3-host:port`; `members promote n3` once it has caught up.

`members replace --add n3-host:port,... --remove n0,...` does all of that for many: it adds the new members as
learners one by one. Once they have caught up, one joint change makes them voters and removes the others.
After an interruption, the same command continues where it stopped.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller_core.command_line.output import show
from controller_core.server.cli.client import Access, ClientError, first, request
from controller_core.server.settings.peer_list import Peer, PeerListError, parse_peers

_NOT_YET: Final = 503
"""Status of a temporary refusal: a member is behind, an election is under way, or the result of the change
is unknown."""
_RETRY_S: Final = 0.3


async def members(arguments: Namespace) -> None:
    """Do what the command line asks for and print the members as they are then.

    Raises:
        ClientError: no node answers, or the change was refused.
    """
    if (arguments.action in ("list", "replace")) == bool(arguments.member):
        raise ClientError("list and replace do not take a member name; add, promote and remove need one")
    if (arguments.action == "replace") != bool(arguments.add or arguments.remove):
        raise ClientError("replace needs --add or --remove or both; the other actions take neither")
    if arguments.action == "list":
        value = await _list(Access.of(arguments))
    elif arguments.action == "replace":
        value = await _replace(arguments)
    else:
        value = await first("POST", "/v1/members", Access.of(arguments), {arguments.action: arguments.member})
    lines = [_line(member) for member in value["members"]]
    show(arguments.output, value, rows=value["members"], lines=lines)


async def _replace(arguments: Namespace) -> dict[str, Any]:
    """Add missing members, then request the joint change until it is made.

    Wait while a refusal is temporary.
    """
    access = Access.of(arguments)
    try:
        coming = {peer.name: peer for peer in (parse_peers(";".join(arguments.add)) if arguments.add else ())}
    except PeerListError as error:
        raise ClientError(f"{error} (--add: {','.join(arguments.add)})") from error
    going = arguments.remove
    give_up_s = time.monotonic() + arguments.timeout
    # If no member is added, unknown names are a typing error, unless they were members when this began.
    may_be_done = bool(coming)
    while True:
        try:
            if (value := await _replaced(access, coming, going, may_be_done)) is not None:
                return value
            may_be_done = True
        except ClientError as error:
            if error.status != _NOT_YET or time.monotonic() > give_up_s:
                raise
            may_be_done = True
        if time.monotonic() > give_up_s:
            raise ClientError(
                f"not done within {arguments.timeout:g} s; run the same command again to continue"
            )
        await asyncio.sleep(_RETRY_S)


async def _replaced(
    access: Access, coming: Mapping[str, Peer], going: Sequence[str], may_be_done: bool
) -> dict[str, Any] | None:
    """Take the next steps of a replacement; return the members once it is done."""
    value = await _list(access)
    roles = {member["name"]: member["role"] for member in value["members"]}
    done = all(roles.get(name) == "voter" for name in coming) and not any(name in roles for name in going)
    if done and may_be_done:
        return await _confirmed(access, value)
    if unknown := [name for name in going if name not in roles]:
        raise ClientError(f"is not a member (remove: {','.join(unknown)})")
    for name, peer in coming.items():
        if name not in roles:
            await first("POST", "/v1/members", access, {"add": f"{name}-{peer.address}"})
    learners = [name for name in coming if roles.get(name) != "voter"]
    await first("POST", "/v1/members", access, {"replace": {"add": learners, "remove": going}})
    return None


async def _confirmed(access: Access, value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Ask the remaining members; None while none of them knows a leader. A removed member gets no updates."""
    for member in value["members"]:
        try:
            told = await request("GET", member["http_address"], "/v1/members", access)
        except (ClientError, OSError, TimeoutError):
            continue
        if told["leader"] is not None and len(told["members"]) == len(value["members"]):
            return told
    return None


async def _list(access: Access) -> dict[str, Any]:
    """Ask a node, and then the leader, which alone knows how far each member is."""
    value = await first("GET", "/v1/members", access)
    leader = next((member for member in value["members"] if member["leader"]), None)
    if leader is None or leader["match_index"] is not None:
        return value
    try:
        return await request("GET", leader["http_address"], "/v1/members", access)
    except (ClientError, OSError, TimeoutError):
        return value


def _line(member: Mapping[str, Any]) -> str:
    role = "leader" if member["leader"] else member["role"] or "-"
    parts = [f"{member['name']:<4}", f"{role:<8}", f"{member['address']:<24}"]
    if member["active"] is not None:
        parts.append("heard  " if member["active"] else "silent ")
        parts.append(f"{member['lag_entries']} entries behind")
    parts.append(f"store {member['incarnation'] or 'unknown'}")
    return "  ".join(parts)
