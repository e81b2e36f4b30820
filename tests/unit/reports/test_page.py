"""The page as such: complete, safe, small, the same bytes for the same values. No Spark here."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from slo_pipeline.reports.drawing.style import CSS
from slo_pipeline.reports.files import lists
from slo_pipeline.reports.page import objectives
from slo_pipeline.reports.page.document import render, render_failover
from slo_pipeline.reports.page.incidents import CARDS_MAX, KUBERNETES_LISTED_MAX
from slo_pipeline.reports.page.states import verdict
from slo_pipeline.reports.values.model import BadSecond, ImpossibleTimes, Mark, Report
from testkit.generators.sample_report import report, sample_failover

PAGE_BYTES_MAX = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def page() -> str:
    return render(report())


def _tree(page: str) -> ElementTree.Element:
    """Parse the page as XML: it is well-formed up to its doctype."""
    return ElementTree.fromstring(page.removeprefix("<!doctype html>\n"))  # noqa: S314 - our own page


def test_the_same_values_make_the_same_bytes(page: str) -> None:
    assert render(report()) == page


def test_the_page_is_well_formed_and_every_id_is_used_once(page: str) -> None:
    ids = [element.get("id") for element in _tree(page).iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_every_picture_says_what_it_shows(page: str) -> None:
    pictures = list(_tree(page).iter(f"{SVG}svg"))
    assert len(pictures) > 10
    for picture in pictures:
        names = {element.get("id") for element in picture}
        assert picture.get("role") == "img"
        assert picture.findtext(f"{SVG}title")
        assert picture.findtext(f"{SVG}desc")
        assert set((picture.get("aria-labelledby") or "").split()) <= names


def test_every_figure_has_its_numbers_in_a_table(page: str) -> None:
    figures = list(_tree(page).iter("figure"))
    assert figures
    assert all(figure.find(".//table") is not None for figure in figures)


def test_the_page_begins_with_links_to_its_sections_in_their_order(page: str) -> None:
    (links,) = (nav for nav in _tree(page).iter("nav") if nav.get("aria-label") == "Sections")
    linked = [(one.get("href"), one.text) for one in links]
    sections = [(f"#{one.get('id')}", one.findtext("h2")) for one in _tree(page).iter("section")]
    assert sections
    assert linked == [*sections, ("#method", "How it is measured")]


def test_links_lead_to_places_on_the_page(page: str) -> None:
    tree = _tree(page)
    ids = {element.get("id") for element in tree.iter()}
    links = [element.get("href", "") for element in tree.iter("a")]
    assert links
    assert all(link.startswith("#") and link[1:] in ids for link in links)


def test_a_failover_without_a_card_is_linked_to_its_own_page_and_that_one_leads_back() -> None:
    one = sample_failover()
    many = tuple(
        replace(one, failover_id=f"demo/orders/{epoch}", epoch=epoch, elected_us=one.elected_us + epoch)
        for epoch in range(1, CARDS_MAX + 2)
    )
    shown = replace(report(), failovers=many)
    assert 'href="failovers/fo-demo.orders.1.html"' in render(shown)
    own = render_failover(shown, many[1], many[0], many[2])
    assert 'href="../index.html"' in own
    assert 'href="fo-demo.orders.1.html" rel="prev"' in own
    assert 'href="fo-demo.orders.3.html" rel="next"' in own
    assert own.count("<article") == 1
    ids = [element.get("id") for element in _tree(own).iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_the_first_words_after_the_verdict_are_about_the_last_failover(page: str) -> None:
    assert page.index("The last failover") < page.index("What burned it")
    words = page[page.index("The last failover") : page.index("What burned it")]
    assert all(phase in words for phase in ("detection 4", "election 5", "promotion 51", "first write 170"))


def test_nothing_is_fetched_and_nothing_runs(page: str) -> None:
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert not re.search(r"url\(|@import|<script|\son\w+=", page)
    assert "default-src &#x27;none&#x27;" in page


def test_names_from_the_cluster_never_become_markup() -> None:
    evil = "<img src=x onerror=alert(1)>\"'&"
    failover = replace(
        sample_failover(), group=evil, fault=evil, new_master_address=evil, failover_id=f"c/{evil}/2"
    )
    shown = report()
    group = replace(shown.groups[0], name=evil)
    page = render(replace(shown, title=evil, failovers=(failover,), groups=(group,)))
    _tree(page)
    assert "<img" not in page
    assert "&lt;img src=x" in page


def test_a_year_of_failovers_stays_under_a_megabyte_and_the_list_names_all() -> None:
    one = sample_failover()
    many = tuple(
        replace(
            one,
            failover_id=f"demo/orders/{epoch}",
            epoch=epoch,
            elected_us=one.elected_us + epoch * 60_000_000,
        )
        for epoch in range(2, 152)
    )
    page = render(replace(report(), failovers=many))
    assert len(page.encode()) < PAGE_BYTES_MAX
    assert page.count("<article") == CARDS_MAX
    assert all(f"orders, {failover.epoch}<" in page for failover in many)


def _crowd(failovers: int, groups: int) -> Report:
    """Return a report of a large cluster, with names that need more than a byte a character."""
    shown, one = report(), sample_failover()
    names = [f"注文-{number:04d}-" + "long-name-" * 4 for number in range(groups)]
    bad = tuple(BadSecond(shown.start_us + at * 50_000, "failover", None) for at in range(failovers))
    return replace(
        shown,
        groups=tuple(
            replace(shown.groups[0], name=name, bad_seconds=bad if name == names[0] else ()) for name in names
        ),
        failovers=tuple(
            replace(one, failover_id=f"demo/{names[at % groups]}/{at}", group=names[at % 2], epoch=at,
                    elected_us=one.elected_us + at * 40_000)
            for at in range(failovers)
        ),
        objectives=tuple(
            replace(shown.objectives[0], slo=slo, group=name) for slo in "abcdefgh" for name in names
        ),
        pages=tuple(replace(shown.pages[0], group=names[at % groups]) for at in range(failovers)),
        coverage=tuple(replace(shown.coverage[0], instance=name) for name in names),
    )  # fmt: skip


def test_a_page_of_ten_thousand_failovers_and_two_thousand_groups_stays_under_a_megabyte() -> None:
    page = render(_crowd(10_000, 2_000))
    assert len(page.encode()) < PAGE_BYTES_MAX
    for name in ("objectives", "paged", "failovers", "availability", "latency", "durability", "quality"):
        assert f'href="lists/{name}-1.html">All of them' in page, name
    ids = [element.get("id") for element in _tree(page).iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_a_page_of_many_groups_that_nobody_measured_and_many_wrong_clocks_stays_under_a_megabyte() -> None:
    shown = _crowd(1, 500)
    wrong = ImpossibleTimes("probe_ops", "canary/2", "payments", True, 50, shown.end_us + 1, shown.end_us + 2)
    dark = tuple(replace(group, good_s=0, bad_s=0, unknown_s=0) for group in shown.groups)
    page = render(replace(shown, groups=dark, apart=(wrong,) * 500))
    assert len(page.encode()) < PAGE_BYTES_MAX
    for name in ("missing", "apart"):
        assert f'href="lists/{name}-1.html">All of them' in page, name


def test_a_table_that_the_page_cuts_is_whole_in_files_that_lead_to_each_other() -> None:
    shown = _crowd(30, 200)
    files = dict(lists.pages(shown))
    rows = [name for name in files if name.startswith("objectives-")]
    assert rows == [f"objectives-{number}.html" for number in range(1, len(rows) + 1)]
    assert len(rows) > 1
    assert sum(files[name].count("<tr>") - 1 for name in rows) == len(shown.objectives)
    for name, text in files.items():
        assert len(text.encode()) < PAGE_BYTES_MAX, name
        tree = _tree(text)
        links = [element.get("href", "") for element in tree.iter("a")]
        assert all(link == "../index.html" or link in files for link in links), name
    assert 'href="objectives-2.html">Next' in files["objectives-1.html"]
    assert not dict(lists.pages(report()))


def _calls(failovers: int, groups: int) -> int:
    """Return how many calls of Python functions it takes to make all rows of a report's tables."""
    shown, counted = _crowd(failovers, groups), 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        for table in lists.TABLES:
            list(table(shown).rows)
        objectives.summary(shown)
    finally:
        sys.setprofile(None)
    return counted


def test_the_work_grows_with_the_failovers_and_groups_and_not_with_their_square() -> None:
    first, second, third = (_calls(times * 60, times * 10) for times in (1, 2, 3))
    assert third - second < 1.5 * (second - first)


def test_both_colour_schemes_define_the_same_colours() -> None:
    light, dark = (
        set(re.findall(r"(--[\w]+):", block)) for block in CSS.split("@media (prefers-color-scheme:dark)")[:2]
    )
    used = set(re.findall(r"var\((--\w+)\)", CSS))
    assert used <= light
    assert light <= dark | {"--page"}


def test_long_names_wrap_and_are_clipped_in_pictures() -> None:
    name = "a" * 120
    failover = replace(sample_failover(), group=name, fault=name)
    page = render(replace(report(), failovers=(failover,), groups=(replace(report().groups[0], name=name),)))
    assert f'<span class="long">{name}</span>' in page
    assert all(len(element.text or "") < 120 for element in _tree(page).iter(f"{SVG}text"))


def _judged(**changes: object) -> Report:
    shown = report()
    return replace(shown, groups=(replace(shown.groups[0], **changes),))


def test_the_headline_is_good_news_only_inside_the_budget_and_with_nothing_lost() -> None:
    shown = report()
    measured = "9 min 54 s of 30 d measured in payments"
    assert verdict(shown) == (f"Inside the error budget, {measured}", True)
    said, good = verdict(_judged(bad_s=1_297))
    assert (said.partition(",")[0], good) == ("Outside the error budget", False)
    durability = shown.groups[0].durability
    assert durability is not None
    assert verdict(_judged(durability=replace(durability, lost=2))) == ("2 acknowledged messages lost", False)
    assert verdict(replace(shown, groups=())) == ("Nothing was measured", False)


def test_a_pipeline_that_does_not_add_up_says_so(page: str) -> None:
    assert "They agree." in page
    assert "this report is wrong" in render(replace(report(), booked_s=3))


def test_an_overspent_objective_is_named_on_the_first_screen(page: str) -> None:
    assert "Overspent" not in page
    broken = replace(report().objectives[1], bad=1)
    shown = render(replace(report(), objectives=(report().objectives[0], broken)))
    lead = shown[shown.index('class="lead"') : shown.index('class="tiles"')]
    assert "Overspent: durability." in lead
    assert "Outside the error budget" in shown


def test_the_state_of_each_objective_stands_before_any_failover(page: str) -> None:
    assert page.index("card states") < page.index("The last failover")
    assert page.index('id="objectives"') < page.index('id="failovers"') < page.index("<article")


@pytest.mark.parametrize(
    ("rows", "said"), [(None, None), (0, "0 rows came after"), (7, "7 rows came after their day")]
)
def test_the_data_quality_line_counts_late_rows_where_somebody_keeps_book(
    rows: int | None, said: str | None
) -> None:
    page = render(replace(report(), late_rows=rows))
    quality = page[page.index('id="quality"') :]
    assert (said in quality) if said else ("came after" not in quality)


class _Tables(HTMLParser):
    """Collects the rows of the table that follows a heading."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self._in = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag == "td"
        if tag == "tr":
            self.cells.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in:
            self.cells.append(data)


def test_the_sums_under_the_tables_are_the_sums_of_their_rows(page: str) -> None:
    start = page.index('id="availability"')
    parser = _Tables()
    parser.feed(page[start : page.index("</table>", start)])
    rows = [row.split("\t") for row in "\t".join(parser.cells).split("\n")]
    numbers = [
        [int(cell.replace(",", "")) for cell in row[3:6]]
        for row in rows
        if len(row) > 6 and "All groups" not in row
    ]
    total = next(row for row in rows if "All groups" in row)
    summed = [sum(column) for column in zip(*numbers, strict=True)]
    assert [int(cell.replace(",", "")) for cell in total if cell.replace(",", "").isdecimal()] == summed


def test_a_report_without_any_failover_or_sample_says_so() -> None:
    shown = report()
    bare = replace(shown.groups[0], latency=None, lag=(), durability=None, series=(), bad_seconds=(), bad_s=0)
    page = render(replace(shown, failovers=(), groups=(bare,), coverage=(), booked_s=0, counted_s=0))
    for words in (
        "No master changed",
        "No replica reported its lag",
        "Nothing was scraped",
        "message loss is unknown",
    ):
        assert words in page


def test_what_kubernetes_said_is_told_beside_a_change_and_cut_at_a_bound() -> None:
    plain = sample_failover()
    assert "What Kubernetes said" not in render_failover(report(), plain)
    said = tuple(
        Mark(plain.begin_us + at, "KubernetesEvent", "kubernetes", None, f"Pod orders-1: Killing: <{at}>")
        for at in range(KUBERNETES_LISTED_MAX + 3)
    )
    page = render_failover(report(), replace(plain, marks=plain.marks + said))
    assert "Pod orders-1: Killing: &lt;0&gt;" in page
    assert f"&lt;{KUBERNETES_LISTED_MAX}&gt;" not in page
    assert "and 3 more Events" in page
    _tree(page)
