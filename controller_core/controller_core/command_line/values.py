"""Values of options that all programs read alike: durations, lists, addresses to listen at.

Each function is an argparse type. A list option takes `action="extend"`: values are separated by commas, and
the option may also be repeated.

Never here: what a value is for.
"""

import argparse
import re
from typing import Final

from controller_core.remoting.host_port import HostPort, split_host_port

DURATION: Final = "DURATION"
HOSTS: Final = "HOST:PORT[,...]"
NAMES: Final = "NAME[,...]"
SEMICOLONS: Final = "RocketMQ's own ';' between them works too"
"""The end of the help of an option whose type is `hosts`."""

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


def duration(text: str) -> float:
    """Return the seconds of `500ms`, `5s`, `2m`, `1h` or `1d`.

    Raises:
        argparse.ArgumentTypeError: it is something else; argparse adds the option's name.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"invalid duration {text!r} (expected a number with a unit, such as 500ms, 5s or 2m)"
        )
    return float(match[1]) * _UNITS_S[match[2]]


def positive_duration(text: str) -> float:
    """Return the seconds of a duration above 0.

    Raises:
        argparse.ArgumentTypeError: it is 0, or not a duration.
    """
    seconds = duration(text)
    if seconds == 0:
        raise argparse.ArgumentTypeError(f"invalid duration {text!r} (expected more than 0)")
    return seconds


def names(text: str) -> list[str]:
    """Return the values between commas, without white space around them.

    Raises:
        argparse.ArgumentTypeError: the list is empty.
    """
    return _some(text, [one.strip() for one in text.split(",")])


def hosts(text: str) -> list[str]:
    """Return addresses that are separated by commas, or by semicolons as RocketMQ does.

    Raises:
        argparse.ArgumentTypeError: the list is empty.
    """
    return _some(text, [one.strip() for one in text.replace(";", ",").split(",")])


def listen_address(text: str) -> HostPort:
    """Return host and port of `host:port`; the host of `:port` is every interface.

    Raises:
        argparse.ArgumentTypeError: it is something else.
    """
    if (found := split_host_port(text)) is None:
        raise argparse.ArgumentTypeError(f"invalid address {text!r} (expected host:port)")
    host, port = found
    return host or "0.0.0.0", port  # noqa: S104 - asked for


def _some(text: str, found: list[str]) -> list[str]:
    values = [one for one in found if one]
    if not values:
        raise argparse.ArgumentTypeError(f"invalid list {text!r} (expected values separated by commas)")
    return values
