"""`slo-pipeline executor`: what Spark starts in the pod of an executor, when a report runs on Kubernetes.

Problem: the image of a job that runs in one pod is to serve for executors too, and Spark's wheel brings no
start script for it. Shape: Spark gives a container the argument `executor` and says the rest by its
environment; this becomes the command line of Spark's own executor, which takes this process's place. Never:
an executor decides nothing here; whatever it needs to know, its driver says.

Source: Spark's entrypoint.sh for containers, and BasicExecutorFeatureStep.scala, which fills the environment.
"""

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTIONS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_([0-9]+)")
_JAVA: Final = "java"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: Spark passes the name of the branch alone."""
    parser.epilog = "Started by Spark in pods of its own, not by hand."


def run(args: argparse.Namespace) -> int:
    """Become Spark's executor; returns only if Java is missing.

    Raises:
        OSError: a variable that Spark sets is missing, or Java is.
    """
    del args
    command = java_command(os.environ, Path(pyspark.__file__).parent / "jars")
    os.execvp(_JAVA, command)  # noqa: S606 - no shell, and the Java of the image


def java_command(environment: Mapping[str, str], jars: Path) -> list[str]:
    """Return the executor's command line.

    Args:
        environment: of the container.
        jars: Spark's own.

    Raises:
        OSError: a variable that Spark sets is missing.
    """
    missing = sorted(name for name in (*_OPTIONS.values(), _MEMORY) if not environment.get(name))
    if missing:
        raise OSError(f"{', '.join(missing)} not set: an executor is started by Spark, in a pod")
    numbered = ((_JAVA_OPTION.fullmatch(name), value) for name, value in environment.items())
    options = sorted((int(match[1]), value) for match, value in numbered if match)
    memory = environment[_MEMORY]
    extra = environment.get("SPARK_CLASSPATH", "")
    return [
        _JAVA,
        *(value for _, value in options),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        os.pathsep.join(part for part in (extra, f"{jars}/*") if part),
        BACKEND,
        *(word for option, name in _OPTIONS.items() for word in (option, environment[name])),
    ]
