"""The commands that ask brokers by themselves speak TLS with those that take nothing else."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_core.tls.dialling import dial_in_tls
from controller_core.tls.serving import MemberTls
from ha_sidecar.cli import main
from testkit.fakes.surveyed_broker import SurveyedBroker
from testkit.processes.certificates import Authority
from testkit.products.store_commands import status_in_thread


@pytest.fixture(autouse=True)
def _plain_again() -> Iterator[None]:
    yield
    dial_in_tls(None)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Authority(tmp_path).member("broker")


@pytest.fixture
async def broker(directory: Path) -> AsyncIterator[SurveyedBroker]:
    one = SurveyedBroker()
    await one.start(MemberTls(directory, "enforcing").server())
    yield one
    await one.stop()


@pytest.fixture
async def plain() -> AsyncIterator[SurveyedBroker]:
    one = SurveyedBroker()
    await one.start()
    yield one
    await one.stop()


async def _run(*words: str) -> int:
    return await status_in_thread(main, *words)


async def _survey(capsys: pytest.CaptureFixture[str], broker: SurveyedBroker, *words: str) -> dict[str, str]:
    assert await _run("survey", "--output=json", f"--brokers={broker.address}", *words) == 0
    (found,) = json.loads(capsys.readouterr().out)["brokers"]
    return dict(found)


@pytest.mark.parametrize("mode", [(), ("--tls-mode=permissive",), ("--tls-mode=enforcing",)])
async def test_a_survey_asks_brokers_in_tls(
    broker: SurveyedBroker, directory: Path, mode: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await _survey(capsys, broker, f"--tls={directory}", *mode))["name"] == "orders"


async def test_brokers_in_plain_tcp_are_asked_where_it_is_allowed_alone(
    plain: SurveyedBroker, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await _survey(capsys, plain, f"--tls={directory}"))["name"] == "orders"
    assert "problem" in await _survey(capsys, plain, f"--tls={directory}", "--tls-mode=enforcing")


async def test_a_survey_tells_who_does_not_answer_it(
    broker: SurveyedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "problem" in await _survey(capsys, broker)
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").member("stranger")
    assert "problem" in await _survey(capsys, broker, f"--tls={stranger}", "--tls-mode=enforcing")


async def test_writes_are_forbidden_in_tls(broker: SurveyedBroker, directory: Path) -> None:
    asked = ("--group=orders", f"--brokers={broker.address}", f"--name-servers={broker.address}")
    assert await _run("permission", "read", *asked) == 1
    assert broker.settings["brokerPermission"] == "6"
    assert await _run("permission", "read", *asked, f"--tls={directory}", "--tls-mode=enforcing") == 0
    assert broker.settings["brokerPermission"] == "4"
    assert [name for _, name in broker.told] == ["orders"]


async def test_authorities_that_cannot_be_read_are_named(
    broker: SurveyedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await _run("survey", f"--brokers={broker.address}", "--tls-mode=never") == 2
    assert "tls-mode 'never': one of permissive, enforcing" in capsys.readouterr().err
    assert await _run("survey", f"--brokers={broker.address}", f"--tls={tmp_path / 'none'}") == 2
    assert f"tls {tmp_path / 'none' / 'ca.crt'}: cannot be used" in capsys.readouterr().err
