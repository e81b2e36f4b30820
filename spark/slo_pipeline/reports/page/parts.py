"""Pieces of the page that several sections use: tables, figures with their data, facts, tiles.

Problem: each plot needs the same frame: a title, the picture, and its numbers for readers who use a screen
reader. Shape: small functions from values to markup. Never: no section's own wording here.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from slo_pipeline.reports.drawing.markup import Markup, escape, join, tag

NUMERIC_PREFIX: Final = ">"
LONG_NAME_CHARACTERS: Final = 24
# About what the tags of a cell take beside its own text and its column's name.
CELL_BYTES: Final = 28


class Tile(NamedTuple):
    """One big number with what it is above and how it came about below."""

    name: str
    value: str
    note: str
    tone: str = ""


class Long(NamedTuple):
    """A table that may have any number of rows; `name` names its files.

    Attributes:
        rows: made as they are taken, so that a page that shows a hundred does not make ten thousand.
        row_count: how many there are.
        bytes_max: how much of it the report's page itself may show.
    """

    name: str
    heading: str
    heads: Sequence[str]
    rows: Iterable[Sequence[object]]
    row_count: int
    foot: Sequence[object] | None = None
    bytes_max: int = 28_000


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    foot: Sequence[object] | None = None,
    stacked: bool = False,
) -> Markup:
    """Return a table; a head that begins with `>` makes a column of right-aligned numbers.

    Args:
        heads: names of the columns.
        rows: their cells.
        foot: the cells of a last row of sums.
        stacked: on a phone each row becomes a block with the columns' names beside its cells.
    """
    classes = ["n" if head.startswith(NUMERIC_PREFIX) else None for head in heads]
    names = [head.removeprefix(NUMERIC_PREFIX) for head in heads]
    labels = names if stacked else [None] * len(names)

    def cells(kind: str, values: Sequence[object]) -> list[Markup]:
        return [
            tag(kind, value, class_=class_, data_l=None if value == "" else label)
            for value, class_, label in zip(values, classes, labels, strict=True)
        ]

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
            class_="stack" if stacked else None,
        ),
        class_="scroll",
    )


def fitting(blocks: Iterable[Markup], bytes_max: int) -> list[Markup]:
    """Return the first blocks that together have at most so many bytes."""
    taken: list[Markup] = []
    for block in blocks:
        bytes_max -= len(block.encode())
        if bytes_max < 0:
            break
        taken.append(block)
    return taken


def split(long: Long, bytes_max: int) -> Iterator[list[Sequence[object]]]:
    """Yield a table's rows in runs of at most so many bytes each; a run has one row at least."""
    run: list[Sequence[object]] = []
    size = 0
    for row in long.rows:
        cells = [escape(cell) for cell in row]
        own = sum(len(cell.encode()) for cell in cells) + sum(len(head) + CELL_BYTES for head in long.heads)
        if run and size + own > bytes_max:
            yield run
            run, size = [], 0
        run.append(cells)
        size += own
    if run:
        yield run


def beginning(long: Long) -> Markup:
    """Return a table's first rows, and a link to the file that continues it if that is not all."""
    first = next(split(long, long.bytes_max), [])
    shown = table(long.heads, first, foot=long.foot, stacked=True)
    if len(first) == long.row_count:
        return shown
    said = f"The first {len(first):,} of {long.row_count:,}. "
    link = tag("a", "All of them", href=list_address(long.name, 1))
    return join((shown, tag("p", said, link, class_="note")))


def list_name(name: str, number: int) -> str:
    """Return the file name of one page of a long table, the first being 1."""
    return f"{name}-{number}.html"


def list_address(name: str, number: int) -> str:
    """Return where one page of a long table is, seen from the report's page."""
    return f"lists/{list_name(name, number)}"


def named(text: str) -> Markup:
    """Return a name from the cluster; a long one may be broken anywhere."""
    return tag("span", text, class_="long") if len(text) > LONG_NAME_CHARACTERS else escape(text)


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


class Section(Markup):
    """A section of a page, and what a link to it needs."""

    __slots__ = ("anchor", "heading")

    anchor: str
    heading: str


def section(anchor: str, heading: str, *children: object) -> Section:
    """Return a section of the page that links can point at."""
    made = Section(tag("section", tag("h2", heading), *children, id=anchor))
    made.anchor, made.heading = anchor, heading
    return made


def chip(label: str, tone: str = "") -> Markup:
    """Return a small label."""
    return tag("span", label, class_=f"chip {tone}".strip())
