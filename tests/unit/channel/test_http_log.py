"""The log of HTTP servers keeps the errors of the server and drops those of clients."""

import pytest
from aiohttp.http_exceptions import BadHttpMessage, ContentEncodingError, LineTooLong
from aiohttp.web import RequestPayloadError

from controller_core.channel.http_port import server_log


@pytest.mark.parametrize(
    "fault",
    [BadHttpMessage("x"), ContentEncodingError("x"), LineTooLong("x", "8190"), RequestPayloadError("x")],
)
def test_a_fault_of_a_client_is_dropped(caplog: pytest.LogCaptureFixture, fault: Exception) -> None:
    server_log().error("Error handling request", exc_info=fault)
    assert not caplog.records


@pytest.mark.parametrize("error", [ValueError("x"), OSError("x"), None])
def test_an_error_of_the_server_is_kept(caplog: pytest.LogCaptureFixture, error: Exception | None) -> None:
    server_log().error("Error handling request", exc_info=error)
    assert len(caplog.records) == 1
