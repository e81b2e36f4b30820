"""`slo-pipeline driver` starts a job in the pod of a driver.

Spark calls it when somebody submits a job in cluster mode.

Problem: `spark-submit` in cluster mode, and so the spark-operator, starts a driver's container with words of
Spark's own before those of the job. Shape: the settings that Spark mounted go where a session looks for them,
and the job's words are run in this process, as they are when a report's pod is the driver. Never: the
application file that the submission names is not run: it is this program already.

Source: Spark's entrypoint.sh for containers, and DriverCommandFeatureStep.scala, which writes the container's
arguments.
"""

import argparse
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from slo_pipeline import cli

_ADDRESS: Final = "SPARK_DRIVER_BIND_ADDRESS"
SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what Spark passes."""
    parser.epilog = "Started by Spark in a pod of its own, not by hand."
    parser.add_argument(
        "--properties-file", type=Path, required=True, metavar="FILE", help="the settings that Spark mounted"
    )
    parser.add_argument("--class", dest="main_class", metavar="NAME", help="how Spark would run the file")
    parser.add_argument("file", help="the file that was submitted")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the job's: a command and its options")


def run(args: argparse.Namespace) -> int:
    """Run the job and return its exit status.

    Raises:
        OSError: a variable that Spark sets is missing.
    """
    os.environ[SUBMIT_ARGUMENTS] = submit_arguments(os.environ, args.properties_file)
    return cli.main(args.words)


def submit_arguments(environment: Mapping[str, str], settings: Path) -> str:
    """Return what a session's JVM is started with.

    Args:
        environment: of the container.
        settings: Spark's; they name cluster mode, which is over when the driver runs.

    Raises:
        OSError: a variable that Spark sets is missing.
    """
    address = environment.get(_ADDRESS)
    if not address:
        raise OSError(f"{_ADDRESS} not set: a driver is started by Spark, in a pod")
    words = ["--deploy-mode", "client", "--properties-file", str(settings)]
    return shlex.join([*words, "--conf", f"spark.driver.bindAddress={address}", "pyspark-shell"])
