"""`slo-pipeline export`: one file of objectives becomes Prometheus rules and OpenSLO documents.

Exit status: 0 written, 2 the objectives cannot be used.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from slo_pipeline.jobs.options import add_objectives
from slo_pipeline.objectives import openslo, prometheus
from slo_pipeline.objectives.file import load

RULES_FILE: Final = "prometheus-rules.yaml"
OPENSLO_FILE: Final = "openslo.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `export`."""
    add_objectives(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the two files go")


def run(args: argparse.Namespace) -> int:
    """Write both files and print their paths.

    Raises:
        ObjectivesError: the objectives cannot be used, or a threshold cannot be answered by Prometheus.
    """
    objectives = load(args.slo)
    made = {
        RULES_FILE: _text([prometheus.rules(objectives)]),
        OPENSLO_FILE: _text(openslo.documents(objectives)),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (args.out / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{args.out / name}\n")
    for name in prometheus.without_rules(objectives):
        sys.stderr.write(f"slo-pipeline export: {name} has no rule: only the report can judge it\n")
    return 0


def _text(documents: Iterable[Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=110)
