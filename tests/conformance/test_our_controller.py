"""Our controller, as a real process, answers the recorded conversation as RocketMQ's own did."""

import pytest

from testkit.conformance import __main__ as conformance

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


def test_ours_answers_as_the_recording_of_java_does(capsys: pytest.CaptureFixture[str]) -> None:
    status = conformance.main([])
    printed = capsys.readouterr()
    assert status == 0, printed.out[printed.out.find("\ncompared with") :] + printed.err


@pytest.mark.parametrize("version", ["5.2.0", "5.5.0"])
def test_ours_answers_as_a_java_controller_does_now(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = conformance.main(["--live", version])
    printed = capsys.readouterr()
    assert f"compared with the controller of RocketMQ {version}, started for this" in printed.out
    assert status == 0, printed.out[printed.out.find("\ncompared with") :] + printed.err
