"""The report server and damaging jobs, clusters and proxies: names, numbers, prefixes, compression."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from slo_pipeline.reports.files.folder import write_pages
from slo_pipeline.reports.values.file_names import NAME_BYTES_MAX
from slo_pipeline.serve import shelf as shelves
from slo_pipeline.serve.app import application
from slo_pipeline.serve.shelf import Shelf
from testkit.generators.sample_report import report, sample_failover

Client = TestClient[web.Request, web.Application]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A server of `tmp_path`, where a proxy would take the prefix /slo away."""
    outer = web.Application()
    outer.add_subapp("/slo", application(Shelf(tmp_path)))
    async with TestClient(TestServer(outer)) as made:
        yield made


async def _text(client: Client, path: str) -> str:
    answer = await client.get(f"/slo{path}")
    assert answer.status == 200, path
    return await answer.text()


def _summary(folder: Path, **changes: Any) -> None:
    folder.mkdir(exist_ok=True)
    whole = {"title": folder.name, "start_us": 1, "end_us": 2, "verdict": "v", "good": True, "failovers": []}
    (folder / "report.json").write_text(json.dumps(whole | changes))


@pytest.mark.parametrize("group", ["注文", "a" * 127, "заказы-" * 18, "or ders", "a.b", "%2f", "a/b"])
async def test_a_group_of_any_name_has_a_page_that_is_found(
    client: Client, tmp_path: Path, group: str
) -> None:
    failover = replace(sample_failover(), group=group, failover_id=f"demo/{group}/2")
    write_pages(replace(report(), failovers=(failover,)), tmp_path / "week")
    (page,) = (tmp_path / "week" / "failovers").iterdir()
    assert len(page.name.encode()) <= NAME_BYTES_MAX
    assert page.name.isascii()
    assert f"failovers/{page.name}" in await _text(client, "/")
    assert "<article" in await _text(client, f"/reports/week/failovers/{page.name}")
    if "/" not in group:  # in an address it would be two segments
        answer = await client.get(URL("/slo/failovers") / "demo" / group / "2")
        assert (answer.status, answer.url.name) == (200, page.name)


@pytest.mark.parametrize("name", ["week 47", "неделя", "a:b", "100%", "x" * 120, "w&q=1#f"])
async def test_a_folder_of_any_visible_name_is_listed_and_served(
    client: Client, tmp_path: Path, name: str
) -> None:
    write_pages(report(), tmp_path / name)
    page = await _text(client, "/")
    address = page.split('href="reports/')[1].split('"')[0]
    assert "<h1>" in await _text(client, f"/reports/{address}")
    answer = await client.get(URL("/slo/reports") / name)
    assert (answer.status, answer.url.path) == (200, f"/slo/reports/{name}/")
    answer = await client.get("/slo/failovers/demo/orders/2")
    assert answer.status == 200


@pytest.mark.parametrize("name", [".hidden", "a\\b"])
async def test_a_hidden_folder_is_not_a_report(client: Client, tmp_path: Path, name: str) -> None:
    write_pages(report(), tmp_path / name)
    assert "No reports yet." in await _text(client, "/")
    assert (await client.get(URL("/slo/reports") / name)).status == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"end_us": None},
        {"end_us": "x"},
        {"end_us": 10**30},
        {"end_us": -1},
        {"end_us": True},
        {"title": 7},
        {"verdict": None},
        {"good": "yes"},
        {"failovers": 7},
        {"budget_left": "x"},
        {"title": "\ud800"},
        {"failovers": [{"page": "p.html", "failover_id": "a/b/1"}]},
        {"failovers": [
            None, 7, {"page": "../../x", "failover_id": "a/b/1", "heading": "h", "elected_us": 1, "bad_s": 1},
        ]},
    ],
    ids=str,
)  # fmt: skip
async def test_a_summary_with_a_wrong_field_takes_no_other_report_down(
    client: Client, tmp_path: Path, changes: dict[str, Any]
) -> None:
    write_pages(report(), tmp_path / "good")
    _summary(tmp_path / "bad", **changes)
    page = await _text(client, "/")
    assert 'href="reports/good/"' in page
    assert (await client.get("/slo/failovers/demo/orders/2")).status == 200
    assert (await client.get("/slo/reports/bad/")).status == 404


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "1" * 5_000, "\x00", '{"failovers": NaN}'])
async def test_a_file_that_is_no_summary_hides_its_folder_and_the_list_counts_it(
    client: Client, tmp_path: Path, text: str
) -> None:
    write_pages(report(), tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "report.json").write_text(text)
    page = await _text(client, "/")
    assert 'href="reports/good/"' in page
    assert "1 folder not shown" in page


async def test_of_very_many_reports_the_oldest_go_and_the_list_is_paged(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "REPORTS_MAX", 250)
    for number in range(260):
        # Neither by name nor by position in the directory is the newest the last one.
        folder = tmp_path / f"r-{(number * 37) % 260:03d}-{number}"
        _summary(folder, title=f"<{number}>", end_us=number + 10)
        os.utime(folder / "report.json", ns=(number * 10**9, number * 10**9))
    first, second, last = [await _text(client, f"/?reports={page}") for page in (1, 2, 3)]
    assert first.index("&lt;259&gt;") < first.index("&lt;258&gt;")
    assert "&lt;259&gt;" not in second
    assert "&lt;10&gt;" in last
    assert all("&lt;9&gt;" not in page for page in (first, second, last))
    assert "?reports=2&amp;failovers=1#reports" in first
    assert await _text(client, "/?reports=99") == last
    assert await _text(client, "/?reports=x") == first


def test_a_report_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    _summary(tmp_path / "a", title="old")
    shelf = Shelf(tmp_path)
    assert [one.summary.title for one in shelf.reports()] == ["old"]
    _summary(tmp_path / "a", title="newer")
    assert [one.summary.title for one in shelf.reports()] == ["newer"]


def test_changes_that_are_not_held_in_memory_are_read_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        failover = replace(sample_failover(), epoch=number, failover_id=f"demo/orders/{number}")
        write_pages(replace(report(), failovers=(failover,)), tmp_path / f"r-{number}")
    whole = Shelf(tmp_path).changes(10)
    monkeypatch.setattr(shelves, "CHANGES_HELD_MAX", 1)
    shelf = Shelf(tmp_path)
    assert [one.failover_id for _, one in shelf.changes(10)] == [one.failover_id for _, one in whole]
    assert sum(not one.is_whole for one in shelf.reports()) == 2
    for number in range(3):
        assert shelf.newest_with(f"demo/orders/{number}") is not None


async def test_failovers_are_grouped_by_cluster_and_group_and_each_group_has_a_list_of_all(
    client: Client, tmp_path: Path
) -> None:
    one = sample_failover()
    many = tuple(
        replace(one, failover_id=f"{cluster}/orders/{epoch}", cluster=cluster, epoch=epoch,
                elected_us=one.elected_us + epoch)
        for cluster in ("east", "west")
        for epoch in range(1, 9)
    )  # fmt: skip
    write_pages(replace(report(), failovers=many), tmp_path / "week")
    page = await _text(client, "/")
    assert page.index("east/orders</h3>") < page.index("west/orders</h3>")
    assert page.count("Failover of orders to epoch") == 10
    assert "8 failovers, 0 switchovers, longest gap 478\u00a0ms" in page
    own = await _text(client, "/?of=east%2Forders")
    assert own.count("Failover of orders to epoch") == 8
    assert "west" not in own


async def test_the_list_tells_state_budget_and_how_much_was_measured(client: Client, tmp_path: Path) -> None:
    write_pages(report(), tmp_path / "week")
    page = await _text(client, "/")
    assert "✓ kept" in page
    assert "9 min 54 s of 30 d" in page
    assert "99.9\u00a0%" in page
    assert "write-availability of orders" in page


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate", "gzip"),
        ("deflate, GZIP;q=0.5", "gzip"),
        ("*", "gzip"),
        ("gzip;q=0, *", None),
        ("gzip;q=x", None),
        ("br", None),
        ("identity", None),
    ],
)
async def test_a_page_is_compressed_for_clients_that_take_gzip(
    client: Client, tmp_path: Path, accepted: str, coding: str | None
) -> None:
    write_pages(report(), tmp_path / "week")
    plain = (tmp_path / "week" / "index.html").read_bytes()
    answer = await client.get("/slo/reports/week/", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == coding
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert await answer.read() == plain
    sent = int(answer.headers["Content-Length"])
    assert sent < len(plain) / 3 if coding else sent == len(plain)
    known = {"If-None-Match": answer.headers["ETag"], "Accept-Encoding": "identity"}
    assert (await client.get("/slo/reports/week/", headers=known)).status == 304


async def test_pages_of_long_tables_are_served_if_the_summary_names_them(
    client: Client, tmp_path: Path
) -> None:
    shown = report()
    kept = tuple(replace(shown.objectives[0], group=f"group-{number}") for number in range(300))
    write_pages(replace(shown, objectives=kept), tmp_path / "week")
    assert "lists/objectives-1.html" in await _text(client, "/reports/week/")
    assert "group-299" in await _text(client, "/reports/week/lists/objectives-1.html")
    (tmp_path / "week" / "lists" / "other.html").write_text("other")
    assert (await client.get("/slo/reports/week/lists/other.html")).status == 404
    write_pages(shown, tmp_path / "week")
    assert not list((tmp_path / "week" / "lists").iterdir())
