"""`slo-pipeline export`: one file of objectives becomes what others read.

Two forms: `objectives`, Prometheus rules and OpenSLO documents; `sparkapplication`, a report for the
spark-operator.

Exit status: 0 written, 2 the objectives cannot be used.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from controller_core.command_line.values import names
from slo_pipeline.jobs.spark import application
from slo_pipeline.objectives import openslo, prometheus
from slo_pipeline.objectives.file import load
from slo_pipeline.shell.options import PROGRAM, add_objectives, days

RULES_FILE: Final = "prometheus-rules.yaml"
OPENSLO_FILE: Final = "openslo.yaml"
APPLICATION_FILE: Final = "sparkapplication.yaml"
FORMS: Final = ("objectives", "sparkapplication")
IMAGE: Final = "rocketmq-ha/slo-pipeline:0.1.0"


def labels(text: str) -> list[tuple[str, str]]:
    """Return the keys and the values of labels that are separated by commas (an argparse type)."""
    found = []
    for one in names(text):
        key, separator, value = one.partition("=")
        if not key or not separator or not value:
            raise argparse.ArgumentTypeError(f"invalid label {one!r} (expected key=value)")
        found.append((key, value))
    return found


def number(text: str) -> int:
    """Return a whole number above 0 (an argparse type)."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"invalid number {text!r} (expected a number above 0)")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `export`."""
    add_objectives(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    parser.add_argument("--form", choices=FORMS, default=FORMS[0], help="default: %(default)s")
    report = parser.add_argument_group("form sparkapplication")
    report.add_argument("--name", default="report", metavar="NAME", help="of the application and its page")
    report.add_argument("--namespace", default="rocketmq", metavar="NAMESPACE", help="default: %(default)s")
    report.add_argument("--image", default=IMAGE, metavar="IMAGE", help="default: %(default)s")
    report.add_argument(
        "--claim",
        default="rocketmq-ha-measure",
        metavar="NAME",
        help="PersistentVolumeClaim with segments, default: %(default)s",
    )
    report.add_argument(
        "--claim-path", default="segments", metavar="DIR", help="the collector's directory on the claim"
    )
    report.add_argument(
        "--account",
        default="rocketmq-ha-executors",
        metavar="NAME",
        help="makes executors' pods, default: %(default)s",
    )
    report.add_argument("--window-days", type=days, default=30, metavar="N", help="default: %(default)s")
    report.add_argument("--executors", type=number, default=2, metavar="N", help="default: %(default)s")
    report.add_argument(
        "--cores", type=number, default=1, metavar="N", help="of each pod, default: %(default)s"
    )
    report.add_argument(
        "--memory", type=number, default=2_048, metavar="MIB", help="of each pod, default: 2048"
    )
    report.add_argument(
        "--beside",
        type=labels,
        action="extend",
        default=[],
        metavar="LABEL[,...]",
        help="key=value of the pods that hold the volume, where it is on one node; may be repeated",
    )
    report.add_argument(
        "--schedule", metavar="CRON", help="five fields, UTC; without it the report is made once"
    )


def run(args: argparse.Namespace) -> int:
    """Write the form's files and print their paths.

    Raises:
        ObjectivesError: the objectives cannot be used, or a threshold cannot be answered by Prometheus.
    """
    made = _objectives(args) if args.form == FORMS[0] else {APPLICATION_FILE: _application(args)}
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (args.out / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{args.out / name}\n")
    return 0


def _objectives(args: argparse.Namespace) -> dict[str, str]:
    objectives = load(args.slo)
    made = {
        RULES_FILE: _text([prometheus.rules(objectives)]),
        OPENSLO_FILE: _text(openslo.documents(objectives)),
    }
    for name in prometheus.without_rules(objectives):
        sys.stderr.write(f"{PROGRAM}: no rule written for {name}: only the report can judge it\n")
    return made


def _application(args: argparse.Namespace) -> str:
    # What the report would refuse is refused here.
    load(args.slo)
    asked = application.JobRequest(
        name=args.name,
        namespace=args.namespace,
        image=args.image,
        claim=args.claim,
        path=args.claim_path,
        account=args.account,
        window_days=args.window_days,
        executors=args.executors,
        cores=args.cores,
        memory_mebibytes=args.memory,
        beside=dict(args.beside),
        schedule=args.schedule,
        objectives=None if args.slo is None else args.slo.read_text(encoding="utf-8"),
    )
    return _text(application.documents(asked))


def _text(documents: Iterable[Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=110)
