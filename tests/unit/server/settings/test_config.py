"""The settings of a node: a Java controller's file starts it, a bad value is one clear sentence."""

from pathlib import Path

import pytest

from controller_core.server.settings.config import (
    InvalidSettingError,
    Settings,
    key_infos,
    load,
)
from controller_core.server.settings.keys import reference_lines
from controller_core.server.settings.peer_list import PeerListError, format_peers, parse_peers

PEERS = "n0-127.0.0.1:9878;n1-127.0.0.1:9888;n2-127.0.0.1:9898"
REQUIRED = {"controllerDLegerGroup": "g", "controllerDLegerPeers": PEERS}


def _load(**changes: str) -> Settings:
    return load(REQUIRED | changes)[0]


def test_a_file_for_the_java_controller_loads_without_a_warning() -> None:
    java_file = {
        **REQUIRED,
        "controllerDLegerSelfId": "n1",
        "controllerStorePath": "/tmp/rmqstore/DLedger",  # noqa: S108 - only parsed
        "enableElectUncleanMaster": "true",
        "notifyBrokerRoleChanged": "false",
        "scanNotActiveBrokerInterval": "2000",
        "mappedFileSize": "1024",
        "controllerType": "DLedger",
        "metricsExporterType": "DISABLE",
        "jRaftElectionTimeoutMs": "1000",
        "serverWorkerThreads": "4",
    }
    settings, warnings = load(java_file)
    assert warnings == ()
    assert settings.elect_unclean_master is True
    assert settings.notify_role_changed is False
    assert settings.self_peer.port == 9888


def test_an_unknown_key_is_a_warning_not_a_refusal() -> None:
    _settings, warnings = load(REQUIRED | {"colour": "blue"})
    assert len(warnings) == 1
    assert "'colour'" in warnings[0]


def test_a_listen_port_that_disagrees_with_the_peers_is_told() -> None:
    _settings, warnings = load(REQUIRED | {"listenPort": "1"})
    assert "9878" in warnings[0]
    assert load(REQUIRED | {"listenPort": "9878"})[1] == ()


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("enableElectUncleanMaster", "yes", "true or false"),
        ("snapshotEntries", "many", "whole number"),
        ("snapshotEntries", "9", "from 10"),
        ("snapshotEntries", "1_000", "whole number"),
        ("raftListenPort", "65536", "to 65535"),
        ("raftElectionTimeoutMs", "209", "3 \\* raftHeartbeatIntervalMs"),
        ("controllerDLegerSelfId", "n7", "not one of the peers"),
        ("controllerDLegerPeers", "n0-127.0.0.1", "nK-host:port"),
        ("logLevel", "loud", "debug, info"),
    ],
)
def test_a_bad_value_names_key_and_value(key: str, value: str, hint: str) -> None:
    with pytest.raises(InvalidSettingError, match=hint) as caught:
        load(REQUIRED | {key: value})
    assert caught.value.key == key
    assert f"{key}={value!r}" in str(caught.value)


@pytest.mark.parametrize("key", ["controllerDLegerGroup", "controllerDLegerPeers"])
def test_a_missing_required_key_is_named(key: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"{key}: is required"):
        load({name: value for name, value in REQUIRED.items() if name != key})


def test_ports_lie_beside_the_remoting_port_unless_told() -> None:
    settings = _load()
    assert [settings.raft_port(peer) for peer in settings.peers] == [9879, 9889, 9899]
    assert [settings.http_port(peer) for peer in settings.peers] == [9880, 9890, 9900]


def test_a_told_port_keeps_its_distance_for_every_peer() -> None:
    settings = _load(raftListenPort="7000", controllerDLegerSelfId="n1")
    assert [settings.raft_port(peer) for peer in settings.peers] == [6990, 7000, 7010]


def test_nodes_of_one_machine_never_share_a_store(tmp_path: Path) -> None:
    stores = {
        _load(controllerStorePath=str(tmp_path), controllerDLegerSelfId=name).store_directory
        for name in ("n0", "n1", "n2")
    }
    assert len(stores) == 3


def test_every_setting_is_explained() -> None:
    text = "\n".join(reference_lines(key_infos().values()))
    for info in key_infos().values():
        assert info.key in text
        assert len(info.meaning) > 20


def test_peers_keep_their_raft_id_in_any_order() -> None:
    peers = parse_peers("n2-c:3;n0-a:1")
    assert [(peer.raft_id, peer.address) for peer in peers] == [(3, "c:3"), (1, "a:1")]
    assert format_peers(peers) == "n2:c:3;n0:a:1;"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "n0-a",
        "n0-a:0",
        "n0-a:65536",
        "0-a:1",
        "n01-a:1",
        "n0-:1",
        "n0-a:x",
        "n0-a:1;n0-b:1",
        "n0-a:1;n1-a:1",
    ],
)
def test_a_malformed_list_of_peers_is_refused(text: str) -> None:
    with pytest.raises(PeerListError):
        parse_peers(text)


def test_ipv6_and_names_with_dashes_are_hosts() -> None:
    peers = parse_peers("n0-rmq-controller-0.ns.svc:9878;n1-[::1]:9878")
    assert [peer.host for peer in peers] == ["rmq-controller-0.ns.svc", "[::1]"]
