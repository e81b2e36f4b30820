"""The targets file: a mistake is named, never left out."""

import json
from pathlib import Path

import pytest

from slo_pipeline.cli import main
from slo_pipeline.collect.scraping.targets import Target, TargetsError, read_targets

GOOD = {"name": "orders-0", "uid": "u", "url": "http://127.0.0.1:5557/metrics", "kind": "metrics"}


def listed(tmp_path: Path, *targets: object) -> Path:
    path = tmp_path / "targets.json"
    path.write_text(json.dumps({"targets": targets}))
    return path


def test_targets_are_read_with_their_defaults(tmp_path: Path) -> None:
    path = listed(tmp_path, GOOD, {"name": "nemesis", "kind": "file", "url": "/data/nemesis.jsonl"})
    assert read_targets(path) == [
        Target("orders-0", "http://127.0.0.1:5557/metrics", "metrics", "u"),
        Target("nemesis", "/data/nemesis.jsonl", "file"),
    ]


@pytest.mark.parametrize(
    ("target", "where"),
    [
        pytest.param(GOOD | {"kind": "metric"}, r"targets\[0\].kind", id="kind"),
        pytest.param(GOOD | {"url": "127.0.0.1:5557"}, r"targets\[0\].url", id="url"),
        pytest.param(GOOD | {"uid": 7}, r"targets\[0\].uid", id="type"),
        pytest.param(GOOD | {"labels": {}}, "unknown field 'labels'", id="unknown"),
        pytest.param({"name": "x", "kind": "file"}, r"targets\[0\].url: is missing", id="missing"),
        pytest.param("x", "must be an object", id="no-object"),
    ],
)
def test_a_mistake_is_named_by_its_place(tmp_path: Path, target: object, where: str) -> None:
    with pytest.raises(TargetsError, match=where):
        read_targets(listed(tmp_path, target))


def test_two_targets_of_one_name_would_mix_their_counters_and_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetsError, match=r"targets\[1\].name 'orders-0' is there twice"):
        read_targets(listed(tmp_path, GOOD, GOOD))


@pytest.mark.parametrize("text", ["", "[]", '{"targets": 3}'])
def test_a_file_without_targets_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "targets.json"
    path.write_text(text)
    with pytest.raises(TargetsError, match=r"targets\.json"):
        read_targets(path)


def test_a_missing_targets_file_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.json"
    assert main(["collect", "--targets", str(missing), "--out", str(tmp_path / "out")]) == 2
    assert f"slo-pipeline: {missing}: No such file" in capsys.readouterr().err
