"""All programs behave alike: --help, --version, errors as `program: message`, exit status 0, 1 and 2."""

import re
from pathlib import Path

import pytest

from testkit.products.command_lines import MAINS, commands

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("program", MAINS)
def test_the_version_comes_with_the_commit(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        MAINS[program](["--version"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(
        rf"{program} \d+\.\d+\.\d+ \(commit ([0-9a-f]{{40}}(-dirty)?|unknown)\)\n", printed
    ), printed


@pytest.mark.parametrize(("program", "command"), commands())
def test_help_ends_with_0(program: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        MAINS[program]([*command.split(), "--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {program} {command}".rstrip())


@pytest.mark.parametrize(("program", "command"), commands())
def test_an_unknown_option_ends_with_2_and_one_line(
    program: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAINS[program]([*command.split(), "--no-such-option"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith(f"{program}: ")
    assert f"(see {program}" in printed.err


@pytest.mark.parametrize("program", MAINS)
def test_a_command_is_needed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAINS[program]([]) == 2
    assert capsys.readouterr().err.startswith(f"{program}: the following arguments are required: COMMAND")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("controller-core", ["status", "--server", NOWHERE, "--outp", "json"]),
        ("kubectl rmqha", ["status", "--outp", "json"]),
    ],
)
def test_an_option_is_not_abbreviated(
    program: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAINS[program](words) == 2
    assert "--outp" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("controller-core", ["groups", "--server", NOWHERE]),
        ("ha-sidecar", ["verify", "{tmp}/none"]),
        ("rocketmq-operator", ["crds", "--directory", "{tmp}/file/crds"]),
        ("slo-pipeline", ["import", "openmetrics", "{tmp}/damaged/", "--into", "{tmp}/file/segments"]),
        ("kubectl rmqha", ["status", "--kubeconfig", "{tmp}/none"]),
    ],
)
def test_a_command_that_fails_ends_with_1_and_one_line(
    program: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert MAINS[program]([word.format(tmp=tmp_path) for word in words]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith(f"{program}: ")
