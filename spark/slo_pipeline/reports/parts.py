"""Pieces of the page that several sections use: tables, figures with their data, facts, tiles.

Problem: each plot needs the same frame: what it is, the picture, the numbers behind it for those who cannot see it.
Shape: small functions from values to markup.
Never: no section's own wording here.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from slo_pipeline.reports.markup import Markup, tag

NUMERIC_PREFIX: Final = ">"


class Tile(NamedTuple):
    """One big number with what it is above and how it came about below."""

    name: str
    value: str
    note: str
    tone: str = ""


def table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], *, foot: Sequence[object] | None = None
) -> Markup:
    """Return a table; a head that begins with `>` makes a column of right-aligned numbers."""
    classes = ["n" if head.startswith(NUMERIC_PREFIX) else None for head in heads]
    names = [head.removeprefix(NUMERIC_PREFIX) for head in heads]

    def cells(kind: str, values: Sequence[object]) -> list[Markup]:
        return [tag(kind, value, class_=class_) for value, class_ in zip(values, classes, strict=True)]

    head = tag(
        "tr",
        *[tag("th", name, class_=class_, scope="col") for name, class_ in zip(names, classes, strict=True)],
    )
    return tag(
        "div",
        tag(
            "table",
            tag("thead", head),
            tag("tbody", *[tag("tr", *cells("td", row)) for row in rows]),
            tag("tfoot", tag("tr", *cells("td", foot))) if foot else None,
        ),
        class_="scroll",
    )


def figure(picture: Markup, data: Markup, *, summary: str = "Data of this picture") -> Markup:
    """Return a picture with its numbers folded below it; printed, they are unfolded."""
    return tag(
        "figure",
        tag("div", picture, class_="scroll"),
        tag("details", tag("summary", summary), data),
    )


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Return short facts side by side."""
    return tag(
        "dl", *[tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts"
    )


def tiles(entries: Iterable[Tile]) -> Markup:
    """Return the page's big numbers."""
    return tag(
        "dl",
        *[
            tag(
                "div",
                tag("dt", entry.name),
                tag("dd", tag("span", entry.value, class_=entry.tone or None), tag("small", entry.note)),
                class_="tile",
            )
            for entry in entries
        ],
        class_="tiles",
    )


def section(name: str, heading: str, *children: object) -> Markup:
    """Return a section of the page that links can point at."""
    return tag("section", tag("h2", heading), *children, id=name)


def chip(label: str, tone: str = "") -> Markup:
    """Return a small label."""
    return tag("span", label, class_=f"chip {tone}".strip())
