"""The report is one HTML file.

Its first screen answers whether we are inside the budget and what burned it.

Problem: most reports begin with a chart and leave the answer to the reader. Shape: verdict, how much was
measured, the state of each objective, four numbers, the last change of master in words and one picture, the
budget spent; below, everything else in the order in which questions come. No line is better news than the
lines below it: the verdict is the worst state. One file, no script, no external address, light and dark,
printable; the same input makes the same bytes, as the page's only clock is the end of its data. A new section
is a function that returns `parts.section(...)`, and one line in `render`, which also makes the link to it.
Never: no number without its unit, no plot without its table.
"""

from collections.abc import Iterable
from typing import Final

from slo_pipeline.reports.drawing import charts
from slo_pipeline.reports.drawing.markup import Markup, join, tag
from slo_pipeline.reports.drawing.style import CSS
from slo_pipeline.reports.drawing.timeline import timelines
from slo_pipeline.reports.page import incidents, missing, objectives, parts, states
from slo_pipeline.reports.page.sections import availability, durability, latency, quality, replication
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import Failover, GroupReport, Report

PAGE_BYTES_MAX: Final = 950_000
# What all but the changes of master and the pictures takes at most: the tables, each with its own bound, the
# style, the words.
OTHERS_BYTES: Final = 280_000
SPENT_GROUPS_MAX: Final = 8
NAME_CHARACTERS_MAX: Final = 40
# The colour of the headline by the report's state.
HEADLINES: Final = {states.OVERSPENT: "alarm", states.BURNING: "warned"}
METHOD: Final = ("method", "How it is measured")
"""Anchor and heading of the page's last part."""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def render(report: Report) -> str:
    """Return the report as one HTML document."""
    cards = cards_of(report)
    failovers = _failovers(report, len(cards))
    # Each of the three sections with pictures gets a third of the room that the changes of master leave.
    room = max(0, PAGE_BYTES_MAX - OTHERS_BYTES - len(join((failovers, *cards)).encode())) // 3
    first = (objectives.section(report), failovers)
    rest = (
        availability(report, room),
        latency(report, room),
        replication(report, room),
        durability(report),
        missing.section(report),
        quality(report),
    )
    body = tag(
        "body",
        _header(report, (*first, *rest)),
        tag("main", _first_screen(report, len(cards)), *first, *cards, *rest),
        _footer(report),
    )
    return document(f"{report.title}: {words.period(report.start_us, report.end_us)}", body)


def cards_of(report: Report) -> list[Markup]:
    """Return the changes of master that the page shows in full: the last ones, as many as it has room for."""
    last = incidents.newest_first(report)[: incidents.CARDS_MAX]
    return parts.fitting((incidents.card(report, one) for one in last), incidents.CARDS_BYTES_MAX)


def render_failover(
    report: Report, failover: Failover, earlier: Failover | None = None, later: Failover | None = None
) -> str:
    """Return the page of one change of master: what a link in a ticket leads to.

    Args:
        report: that tells of it.
        failover: the change.
        earlier: the change before it, if that has a page.
        later: the change after it, if that has a page.
    """
    title = f"{incidents.heading(failover)}, {words.iso(failover.elected_us)} UTC"
    head = tag(
        "header",
        tag("h1", report.title),
        tag(
            "p",
            tag("a", f"Report of {words.period(report.start_us, report.end_us)}", href="../index.html"),
            class_="sub",
        ),
        _turn(earlier, later),
    )
    body = tag("body", head, tag("main", incidents.card(report, failover)), _footer(report))
    return document(title, body)


def _turn(earlier: Failover | None, later: Failover | None) -> Markup | None:
    """Lead to the change before and to the change after."""
    ways = (("prev", "← Previous: ", earlier), ("next", "Next: ", later))
    links = [
        tag("a", said, parts.named(incidents.heading(one)), " →" if rel == "next" else None,
            href=incidents.page_name(one), rel=rel)
        for rel, said, one in ways
        if one is not None
    ]  # fmt: skip
    return tag("nav", *links, aria_label="Changes of master") if links else None


def document(title: str, body: Markup) -> str:
    """Return a whole page in the reports' looks."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", Markup(CSS)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(report: Report, sections: Iterable[parts.Section]) -> Markup:
    links = [*((one.anchor, one.heading) for one in sections), METHOD]
    return tag(
        "header",
        tag("h1", report.title),
        tag("p", words.period(report.start_us, report.end_us), class_="sub"),
        tag("nav", *[tag("a", label, href=f"#{name}") for name, label in links], aria_label="Sections"),
    )


def _first_screen(report: Report, cards: int) -> Markup:
    state = states.overall(report)
    what, how_much = states.headline(report)
    return join(
        one
        for one in (
            tag(
                "div",
                states.sign(state),
                tag("p", what, tag("small", how_much) if how_much else None, class_=HEADLINES.get(state)),
                class_="verdict",
            ),
            _lead(report),
            missing.silent(report),
            objectives.summary(report),
            parts.tiles(_tiles(report)),
            _last(report, cards),
            _spending(report),
        )
        if one is not None
    )


def _lead(report: Report) -> Markup:
    """Say what burned the budget, in one sentence."""
    kinds = dict.fromkeys(words.BOOKINGS, 0)
    for group in report.groups:
        for bad in group.bad_seconds:
            kinds[bad.booking] += 1
    total = sum(kinds.values())
    if total == 0:
        measured = sum(group.measured_s for group in report.groups)
        said = f"In none of {words.count(measured, 'measured second')} did a write fail. " if measured else ""
        return tag("p", said, _broken(report), class_="lead")
    named = [f"{words.seconds(amount)} to {words.BOOKINGS[kind]}" for kind, amount in kinds.items() if amount]
    where = "" if len(report.groups) == 1 else f" in {words.count(len(report.groups), 'group')}"
    return tag(
        "p",
        "Writes failed in ",
        tag("b", words.count(total, "second")),
        f"{where}: {', '.join(named)}. ",
        f"The objective is {words.plain(report.target_percent, 4)}{words.NBSP}% of all seconds in "
        f"{report.window_days} days, which allows each group {words.seconds(report.budget_s)}. ",
        _broken(report),
        class_="lead",
    )


def _broken(report: Report) -> Markup | None:
    """Name the objectives that are overspent and those that burn, and lead to them."""
    worst = states.worst_of_each(report.objectives)
    said = []
    for state in (states.OVERSPENT, states.BURNING):
        found = [kept.slo for kept in worst if states.state(kept) == state]
        if found:
            said.append(f"{state.capitalize()}: {', '.join(found)}.")
    return tag("a", " ".join(said), href="#objectives") if said else None


def _tiles(report: Report) -> list[parts.Tile]:
    worst = report.worst
    if worst is None:
        return []
    judged = worst.good_s + worst.bad_s
    left = 1.0 - worst.bad_s / report.budget_s if report.budget_s else 0.0
    known = worst.is_measured or worst.bad_s > report.budget_s
    # No number is green beside a budget that is overspent, burns or is unknown.
    calm = "calm" if states.overall(report) == states.KEPT else ""
    gaps = [one for one in report.failovers if one.write_gap_ms is not None and not one.is_planned]
    longest = max(gaps, key=lambda one: one.write_gap_ms or 0.0, default=None)
    checked = [group.durability for group in report.groups if group.durability]
    lost = sum(one.lost for one in checked)
    whose = f" of {words.clipped(worst.name, NAME_CHARACTERS_MAX)}" if len(report.groups) > 1 else ""
    return [
        parts.Tile(
            "Write budget left",
            words.percent(left, decimals=1) if known else words.UNKNOWN,
            f"{words.seconds(worst.bad_s)} of {words.seconds(report.budget_s)}{whose} spent, "
            f"{states.measured(report, [worst])} measured",
            "alarm" if left <= 0 and known else calm,
        ),
        parts.Tile(
            "Write availability",
            words.percent(worst.availability),
            f"{words.plain(worst.good_s)} of {words.plain(judged)} measured seconds{whose}",
        ),
        parts.Tile(
            "Longest failover",
            words.ms(longest.write_gap_ms) if longest else words.NONE,
            f"without an acknowledged send, {words.clipped(longest.group, NAME_CHARACTERS_MAX)} epoch "
            f"{longest.epoch}"
            if longest
            else "no failover",
        ),
        parts.Tile(
            "Acknowledged lost",
            words.plain(lost) if checked else words.NONE,
            f"of {words.plain(sum(one.acknowledged for one in checked))} read back"
            if checked
            else "nothing read back",
            "alarm" if lost else calm if checked else "",
        ),
    ]


def _spending(report: Report) -> Markup:
    """Show what each group spent as a bar, all on one scale."""
    scale_s = charts.spent_scale_s(report)
    note = (
        f"A full bar is {words.seconds(scale_s)}, {words.spent(scale_s / report.budget_s)} of a group's "
        "budget. "
        if report.budget_s
        else ""
    )
    most_spent = sorted(report.groups, key=lambda group: (-group.bad_s, group.name))[:SPENT_GROUPS_MAX]
    more = len(report.groups) - len(most_spent)
    rows = [
        (parts.named(group.name), tag("div", charts.spent_bar(report, group)), *_amounts(report, group))
        for group in most_spent
    ]
    heads = (
        "Group",
        "Writes failed",
        ">Failovers",
        ">Switchovers",
        ">Other known",
        ">Unexplained",
        ">Spent",
    )
    return tag(
        "div",
        tag("h3", "What burned it"),
        tag(
            "p",
            note,
            _booking_legend(report),
            f" {more} more groups spent less." if more else "",
            class_="note",
        ),
        parts.table(heads, rows, stacked=True),
        class_="card spend",
    )


def _booking_legend(report: Report) -> Markup:
    booked = {bad.booking for group in report.groups for bad in group.bad_seconds}
    always = {"failover", "switchover", "unexplained"}
    return tag(
        "span",
        *[
            tag("span", incidents.swatch(f"{kind}-f", kind), f" {kind} ", class_="key")
            for kind in words.BOOKINGS
            if kind in booked | always
        ],
    )


def _amounts(report: Report, group: GroupReport) -> tuple[str, str, str, str, str]:
    def amount(*kinds: str) -> str:
        return words.seconds(sum(1 for bad in group.bad_seconds if bad.booking in kinds))

    share = words.spent(group.bad_s / report.budget_s) if report.budget_s else words.NONE
    return (
        amount("failover"),
        amount("switchover"),
        amount(*words.OTHER_KNOWN),
        amount("unexplained"),
        share,
    )


def _last(report: Report, cards: int) -> Markup | None:
    if not report.failovers:
        return None
    ordered = incidents.newest_first(report)
    unplanned = [(place, one) for place, one in enumerate(ordered) if not one.is_planned]
    place, last = unplanned[0] if unplanned else (0, ordered[0])
    address = f"#{incidents.anchor(last)}" if place < cards else f"failovers/{incidents.page_name(last)}"
    more = tag("a", "Sends, SyncStateSet and phases of it", href=address)
    return tag(
        "div",
        incidents.kicker(last),
        tag("h3", "The last failover" if unplanned else "The last switchover"),
        incidents.story(last),
        incidents.phases_in_words(last),
        tag("div", timelines(last, "last"), class_="wide"),
        tag("p", more, class_="note") if place < incidents.LISTED_MAX else None,
        class_="card",
    )


def _failovers(report: Report, cards: int) -> parts.Section:
    total = len(report.failovers)
    if not total:
        return parts.section("failovers", "Failovers", tag("p", "No master changed in this period."))
    planned = sum(1 for one in report.failovers if one.is_planned)
    said = f"{words.count(total - planned, 'failover')} and {words.count(planned, 'switchover')}. "
    shown = f"The last {cards} are shown in full below." if total > cards else ""
    own = f" The last {incidents.LISTED_MAX} have pages of their own." if total > incidents.LISTED_MAX else ""
    table = parts.beginning(incidents.overview(report, cards))
    return parts.section("failovers", "Failovers", tag("p", said + shown + own, class_="note"), table)


def _footer(report: Report) -> Markup:
    terms = (
        (
            "Good second",
            "at least one send was intended in it, and all sends intended in it were acknowledged.",
        ),
        ("Bad second", "a send intended in it was not acknowledged."),
        ("Unknown second", "no send was intended in it. It counts neither way, and is shown."),
        (
            "Write gap",
            "longest stretch between two acknowledgements during the change, by the canary's clock alone.",
        ),
        (
            "Phase",
            "from the furthest mark so far to its own mark. Marks come from several clocks; none is "
            "negative.",
        ),
        (
            "Booked",
            "a bad second belongs to the latest failover, switchover or re-election whose interval it "
            "touches; else to a known fault that moved no master, else to a rollout, else to nothing: "
            "unexplained.",
        ),
        (
            "Latency",
            "from the intended time to the acknowledgement, so that waiting behind a stuck send counts.",
        ),
        ("Lost", "acknowledged, and not read back although the reader had come further."),
    )
    return tag(
        "footer",
        tag("h2", METHOD[1], id=METHOD[0]),
        tag("dl", *[part for name, meaning in terms for part in (tag("dt", name), tag("dd", meaning))]),
        tag("p", f"Data until {words.iso(report.end_us)} UTC. All times are UTC.", style="margin-top:22px"),
    )
