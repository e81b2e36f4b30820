"""What `kubectl rmqha migrate` runs inside the cluster, as commands: they ask and tell, and remember nothing.

    ha-sidecar survey --brokers HOST:PORT[,...]           what running brokers say of themselves
    ha-sidecar permission read --brokers HOST:PORT[,...]  forbid writes to a group (or allow them: `write`)
    ha-sidecar adopt DIR --keep keep|empty|metadata       convert a store that predates controller mode

The first two take `--tls DIR` and `--tls-mode`, as the processes beside a broker do.

As JSON, each prints one line that is short enough for the termination message of a container.
"""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controller_core.access.request_signer import RequestSigner
from controller_core.channel.asking import AskError
from controller_core.command_line.output import add_output, show
from controller_core.command_line.values import HOSTS, NAMES, SEMICOLONS, hosts, names
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.tls.files import PERMISSIVE, TLS_MODES
from controller_core.tls.serving import dial_as
from ha_sidecar.commitlog.layout import MAPPED_FILE_BYTES_DEFAULT
from ha_sidecar.common.options import address, require
from ha_sidecar.migration.adoption import KeepMode, StoreLocation, adopt
from ha_sidecar.migration.permission import BrokerPermission, permit
from ha_sidecar.migration.survey import UNREAD_SHOWN_MAX, survey, unread

_PERMISSIONS = {"read": BrokerPermission.READ, "write": BrokerPermission.READ_AND_WRITE}


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse's action has no public name
    """Add the three commands to a parser's."""
    asks = commands.add_parser("survey", help="ask brokers who they are and what they have")
    _add_addresses(asks, "--brokers", "remoting addresses of the brokers", required=True)
    asks.add_argument(
        "--unread", action="store_true", help="tell too what consumers of the master have not read"
    )
    asks.add_argument(
        "--ignore",
        action="extend",
        type=names,
        default=[],
        metavar=NAMES,
        help="topics or groups to leave out; may be repeated",
    )
    _add_credentials(asks)
    _add_tls(asks)
    add_output(asks)
    asks.set_defaults(carry_out=_survey)
    permits = commands.add_parser("permission", help="forbid or allow writes to a broker group")
    permits.add_argument(
        "permission", choices=sorted(_PERMISSIONS), help="the operations that the brokers allow from now on"
    )
    permits.add_argument("--group", required=True, metavar="NAME", help="brokerName of the group")
    _add_addresses(permits, "--brokers", "remoting addresses of the brokers", required=True)
    _add_addresses(permits, "--name-servers", "name servers that learn of the change")
    _add_credentials(permits)
    _add_tls(permits)
    add_output(permits)
    permits.set_defaults(carry_out=_permission)
    adopts = commands.add_parser("adopt", help="convert a store that predates controller mode")
    adopts.add_argument("directory", type=Path, metavar="DIR", help="root of the volume")
    adopts.add_argument("--store", default="store", metavar="DIR", help="where the store lies in it")
    adopts.add_argument(
        "--commit-log", default="store/commitlog", metavar="DIR", help="where its log lies in it"
    )
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
        metavar="BYTES",
        help=f"length of a log file (default: {MAPPED_FILE_BYTES_DEFAULT})",
    )
    add_output(adopts)
    adopts.set_defaults(carry_out=_adopt)


def _add_addresses(
    parser: argparse.ArgumentParser, option: str, text: str, *, required: bool = False
) -> None:
    parser.add_argument(
        option,
        action="extend",
        type=hosts,
        required=required,
        default=[],
        metavar=HOSTS,
        help=f"{text}; may be repeated; {SEMICOLONS}",
    )


def _add_credentials(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--credentials",
        type=Path,
        metavar="DIR",
        help="directory with the files username and password of a super user of the brokers",
    )


def _add_tls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tls",
        type=Path,
        metavar="DIR",
        help="directory with the authorities (ca.crt) of the certificates of brokers and name servers "
        "(default: plain TCP)",
    )
    parser.add_argument(
        "--tls-mode",
        default=PERMISSIVE,
        metavar="|".join(TLS_MODES),
        help="with --tls: permissive dials in TLS first, and in plain TCP where TLS is not answered; "
        f"enforcing dials in TLS only (default: {PERMISSIVE})",
    )


def _dial_as(options: argparse.Namespace) -> None:
    mode = options.tls_mode
    require(mode in TLS_MODES, f"tls-mode {mode!r}: one of {', '.join(TLS_MODES)}")
    dial_as(options.tls, mode)


def _signer(options: argparse.Namespace) -> RequestSigner | None:
    return None if options.credentials is None else RequestSigner(options.credentials)


def _survey(options: argparse.Namespace) -> int:
    _check_addresses("brokers", options.brokers)
    _dial_as(options)
    found = asyncio.run(_survey_brokers(options))
    show(options.output, found, rows=found["brokers"])
    return 0


async def _survey_brokers(options: argparse.Namespace) -> dict[str, Any]:
    """Ask every broker.

    Report one that does not answer as a problem, because the answers of the others may suffice.
    """
    sign = _signer(options)
    brokers: list[dict[str, Any]] = []
    for broker_address in options.brokers:
        try:
            brokers.append((await survey(broker_address, sign)).json())
        except (AskError, RemotingProtocolError) as error:
            brokers.append({"address": broker_address, "problem": str(error)})
    found: dict[str, Any] = {"brokers": brokers}
    if options.unread:
        # Any of DLedger's members may lead; the leader has the newest offsets of consumers.
        first = next(
            (broker["address"] for broker in brokers if broker.get("broker_id") == 0), options.brokers[0]
        )
        left = await unread(first, options.ignore, sign)
        found["unread"] = [asdict(item) for item in left[:UNREAD_SHOWN_MAX]]
        found["unread_messages"] = sum(item.messages for item in left)
    return found


def _permission(options: argparse.Namespace) -> int:
    wanted = _PERMISSIONS[options.permission]
    _check_addresses("brokers", options.brokers)
    _check_addresses("name-servers", options.name_servers)
    _dial_as(options)
    sign = _signer(options)
    asyncio.run(permit(wanted, options.group, options.brokers, options.name_servers, sign))
    show(options.output, {"permission": int(wanted)})
    return 0


def _adopt(options: argparse.Namespace) -> int:
    place = StoreLocation(options.directory, options.store, options.commit_log, options.mapped_file_bytes)
    show(options.output, adopt(place, KeepMode(options.keep)))
    return 0


def _check_addresses(option: str, texts: Sequence[str]) -> None:
    """Raise `ConfigError` for a wrong one, before the command asks its first question."""
    for text in texts:
        address(option, text)
