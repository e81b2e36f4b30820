"""An address from a peer and an address from the settings are wrong in two ways."""

import pytest

from ha_sidecar.address import AddressError, host_port, host_ports
from ha_sidecar.cli import main
from ha_sidecar.common import options
from ha_sidecar.common.options import ConfigError


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:65536", "host:-1", "host:١"])
def test_a_peers_address_that_is_not_host_and_port_is_not_an_error_of_the_settings(text: str) -> None:
    with pytest.raises(AddressError, match="is not host:port") as caught:
        host_port(text)

    assert not isinstance(caught.value, ConfigError)


def test_addresses_are_read_with_ipv6_in_brackets_and_several_by_semicolons() -> None:
    assert host_ports("[::1]:1; b:2;") == (("::1", 1), ("b", 2))


def test_a_wrong_address_in_a_setting_is_named_by_its_key() -> None:
    with pytest.raises(ConfigError, match=r"^ha-listen: 'x' is not host:port$"):
        options.address("ha_listen", "x")
    with pytest.raises(ConfigError, match=r"^name-servers: 'y' is not host:port$"):
        options.addresses("name_servers", "a:1;y")


@pytest.mark.parametrize(
    "arguments",
    [
        ["survey", "--brokers", "x"],
        ["permission", "read", "--group", "g", "--brokers", "x"],
        ["permission", "read", "--group", "g", "--brokers", "a:1", "--name-servers", "x"],
    ],
)
def test_a_wrong_address_in_a_command_of_a_migration_is_wrong_use(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "'x' is not host:port" in capsys.readouterr().err
