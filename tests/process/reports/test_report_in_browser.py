"""The report in a browser without a network.

The first screen is complete, on any width, light and dark.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slo_pipeline.reports.files.folder import write_pages
from testkit.generators.sample_report import report
from testkit.processes.chromium import Tab, browser_path, browsing

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(180),
    pytest.mark.skipif(browser_path() is None, reason="no Chromium on the PATH"),
]

SCREEN = (1280, 900)
# Where the end of an element lies on the page, and all that stands outside of it.
BOTTOM = "Math.round(document.querySelector({0!r}).getBoundingClientRect().bottom)"
OVERFLOW = "document.scrollingElement.scrollWidth - window.innerWidth"
CUT = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const own = text.getBoundingClientRect();
    return own.width && (own.left < box.left - 2 || own.right > box.right + 2 || own.bottom > box.bottom + 3);
  }).map(text => text.textContent);
})"""


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Tab]:
    write_pages(report(), tmp_path / "report")
    async with browsing(tmp_path) as made:
        yield made


async def test_the_report_answers_on_the_first_screen_and_asks_for_nothing(page: Tab, tmp_path: Path) -> None:
    index = tmp_path / "report" / "index.html"
    await page.load(index, *SCREEN)
    for answer in (".verdict", ".lead", ".states", ".tiles"):
        assert await page.evaluate(BOTTOM.format(answer)) <= SCREEN[1], answer
    assert page.asked_for == [index.as_uri()]
    assert await page.evaluate("document.scripts.length") == 0
    assert await page.evaluate("[...document.images].length") == 0


async def test_nothing_is_cut_off_on_a_wide_and_on_a_narrow_screen(page: Tab, tmp_path: Path) -> None:
    for file in ("index.html", "failovers/fo-demo.orders.2.html"):
        for width in (1900, 1280, 1100, 768, 390):
            await page.load(tmp_path / "report" / file, width, 900)
            assert await page.evaluate(OVERFLOW) <= 0, (file, width)
        await page.load(tmp_path / "report" / file, *SCREEN)
        assert await page.evaluate(CUT) == [], file


async def test_dark_is_dark_and_texts_differ_from_their_ground(page: Tab, tmp_path: Path) -> None:
    def colour(selector: str, name: str) -> str:
        return f"getComputedStyle(document.querySelector({selector!r})).{name}"

    for dark in (False, True):
        await page.load(tmp_path / "report" / "index.html", *SCREEN, dark=dark)
        ground = _brightness(await page.evaluate(colour("body", "backgroundColor")))
        ink = _brightness(await page.evaluate(colour("body", "color")))
        assert (ground < 60) == dark
        assert abs(ground - ink) > 150


def _brightness(colour: str) -> float:
    numbers = [float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    return sum(numbers) / len(numbers)


async def test_every_link_leads_somewhere_and_every_section_is_there(page: Tab, tmp_path: Path) -> None:
    await page.load(tmp_path / "report" / "index.html", *SCREEN)
    targets = "[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
    missing = f"{targets}.filter(href => href.startsWith('#') && !document.getElementById(href.slice(1)))"
    assert await page.evaluate(missing) == []
    sections = await page.evaluate("[...document.querySelectorAll('section')].map(one => one.id)")
    assert sections == [
        "objectives", "failovers", "availability", "latency",
        "replication", "durability", "missing", "quality",
    ]  # fmt: skip
