"""The part of the page about changes of master: the list, and one card for each.

Problem: a person on call reads the last one first; a person in a review compares all of them. Shape: `story`
tells one in words, `card` shows one whole (words, facts, timeline, sends, SyncStateSet, phases), `overview`
lists them with their phases as small bars on one common scale. Never: more than CARDS_MAX cards, nor
CARDS_BYTES_MAX of them: the page stays under its size, and the list names the others.
"""

from typing import Final

from slo_pipeline.reports.drawing import closeup
from slo_pipeline.reports.drawing.markup import Markup, join, tag
from slo_pipeline.reports.drawing.svg import WIDTH, Linear, figure, rect
from slo_pipeline.reports.drawing.timeline import css, describe, timelines
from slo_pipeline.reports.page import parts
from slo_pipeline.reports.values import file_names, words
from slo_pipeline.reports.values.model import Failover, Phase, Report

CARDS_MAX: Final = 20
# What the cards may add to the report's page.
CARDS_BYTES_MAX: Final = 340_000
# What the list may add to it: about 200 changes.
FAILOVERS_BYTES_MAX: Final = 200_000
# Changes that have pages of their own: the last ones.
LISTED_MAX: Final = 200
KUBERNETES: Final = "kubernetes"
KUBERNETES_LISTED_MAX: Final = 20
STRIP_WIDTH_PX: Final = 240
STRIP_HEIGHT_PX: Final = 12
PHASE_BAR_PX: Final = 16
# Redundancy comes back in the background; the strip compares what writers waited for.
STRIP_PHASES: Final = ("P1 detection", "P2 election", "P3 promotion", "P4 publication", "P5 first write")


def anchor(failover: Failover) -> str:
    """Return the id of a change's card, which is also the stem of its page's file name."""
    return file_names.stem("fo", failover.failover_id)


def page_name(failover: Failover) -> str:
    """Return the file name of a change's own page, below the report's `failovers/`."""
    return f"{anchor(failover)}.html"


def newest_first(report: Report) -> list[Failover]:
    """Return all changes of master, the last one first."""
    return sorted(report.failovers, key=lambda one: (one.elected_us, one.failover_id), reverse=True)


def heading(failover: Failover) -> str:
    """Name a change of master."""
    kind = "Switchover" if failover.is_planned else "Failover"
    return f"{kind} of {failover.group} to epoch {failover.epoch}"


def story(failover: Failover) -> Markup:
    """Tell what happened in four sentences."""
    verb = "was handed over" if failover.is_planned else "failed over"
    because = "as ordered" if failover.is_planned else f"because {words.cause(failover)}"
    moment = f"{words.clock(failover.elected_us)} UTC on {words.day(failover.elected_us)}"
    return tag(
        "p",
        tag("b", failover.group),
        f" {verb} from {words.broker(failover.old_master_id, failover.old_master_address)} to "
        f"{words.broker(failover.new_master_id, failover.new_master_address)} at {moment}, {because}. ",
        tag("b", words.gap(failover)),
        f" {words.lost(failover.lost_acknowledged)} {words.redundancy(failover)}",
        class_="story",
    )


def kicker(failover: Failover) -> Markup:
    """Return the line above a card: kind, cluster, moment."""
    chips = [
        parts.chip(
            "switchover" if failover.is_planned else "failover", "" if failover.is_planned else "failover"
        )
    ]
    if failover.order_uncertain:
        chips.append(parts.chip("order uncertain"))
    if failover.lost_acknowledged:
        chips.append(parts.chip(f"{failover.lost_acknowledged} lost", "failover"))
    return tag(
        "p",
        *chips,
        tag("span", f"{failover.failover_id} · {words.iso(failover.elected_us)} UTC"),
        class_="kicker",
    )


def card(report: Report, failover: Failover) -> Markup:
    """Show one change of master whole."""
    name = anchor(failover)
    return tag(
        "article",
        kicker(failover),
        tag("h3", parts.named(heading(failover))),
        story(failover),
        _facts(report, failover),
        parts.figure(
            timelines(failover, f"{name}-lanes"), _phase_table(failover), summary="Phases as a table"
        ),
        tag("h4", "Sends, by the canary"),
        parts.figure(closeup.latency_points(failover, f"{name}-sends"), _result_table(failover)),
        tag("h4", "In sync"),
        parts.figure(closeup.in_sync(failover, f"{name}-sync"), _step_table(failover)),
        _kubernetes(failover),
        class_="card",
        id=name,
    )


def _kubernetes(failover: Failover) -> Markup | None:
    """Show what Kubernetes said around the change; None where nothing was copied."""
    told = [mark for mark in failover.marks if mark.source == KUBERNETES]
    if not told:
        return None
    left = len(told) - KUBERNETES_LISTED_MAX
    rows = [(words.clock(mark.us), mark.note) for mark in told[:KUBERNETES_LISTED_MAX]]
    foot = ("", f"and {words.count(left, 'more Event')}") if left > 0 else None
    return join(
        (
            tag("h4", "What Kubernetes said"),
            tag("p", "Most of its Events have whole seconds, by other clocks.", class_="note"),
            parts.table(("Time (UTC)", "Event"), rows, foot=foot),
        )
    )


def _facts(report: Report, failover: Failover) -> Markup:
    share = failover.bad_s / report.budget_s if report.budget_s else 0.0
    lost = words.NONE if failover.lost_acknowledged is None else words.plain(failover.lost_acknowledged)
    return parts.facts(
        (
            ("Write gap", words.ms(failover.write_gap_ms)),
            ("Budget spent", f"{words.seconds(failover.bad_s)} ({words.spent(share)})"),
            ("Acknowledged lost", lost),
            ("Cause", failover.cause),
            ("Master", f"{failover.old_master_id or '?'} → {failover.new_master_id or '?'}"),
            ("In sync before", f"{{{failover.sync_state_set_before}}}"),
        )
    )


def _phase_table(failover: Failover) -> Markup:
    return parts.table(
        ("Phase", "From (UTC)", "To (UTC)", ">Took", "Clock of start", "Clock of end", "Order"),
        [
            (
                phase.name,
                words.clock(phase.start_us),
                words.clock(phase.end_us),
                words.ms(phase.duration_ms),
                phase.start_clock or words.NONE,
                phase.end_clock or words.NONE,
                _order(phase),
            )
            for phase in failover.phases
        ],
        foot=(
            "All phases",
            "",
            "",
            words.ms(sum(phase.duration_ms or 0.0 for phase in failover.phases)),
            "",
            "",
            "",
        ),
    )


def _order(phase: Phase) -> str:
    match phase.order:
        case "in_order":
            return "in order"
        case "overtaken":
            return f"came {words.ms(phase.skew_ms)} before the mark above, same clock"
        case "uncertain":
            return f"uncertain: {words.ms(phase.skew_ms)} before the mark above by another clock"
        case _:
            return "not reported"


def _result_table(failover: Failover) -> Markup:
    return parts.table(
        ("Result", ">Sends"), [(result, words.plain(sends)) for result, sends in closeup.results(failover)]
    )


def _step_table(failover: Failover) -> Markup:
    return parts.table(
        ("From (UTC)", "SyncStateSet", ">Size"),
        [
            (words.clock(step.us), f"{{{step.members}}}", step.size)
            for step in closeup.visible_steps(failover)
        ],
    )


def overview(report: Report, cards: int, root: str = "") -> parts.Long:
    """Return the table of all changes of master, the last one first, with their phases on one scale.

    Args:
        report: with its changes.
        cards: how many of the last ones are shown in full on the report's page.
        root: what leads from the table's page to the report's page.
    """
    shown = newest_first(report)
    longest_ms = max((_waited_ms(failover) for failover in shown), default=1.0) or 1.0
    rows = (
        (
            words.iso(failover.elected_us),
            _link(failover, place, cards, root),
            _kind(failover),
            f"{failover.old_master_id or '?'} → {failover.new_master_id or '?'}",
            words.ms(failover.write_gap_ms),
            words.seconds(failover.bad_s),
            words.NONE if failover.lost_acknowledged is None else words.plain(failover.lost_acknowledged),
            _strip(failover, longest_ms),
        )
        for place, failover in enumerate(shown)
    )
    heads = (
        "Elected (UTC)",
        "Group, epoch",
        "Kind, cause",
        "Master",
        ">Write gap",
        ">Bad seconds",
        ">Lost",
        "Phases",
    )
    total = (
        "Sum",
        "",
        "",
        "",
        "",
        words.seconds(sum(one.bad_s for one in shown)),
        _lost_sum(shown),
        _legend(),
    )
    return parts.Long("failovers", "Failovers", heads, rows, len(shown), total, FAILOVERS_BYTES_MAX)


def _link(failover: Failover, place: int, cards: int, root: str) -> Markup:
    """Lead to the card on the page, else to the change's own page; the oldest of very many have neither."""
    label = parts.named(f"{failover.group}, {failover.epoch}")
    if place < cards:
        return tag("a", label, href=f"#{anchor(failover)}")
    return tag("a", label, href=f"{root}failovers/{page_name(failover)}") if place < LISTED_MAX else label


def _kind(failover: Failover) -> str:
    return "switchover" if failover.is_planned else f"failover, {failover.fault or failover.cause}"


def _lost_sum(shown: list[Failover]) -> str:
    known = [failover.lost_acknowledged for failover in shown if failover.lost_acknowledged is not None]
    return words.plain(sum(known)) if known else words.NONE


def _waited_ms(failover: Failover) -> float:
    return sum(phase.duration_ms or 0.0 for phase in failover.phases if phase.name in STRIP_PHASES)


def _strip(failover: Failover, longest_ms: float) -> Markup:
    """Draw the phases that writers waited for as one bar."""
    scale = Linear(0.0, longest_ms, 0.0, STRIP_WIDTH_PX - 12)
    x, bars = 0.0, []
    for phase in failover.phases:
        if phase.name in STRIP_PHASES and phase.duration_ms:
            width = max(2.0, scale(phase.duration_ms))
            bars.append(rect(x, 0, width, STRIP_HEIGHT_PX, css(phase.name)))
            x += width
    picture = figure(
        f"{anchor(failover)}-strip",
        f"Phases of {heading(failover)}",
        describe(failover),
        STRIP_HEIGHT_PX,
        *bars,
        width=STRIP_WIDTH_PX,
    )
    return tag("div", picture, class_="strip")


def phases_in_words(failover: Failover) -> Markup | None:
    """Name the phases that writers waited for with their lengths, over one bar of them."""
    waited = [phase for phase in failover.phases if phase.name in STRIP_PHASES and phase.duration_ms]
    if not waited:
        return None
    named = [
        tag(
            "span",
            swatch(css(phase.name), phase.name),
            f" {phase.name[3:]} {words.ms(phase.duration_ms)}",
            class_="key",
        )
        for phase in waited
    ]
    total_ms = _waited_ms(failover)
    scale = Linear(0.0, total_ms, 0.0, WIDTH)
    x, bars = 0.0, []
    for phase in waited:
        width = scale(phase.duration_ms or 0.0)
        bars.append(
            rect(
                x,
                0,
                max(width, 2.0),
                PHASE_BAR_PX,
                css(phase.name),
                note=f"{phase.name} {words.ms(phase.duration_ms)}",
            )
        )
        x += width
    picture = figure(
        f"{anchor(failover)}-bar",
        f"Phases of {heading(failover)}",
        describe(failover),
        PHASE_BAR_PX,
        *bars,
        stretch=True,
    )
    return join((tag("p", *named, class_="phases"), tag("div", picture, class_="bar-of-phases")))


def _legend() -> Markup:
    """Name the strip's colours, in the order in which they follow each other."""
    swatches = [
        tag(
            "span",
            swatch(css(phase), phase),
            f" {phase[3:]}",
            style="white-space:nowrap;margin-right:10px;font-weight:400",
        )
        for phase in STRIP_PHASES
    ]
    return tag("div", join(swatches, " "), class_="sub striplegend")


def swatch(class_: str, label: str) -> Markup:
    """Return a small square in a class's colour, for legends."""
    return tag(
        "svg",
        tag("title", label),
        rect(0, 0, 9, 9, class_, radius=2),
        width="9",
        height="9",
        view_box="0 0 9 9",
        role="img",
        aria_label=label,
    )
