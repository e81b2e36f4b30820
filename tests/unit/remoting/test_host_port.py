"""One reader and one writer of `host:port` for all programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.remoting.host_port import (
    PORT_MAX,
    bracketed,
    host_of,
    join_host_port,
    read_host_port,
    split_host_port,
)

PORTS = st.integers(0, PORT_MAX)
V6 = st.ip_addresses(v=6).map(str)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z][a-z0-9]{0,9}){0,3}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.example:9876", ("a.example", 9876)),
        ("[::1]:80", ("::1", 80)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
        (":80", ("", 80)),
        ("a:0", ("a", 0)),
        ("a:65535", ("a", 65_535)),
        ("a:65536", None),
        ("a:" + "9" * 5_000, None),
        ("a:-1", None),
        ("a:\u0661", None),
        ("a:", None),
        ("80", None),
        ("", None),
        # What stands in brackets is an IPv6 address, and brackets come in pairs.
        ("[a.example]:80", None),
        ("[10.0.0.1]:80", None),
        ("[]:80", None),
        ("[[::1]]:80", None),
        ("[::1:80", None),
        ("::1]:80", None),
        ("[::1]", None),
        ("[::1]80", None),
        # Several colons without brackets: an IPv6 address and a port, as in Java, or no address.
        ("fd00::1:10911", ("fd00::1", 10_911)),
        ("fd00::1", None),
        ("a:b:80", None),
        ("host:1:80", None),
        ("http://a:80", None),
    ],
)
def test_host_and_port_are_read_or_the_text_is_no_address(text: str, found: tuple[str, int] | None) -> None:
    assert split_host_port(text) == found


@given(host=NAMES | V6 | st.ip_addresses(v=4).map(str), port=PORTS)
def test_what_was_joined_is_read_again(host: str, port: int) -> None:
    text = join_host_port(host, port)
    assert split_host_port(text) == read_host_port(text) == (host, port)
    assert host_of(text) == host
    assert join_host_port(bracketed(host), port) == text


@given(host=V6, port=PORTS)
def test_an_address_of_ipv6_is_joined_in_brackets_and_read_without_them_too(host: str, port: int) -> None:
    assert join_host_port(host, port) == f"[{host}]:{port}"
    assert split_host_port(f"{host}:{port}") == (host, port)


@given(text=st.text(alphabet="[]:.%1afx", max_size=20) | st.text())
def test_every_text_is_an_address_or_none_and_reading_is_stable(text: str) -> None:
    found = split_host_port(text)
    if found is not None:
        assert 0 <= found[1] <= PORT_MAX
        assert split_host_port(join_host_port(*found)) == found


def test_an_address_to_dial_has_a_host() -> None:
    with pytest.raises(ValueError, match=r"invalid address ':80' \(expected host:port\)"):
        read_host_port(":80")
    assert host_of("nothing") == ""
