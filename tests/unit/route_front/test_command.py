"""`controller-core route-front` with wrong settings ends with 2 and one line that names the value."""

from pathlib import Path

import pytest

from controller_core.server.cli.main import main


@pytest.mark.parametrize(
    ("name_servers", "listen", "content", "problem"),
    [
        ("", "a:1", "{}", "argument --name-servers: invalid list ''"),
        ("a:1;b", "a:1", "{}", "invalid --name-servers 'b' (expected HOST:PORT)"),
        (";".join(["a:1"] * 17), "a:1", "{}", "--name-servers has 17 values (expected at most 16)"),
        ("a:1", "a:70000", "{}", "argument --listen: invalid address 'a:70000'"),
        ("a:1", "127.0.0.1:0", '{"a:1": "b"}', "invalid address 'b' (expected host:port)"),
    ],
)
def test_a_wrong_setting_ends_with_2_and_names_the_value(
    name_servers: str,
    listen: str,
    content: str,
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "addresses.json"
    path.write_text(content)
    words = ["--name-servers", name_servers, "--addresses", str(path), "--listen", listen]
    assert main(["route-front", *words, "--http", "127.0.0.1:0"]) == 2
    printed = capsys.readouterr().err
    assert (problem in printed, printed.count("\n")) == (True, 1)
