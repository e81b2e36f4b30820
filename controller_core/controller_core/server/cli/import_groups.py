"""The command `import`: take groups over from RocketMQ's controllers while their brokers serve.

    1. every broker lists both kinds of controllers; these stand by      (`server.common.standby`)
    2. read RocketMQ's controllers, and let the leader here check it all
    3. wait until a majority of RocketMQ's controllers is stopped: from now on no decision is possible
    4. read the last state from the one that leads, and import it: from now on the decisions are made here

Nothing is changed before the fourth step, on either side.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from controller_core.command_line.output import show
from controller_core.groups.commands import ImportedGroup
from controller_core.groups.keys import GroupKey
from controller_core.server.cli.client import Access, ClientError, first
from controller_core.server.cli.java_controllers import (
    JavaControllerGroup,
    JavaControllersError,
    known_groups,
)
from controller_core.tls.dialling import dial_trusting

_PATH: Final = "/v1/import"
_REFUSALS: Final = range(400, 500)
"""Status of an answer that changed nothing."""


async def import_groups(arguments: Namespace) -> None:
    """Do what the command line asks for, and print the groups.

    Raises:
        ClientError: something is in the way; the text says what, and whether it is done.
        UnusableCertificatesError: the authorities of `--java-cacert` cannot be read.
    """
    if arguments.java_cacert:
        dial_trusting("--java-cacert", arguments.java_cacert, plain_allowed=True)
    try:
        controllers = JavaControllerGroup(arguments.java)
        try:
            value = await _import(controllers, Access.of(arguments), arguments)
        finally:
            controllers.close()
    except JavaControllersError as error:
        raise ClientError(f"RocketMQ's controllers: {error}") from error
    lines = [_line(group) for group in value["groups"]]
    lines.append("imported" if value["imported"] else "these groups can be imported")
    show(arguments.output, value, rows=value["groups"], lines=lines)


async def _import(controllers: JavaControllerGroup, access: Access, arguments: Namespace) -> dict[str, Any]:
    names = await known_groups(arguments.name_servers) | {_key(text) for text in arguments.silent_groups}
    if len(arguments.java) == 1:
        raise ClientError(
            "a single controller of RocketMQ cannot be read after it can decide nothing any more"
        )
    leader = await controllers.leader()
    value = await _ask(access, await controllers.groups(names), check=True)
    if arguments.dry_run:
        return value
    others = [address for address in arguments.java if address != leader]
    _say(f"stop RocketMQ's controllers now, but not {leader}, which leads: {', '.join(others)}")
    await controllers.until_frozen(arguments.timeout)
    try:
        value = await _ask(access, await controllers.last_groups(names), check=False)
    except (JavaControllersError, ClientError) as error:
        if isinstance(error, ClientError) and error.status not in _REFUSALS:
            raise
        raise ClientError(f"{error}; start RocketMQ's controllers again, and repeat this command") from error
    _say(f"stop {leader} too, and let no controller of RocketMQ start again")
    return value


async def _ask(access: Access, groups: Sequence[ImportedGroup], *, check: bool) -> dict[str, Any]:
    return await first("POST", _PATH, access, {"groups": msgspec.to_builtins(groups), "check": check})


def _key(text: str) -> GroupKey:
    cluster, slash, name = text.partition("/")
    if not (cluster and slash and name):
        raise ClientError(f"invalid group {text!r} (expected CLUSTER/GROUP)")
    return GroupKey(cluster, name)


def _line(group: dict[str, Any]) -> str:
    master = "none" if group["master_id"] is None else group["master_id"]
    in_sync = ",".join(map(str, group["sync_state_set"]))
    members = ", ".join(f"{member['id']} {member['address']}" for member in group["members"])
    return (
        f"{group['cluster']}/{group['name']}  master {master}  epoch {group['master_epoch']}  "
        f"in sync {in_sync}  members {members}"
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
