"""SLOReports: the objects made from a spec, the use of a run's last message, and the limits of a bad run."""

import json
from typing import Any

import pytest
import yaml

from rocketmq_operator.api.objectives import INDICATORS
from rocketmq_operator.api.slo_report import window_days
from rocketmq_operator.handlers.kinds import REPORT_RESYNC_S
from rocketmq_operator.plan.report.allowed import AllowedInReports
from rocketmq_operator.plan.report.status import percent
from slo_pipeline import cli
from slo_pipeline.objectives import catalogue
from slo_pipeline.objectives.file import DEFAULT_FILE, load
from slo_pipeline.reports.files.outcome import outcome, text
from testkit.generators.sample_report import report
from testkit.memory.kubernetes import CrashError
from testkit.memory.reports import CLAIM, HOLDERS, REPORT, SERVER, ReportWorld
from testkit.worlds.crd_cases import objective

Json = dict[str, Any]
DEFAULT_SLOS = yaml.safe_load(DEFAULT_FILE.read_text())["slos"]


def _said(**changes: object) -> str:
    """Return what a run says that met one of its two objectives."""
    told = [
        {"name": "writes", "group": "orders", "target": 99.95, "attained": 0.99912345, "left": -0.753,
         "holds": False},
        {"name": "durability", "group": "pay", "target": 100.0, "attained": 1.0, "left": None, "holds": True},
    ]  # fmt: skip
    return json.dumps({"verdict": "Outside the error budget", "objectives": told, "more": 0} | changes)


async def _made(spec: Json | None = None) -> ReportWorld:
    world = ReportWorld(spec)
    await world.one_pass()
    return world


async def test_a_report_becomes_a_cron_job_over_the_charts_volume() -> None:
    world = await _made()
    job = world.get("CronJob", REPORT)["spec"]
    assert (job["schedule"], job["timeZone"], job["concurrencyPolicy"], job["suspend"]) == (
        "17 * * * *",
        "Etc/UTC",
        "Forbid",
        False,
    )
    volumes = {one["name"]: one for one in world.pod()["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": CLAIM}
    assert world.condition("Ready")[:2] == ("True", "Scheduled")
    assert world.condition("ObjectivesMet")[:2] == ("Unknown", "NotRunYet")
    assert world.status["address"] == "http://demo-report.shop.svc/reports/weekly/"
    assert world.status["observedGeneration"] == 1


async def test_its_pod_runs_where_the_volume_is_under_the_restricted_profile() -> None:
    pod = (await _made()).pod()
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == HOLDERS
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert f"--summary={container['terminationMessagePath']}" in container["args"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize("objectives", [[], DEFAULT_SLOS, objective()["objectives"]])
async def test_slo_pipeline_takes_the_words_and_the_file_that_are_written_for_it(
    objectives: list[Json], tmp_path: Any
) -> None:
    world = await _made({"objectives": objectives, "window": "2w"})
    (container,) = world.pod()["containers"]
    options = cli.parser("report").parse_args(container["args"])
    assert (str(options.input), str(options.out)) == ("/data/segments", "/data/reports/weekly")
    assert (options.window_days, options.master) == (14, "local[2]")
    data = world.get("ConfigMap", "weekly-objectives").get("data", {})
    assert (options.slo is None) == (not objectives) == (not data)
    if objectives:
        path = tmp_path / options.slo.name
        path.write_text(data[options.slo.name])
        assert load(path).timeWindow.days == 14
        assert [slo.name for slo in load(path).slos] == [one["name"] for one in objectives]


async def test_on_executors_the_jobs_pod_is_the_driver_and_their_pods_are_as_restricted_as_it() -> None:
    world = await _made({"engine": "kubernetes"})
    assert world.condition("Ready")[:2] == ("False", "NoAccount")
    assert "measure.report.executors=true" in world.condition("Ready")[2]
    assert not world.has("CronJob", REPORT)
    world.put_server(SERVER, CLAIM, account="demo-executors")
    await world.one_pass()
    assert world.condition("Ready")[:2] == ("True", "Scheduled")
    pod = world.pod()
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("demo-executors", True)
    (container,) = pod["containers"]
    assert "--master=k8s://https://kubernetes.default.svc" in container["args"]
    (place,) = [one["value"] for one in container["env"] if one["name"] == "SPARK_CONF_DIR"]
    assert place in [one["mountPath"] for one in container["volumeMounts"]]
    files = world.get("ConfigMap", "weekly-objectives")["data"]
    settings = dict(line.split(" ", 1) for line in files["spark-defaults.conf"].splitlines())
    assert settings["spark.kubernetes.executor.podTemplateFile"] == f"{place}/executor.yaml"
    assert settings["spark.kubernetes.container.image"] == container["image"]
    assert (settings["spark.executor.instances"], settings["spark.executor.cores"]) == ("2", "1")
    assert (settings["spark.executor.memory"], settings["spark.executor.memoryOverhead"]) == ("1228m", "820m")
    executor = yaml.safe_load(files["executor.yaml"])
    (theirs,) = executor["spec"]["containers"]
    assert executor["spec"]["automountServiceAccountToken"] is False
    assert executor["spec"]["affinity"] == pod["affinity"]
    assert executor["spec"]["securityContext"] == pod["securityContext"]
    assert theirs["securityContext"] == container["securityContext"]
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    shared = {one["name"]: one for one in theirs["volumeMounts"]}
    assert shared["data"] == mounts["data"] | {"readOnly": True}, "they read at the driver's own paths"
    labels = world.get("CronJob", REPORT)["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert executor["metadata"]["labels"] == labels, "one network policy is for both"


async def test_an_account_that_the_report_names_is_taken_before_the_charts() -> None:
    world = await _made({"engine": "kubernetes", "serviceAccountName": "mine"})
    assert world.pod()["serviceAccountName"] == "mine"


async def test_in_its_own_pod_a_report_asks_kubernetes_nothing() -> None:
    world = await _made({"serviceAccountName": "mine"})
    pod = world.pod()
    assert "serviceAccountName" not in pod
    assert "env" not in pod["containers"][0]


def test_every_indicator_of_slo_pipeline_may_be_promised_as_it_is_judged_there() -> None:
    ours = {str(name): (str(one.method), one.op and str(one.op)) for name, one in INDICATORS.items()}
    assert ours == {name: (one.method, one.op) for name, one in catalogue.INDICATORS.items()}


async def test_a_spec_that_changes_is_applied_and_one_that_does_not_is_left_alone() -> None:
    world = await _made({"objectives": objective()["objectives"]})
    writes = len(world.kube.writes)
    assert await world.one_pass() == REPORT_RESYNC_S
    assert len(world.kube.writes) == writes
    world.write({"suspend": True})
    await world.one_pass()
    assert world.get("CronJob", REPORT)["spec"]["suspend"] is True
    assert "data" not in world.get("ConfigMap", "weekly-objectives")
    assert world.condition("Paused")[:2] == ("True", "Asked")


async def test_the_children_go_with_the_report() -> None:
    world = await _made()
    world.kube.remove("SLOReport", "shop", REPORT)
    assert not world.has("CronJob", REPORT)
    assert not world.has("ConfigMap", "weekly-objectives")
    assert await world.one_pass() is None


async def test_without_a_volume_nothing_is_made_until_it_is_there() -> None:
    world = ReportWorld(measured=False)
    await world.one_pass()
    assert world.condition("Ready")[:2] == ("False", "NoSource")
    assert "rocketmq-ha.dev/reports-of" in world.condition("Ready")[2]
    assert not world.has("CronJob", REPORT)
    world.write({"source": {"claimName": "mine", "path": "collected/segments"}})
    await world.one_pass()
    assert world.condition("Ready")[2] == "PersistentVolumeClaim mine does not exist"
    world.advance(1)
    await world.one_pass()
    assert world.events() == ["NoSource"], "told once"
    world.put_claim("mine")
    await world.one_pass()
    assert world.condition("Ready")[:2] == ("True", "Scheduled")
    assert "--input=/data/collected/segments" in world.pod()["containers"][0]["args"]
    assert world.status["address"] == "", "no server shows that volume"
    assert "affinity" not in world.pod()


async def test_of_two_report_servers_the_claim_must_be_named() -> None:
    world = ReportWorld()
    world.put_claim("other")
    world.put_server("other-report", "other", 8080)
    await world.one_pass()
    assert world.condition("Ready")[:2] == ("False", "NoSource")
    assert "Services demo-report, other-report" in world.condition("Ready")[2]
    world.write({"source": {"claimName": "other"}})
    await world.one_pass()
    assert world.status["address"] == "http://other-report.shop.svc:8080/reports/weekly/"


@pytest.mark.parametrize(
    ("spec", "field", "key"),
    [
        ({"image": "evil:1"}, "image is evil:1", "images"),
        ({"source": {"claimName": "payroll"}}, "source.claimName is payroll", "claims"),
        ({"serviceAccountName": "admin"}, "serviceAccountName is admin", "accounts"),
    ],
)
async def test_what_the_chart_does_not_list_is_not_run(spec: dict[str, Any], field: str, key: str) -> None:
    world = await _made(spec)
    assert world.condition("Ready")[:2] == ("False", "NotAllowed")
    assert world.condition("Ready")[2] == f"{field}, which the chart's operator.reports.{key} does not list"
    assert not world.has("CronJob", REPORT)
    world.allowed = AllowedInReports.of(["evil:1"], ["payroll"], ["admin"])
    world.put_claim("payroll")
    await world.one_pass()
    assert world.has("CronJob", REPORT)


async def test_a_cron_job_of_somebody_else_is_left_alone() -> None:
    world = ReportWorld()
    theirs = {"kind": "CronJob", "metadata": {"name": REPORT, "namespace": "shop"}, "spec": {"schedule": "x"}}
    world.kube.put(theirs)
    await world.one_pass()
    assert world.condition("Ready")[:2] == ("False", "NameTaken")
    assert world.get("CronJob", REPORT)["spec"] == {"schedule": "x"}


async def test_what_a_run_came_to_is_in_the_status() -> None:
    world = await _made()
    world.put_success("weekly-1", _said())
    await world.one_pass()
    status = world.status
    assert (status["lastJob"], status["lastResult"], status["lastRun"]) == (
        "weekly-1",
        "Succeeded",
        "2026-11-20T12:00:00Z",
    )
    assert (status["attained"], status["budgetLeft"]) == ("99.912%", "-75.3%")
    assert [(one["name"], one["target"], one["budgetLeft"]) for one in status["objectives"]] == [
        ("writes", "99.95%", "-75.3%"),
        ("durability", "100%", "kept"),
    ]
    assert status["lastMessage"] == "Outside the error budget"
    assert world.condition("Ready")[:2] == ("True", "Reported"), "that a promise is broken is another matter"
    assert world.condition("ObjectivesMet") == (
        "False",
        "Overspent",
        "overspent: writes of orders (-75.3%)",
    )
    world.advance(1)
    await world.one_pass()
    assert world.events() == ["Overspent"], "told once"


async def test_what_slo_pipeline_says_is_understood() -> None:
    world = await _made()
    world.put_success("weekly-1", text(outcome(report(), "/data/reports/weekly/index.html")))
    await world.one_pass()
    assert world.status["attained"] == "99.833%"
    assert world.condition("ObjectivesMet")[:2] == ("True", "AllHold")


async def test_an_objective_of_which_too_little_was_measured_is_neither_met_nor_broken() -> None:
    world = await _made()
    one = {"name": "writes", "group": "pay", "target": 99.9, "attained": None, "left": None, "holds": True}
    world.put_success("weekly-1", _said(objectives=[one | {"measured": False}]))
    await world.one_pass()
    assert (world.status["attained"], world.status["budgetLeft"]) == ("", "unknown")
    assert world.condition("ObjectivesMet") == (
        "Unknown",
        "NotMeasured",
        "too little was measured to judge writes of pay",
    )


async def test_a_run_that_fails_says_why_and_takes_no_number_away() -> None:
    world = await _made()
    world.put_success("weekly-1", _said())
    await world.one_pass()
    world.advance(60)
    world.put_failure("weekly-2", "WARN something\nslo-pipeline: /data/segments: holds no probe_ops/\n\n")
    await world.one_pass()
    assert world.condition("Ready") == (
        "False",
        "RunFailed",
        "weekly-2: slo-pipeline: /data/segments: holds no probe_ops/",
    )
    assert (world.status["reason"], world.status["lastResult"]) == ("RunFailed", "Failed")
    assert (world.status["attained"], world.status["lastReport"]) == ("99.912%", "2026-11-20T12:00:00Z")
    world.advance(1)
    await world.one_pass()
    assert sorted(world.events()) == ["Overspent", "RunFailed"]


@pytest.mark.parametrize(
    ("message", "reason", "words"),
    [
        ("", "OOMKilled", "OOMKilled"),
        ("last line", "OOMKilled", "OOMKilled: last line"),
        ("", "Error", "it ended with status 2 and said nothing"),
        (None, "Error", "BackoffLimitExceeded: Job has reached the specified backoff limit"),
        ("x" * 5_000, "Error", "x" * 1_024),
    ],
)
async def test_the_last_words_of_a_run(message: str | None, reason: str, words: str) -> None:
    world = await _made()
    world.put_failure("weekly-1", message, reason)
    await world.one_pass()
    assert world.status["lastMessage"] == words


async def test_a_run_is_told_of_when_its_pod_and_its_job_are_gone() -> None:
    world = await _made()
    world.put_failure("weekly-1", "disk full")
    await world.one_pass()
    told = world.status
    world.advance(1)
    world.kube.remove("Pod", "shop", "weekly-1-x")
    await world.one_pass()
    assert world.status == told
    world.kube.remove("Job", "shop", "weekly-1")
    await world.one_pass()
    assert world.status == told
    assert world.events() == ["RunFailed"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        "",
        "done",
        "[]",
        "{}",
        _said(objectives=[{"name": "writes"}]),
        _said(objectives=7),
        '{"verdict":"","objectives":[{"name":"a","group":"b","target":1,"attained":1e999,"left":0,"holds":true}]}',
        _said(objectives=[json.loads(_said())["objectives"][0]] * 2),
    ],
)
async def test_a_run_that_says_nothing_of_use_is_a_report_without_numbers(message: str | None) -> None:
    world = await _made()
    world.put_success("weekly-1", message)
    await world.one_pass()
    assert world.condition("Ready")[:2] == ("True", "Reported")
    assert world.condition("ObjectivesMet")[:2] == ("Unknown", "NoSummary")
    assert world.status["attained"] == ""


async def test_the_newest_run_counts_whatever_its_name() -> None:
    world = await _made()
    world.put_failure("weekly-2", "broken")
    world.advance(5)
    world.put_success("by-hand", _said(verdict="Inside the error budget"))
    world.put_run("weekly-3", status={"active": 1})
    await world.one_pass()
    assert world.status["lastJob"] == "by-hand"
    assert world.condition("Progressing") == ("True", "Running", "weekly-3")


async def test_an_operator_that_is_killed_after_a_write_is_completed_by_the_next() -> None:
    whole = await _made({"objectives": objective()["objectives"]})
    for number in range(1, len(whole.kube.writes) + 1):
        world = ReportWorld({"objectives": objective()["objectives"]})
        world.kube.crash_after = number
        with pytest.raises(CrashError):
            await world.one_pass()
        world.kube.crash_after = None
        await world.one_pass()
        assert world.get("CronJob", REPORT)["spec"] == whole.get("CronJob", REPORT)["spec"]
        assert world.condition("Ready")[:2] == ("True", "Scheduled")


async def test_a_spec_that_breaks_a_rule_is_said_and_what_runs_is_left() -> None:
    world = await _made()
    world.write({"schedule": "61 * * * *"})
    await world.one_pass()
    assert world.condition("Ready")[:2] == ("False", "BadSchedule")
    assert world.get("CronJob", REPORT)["spec"]["schedule"] == "17 * * * *"


@pytest.mark.parametrize(
    ("share", "shown"),
    [(1.0, "100%"), (0.999996, "99.999%"), (0.5, "50%"), (0.0, "0%"), (-0.00001, "-0.001%"),
     (-12.3, "-1230%")],
)  # fmt: skip
def test_a_share_is_cut_and_never_rounded_up(share: float, shown: str) -> None:
    assert percent(share, decimals=3) == shown


@pytest.mark.parametrize(
    ("window", "days"),
    [("24h", 1), ("48h", 2), ("7d", 7), ("4w", 28), ("366d", 366), ("367d", None), ("25h", None),
     ("0d", None)],
)  # fmt: skip
def test_a_window_is_whole_days(window: str, days: int | None) -> None:
    assert window_days(window) == days
