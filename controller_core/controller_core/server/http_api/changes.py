"""HTTP requests that change something: their authorization, and the node that serves them.

A request for the leader that reaches another node is answered with 307 and the leader's URL in `Location`:
the client sends it again there with its token, and this node never carries a token further.

Authorization: with `httpToken` set, a client with that bearer token; with a trusted certificate authority
set, a client with its certificate, if `adminCertificateNames` allows it; with neither, a client on loopback.
Where the port serves TLS, a change from another host comes in TLS, unless `httpPlain` is `all`.
"""

import asyncio
import hmac
import ipaddress
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from aiohttp import web

from controller_core import bounded_json, limits
from controller_core.bounded_json import JsonError
from controller_core.remoting.errors import shown
from controller_core.remoting.text_bounds import ADDRESS_BYTES_MAX, NAME_BYTES_MAX, text_problem
from controller_core.server.common import json_views
from controller_core.server.common.certificate_names import PeerCertificate, is_administrator, subject_names
from controller_core.server.common.http_errors import HttpError, json_response

_LEADER_WITHIN_S: Final = 1.0
_POLL_S: Final = 0.02
MEMBER_ACTIONS: Final = ("add", "promote", "remove", "replace")
REPLACED_MAX: Final = 64
"""Names in each list of a replacement."""
MEMBER_BYTES_MAX: Final = ADDRESS_BYTES_MAX + 8
"""Bytes of a controller as `n3-host:port`, or of its name."""
_JAVA_LONG_MAX: Final = 2**63 - 1

T = TypeVar("T")


class ChangesView(Protocol):
    """What these requests ask of the controller."""

    @property
    def http_token(self) -> str:
        """The token that changes need; empty for loopback only."""
        ...

    @property
    def takes_plain_changes(self) -> bool:
        """Whether other hosts may send changes without TLS."""
        ...

    @property
    def admin_names(self) -> frozenset[str]:
        """Names of an administrator's certificate, in lower case; empty for any certificate."""
        ...

    @property
    def asks_for_certificate(self) -> bool:
        """Whether a change may be made with a client certificate."""
        ...

    def leader_http_url(self) -> str | None:
        """Return the leader's base URL when another node leads; None when this node does.

        Raises:
            HttpError: 503, the cluster is without a leader.
        """
        ...

    async def designate(self, cluster: str, name: str, broker_id: int) -> json_views.Json:
        """Designate a master.

        Raises:
            HttpError: it was refused.
        """
        ...

    async def import_groups(self, told: list[Any], *, only_check: bool) -> json_views.Json:
        """Take groups over from other controllers, or only say whether that is possible.

        Raises:
            HttpError: it is not, or the result is unknown.
        """
        ...

    async def transfer(self, to: str) -> json_views.Json:
        """Hand Raft's leadership to another node.

        Raises:
            HttpError: no such node, or it did not happen in time.
        """
        ...

    async def make_snapshot(self) -> json_views.Json:
        """Write a snapshot of the applied state now."""
        ...

    async def change_members(self, action: str, member: str) -> json_views.Json:
        """Add, promote or remove a controller.

        Raises:
            HttpError: it was refused, or its end is not known.
        """
        ...

    async def replace_members(self, add: Sequence[str], remove: Sequence[str]) -> json_views.Json | None:
        """Replace controllers by learners in one joint change; None if leadership was handed over instead.

        Raises:
            HttpError: it was refused, or its end is not known.
        """
        ...


class ChangeRoutes:
    """Serves the paths that change something."""

    def __init__(self, controller: ChangesView) -> None:
        self._controller = controller

    def routes(self) -> list[web.RouteDef]:
        """Return the paths with their handlers."""
        return [
            web.post("/v1/groups/{cluster}/{name}/elect", self._elect),
            web.post("/v1/import", self._import),
            web.post("/v1/leader/transfer", self._transfer),
            web.post("/v1/snapshot", self._snapshot),
            web.post("/v1/members", self._members),
        ]

    async def _elect(self, request: web.Request) -> web.StreamResponse:
        self._authorize(request)
        if redirect := await self._redirect(request):
            return redirect
        broker_id = _body_field(await _body(request), "brokerId", int)
        if not 0 <= broker_id <= _JAVA_LONG_MAX:
            raise HttpError(
                400, f"must be from 0 to {_JAVA_LONG_MAX}", field="brokerId", value=shown(broker_id)
            )
        cluster = _bounded("cluster", request.match_info["cluster"], NAME_BYTES_MAX)
        name = _bounded("group", request.match_info["name"], NAME_BYTES_MAX)
        return json_response(await self._controller.designate(cluster, name, broker_id))

    async def _import(self, request: web.Request) -> web.StreamResponse:
        self._authorize(request)
        if redirect := await self._redirect(request):
            return redirect
        body = await _body(request.clone(client_max_size=limits.IMPORT_BODY_BYTES_MAX))
        only_check = body.get("check", False)
        if not isinstance(only_check, bool):
            raise HttpError(400, "must be true or false", field="check", value=shown(only_check))
        groups = _body_field(body, "groups", list)
        return json_response(await self._controller.import_groups(groups, only_check=only_check))

    async def _transfer(self, request: web.Request) -> web.StreamResponse:
        self._authorize(request)
        if redirect := await self._redirect(request):
            return redirect
        to = _bounded("to", _body_field(await _body(request), "to", str), MEMBER_BYTES_MAX)
        return json_response(await self._controller.transfer(to))

    async def _snapshot(self, request: web.Request) -> web.StreamResponse:
        self._authorize(request)
        return json_response(await self._controller.make_snapshot())

    async def _members(self, request: web.Request) -> web.StreamResponse:
        self._authorize(request)
        if redirect := await self._redirect(request):
            return redirect
        body = await _body(request)
        actions = [name for name in MEMBER_ACTIONS if name in body]
        if len(actions) != 1:
            raise HttpError(400, f"exactly one of {', '.join(MEMBER_ACTIONS)} must be given", field="body")
        if actions[0] == "replace":
            meant = _body_field(body, "replace", dict)
            value = await self._controller.replace_members(_names(meant, "add"), _names(meant, "remove"))
            return await self._redirect(request) or _handed_on() if value is None else json_response(value)
        member = _bounded(actions[0], _body_field(body, actions[0], str), MEMBER_BYTES_MAX)
        value = await self._controller.change_members(actions[0], member)
        # A leader that removes itself has handed leadership over: the new leader removes it.
        return await self._redirect(request) or json_response(value)

    async def _redirect(self, request: web.Request) -> web.Response | None:
        """Send the client to the leader if another node leads.

        An election under way is waited for a moment.
        """
        deadline_s = asyncio.get_running_loop().time() + _LEADER_WITHIN_S
        while True:
            try:
                base = self._controller.leader_http_url()
                break
            except HttpError:
                if asyncio.get_running_loop().time() > deadline_s:
                    raise
            await asyncio.sleep(_POLL_S)
        if base is None:
            return None
        if self._controller.takes_plain_changes and not request.secure:
            # The client stays in plain HTTP: it may not know the authority, and the leader may lack TLS.
            base = base.replace("https://", "http://", 1)
        error = HttpError(
            307,
            "another node leads",
            field="leader",
            value=base,
            headers={"Location": base + request.path_qs},
        )
        return error.response()

    def _authorize(self, request: web.Request) -> None:
        if not (request.secure or self._controller.takes_plain_changes or _is_loopback(request.remote)):
            raise HttpError(403, "a change needs HTTPS", field="httpPlain")
        token = self._controller.http_token
        certificate = _certificate(request)
        if is_administrator(certificate, self._controller.admin_names):
            return
        if not token:
            if certificate:
                problem = "the client certificate has no name of adminCertificateNames"
                raise HttpError(403, problem, value=shown(", ".join(sorted(subject_names(certificate)))))
            if self._controller.asks_for_certificate:
                raise HttpError(401, "a client certificate is needed")
            if not _is_loopback(request.remote):
                raise HttpError(
                    403, "without an httpToken only loopback may change state", value=request.remote
                )
            return
        # Bytes of a header that are not UTF-8 are surrogates in its text.
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        # Why compare_digest: the time of a plain comparison tells how much of the token was right.
        if not hmac.compare_digest(given.removeprefix(b"Bearer "), token.encode()):
            raise HttpError(
                401, "a bearer token is needed", field="Authorization", headers={"WWW-Authenticate": "Bearer"}
            )


def _certificate(request: web.Request) -> PeerCertificate | None:
    """Return the client's certificate; one that did not verify ended the handshake."""
    return None if request.transport is None else request.transport.get_extra_info("peercert") or None


def _is_loopback(remote: str | None) -> bool:
    try:
        return remote is not None and ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        data = await request.read()
    except web.RequestPayloadError as error:
        raise HttpError(400, f"the body cannot be read: {error}", field="body") from error
    try:
        value = bounded_json.decode(data)
    except JsonError as error:
        raise HttpError(400, f"the body is not JSON: {error}", field="body") from error
    if not isinstance(value, dict):
        raise HttpError(400, "the body must be a JSON object", field="body")
    return value


def _names(meant: dict[str, Any], field: str) -> tuple[str, ...]:
    """Return one list of names of a replacement; empty without it."""
    value = meant.get(field, [])
    if (
        not isinstance(value, list)
        or len(value) > REPLACED_MAX
        or not all(isinstance(name, str) for name in value)
    ):
        raise HttpError(
            400, f"must be a list of at most {REPLACED_MAX} names", field=field, value=shown(value)
        )
    return tuple(_bounded(field, name, MEMBER_BYTES_MAX) for name in value)


def _handed_on() -> web.Response:
    """Answer that leadership went to another node and came back: nothing has changed."""
    return HttpError(503, "leadership was handed over and came back; try again").response()


def _bounded(field: str, text: str, bytes_max: int) -> str:
    """Return a text that keeps its bound; another one is refused."""
    if (problem := text_problem(text, bytes_max)) is not None:
        raise HttpError(400, problem, field=field, value=shown(text))
    return text


def _body_field(body: dict[str, Any], name: str, kind: type[T]) -> T:
    value = body.get(name)
    # Why the second test: JSON's true is an int to Python.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise HttpError(400, f"must be given as {kind.__name__}", field=name, value=shown(value))
    return value
