"""Which settings a broker gets while it runs, and which wait for its restart."""

import re

import pytest

from controller_core.broker_settings import LIVE_SETTINGS
from ha_sidecar.live_settings.comparison import difference
from testkit.tree.files import ROOT

DEFAULTS = dict(LIVE_SETTINGS)


def test_a_changed_setting_that_is_read_at_run_time_is_an_update() -> None:
    wanted = {"fileReservedTime": "48", "listenPort": "10911"}
    found = difference({"listenPort": "10911"}, wanted, DEFAULTS, ["fileReservedTime"])
    assert (dict(found.updates), found.waiting) == ({"fileReservedTime": "48"}, ())


def test_a_setting_that_left_the_file_goes_back_to_the_default() -> None:
    running = DEFAULTS | {"fileReservedTime": "48"}
    assert dict(difference({}, {}, running, ["fileReservedTime"]).updates) == {"fileReservedTime": "72"}


def test_a_setting_that_never_was_in_the_file_stays_as_a_person_set_it() -> None:
    running = DEFAULTS | {"fileReservedTime": "48"}
    assert dict(difference({}, {}, running, []).updates) == {}


def test_a_setting_that_the_version_does_not_have_is_not_sent() -> None:
    wanted = {"deleteFileBatchMax": "20"}
    assert dict(difference({}, wanted, {}, ["deleteFileBatchMax"]).updates) == {}


@pytest.mark.parametrize(
    ("wanted", "running"), [("048", "48"), ("TRUE", "true"), (" true", "true"), ("04;16", "04;16")]
)
def test_values_are_compared_as_java_reads_them(wanted: str, running: str) -> None:
    found = difference({}, {"deleteWhen": wanted}, {"deleteWhen": running}, ["deleteWhen"])
    assert dict(found.updates) == {}


def test_settings_that_are_read_at_the_start_wait_whether_new_changed_or_gone() -> None:
    started = {"sendMessageThreadPoolNums": "4", "maxMessageSize": "1", "listenPort": "1"}
    wanted = {"sendMessageThreadPoolNums": "6", "haHousekeepingInterval": "9", "listenPort": "1"}
    found = difference(started, wanted, wanted | started, [])
    assert found.waiting == ("haHousekeepingInterval", "maxMessageSize", "sendMessageThreadPoolNums")


def test_the_page_about_changes_names_each_setting_once() -> None:
    page = (ROOT / "docs/operations/changing.md").read_text()
    section = page.split("## Settings without a restart")[1].split("If only such keys")[0]
    assert sorted(re.findall(r"`(\w+)`", section)) == sorted([*LIVE_SETTINGS, "config"])
