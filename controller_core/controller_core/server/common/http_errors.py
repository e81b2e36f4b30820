"""Errors of the HTTP interface: always JSON `{error, field, value}`, whatever went wrong.

`error` is a sentence, `field` the wrong part of the request (null if the error is not about one), `value` its
content.
"""

import json
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpError(Exception):
    """A request that cannot be served; becomes the response."""

    def __init__(
        self,
        status: int,
        error: str,
        *,
        field: str | None = None,
        value: object = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.field = field
        self.value = value
        self.headers = headers

    def response(self) -> web.Response:
        """Return the response that says it."""
        return json_response(
            {"error": self.error, "field": self.field, "value": self.value}, self.status, self.headers
        )


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a JSON response, with a line end so that a terminal shows it whole."""
    return web.Response(
        text=json.dumps(value, default=str) + "\n",
        status=status,
        content_type="application/json",
        headers=headers,
    )


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error, ours and aiohttp's, into the one JSON form."""
    try:
        return await handler(request)
    except HttpError as error:
        return error.response()
    except web.HTTPMethodNotAllowed as error:
        allow = {"Allow": ", ".join(sorted(error.allowed_methods))}
        return HttpError(
            405, "method not allowed", field="method", value=request.method, headers=allow
        ).response()
    except web.HTTPNotFound:
        return HttpError(404, "no such path", field="path", value=request.path).response()
    except web.HTTPException as error:
        return HttpError(error.status, error.reason).response()
    except Exception:
        _log.exception("an HTTP request failed")
        return HttpError(500, "internal error; see the node's log").response()
