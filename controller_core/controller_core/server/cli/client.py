"""The commands that ask running nodes over HTTP: status, groups, failovers, watch, elect, transfer, snapshot.

Each takes `--server HOST:PORT[,...]` and asks the first that answers. Changes follow the 307 of a node that
does not lead, with the token. The table is for people; `--output json` and `yaml` give what the node sent.
"""

import asyncio
import ssl
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from controller_core import bounded_json
from controller_core.bounded_json import JsonError
from controller_core.channel.http_answers import read_body, sequence_of
from controller_core.command_line.output import RowPrinter, show
from controller_core.error_text import error_text
from controller_core.remoting.errors import shown
from controller_core.remoting.text_bounds import NAME_BYTES_MAX, one_line, text_problem

REQUEST_TIMEOUT_S: Final = 5.0
REDIRECTS_MAX: Final = 3
_WATCH_RETRY_S: Final = 0.5
_NS_PER_S: Final = 1_000_000_000
_GROUP_COLUMNS: Final = {"cluster": "cluster", "group": "name", "master_epoch": "master_epoch"}
"""Columns of a group's rows, before those of a replica, by the names of the answer."""
_STATUS_COLUMNS: Final = (
    "address",
    "name",
    "role",
    "term",
    "leader",
    "commit_index",
    "applied_index",
    "ready",
    "error",
)
"""Columns of `status` as CSV: a node that cannot be reached has only the first and the last."""


@dataclass(frozen=True, slots=True)
class Access:
    """Which nodes are asked, and as whom.

    Attributes:
        server: HTTP addresses of the nodes to ask, in this order
        cacert: file with the authorities of the nodes' certificates; with it, HTTPS
        cert: file with the certificate of this client, if nodes require one
        key: file with its private key, if it is not in the same file
        token: the nodes' httpToken
    """

    server: Sequence[str]
    cacert: str = ""
    cert: str = ""
    key: str = ""
    token: str = ""

    @classmethod
    def of(cls, arguments: Namespace) -> "Access":
        """Return the access that the command line gives; a command that only reads does not take a token."""
        given = vars(arguments)
        return cls(**{field.name: given[field.name] for field in fields(cls) if field.name in given})


class ClientError(Exception):
    """A node could not be asked, or refused; the text is for the person at the terminal.

    Attributes:
        status: of the HTTP answer; 0 without an answer.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


async def status(arguments: Namespace) -> None:
    """Print what each node says of itself."""
    access, printer = Access.of(arguments), RowPrinter(arguments.output)
    for address in access.server:
        try:
            value = await request("GET", address, "/v1/status", access)
            line = _status_line(address, value)
        except (ClientError, aiohttp.ClientConnectionError, TimeoutError, OSError) as error:
            value = {"error": error_text(error)}
            line = f"{address}  unreachable: {value['error']}"
        row = {"address": address, **value}
        printer.show(row, line, flat={name: row.get(name) for name in _STATUS_COLUMNS})


def _status_line(address: str, value: Mapping[str, Any]) -> str:
    return (
        f"{address}  {value['name']}  {value['role']:<9}  term {value['term']}  "
        f"leader {value['leader'] or 'none'}  "
        f"commit {value['commit_index']}  applied {value['applied_index']}  "
        f"{'ready' if value['ready'] else 'not ready'}"
    )


async def groups(arguments: Namespace) -> None:
    """Print the broker groups."""
    value = await first("GET", "/v1/groups", Access.of(arguments))
    rows = [
        {name: group[key] for name, key in _GROUP_COLUMNS.items()} | replica
        for group in value["groups"]
        for replica in group["replicas"]
    ]
    lines = [line for group in value["groups"] for line in _group_lines(group)]
    show(arguments.output, value, rows=rows, lines=lines)


def _group_lines(group: Mapping[str, Any]) -> Iterator[str]:
    in_sync = f"{len(group['sync_state_set'])}/{len(group['replicas'])}"
    reason = group["failure_reason"] or ""
    name = f"{group['cluster']}/{group['name']}"
    yield f"{name}  epoch {group['master_epoch']}  in sync {in_sync}  {reason}".rstrip()
    for replica in group["replicas"]:
        member = f"{replica['broker_id']:>3}  {_role(replica):<6}  {replica['address']:<24}"
        yield f"  {member}  {_state(replica)}"


async def failovers(arguments: Namespace) -> None:
    """Print the last changes of master, newest first."""
    value = await first("GET", "/v1/failovers", Access.of(arguments))
    lines = [_failover_line(record) for record in value["failovers"]]
    show(arguments.output, value, rows=value["failovers"], lines=lines)


def _failover_line(record: Mapping[str, Any]) -> str:
    old, new = record["old_master_id"], record["new_master_id"]
    change = f"{new} again" if old == new else f"{old or '-'} -> {new}"
    cause = f"{record['cause']:<18}"
    return (
        f"{time_text(record['proposed_ns'])}  {record['correlation_id']:<32}  {cause}  {change:<10}  "
        f"role taken {_after(record['suspected_ns'] or record['proposed_ns'], record['role_taken_ns'])}"
    )


async def watch(arguments: Namespace) -> None:
    """Print events as they come, going on at another node when one fails."""
    after = arguments.after
    printer = RowPrinter(arguments.output)
    while True:
        for address in arguments.server:
            try:
                after = await _stream(address, after, arguments, printer)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                sys.stderr.write(one_line(f"{address}: {error_text(error)}") + "\n")
            else:
                if not arguments.follow:
                    return
        await asyncio.sleep(_WATCH_RETRY_S)


async def elect(arguments: Namespace) -> None:
    """Designate a group's master."""
    path = f"/v1/groups/{_segment('CLUSTER', arguments.cluster)}/{_segment('GROUP', arguments.group)}/elect"
    value = await first("POST", path, Access.of(arguments), {"brokerId": arguments.broker_id})
    done = f"broker {value['master_id']} is master, epoch {value['master_epoch']}"
    show(arguments.output, value, lines=[f"{arguments.cluster}/{arguments.group}: {done}"])


async def transfer(arguments: Namespace) -> None:
    """Hand Raft's leadership to a node."""
    value = await first("POST", "/v1/leader/transfer", Access.of(arguments), {"to": arguments.to})
    show(arguments.output, value, lines=[f"{value['leader']} leads"])


async def snapshot(arguments: Namespace) -> None:
    """Have one node write a snapshot."""
    value = await first("POST", "/v1/snapshot", Access.of(arguments), {})
    line = f"snapshot of the state at index {value['index']} is written"
    show(arguments.output, value, lines=[line])


async def _stream(address: str, after: int, arguments: Namespace, printer: RowPrinter) -> int:
    follow = str(arguments.follow).lower()
    access = Access.of(arguments)
    url = f"{_base(address, access)}/v1/events?after={after}&follow={follow}"
    limits = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=limits) as session,
        session.get(url, ssl=_tls(access), allow_redirects=False) as response,
    ):
        response.raise_for_status()
        async for line in response.content:
            event = _read_object(line, url)
            after = _sequence(event, url)
            printer.show(event, _event_line(event))
    return after


async def first(
    method: str, path: str, access: Access, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Ask the nodes in turn until one can be reached, and return its answer.

    Raises:
        ClientError: none can be reached, or the one that was refused.
    """
    problems = []
    for address in access.server:
        try:
            return await request(method, address, path, access, body)
        except (aiohttp.ClientConnectionError, TimeoutError, OSError) as error:
            problems.append(f"{address}: {error_text(error)}")
    raise ClientError("; ".join(problems))


async def request(
    method: str, address: str, path: str, access: Access, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Ask one node, and the leader if it sends us there; return the answer.

    Raises:
        ClientError: it refused, or sent us around in a circle.
    """
    sent_headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    # Why encoded: yarl would take a quoted name apart, and resolve the dots in it.
    url = URL(f"{_base(address, access)}{path}", encoded=True)
    limits = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=limits, headers=sent_headers) as session:
        # Why by hand: aiohttp drops the token when a redirect leads to another host, and the leader is one.
        for _ in range(REDIRECTS_MAX):
            async with session.request(
                method, url, json=body, allow_redirects=False, ssl=_tls(access)
            ) as response:
                if response.status == 307:
                    url = URL(response.headers["Location"], encoded=True)
                    continue
                value = _read_object(await _body(response, url), url)
                if not response.ok:
                    about = f" ({value['field']}: {value['value']})" if value.get("field") else ""
                    raise ClientError(f"{value.get('error', response.reason)}{about}", response.status)
                return value
    raise ClientError("the nodes disagree about who leads; try again")


async def _body(response: aiohttp.ClientResponse, url: URL) -> bytearray:
    try:
        return await read_body(response)
    except JsonError as error:
        raise ClientError(f"{url} does not answer as a controller: {error}") from error


def _sequence(event: Mapping[str, Any], url: str) -> int:
    try:
        return sequence_of(event)
    except JsonError as error:
        raise ClientError(f"{url} does not answer as a controller: {error}") from error


def _read_object(data: bytes | bytearray, url: URL | str) -> dict[str, Any]:
    """Return the JSON object that a node sent.

    Raises:
        ClientError: it is something else; whoever answers at this address is not a controller.
    """
    try:
        value = bounded_json.decode(data)
    except JsonError as error:
        raise ClientError(f"{url} does not answer as a controller: {error} (expected JSON)") from error
    if not isinstance(value, dict):
        raise ClientError(
            f"{url} does not answer as a controller: {type(value).__name__} (expected an object)"
        )
    return value


def _segment(argument: str, name: str) -> str:
    """Return a name as one segment of a URL's path.

    Raises:
        ClientError: no group has such a name, or no path can hold it.
    """
    problem = "is empty" if not name else text_problem(name, NAME_BYTES_MAX)
    if name in {".", ".."}:
        problem = "is a relative path"
    if problem is not None:
        raise ClientError(f"{argument} {shown(name)} {problem}")
    return quote(name, safe="")


def _base(address: str, access: Access) -> str:
    if "://" in address:
        return address.rstrip("/")
    return f"{'https' if access.cacert else 'http'}://{address}"


def _tls(access: Access) -> ssl.SSLContext | bool:
    """Return how HTTPS is verified, and with which certificate we come."""
    if not access.cacert:
        return True
    context = ssl.create_default_context(cafile=access.cacert)
    if access.cert:
        context.load_cert_chain(access.cert, access.key or None)
    return context


def _role(replica: Mapping[str, Any]) -> str:
    if replica["master"]:
        return "master"
    if replica.get("learner"):
        return "learner"
    return "slave" if replica["electable"] else "log"


def _state(replica: Mapping[str, Any]) -> str:
    words = ["alive" if replica["alive"] else "dead", "in sync" if replica["in_sync"] else "not in sync"]
    if replica["max_offset"] is not None:
        words.append(f"max offset {replica['max_offset']:,}")
    return ", ".join(words)


def _event_line(event: Mapping[str, Any]) -> str:
    attrs = " ".join(f"{name}={value}" for name, value in event["attrs"].items())
    broker = "" if event["broker_id"] is None else f" broker {event['broker_id']}"
    place = f"{event['cluster']}/{event['group']}{broker}"
    begin = f"{time_text(event['ts_ns'])}  {event['sequence']:>6}"
    return f"{begin}  {event['kind']:<20}  {place}  {attrs}".rstrip()


def time_text(ts_ns: int) -> str:
    """Return a time in UTC, to the millisecond."""
    return datetime.fromtimestamp(ts_ns / _NS_PER_S, UTC).isoformat(timespec="milliseconds")


def _after(from_ns: int, to_ns: int | None) -> str:
    return "-" if to_ns is None else f"{(to_ns - from_ns) / 1_000_000:.0f} ms"
