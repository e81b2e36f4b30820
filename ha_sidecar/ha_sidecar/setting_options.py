"""The options of a command that has settings: one for each attribute of the settings' dataclass.

Help texts come from the dataclass, and what a value looks like from the attribute's type. Values stay texts:
`from_texts` of the settings parses those of the command line and of a file alike.
"""

import argparse
from pathlib import Path
from typing import Final, get_args, get_type_hints

from controller_core.command_line.attribute_help import attribute_help
from controller_core.command_line.values import HOSTS, SEMICOLONS
from controller_core.tls.files import TLS_MODES
from ha_sidecar.address import HostPort
from ha_sidecar.replica.config import ACK_AFTER, CONTROLLER_KINDS, ON_DIVERGENCE

_BY_TYPE: Final[dict[object, str]] = {
    HostPort: "HOST:PORT",
    tuple[HostPort, ...]: HOSTS,
    Path: "DIR",
    bool: "true|false",
    int: "N",
}
_BY_SUFFIX: Final = {"_ms": "MS", "_s": "S", "_hours": "HOURS", "_percent": "PERCENT", "_bytes": "BYTES"}
"""Numbers whose unit is the end of their name."""
_BY_KEY: Final = {
    "cluster": "NAME",
    "group": "NAME",
    "advertise": "HOST:PORT",
    "broker_id": "ID",
    "broker_conf": "FILE",
    "credentials": "DIR",
    "tls_mode": "|".join(TLS_MODES),
    "hold_port": "PORT",
    "guest_port": "PORT",
    "lease_port": "PORT",
    "token_file": "FILE",
    "ha_ports": "PORT[,...]",
    "fence_stop_command": "COMMAND",
    "ack_after": "|".join(ACK_AFTER),
    "controller_kind": "|".join(CONTROLLER_KINDS),
    "on_divergence": "|".join(ON_DIVERGENCE),
}


def setting_keys(settings: type) -> tuple[str, ...]:
    """Return the keys of a dataclass of settings, as files and options have them."""
    return tuple(get_type_hints(settings))


def add_settings(parser: argparse.ArgumentParser, settings: type) -> tuple[str, ...]:
    """Declare `-c, --config` and one option for each setting; return the settings' keys."""
    parser.add_argument(
        "-c", "--config", dest="config_file", type=Path, metavar="FILE", help="file with the same keys"
    )
    texts = attribute_help(settings)
    hints = get_type_hints(settings)
    for key, hint in hints.items():
        metavar = _metavar(key, hint)
        text = f"{texts[key].rstrip('.')}; {SEMICOLONS}" if metavar == HOSTS else texts[key]
        parser.add_argument(f"--{key.replace('_', '-')}", dest=key, metavar=metavar, help=text)
    return setting_keys(settings)


def _metavar(key: str, hint: object) -> str:
    if key in _BY_KEY:
        return _BY_KEY[key]
    for suffix, unit in _BY_SUFFIX.items():
        if key.endswith(suffix):
            return unit
    optional = [one for one in get_args(hint) if one is not type(None)]
    return _BY_TYPE.get(hint) or (_BY_TYPE.get(optional[0]) if optional else None) or key.upper()
