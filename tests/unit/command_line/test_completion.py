"""Completion: bash itself completes commands and options from the printed script; kubectl asks a program."""

import importlib
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from rocketmq_operator.plugin import completion
from testkit.products.command_lines import MAINS

FILES = {name: name.replace(" ", "-") for name in MAINS}
"""The file that a shell completes, by program."""


def _completed(script: Path, words: list[str]) -> set[str]:
    """Return what bash offers for the last of the words after it read the script."""
    listed = " ".join(f"'{word}'" for word in words)
    commands = f"""
        source '{script}'
        COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; COMPREPLY=()
        function=$(complete -p '{words[0]}'); function=${{function#*-F }}; function=${{function%% *}}
        $function '{words[0]}' '{words[-1]}' '{words[-2]}'
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True)
    return {line.strip() for line in done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("program", "begun", "wanted"),
    [
        ("controller-core", ["fail"], {"failovers"}),
        ("controller-core", ["groups", "--ser"], {"--server"}),
        ("controller-core", ["groups", "--output", "y"], {"yaml"}),
        ("ha-sidecar", ["trunc"], {"truncate"}),
        ("ha-sidecar", ["companion", "--fence-s"], {"--fence-stop-ms", "--fence-stop-command"}),
        ("rocketmq-operator", ["cr"], {"crds"}),
        ("rocketmq-operator", ["run", "--lease"], {"--lease-namespace"}),
        ("slo-pipeline", ["can"], {"canary"}),
        ("slo-pipeline", ["canary", "--name-s"], {"--name-servers"}),
        ("kubectl rmqha", ["switch"], {"switchover"}),
        ("kubectl rmqha", ["switchover", "--time"], {"--timeout"}),
    ],
)
def test_bash_completes_a_command_and_an_option(
    program: str, begun: list[str], wanted: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAINS[program](["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    assert _completed(script, [FILES[program], *begun]) == wanted


@pytest.mark.parametrize("program", MAINS)
def test_zsh_gets_a_script_for_the_programs_file(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAINS[program](["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith(f"#compdef {FILES[program]}\n")


def test_an_image_without_spark_completes_the_names_of_its_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported = importlib.import_module

    def without_spark(name: str) -> ModuleType:
        if name.startswith("slo_pipeline.jobs."):
            raise ModuleNotFoundError("No module named 'pyspark'")
        return imported(name)

    monkeypatch.setattr(importlib, "import_module", without_spark)
    assert MAINS["slo-pipeline"](["completion", "bash"]) == 0
    printed = capsys.readouterr().out
    assert "increase" in printed
    assert "--prometheus" not in printed
    assert "--name-servers" in printed


@pytest.mark.parametrize("program", MAINS)
def test_another_shell_is_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAINS[program](["completion", "fish"]) == 2
    assert "'fish'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["switch"], ["switchover"]),
        (["switchover", "orders", "--t"], ["--to", "--timeout"]),
        (["status", "-o", ""], ["table", "json", "yaml", "csv"]),
        (["-n"], []),
        (["completion", "b"], ["bash"]),
        (["status", "--namespace", ""], []),
    ],
)
def test_kubectl_gets_candidates_and_the_directive_without_files(
    words: list[str], wanted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert completion.main(words) == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    assert ([line.partition("\t")[0] for line in lines], directive) == (wanted, ":4")


def test_kubectl_without_words_gets_every_command_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert completion.main([""]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "explain\twhat is wrong, and what to do" in lines
