"""One reader of `host:port` for all programs: brackets are taken off, anything else is no address."""

import pytest

from controller_core.remoting.host_port import split_host_port


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.example:9876", ("a.example", 9876)),
        ("[::1]:80", ("::1", 80)),
        (":80", ("", 80)),
        ("a:0", ("a", 0)),
        ("a:65535", ("a", 65_535)),
        ("a:65536", None),
        ("a:-1", None),
        ("a:\u0661", None),
        ("a:", None),
        ("80", None),
        ("", None),
    ],
)
def test_host_and_port_are_read_or_the_text_is_no_address(text: str, found: tuple[str, int] | None) -> None:
    assert split_host_port(text) == found
