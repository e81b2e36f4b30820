"""The report: one HTML file that answers on its first screen whether we are inside the budget and what burned it.

Problem: most reports begin with a chart and leave the answer to the reader.
Shape: verdict, four numbers, what was spent, the last change of master in words and one picture; below, everything else in
the order in which questions come. One file, no script, no external address, light and dark, printable; the same input makes
the same bytes, as the page's only clock is the end of its data.
Never: no number without its unit, no plot without its table.
"""

from typing import Final

from slo_pipeline.reports import charts, incidents, missing, objectives, parts, words
from slo_pipeline.reports.markup import Markup, join, tag
from slo_pipeline.reports.model import Failover, Group, Report
from slo_pipeline.reports.sections import availability, durability, latency, quality, replication
from slo_pipeline.reports.style import CSS
from slo_pipeline.reports.timeline import timeline
from slo_pipeline.reports.verdict import verdict

SPENT_GROUPS_MAX: Final = 8
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def render(report: Report) -> str:
    """Return the report as one HTML document."""
    latest_first = tuple(
        sorted(report.failovers, key=lambda one: (one.elected_us, one.failover_id), reverse=True)
    )
    ordered = latest_first[: incidents.LISTED_MAX]
    body = tag(
        "body",
        _header(report),
        tag(
            "main",
            _first_screen(report),
            _failovers(report, len(latest_first)),
            *[incidents.card(report, failover) for failover in ordered[: incidents.CARDS_MAX]],
            objectives.section(report),
            availability(report),
            latency(report),
            replication(report),
            durability(report),
            missing.section(report),
            quality(report),
        ),
        _footer(report),
    )
    return document(f"{report.title}: {words.period(report.start_us, report.end_us)}", body)


def render_failover(report: Report, failover: Failover) -> str:
    """Return the page of one change of master: what a link in a ticket leads to."""
    title = f"{incidents.heading(failover)}, {words.iso(failover.elected_us)} UTC"
    head = tag(
        "header",
        tag("h1", report.title),
        tag(
            "p",
            tag("a", f"Report of {words.period(report.start_us, report.end_us)}", href="../index.html"),
            class_="sub",
        ),
    )
    body = tag("body", head, tag("main", incidents.card(report, failover)), _footer(report))
    return document(title, body)


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


def _header(report: Report) -> Markup:
    links = (
        ("failovers", "Failovers"),
        ("objectives", "Objectives"),
        ("availability", "Availability and budget"),
        ("latency", "Latency"),
        ("replication", "Replication"),
        ("durability", "Durability"),
        ("missing", "Missing or set apart"),
        ("quality", "Data quality"),
        ("method", "How it is measured"),
    )
    return tag(
        "header",
        tag("h1", report.title),
        tag("p", words.period(report.start_us, report.end_us), class_="sub"),
        tag("nav", *[tag("a", label, href=f"#{name}") for name, label in links], aria_label="Sections"),
    )


def _first_screen(report: Report) -> Markup:
    headline, good = verdict(report)
    return join(
        (
            tag(
                "div",
                _sign(good=good),
                tag("p", headline, class_=None if good else "alarm"),
                class_="verdict",
            ),
            _lead(report),
            parts.tiles(_tiles(report)),
            _last(report),
            _spending(report),
        )
    )


def _sign(*, good: bool) -> Markup:
    """Draw a tick or an exclamation mark: the verdict's shape, for those who do not see its colour."""
    shape = "M15 27.5l8 8 15-18" if good else "M26 13v17M26 38v.5"
    colour = "var(--good)" if good else "var(--bad)"
    return tag(
        "svg",
        tag("title", "inside" if good else "attention"),
        tag("circle", cx=26, cy=26, r=24, style=f"fill:none;stroke:{colour};stroke-width:3.5"),
        tag(
            "path",
            d=shape,
            style=f"fill:none;stroke:{colour};stroke-width:4.5;stroke-linecap:round;stroke-linejoin:round",
        ),
        role="img",
        view_box="0 0 52 52",
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
        said = f"In none of {words.count(measured, 'measured second')} did a write fail. "
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
    """Name the objectives whose budget is overspent, and lead to them."""
    names = list(dict.fromkeys(kept.slo for kept in report.objectives if not kept.holds))
    if not names:
        return None
    return tag("a", f"Overspent: {', '.join(names)}.", href="#objectives")


def _tiles(report: Report) -> list[parts.Tile]:
    worst = report.worst
    if worst is None:
        return []
    judged = worst.good_s + worst.bad_s
    left = 1.0 - worst.bad_s / report.budget_s if report.budget_s else 0.0
    known = worst.is_measured or worst.bad_s > report.budget_s
    gaps = [one for one in report.failovers if one.write_gap_ms is not None and not one.is_planned]
    longest = max(gaps, key=lambda one: one.write_gap_ms or 0.0, default=None)
    checked = [group.durability for group in report.groups if group.durability]
    lost = sum(one.lost for one in checked)
    whose = f" of {worst.name}" if len(report.groups) > 1 else ""
    return [
        parts.Tile(
            "Budget left",
            words.percent(left, decimals=1) if known else words.UNKNOWN,
            f"{words.seconds(worst.bad_s)} of {words.seconds(report.budget_s)}{whose} spent",
            "alarm" if left <= 0 else "calm" if known else "",
        ),
        parts.Tile(
            "Write availability",
            words.percent(worst.availability),
            f"{words.plain(worst.good_s)} of {words.plain(judged)} measured seconds{whose}",
        ),
        parts.Tile(
            "Longest failover",
            words.ms(longest.write_gap_ms) if longest else words.NONE,
            f"without an acknowledged send, {longest.group} epoch {longest.epoch}"
            if longest
            else "no failover",
        ),
        parts.Tile(
            "Acknowledged lost",
            words.plain(lost) if checked else words.NONE,
            f"of {words.plain(sum(one.acknowledged for one in checked))} read back"
            if checked
            else "nothing read back",
            "alarm" if lost else "calm" if checked else "",
        ),
    ]


def _spending(report: Report) -> Markup:
    """Show what each group spent as a bar, all on one scale."""
    scale_s = charts.spent_scale_s(report)
    note = (
        f"A full bar is {words.seconds(scale_s)}, {words.spent(scale_s / report.budget_s)} of a group's budget. "
        if report.budget_s
        else ""
    )
    most_spent = sorted(report.groups, key=lambda group: (-group.bad_s, group.name))[:SPENT_GROUPS_MAX]
    more = len(report.groups) - len(most_spent)
    rows = [
        (group.name, tag("div", charts.spent_bar(report, group)), *_amounts(report, group))
        for group in most_spent
    ]
    heads = (
        "Group",
        "Seconds in which writes failed",
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
        parts.table(heads, rows),
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


def _amounts(report: Report, group: Group) -> tuple[str, str, str, str, str]:
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


def _last(report: Report) -> Markup | None:
    if not report.failovers:
        return None
    unplanned = [one for one in report.failovers if not one.is_planned]
    last = max(unplanned or report.failovers, key=lambda one: one.elected_us)
    return tag(
        "div",
        incidents.kicker(last),
        tag("h3", "The last failover" if unplanned else "The last switchover"),
        incidents.story(last),
        incidents.phases_in_words(last),
        tag("div", timeline(last, "last"), class_="scroll wide"),
        tag(
            "p",
            tag("a", "Sends, SyncStateSet and phases of it", href=f"#{incidents.anchor(last)}"),
            class_="note",
        ),
        class_="card",
    )


def _failovers(report: Report, total: int) -> Markup:
    ordered = sorted(report.failovers, key=lambda one: (one.elected_us, one.failover_id), reverse=True)
    if not ordered:
        return parts.section("failovers", "Failovers", tag("p", "No master changed in this period."))
    planned = sum(1 for one in ordered if one.is_planned)
    said = f"{words.count(total - planned, 'failover')} and {words.count(planned, 'switchover')}. "
    shown = f"The last {incidents.CARDS_MAX} are shown in full below." if total > incidents.CARDS_MAX else ""
    return parts.section(
        "failovers", "Failovers", tag("p", said + shown, class_="note"), incidents.overview(report, ordered)
    )


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
            "from the furthest mark so far to its own mark. Marks come from several clocks; none is negative.",
        ),
        (
            "Booked",
            "a bad second belongs to the latest failover, switchover or re-election whose interval it touches; else to a "
            "known fault that moved no master, else to a rollout, else to nothing: unexplained.",
        ),
        (
            "Latency",
            "from the intended time to the acknowledgement, so that waiting behind a stuck send counts.",
        ),
        ("Lost", "acknowledged, and not read back although the reader had come further."),
    )
    return tag(
        "footer",
        tag("h2", "How it is measured", id="method"),
        tag("dl", *[part for name, meaning in terms for part in (tag("dt", name), tag("dd", meaning))]),
        tag("p", f"Data until {words.iso(report.end_us)} UTC. All times are UTC.", style="margin-top:22px"),
    )
