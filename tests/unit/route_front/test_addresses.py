"""The file with a listener's addresses: its form, its bounds, and its changes while the process runs."""

import json
from pathlib import Path

import pytest

from controller_core.route_front import addresses
from controller_core.route_front.address_file import AddressFile
from controller_core.route_front.addresses import AddressesError, ListenerAddresses

INSIDE, OUTSIDE = "10.96.0.7:10911", "mq.example:30911"


def test_an_address_inside_has_one_outside() -> None:
    parsed = ListenerAddresses.parse(
        json.dumps({INSIDE: OUTSIDE, "[fd00::7]:10911": "[2001:db8::1]:31"}).encode()
    )
    assert parsed.outside(INSIDE) == OUTSIDE
    assert parsed.outside("[fd00::7]:10911") == "[2001:db8::1]:31"
    assert parsed.outside("10.96.0.8:10911") is None
    assert len(parsed) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "is not a JSON object of texts"),
        (b"[]", "is not a JSON object of texts"),
        (b'{"a:1": 5}', "is not a JSON object of texts"),
        (b'{"a:1": "b"}', "invalid address 'b' (expected host:port)"),
        (b'{"a": "b:1"}', "invalid address 'a' (expected host:port)"),
        (b'{"a:1": "b:0"}', "invalid address 'b:0'"),
        (b'{"a:1": "b:65536"}', "invalid address 'b:65536'"),
        (b'{"a:1": "fd00::1:10911"}', "invalid address 'fd00::1:10911'"),
        (b'{"a:1": "b\\n:1"}', "invalid address"),
        (b'{"a:1": "' + b"b" * 300 + b':1"}', "invalid address"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_wrong_part(text: bytes, problem: str) -> None:
    with pytest.raises(AddressesError) as error:
        ListenerAddresses.parse(text)
    assert problem in str(error.value)


def test_a_file_has_a_bounded_number_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "ADDRESSES_MAX", 2)
    text = json.dumps({f"10.0.0.{number}:1": OUTSIDE for number in range(3)}).encode()
    with pytest.raises(AddressesError, match="has 3 addresses, at most 2"):
        ListenerAddresses.parse(text)


async def test_a_changed_file_is_taken_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    path.write_text(json.dumps({INSIDE: OUTSIDE}))
    file = AddressFile(path)
    path.write_text(json.dumps({INSIDE: "mq.example:30912"}))
    await file.refresh()
    assert (file.addresses.outside(INSIDE), file.problem) == ("mq.example:30912", "")
    path.write_text('{"a:1": "b"}')
    await file.refresh()
    assert file.addresses.outside(INSIDE) == "mq.example:30912"
    assert file.problem == f"{path} invalid address 'b' (expected host:port)"
    path.unlink()
    await file.refresh()
    assert file.addresses.outside(INSIDE) == "mq.example:30912"
    assert "No such file" in file.problem
    path.write_text(json.dumps({}))
    await file.refresh()
    assert (len(file.addresses), file.problem) == (0, "")


def test_a_file_that_is_wrong_at_the_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    path.write_text("{")
    with pytest.raises(AddressesError, match=r"addresses\.json is not a JSON object"):
        AddressFile(path)
