"""Settings of every command: read from a file or the command line, parsed and checked in one place.

A file is UTF-8, with one `key = value` per line. A line that begins with `#` is a comment. A value is the
text after the first `=` without the white space around it: there are no escapes, and a backslash is a
backslash. So this is not a properties file as Java reads it. Its keys are those of the command line, with
dashes or underscores (`mapped-file-bytes` or `mapped_file_bytes`). The command line wins.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from controller_core.access.request_signer import RequestSigner
from controller_core.remoting.numbers import whole_number
from ha_sidecar.address import AddressError, HostPort, host_port, host_ports

_Parsed = TypeVar("_Parsed")
_Settings = TypeVar("_Settings")


class ConfigError(ValueError):
    """A setting is missing, unknown or out of range; the text names it."""


def read_file(path: Path, keys: Collection[str]) -> dict[str, str]:
    """Return the file's keys (with underscores) and values; `keys` are those that exist.

    Raises:
        ConfigError: a line without '=', a key that does not exist, or bytes that are not UTF-8.
    """
    found: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: invalid byte at offset {error.start} (expected UTF-8)") from error
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, separator, value = text.partition("=")
        name = key.strip().replace("-", "_")
        if not separator or name not in keys:
            raise ConfigError(f"{path}:{number}: {text!r} is not a setting")
        found[name] = value.strip()
    return found


def address(key: str, text: str) -> HostPort:
    """Read `host:port` of a setting; raise `ConfigError` if it is anything else."""
    return _parsed(key, text, host_port)


def addresses(key: str, text: str) -> tuple[HostPort, ...]:
    """Read addresses between commas or semicolons; raise `ConfigError` if one is not `host:port`."""
    return _parsed(key, text, host_ports)


def _parsed(key: str, text: str, parse: Callable[[str], _Parsed]) -> _Parsed:
    try:
        return parse(text)
    except AddressError as error:
        raise ConfigError(f"{key.replace('_', '-')}: {error}") from error


def number(key: str, text: str) -> int:
    """Read a whole number from 0."""
    read = whole_number(text)
    if read is None:
        raise ConfigError(f"{key.replace('_', '-')} {text!r} is not a number")
    return read


def signer(text: str) -> RequestSigner | None:
    """Return what signs requests with the credentials in a directory; None for an empty text."""
    return RequestSigner(Path(text)) if text else None


def _require_keys(texts: Mapping[str, str], required: Collection[str]) -> None:
    """Raise `ConfigError` naming the keys without a value."""
    missing = [key.replace("_", "-") for key in required if not texts.get(key)]
    require(not missing, f"missing: {', '.join(missing)}")


def build_settings(
    settings: Callable[..., _Settings],
    texts: Mapping[str, str],
    required: Collection[str],
    parse: Callable[[str, str], Any],
) -> _Settings:
    """Build settings from their texts; keys have underscores.

    Args:
        settings: their dataclass.
        texts: of the given settings, by key.
        required: keys that must have a value.
        parse: returns the value of a key from its text.

    Raises:
        ConfigError: names the missing or wrong setting.
    """
    _require_keys(texts, required)
    return settings(**{key: parse(key, text) for key, text in texts.items()})


def require(condition: bool, problem: str) -> None:
    """Raise `ConfigError` unless the condition holds."""
    if not condition:
        raise ConfigError(problem)
