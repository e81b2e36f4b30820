"""A report for the spark-operator, of its schema.

It is as restricted as an SLOReport's pods, and Spark's own start words run it.
"""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from rocketmq_operator.plan.report import executors as report_executors
from slo_pipeline import cli
from slo_pipeline.jobs.spark import application as spark_application
from slo_pipeline.jobs.spark import driver
from slo_pipeline.objectives.file import DEFAULT_FILE, load
from testkit.fakes.spark_operator import problems
from testkit.memory.reports import HOLDERS, ReportWorld

ROOT = Path(__file__).parents[3]
Json = dict[str, Any]


def _exported(directory: Path, *words: str) -> list[Json]:
    assert cli.main(["export", "--form", "sparkapplication", "--out", str(directory), *words]) == 0
    return list(yaml.safe_load_all((directory / "sparkapplication.yaml").read_text()))


def test_what_is_documented_is_of_the_spark_operators_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "reference" / "sloreports.md").read_text().replace("\\\n", " ")
    (command,) = [line.split("$ ")[-1] for line in page.splitlines() if "--form sparkapplication" in line]
    monkeypatch.chdir(tmp_path)
    Path("objectives.yaml").write_text(DEFAULT_FILE.read_text())
    program, *words = shlex.split(command)
    assert (program, cli.main(words)) == ("slo-pipeline", 0)
    (made,) = tmp_path.glob("*/sparkapplication.yaml")
    settings, scheduled = yaml.safe_load_all(made.read_text())
    assert problems(scheduled) == []
    path = tmp_path / "written.yaml"
    path.write_text(settings["data"]["objectives.yaml"])
    assert load(path) == load(), "the file as it is"
    volumes = scheduled["spec"]["template"]["driver"]["template"]["spec"]["volumes"]
    assert {"name": settings["metadata"]["name"]} in [one.get("configMap") for one in volumes]


def test_without_a_schedule_it_is_made_once(tmp_path: Path) -> None:
    (made,) = _exported(tmp_path)
    assert (made["kind"], problems(made)) == ("SparkApplication", [])


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("timezone",), "Etc/UTC", "spec.timezone: unknown field"),
        (("concurrencyPolicy",), "forbid", "spec.concurrencyPolicy: 'forbid' is not one of"),
        (("template", "pythonVersion"), 3, "spec.template.pythonVersion: 3 is not one of"),
        (("template", "driver", "cores"), "1", "spec.template.driver.cores: '1' is not of type int"),
        (("template", "driver", "instances"), 1, "spec.template.driver.instances: unknown field"),
        (("template", "executor", "memory"), "1228Mi", "spec.template.executor.memory: '1228Mi'"),
        (("template", "sparkConf", "spark.ui.enabled"), False, "spec.template.sparkConf: "),
    ],
)
def test_the_schema_names_what_is_wrong(
    path: tuple[str, ...], value: object, said: str, tmp_path: Path
) -> None:
    (made,) = _exported(tmp_path, "--schedule", "17 * * * *")
    inner = made["spec"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (found,) = problems(made)
    assert found.startswith(said)


async def test_its_pods_are_those_of_an_slo_report_on_executors(tmp_path: Path) -> None:
    world = ReportWorld({"engine": "kubernetes", "serviceAccountName": "mine", "window": "30d"})
    await world.one_pass()
    (theirs,) = world.pod()["containers"]
    beside = [word for key, value in HOLDERS.items() for word in ("--beside", f"{key}={value}")]
    (made,) = _exported(tmp_path, "--claim=demo-measure", "--name=weekly", "--namespace=shop", *beside)
    spec = made["spec"]
    assert set(spec["arguments"]) == set(theirs["args"]) - {"--summary=/dev/termination-log"}
    assert spec["image"] == theirs["image"]
    for part in ("driver", "executor"):
        pod = spec[part]["template"]["spec"]
        assert pod["securityContext"] == world.pod()["securityContext"]
        assert pod["containers"][0]["securityContext"] == theirs["securityContext"]
        assert pod["affinity"] == world.pod()["affinity"]
    settings = dict(
        line.split(" ", 1)
        for line in world.get("ConfigMap", "weekly-objectives")["data"][
            report_executors.SETTINGS_FILE
        ].splitlines()
    )
    assert (spec["executor"]["memory"], spec["executor"]["memoryOverhead"]) == (
        settings["spark.executor.memory"],
        settings["spark.executor.memoryOverhead"],
    )
    assert spec["sparkConf"].items() <= settings.items()
    assert spark_application.MASTER == report_executors.MASTER


def test_the_program_is_where_the_image_has_it() -> None:
    image = (ROOT / "Dockerfile").read_text()
    folder, _, module = spark_application.PROGRAM.removeprefix("local://").partition(
        "/lib/python3.11/site-packages/"
    )
    assert f"COPY --from=build-spark {folder} {folder}" in image
    assert "python:3.11" in image
    assert (ROOT / "spark" / module).is_file()


def test_a_driver_runs_the_jobs_words_with_sparks_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_DRIVER_BIND_ADDRESS", "10.0.0.7")
    monkeypatch.setenv(driver.SUBMIT_ARGUMENTS, "")
    (made,) = _exported(tmp_path)
    capsys.readouterr()
    of_spark = [
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "--class",
        "org.apache.spark.deploy.PythonRunner",
    ]
    words = ["driver", *of_spark, spark_application.PROGRAM, *made["spec"]["arguments"]]
    assert cli.main(words) == 2
    assert capsys.readouterr().err == "slo-pipeline: /data/segments: no such directory\n"
    assert shlex.split(driver.os.environ[driver.SUBMIT_ARGUMENTS]) == [
        *("--deploy-mode", "client", "--properties-file", "/opt/spark/conf/spark.properties"),
        *("--conf", "spark.driver.bindAddress=10.0.0.7", "pyspark-shell"),
    ]


def test_a_driver_by_hand_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_DRIVER_BIND_ADDRESS", raising=False)
    assert cli.main(["driver", "--properties-file", "x", "local:///x.py", "report"]) == 1
    assert capsys.readouterr().err.startswith("slo-pipeline: SPARK_DRIVER_BIND_ADDRESS not set")
