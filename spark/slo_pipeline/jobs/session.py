"""The one place where a Spark session is made.

Problem: results must not depend on whose machine runs the job: its zone, its Python, its default partitions.
Shape: every configuration that changes a result or opens a port is fixed here.
Never: no other module calls `SparkSession.builder`.
"""

import os
import sys
from typing import Final

from pyspark.sql import SparkSession

CONFIGURATION: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # A file of another layout must fail, and a file that vanishes while we read must too.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}
# Spark's default of 200 costs seconds a shuffle on one machine.
SHUFFLE_PARTITIONS_DEFAULT: Final = 4


def session(
    *,
    master: str = "local[*]",
    name: str = "slo-pipeline",
    shuffle_partitions: int = SHUFFLE_PARTITIONS_DEFAULT,
) -> SparkSession:
    """Return a session with the project's configuration.

    Args:
        master: where it runs; executors need the same wheel installed.
        name: shown in Spark's lists.
        shuffle_partitions: 2 to 4 a core is right on one machine.
    """
    # Without this the workers are whatever `python3` the PATH holds, which has no pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(master).appName(name)
    for key, value in CONFIGURATION.items():
        builder = builder.config(key, value)
    return builder.config("spark.sql.shuffle.partitions", str(shuffle_partitions)).getOrCreate()
