"""SLOReports that keep days: the job before the report, its data's paths, and its failure's message."""

import json
from typing import Any

from slo_pipeline import cli
from testkit.memory.reports import ReportWorld

Json = dict[str, Any]


async def _made(spec: Json | None = None) -> ReportWorld:
    world = ReportWorld(spec)
    await world.one_pass()
    return world


async def test_with_daily_what_reports_read_of_closed_days_is_taken_out_first_and_read_from_there() -> None:
    plain = (await _made()).pod()
    assert "initContainers" not in plain
    pod = (await _made({"daily": True, "engine": "kubernetes", "serviceAccountName": "mine"})).pod()
    (daily,), (made,) = pod["initContainers"], pod["containers"]
    asked = {
        name: cli.parser(name).parse_args(one["args"]) for name, one in (("daily", daily), ("report", made))
    }
    assert asked["daily"].extracts_only, "extracts contain no objectives, and Spark does not start"
    assert (asked["daily"].input, asked["daily"].tables) == (asked["report"].input, asked["report"].tables)
    assert str(asked["report"].tables) == "/data/report-days/weekly/segments"
    assert "env" not in daily, "it asks for no executors"
    own = {"name", "args", "env"}
    assert {key: daily[key] for key in daily if key not in own} == {
        key: made[key] for key in made if key not in own
    }


async def test_what_is_kept_of_days_is_a_reports_own_and_of_one_directory() -> None:
    def tables(world: ReportWorld) -> str:
        (word,) = [one for one in world.pod()["containers"][0]["args"] if one.startswith("--tables=")]
        return str(word)

    paths = ["segments", "a/b", "a-b", "a/b/days"]
    found = [tables(await _made({"daily": True, "source": {"path": path}})) for path in paths]
    assert found[1] == "--tables=/data/report-days/weekly/a%2Fb"
    assert len(set(found)) == len(found)
    assert all(one.count("/") == found[0].count("/") for one in found), "none lies in another"


async def test_days_that_cannot_be_kept_are_a_runs_last_words() -> None:
    world = await _made({"daily": True})
    world.put_failure("weekly-1", "slo-pipeline: /data/segments: no such directory\n", prepares=True)
    await world.one_pass()
    assert world.status["lastMessage"] == "slo-pipeline: /data/segments: no such directory"
    world.advance(60)
    said = json.dumps({"verdict": "Inside the error budget", "objectives": [], "more": 0})
    world.put_success("weekly-2", said, prepared="closed")
    await world.one_pass()
    assert world.status["lastMessage"] == "Inside the error budget"
