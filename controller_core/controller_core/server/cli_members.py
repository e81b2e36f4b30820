"""The command `members`: list the controllers, add one, promote it, remove one.

A controller is added in three steps, each of which can be repeated: start it with an empty store and a list of peers that
names it and the others; `members add n3-host:port`; `members promote n3` once it has caught up.
"""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from controller_core.server.cli_client import ClientError, first, request, show, show_json


async def members(arguments: Namespace) -> None:
    """Do what the command line asks for and print the members as they are then.

    Raises:
        ClientError: no node answers, or the change was refused.
    """
    if (arguments.action == "list") == bool(arguments.member):
        raise ClientError("members list takes no member, add, promote and remove take one")
    if arguments.action == "list":
        value = await _list(arguments)
    else:
        value = await first("POST", "/v1/members", arguments, {arguments.action: arguments.member})
    if arguments.output == "json":
        show_json(value)
        return
    for member in value["members"]:
        show(_line(member))


async def _list(arguments: Namespace) -> dict[str, Any]:
    """Ask a node, and then the leader, which alone knows how far each member is."""
    value = await first("GET", "/v1/members", arguments)
    leader = next((member for member in value["members"] if member["leader"]), None)
    if leader is None or leader["match_index"] is not None:
        return value
    try:
        return await request("GET", leader["http_address"], "/v1/members", arguments)
    except (ClientError, OSError, TimeoutError):
        return value


def _line(member: Mapping[str, Any]) -> str:
    role = "leader" if member["leader"] else member["role"] or "-"
    parts = [f"{member['name']:<4}", f"{role:<8}", f"{member['address']:<24}"]
    if member["active"] is not None:
        parts.append("heard  " if member["active"] else "silent ")
        parts.append(f"{member['lag_entries']} entries behind")
    parts.append(f"store {member['incarnation'] or 'not seen yet'}")
    return "  ".join(parts)
