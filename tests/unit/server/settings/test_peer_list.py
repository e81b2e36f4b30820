"""The controllers' list and the file it stands in: parts parsed as Java does, and parts refused by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.server.settings.config import InvalidSettingError, load
from controller_core.server.settings.java_stores import java_store
from controller_core.server.settings.live_config import read_file
from controller_core.server.settings.peer_list import PeerListError, parse_peers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n0-127.0.0.1:9878,n1-127.0.0.1:9868,n2-127.0.0.1:9858", "';' between entries"),
        ("n0-a:1 n1-b:2", "';' between entries"),
        ("n0-a:1;;n1-b:2", "entry 2 of 3 is empty"),
        (";n0-a:1", "entry 1 of 2 is empty"),
        ("n0-a:1;;", "entry 2 of 2 is empty"),
        (" ; ", "is empty"),
        ("", "is empty"),
        ("n0-a b:1", "the host 'a b'"),
        ("n0-a/b:1", "the host 'a/b'"),
        ("n0-http://a:1", "the host 'http://a'"),
        ("n0-::1:9878", "an IPv6 address in \\[\\]"),
        ("n0-[::1:9878", "an IPv6 address in \\[\\]"),
        ("n0-[host]:9878", "an IPv6 address in \\[\\]"),
        ("n0-" + "a" * 254 + ":1", "the host"),
        ("n0--a:1", "the host '-a'"),
        ("n0-a:0", "the port '0', expected 1 to 65535"),
        ("n0-a:65536", "the port '65536'"),
        ("n0-a:-1", "the port '-1'"),
        ("n0-a:000080", "the port '000080'"),
        ("n0-a:1_0", "the port '1_0'"),
        ("n0-a: 1", "the port ' 1'"),
        ("n0-a:" + "9" * 5000, "the port"),
        ("0-a:1", "the node id '0', expected n and a number"),
        ("node-a:1", "the node id 'node'"),
        ("n 0-a:1", "the node id 'n 0'"),
        ("n0-a:1;n0-b:1", "names the node 'n0' twice"),
        ("n0-a:1;n1-A:1", "names the address 'a:1' twice"),
        ("n0-[::1]:1;n1-[0:0::1]:1", "names the address '\\[::1\\]:1' twice"),
        (";".join(f"n{number}-a:{number + 1}" for number in range(10)), "10 entries, expected 1 to 9"),
    ],
)
def test_a_list_that_is_not_one_is_refused_with_the_part_named(text: str, said: str) -> None:
    with pytest.raises(PeerListError, match=said):
        parse_peers(text)
    with pytest.raises(InvalidSettingError, match="controllerDLegerPeers"):
        load({"controllerDLegerGroup": "g", "controllerDLegerPeers": text})


def test_white_space_around_entries_and_a_last_separator_are_taken() -> None:
    peers = parse_peers(" n0-a-b.c_d:1 ; n1-[::1]:2;\n")
    assert [(peer.address, peer.dial_host) for peer in peers] == [
        ("a-b.c_d:1", "a-b.c_d"),
        ("[::1]:2", "::1"),
    ]


@given(st.text(alphabet="n0129-:;,.[]a \\/", max_size=40) | st.text(max_size=30))
def test_any_text_is_a_list_of_hosts_and_ports_or_refused(text: str) -> None:
    try:
        peers = parse_peers(text)
    except PeerListError:
        return
    assert not any(mark in peer.dial_host for peer in peers for mark in ",; []/\\")
    assert all(0 < peer.port <= 65_535 for peer in peers)
    again = ";".join(f"{peer.name}-{peer.address}" for peer in peers)
    assert parse_peers(again) == peers


def test_a_node_that_is_not_in_the_list_is_told_so() -> None:
    given = {"controllerDLegerGroup": "g", "controllerDLegerPeers": "n0-a:1", "controllerDLegerSelfId": "n1"}
    with pytest.raises(InvalidSettingError, match="controllerDLegerSelfId='n1': is not one of the peers"):
        load(given)


@pytest.mark.parametrize("host", ["a", "[::1]"])
def test_a_node_listens_on_every_interface_unless_told_otherwise(host: str) -> None:
    given = {"controllerDLegerGroup": "g", "controllerDLegerPeers": f"n0-{host}:9878"}
    assert load(given)[0].listen_host == "0.0.0.0"  # noqa: S104
    assert load({**given, "bindAddress": "[::1]"})[0].listen_host == "::1"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_is_read_as_java_reads_it(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "controller.conf"
    path.write_bytes(mark + b"controllerDLegerGroup=g\r\n# na\xefve \x85 comment\rnamespace=\xe4\x85\x1c\n")
    assert read_file(path) == {"controllerDLegerGroup": "g", "namespace": "\xe4\x85\x1c"}


@given(st.binary(max_size=60))
def test_no_byte_of_a_file_is_more_than_one_clear_error(data: bytes) -> None:
    from controller_core.server.settings.properties import PropertiesError, parse_file

    try:
        values = parse_file(data)
    except PropertiesError as error:
        assert "line" in str(error)  # noqa: PT017 - most examples raise nothing
    else:
        assert all(isinstance(value, str) for value in values.values())


def test_keys_of_the_name_server_in_a_shared_file_are_known() -> None:
    shared = {
        "controllerDLegerGroup": "g",
        "controllerDLegerPeers": "n0-a:9878",
        "listenPort": "9878",
        "rocketmqHome": "/opt",
        "kvConfigPath": "/kv",
        "productEnvName": "center",
        "clusterTest": "false",
        "orderMessageEnable": "false",
        "enableControllerInNamesrv": "true",
        "supportActingMaster": "true",
        "clientWorkerThreads": "4",
    }
    assert load(shared)[1] == ()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("log", "raft_meta", "snapshot"), "jRaft controller (log, raft_meta, snapshot)"),
        (("dledger-n0",), "DLedger controller (dledger-n0)"),
        (("raft-n0",), None),
        ((), None),
    ],
)
def test_the_store_of_rocketmqs_own_controller_is_named(
    tmp_path: Path, names: tuple[str, ...], said: str | None
) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    found = java_store(tmp_path)
    assert found == said if said is None else said in str(found)
    assert java_store(tmp_path / "missing") is None
