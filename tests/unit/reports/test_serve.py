"""The report server: a list, deep links, ETags, and nothing but the pages that a report lists."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from slo_pipeline.reports.files.folder import write_pages
from slo_pipeline.serve.app import application
from slo_pipeline.serve.shelf import Shelf
from testkit.generators.sample_report import report, sample_failover

Client = TestClient[web.Request, web.Application]
PAGE = "fo-demo.orders.2.html"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Two reports of which the older one alone tells of epoch 1, beside files that are not reports."""
    root = tmp_path / "reports"
    older = replace(sample_failover(), epoch=1, failover_id="demo/orders/1")
    write_pages(replace(report(), failovers=(older, sample_failover())), root / "week-46")
    newer = replace(report(), end_us=report().end_us + 1, title="Week <47>")
    write_pages(newer, root / "week-47")
    (root / "notes").mkdir()
    (root / "notes" / "index.html").write_text("no report")
    (root / "week-47" / "tables").mkdir()
    (root / "week-47" / "tables" / "budget.parquet").write_bytes(b"PAR1")
    (tmp_path / "secret.html").write_text("secret")
    return root


@pytest.fixture
async def client(shelf: Path) -> AsyncIterator[Client]:
    async with TestClient(TestServer(application(Shelf(shelf)))) as made:
        yield made


async def _text(client: Client, path: str) -> str:
    answer = await client.get(path)
    assert answer.status == 200, path
    return await answer.text()


async def test_the_list_names_reports_and_each_failover_once_as_the_newest_report_tells_it(
    client: Client,
) -> None:
    page = await _text(client, "/")
    assert page.index("Week &lt;47&gt;") < page.index("week-46")
    assert f'href="reports/week-47/failovers/{PAGE}"' in page
    assert f'href="reports/week-46/failovers/{PAGE}"' not in page
    assert 'href="reports/week-46/failovers/fo-demo.orders.1.html"' in page
    assert "notes" not in page


async def test_every_link_of_the_list_and_of_a_report_leads_to_a_page(client: Client) -> None:
    for path in ("reports/week-46/", "reports/week-47/", f"reports/week-47/failovers/{PAGE}"):
        assert "<h1>" in await _text(client, f"/{path}")
    assert 'href="../index.html"' in await _text(client, f"/reports/week-47/failovers/{PAGE}")
    assert "<h1>" in await _text(client, "/reports/week-47/index.html")


async def test_a_failover_is_found_by_its_epoch_in_the_newest_report(client: Client) -> None:
    answer = await client.get("/failovers/demo/orders/2")
    assert (answer.status, answer.url.path) == (200, f"/reports/week-47/failovers/{PAGE}")
    answer = await client.get("/failovers/demo/orders/1")
    assert answer.url.path == "/reports/week-46/failovers/fo-demo.orders.1.html"
    assert (await client.get("/failovers/demo/orders/9")).status == 404


async def test_a_page_that_has_not_changed_is_not_sent_again(client: Client, shelf: Path) -> None:
    first = await client.get("/reports/week-47/")
    etag = first.headers["ETag"]
    again = await client.get("/reports/week-47/", headers={"If-None-Match": etag})
    assert (again.status, await again.read(), again.headers["ETag"]) == (304, b"", etag)
    write_pages(replace(report(), title="another"), shelf / "week-47")
    changed = await client.get("/reports/week-47/", headers={"If-None-Match": etag})
    assert changed.status == 200
    assert changed.headers["ETag"] != etag


@pytest.mark.parametrize(
    "path",
    [
        "/reports/",
        "/reports/nothing/",
        "/reports/notes/",
        "/reports/week-47/report.json",
        "/reports/week-47/tables/budget.parquet",
        "/reports/week-47/tables/",
        "/reports/week-47/failovers/",
        "/reports/week-47/failovers/..%2findex.html",
        "/reports/..%2f..%2fsecret.html",
        "/secret.html",
    ],
)
async def test_nothing_but_listed_pages_is_served(client: Client, path: str) -> None:
    answer = await client.get(path)
    assert answer.status == 404
    assert "secret" not in await answer.text()


async def test_a_link_out_of_the_directory_is_not_followed(
    client: Client,
    shelf: Path,
    tmp_path: Path,
) -> None:
    (shelf / "week-47" / "failovers" / PAGE).unlink()
    (shelf / "week-47" / "failovers" / PAGE).symlink_to(tmp_path / "secret.html")
    assert (await client.get(f"/reports/week-47/failovers/{PAGE}")).status == 404


async def test_a_damaged_summary_hides_its_report_and_no_other(client: Client, shelf: Path) -> None:
    (shelf / "week-47" / "report.json").write_text(
        '{"title": "x", "failovers": [{"page": "../../secret.html"}]}'
    )
    page = await _text(client, "/")
    assert "week-46" in page
    assert "week-47" not in page


def test_the_same_report_makes_the_same_files_and_takes_old_pages_away(tmp_path: Path) -> None:
    def files(folder: str) -> dict[str, bytes]:
        root = tmp_path / folder
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    write_pages(report(), tmp_path / "a")
    renamed = replace(sample_failover(), failover_id="demo/orders/7", epoch=7)
    write_pages(replace(report(), failovers=(renamed,)), tmp_path / "b")
    assert "failovers/fo-demo.orders.7.html" in files("b")
    write_pages(report(), tmp_path / "b")
    assert files("a") == files("b")
    assert set(files("a")) == {"index.html", "report.json", f"failovers/{PAGE}"}
    assert json.loads(files("a")["report.json"])["failovers"][0]["failover_id"] == "demo/orders/2"


def test_names_that_differ_only_in_where_a_part_ends_have_pages_of_their_own(tmp_path: Path) -> None:
    ids = ("main/a-b/2", "main-a/b/2", "main/a_b/2")
    failovers = tuple(replace(sample_failover(), failover_id=one) for one in ids)
    write_pages(replace(report(), failovers=failovers), tmp_path)
    assert len(list((tmp_path / "failovers").iterdir())) == 3
