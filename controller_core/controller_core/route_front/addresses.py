"""The addresses of one listener: at which address outside the cluster a broker's address inside is served.

A file holds them as one JSON object, `{"10.96.0.7:10911": "mq.example:30911"}`. Keys are the addresses that
brokers announce to name servers, values those that clients of the listener use.

Never here: reading the file. See `address_file`.
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from controller_core import bounded_json
from controller_core.remoting.errors import shown
from controller_core.remoting.host_port import join_host_port, split_host_port
from controller_core.remoting.text_bounds import ADDRESS_BYTES_MAX, text_problem

ADDRESSES_MAX: Final = 10_000
"""Brokers of one listener."""
FILE_BYTES_MAX: Final = ADDRESSES_MAX * 2 * (ADDRESS_BYTES_MAX + 8)


class AddressesError(ValueError):
    """A text does not hold the addresses of a listener; the error says which part is wrong."""


class ListenerAddresses:
    """Outside addresses by inside address; immutable."""

    def __init__(self, outside: Mapping[str, str]) -> None:
        """Take `host:port` outside by `host:port` inside."""
        self._outside: Final = dict(outside)

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read the content of an address file.

        Raises:
            AddressesError: it is too long, not an object of texts, or holds one that is not `host:port`.
        """
        if len(text) > FILE_BYTES_MAX:
            raise AddressesError(f"has {len(text)} bytes, at most {FILE_BYTES_MAX} are allowed")
        try:
            outside = msgspec.convert(bounded_json.decode(text), dict[str, str])
        except ValueError as error:
            raise AddressesError(f"is not a JSON object of texts: {error}") from error
        if len(outside) > ADDRESSES_MAX:
            raise AddressesError(f"has {len(outside)} addresses, at most {ADDRESSES_MAX} are allowed")
        for inside, address in outside.items():
            _check(inside)
            _check(address)
        return cls(outside)

    def __len__(self) -> int:
        return len(self._outside)

    def outside(self, inside: str) -> str | None:
        """Return where clients of the listener reach a broker; None if the listener lacks its address."""
        return self._outside.get(inside)


def _check(text: str) -> None:
    """Raise `AddressesError` unless a text is `host:port`; an IPv6 host stands in brackets."""
    found = split_host_port(text)
    # Clients split the addresses of a route by colons: an IPv6 address without brackets is none for all.
    if (
        found is None
        or not all(found)
        or text != join_host_port(*found)
        or text_problem(text, ADDRESS_BYTES_MAX) is not None
    ):
        raise AddressesError(f"invalid address {shown(text)} (expected host:port)")
