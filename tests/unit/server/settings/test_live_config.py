"""Requests 1009 and 1010: settings that may change at run time, refused ones, the state after a restart."""

from pathlib import Path

import pytest

from controller_core.server.settings.config import load
from controller_core.server.settings.live_config import BLACK_LIST_REMARK, LiveConfig, UpdateRefusedError
from controller_core.server.settings.properties import parse


def _live(tmp_path: Path, **given: str) -> LiveConfig:
    values = {
        "controllerDLegerGroup": "g",
        "controllerDLegerPeers": "n0-127.0.0.1:9878",
        "controllerStorePath": str(tmp_path),
        **given,
    }
    return LiveConfig(load(values)[0], values)


def test_a_live_setting_changes_at_once_and_is_listed(tmp_path: Path) -> None:
    live = _live(tmp_path)
    assert live.update("enableElectUncleanMaster=true\n") == {"enableElectUncleanMaster": "true"}
    assert live.settings.elect_unclean_master is True
    assert parse(live.listing())["enableElectUncleanMaster"] == "true"


@pytest.mark.parametrize("key", ["configBlackList", "configStorePath", "rocketmqHome"])
def test_a_black_listed_key_is_refused_with_javas_remark(tmp_path: Path, key: str) -> None:
    live = _live(tmp_path)
    with pytest.raises(UpdateRefusedError, match=BLACK_LIST_REMARK):
        live.update(f"{key}=x\nenableElectUncleanMaster=true")
    assert live.settings.elect_unclean_master is False


def test_the_black_list_of_the_start_file_counts(tmp_path: Path) -> None:
    live = _live(tmp_path, configBlackList="enableElectUncleanMaster")
    with pytest.raises(UpdateRefusedError):
        live.update("enableElectUncleanMaster=true")


@pytest.mark.parametrize("key", ["controllerDLegerPeers", "raftListenPort", "httpToken", "listenPort"])
def test_a_key_read_only_at_start_is_refused_by_name(tmp_path: Path, key: str) -> None:
    with pytest.raises(UpdateRefusedError, match=key):
        _live(tmp_path).update(f"{key}=1")


def test_unknown_keys_and_bad_values_change_nothing(tmp_path: Path) -> None:
    live = _live(tmp_path)
    before = live.listing()
    assert live.update("colour=blue\nscanInactiveMasterInterval=soon") == {}
    assert live.listing() == before


def test_a_key_without_effect_is_remembered_under_either_spelling(tmp_path: Path) -> None:
    live = _live(tmp_path)
    live.update("processReadEvent=true\nmappedFileSize=1")
    listed = parse(live.listing())
    assert (listed["isProcessReadEvent"], listed["mappedFileSize"]) == ("true", "1")


def test_changes_survive_a_restart(tmp_path: Path) -> None:
    live = _live(tmp_path)
    live.update("scanInactiveMasterInterval=4000")
    live.save()
    again = _live(tmp_path)
    again.restore()
    assert again.settings.scan_inactive_master_interval_ms == 4000


def test_a_change_is_told_apart_from_the_start_file_also_after_a_restart(tmp_path: Path) -> None:
    live = _live(tmp_path, notifyBrokerRoleChanged="false")
    assert live.changes() == {}
    live.update("enableElectUncleanMaster=true\nnodeTimeoutMs=0700\nprocessReadEvent=true\ncolour=blue")
    live.save()
    again = _live(tmp_path)
    again.restore()
    changed = {"enableElectUncleanMaster": "true", "nodeTimeoutMs": "700"}
    assert (live.changes(), again.changes()) == (changed, changed)


def _started(tmp_path: Path, value: str) -> LiveConfig:
    live = _live(tmp_path, enableElectUncleanMaster=value)
    live.restore()
    return live


def test_a_setting_that_was_changed_back_follows_the_start_file_again(tmp_path: Path) -> None:
    live = _started(tmp_path, "false")
    for value, changes in (("true", {"enableElectUncleanMaster": "true"}), ("false", {})):
        live.update(f"enableElectUncleanMaster={value}\nscanInactiveMasterInterval=4000")
        live.save()
        assert live.changes() == changes | {"scanInactiveMasterInterval": "4000"}
    assert _started(tmp_path, "false").settings.elect_unclean_master is False
    again = _started(tmp_path, "true")
    assert again.settings.elect_unclean_master is True
    assert again.settings.scan_inactive_master_interval_ms == 4000


def test_a_start_file_that_adopts_a_change_decides_from_then_on(tmp_path: Path) -> None:
    live = _started(tmp_path, "false")
    live.update("enableElectUncleanMaster=true")
    live.save()
    assert _started(tmp_path, "false").settings.elect_unclean_master is True
    assert _started(tmp_path, "true").changes() == {}
    assert _started(tmp_path, "false").settings.elect_unclean_master is False


def test_a_setting_changed_back_stays_in_a_start_file_that_keeps_the_changes(tmp_path: Path) -> None:
    path = tmp_path / "controller.conf"
    values = {
        "controllerDLegerGroup": "g",
        "controllerDLegerPeers": "n0-127.0.0.1:9878",
        "notifyBrokerRoleChanged": "false",
        "configStorePath": str(path),
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    live = LiveConfig(load(values)[0], values, path)
    for value in ("true", "false"):
        live.update(f"notifyBrokerRoleChanged={value}")
        live.save()
        assert parse(path.read_text()) == values | {"notifyBrokerRoleChanged": value}


def test_a_kept_file_that_cannot_be_written_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = _started(tmp_path, "false")
    live.update("enableElectUncleanMaster=true\nscanInactiveMasterInterval=4000")
    live.save()
    monkeypatch.setattr("os.fsync", _no_disk)
    again = _started(tmp_path, "true")
    assert again.settings.scan_inactive_master_interval_ms == 4000


def _no_disk(_: int) -> None:
    raise OSError("no space")


def test_saving_into_the_start_file_keeps_its_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "controller.conf"
    path.write_text("controllerDLegerGroup=g\n")
    live = _live(tmp_path, configStorePath=str(path))
    live.update("enableElectUncleanMaster=true")
    live.save()
    assert parse(path.read_text()) == {"controllerDLegerGroup": "g", "enableElectUncleanMaster": "true"}


def test_a_kept_file_cannot_change_the_identity(tmp_path: Path) -> None:
    live = _live(tmp_path)
    live.settings.live_config_path.parent.mkdir(parents=True)
    live.settings.live_config_path.write_text("controllerDLegerGroup=other\n")
    live.restore()
    assert live.settings.group == "g"


def test_the_listing_masks_the_token(tmp_path: Path) -> None:
    assert "s3cret" not in _live(tmp_path, httpToken="s3cret").listing()
