"""An executor's command line is made of what Spark says by the environment, and of nothing else."""

from pathlib import Path

import pytest

from slo_pipeline import cli
from slo_pipeline.jobs.spark.executor import BACKEND, java_command
from slo_pipeline.jobs.spark.session import LOG_SETTINGS

ENVIRONMENT = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
    "SPARK_EXECUTOR_ID": "2",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "1228m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "weekly-exec-2",
    "SPARK_USER": "rocketmq-ha",
}


def test_the_executor_is_told_what_its_driver_says_in_its_words() -> None:
    command = java_command(ENVIRONMENT, Path("/jars"))
    assert command == [
        *("java", "-Xms1228m", "-Xmx1228m", "-cp", "/jars/*", BACKEND),
        *("--driver-url", "spark://CoarseGrainedScheduler@10.0.0.7:7078"),
        *("--executor-id", "2", "--cores", "1", "--app-id", "spark-1"),
        *("--hostname", "10.0.0.9", "--resourceProfileId", "0", "--podName", "weekly-exec-2"),
    ]


def test_java_options_come_in_the_order_of_their_numbers_and_not_of_their_names() -> None:
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dn={n}" for n in (10, 2, 0)} | {"SPARK_JAVA_OPT_X": "-Dno"}
    command = java_command(ENVIRONMENT | options, Path("/jars"))
    assert command[1:4] == ["-Dn=0", "-Dn=2", "-Dn=10"]
    assert "-Dno" not in command


def test_a_class_path_of_the_drivers_comes_before_sparks_own() -> None:
    command = java_command(ENVIRONMENT | {"SPARK_CLASSPATH": "/more/*"}, Path("/jars"))
    assert command[command.index("-cp") + 1] == "/more/*:/jars/*"


def test_started_by_hand_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    assert cli.main(["executor"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("slo-pipeline: SPARK_APPLICATION_ID, SPARK_DRIVER_URL, ")
    assert "started by Spark" in said


def test_sparks_log_settings_are_a_file_of_the_package() -> None:
    assert LOG_SETTINGS.is_file()
