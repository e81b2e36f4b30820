"""What `kubectl rmqha migrate` runs inside the cluster, as commands: they ask and tell, and remember nothing.

    ha-sidecar survey --broker HOST:PORT ...            what running brokers say of themselves, as JSON
    ha-sidecar permission read --broker HOST:PORT ...   forbid writes to a group (or allow them: `write`)
    ha-sidecar adopt DIR --keep keep|empty|metadata     convert a store that predates controller mode

Each prints one line of JSON, short enough for the termination message of a container.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controller_core.channel.asking import AskError
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.commitlog.layout import MAPPED_FILE_BYTES_DEFAULT
from ha_sidecar.common.options import address
from ha_sidecar.migration.adoption import KeepMode, StoreLocation, adopt
from ha_sidecar.migration.permission import BrokerPermission, permit
from ha_sidecar.migration.survey import UNREAD_SHOWN_MAX, survey, unread

_PERMISSIONS = {"read": BrokerPermission.READ, "write": BrokerPermission.READ_AND_WRITE}


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse's action has no public name
    """Add the three commands to a parser's."""
    asks = commands.add_parser("survey", help="ask brokers who they are and what they have")
    asks.add_argument("--broker", action="append", required=True, help="host:port; may be repeated")
    asks.add_argument(
        "--unread", action="store_true", help="tell too what consumers of the master have not read"
    )
    asks.add_argument("--ignore", action="append", default=[], help="topic or group to leave out")
    asks.set_defaults(carry_out=_survey)
    permits = commands.add_parser("permission", help="forbid or allow writes to a broker group")
    permits.add_argument(
        "permission", choices=sorted(_PERMISSIONS), help="the operations that the brokers allow from now on"
    )
    permits.add_argument("--name", required=True, help="brokerName of the group")
    permits.add_argument("--broker", action="append", required=True, help="host:port; may be repeated")
    permits.add_argument("--name-server", action="append", default=[], help="host:port; may be repeated")
    permits.set_defaults(carry_out=_permission)
    adopts = commands.add_parser("adopt", help="convert a store that predates controller mode")
    adopts.add_argument("directory", type=Path, help="root of the volume")
    adopts.add_argument("--store", default="store", help="where the store lies in it")
    adopts.add_argument("--commit-log", default="store/commitlog", help="where its log lies in it")
    adopts.add_argument(
        "--keep",
        choices=[mode.value for mode in KeepMode],
        required=True,
        help="the part of the store to keep",
    )
    adopts.add_argument(
        "--mapped-file-bytes",
        type=int,
        default=MAPPED_FILE_BYTES_DEFAULT,
        help=f"length of a log file (default: {MAPPED_FILE_BYTES_DEFAULT})",
    )
    adopts.set_defaults(carry_out=_adopt)


def _survey(options: argparse.Namespace) -> int:
    _check_addresses("broker", options.broker)
    _print(asyncio.run(_survey_brokers(options)))
    return 0


async def _survey_brokers(options: argparse.Namespace) -> dict[str, Any]:
    """Ask every broker.

    Report one that does not answer as a problem, because the answers of the others may suffice.
    """
    brokers: list[dict[str, Any]] = []
    for broker_address in options.broker:
        try:
            brokers.append((await survey(broker_address)).json())
        except (AskError, RemotingProtocolError) as error:
            brokers.append({"address": broker_address, "problem": str(error)})
    found: dict[str, Any] = {"brokers": brokers}
    if options.unread:
        # Any of DLedger's members may lead; the leader has the newest offsets of consumers.
        first = next(
            (broker["address"] for broker in brokers if broker.get("broker_id") == 0), options.broker[0]
        )
        left = await unread(first, options.ignore)
        found["unread"] = [asdict(item) for item in left[:UNREAD_SHOWN_MAX]]
        found["unread_messages"] = sum(item.messages for item in left)
    return found


def _permission(options: argparse.Namespace) -> int:
    wanted = _PERMISSIONS[options.permission]
    _check_addresses("broker", options.broker)
    _check_addresses("name-server", options.name_server)
    asyncio.run(permit(wanted, options.name, options.broker, options.name_server))
    _print({"permission": int(wanted)})
    return 0


def _adopt(options: argparse.Namespace) -> int:
    place = StoreLocation(options.directory, options.store, options.commit_log, options.mapped_file_bytes)
    _print(asdict(adopt(place, KeepMode(options.keep))))
    return 0


def _check_addresses(option: str, texts: Sequence[str]) -> None:
    """Raise `ConfigError` for a wrong one, before the command asks its first question."""
    for text in texts:
        address(option, text)


def _print(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
