"""The one place where a Spark session is made.

Problem: results must not depend on whose machine runs the job: its zone, its Python, its default partitions.
Shape: every configuration that changes a result or opens a port is fixed here.
Never: no other module makes a session or a context.
"""

import atexit
import logging
import os
import sys
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

CONFIGURATION: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Off by default, and a Python source that takes filters fails without it.
    "spark.sql.python.filterPushdown.enabled": "true",
    # A file of another layout must fail, and a file that vanishes while we read must too.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
}
# Executors in other pods must reach the driver; those of its own process need no more than this.
LOCAL_CONFIGURATION: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
# A job over a few megabytes ends before the optimising compiler has paid for itself.
QUICK_JAVA_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# Spark's default of 200 costs seconds a shuffle on one machine.
SHUFFLE_PARTITIONS_DEFAULT: Final = 4


def session(
    *,
    master: str = "local[*]",
    name: str = "slo-pipeline",
    shuffle_partitions: int = SHUFFLE_PARTITIONS_DEFAULT,
    quick: bool = False,
) -> SparkSession:
    """Return a session with the project's configuration.

    Args:
        master: where it runs; executors need the same wheel installed. What else they need is Spark's own to
            say, in `spark-defaults.conf` of SPARK_CONF_DIR.
        name: shown in Spark's lists.
        shuffle_partitions: 2 to 4 a core is right on one machine.
        quick: start for a small input: half the CPU time below a few megabytes, more than twice above.
    """
    builder = SparkSession.Builder()
    for key, value in _settings(master, name, quick=quick).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.shuffle.partitions", str(shuffle_partitions))
    # Spark writes each analysis error to Python's log as JSON before it raises it; the raised one says it
    # better.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    made = builder.getOrCreate()
    _stop_at_exit(made, master)
    return made


def context(*, master: str = "local[*]", name: str = "slo-pipeline") -> SparkContext:
    """Return a context for tasks in Python, without Spark's SQL: half the start.

    The JVM only hands tasks out, so that it never pays to optimise its code.

    Args:
        master: where it runs; executors need the same wheel installed.
        name: shown in Spark's lists.
    """
    made = SparkContext.getOrCreate(SparkConf().setAll(list(_settings(master, name, quick=True).items())))
    _stop_at_exit(made, master)
    return made


def _settings(master: str, name: str, *, quick: bool) -> dict[str, str]:
    """Return the project's configuration."""
    # Without this the workers are whatever `python3` the PATH holds, which lacks pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = {"spark.master": master, "spark.app.name": name} | CONFIGURATION
    if master.startswith("local"):
        found |= LOCAL_CONFIGURATION
    options = [f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}", *(QUICK_JAVA_OPTIONS if quick else ())]
    return found | {f"spark.{where}.extraJavaOptions": " ".join(options) for where in ("driver", "executor")}


def _stop_at_exit(made: SparkSession | SparkContext, master: str) -> None:
    if not master.startswith("local"):
        # Only a session that is stopped deletes its executors: in Java's own exit hooks the client for that
        # is gone.
        atexit.register(made.stop)
