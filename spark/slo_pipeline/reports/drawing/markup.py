"""Build HTML and SVG so that nothing can be forgotten to be escaped.

Problem: labels, remarks and addresses come from clusters; one `<` in a broker's name must not become markup.
Shape: `tag` escapes every child and attribute that is not already `Markup`, and only `tag` and `join` make
`Markup`. Never: no template language, no string formatting of markup outside this module.
"""

import html
from collections.abc import Iterable
from typing import Final

VOID: Final = frozenset({"br", "hr", "meta", "link", "path", "rect", "line", "circle", "polyline"})
# Attributes whose names Python cannot spell, or that SVG writes in camel case.
SPELLING: Final = {
    "class_": "class",
    "for_": "for",
    "view_box": "viewBox",
    "http_equiv": "http-equiv",
    "preserve_aspect_ratio": "preserveAspectRatio",
}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def number(value: float) -> str:
    """Return a coordinate with at most one decimal: a tenth of a pixel is more than anybody sees."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def escape(value: object) -> Markup:
    """Return the value as markup, escaped unless it is markup."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return Markup(number(value))
    return Markup(html.escape(str(value), quote=True))


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """Return the parts side by side, each escaped."""
    return Markup(separator.join(escape(part) for part in parts))


def tag(element: str, *children: object, **attributes: object) -> Markup:
    """Return one element.

    Args:
        element: its name.
        *children: text to escape, or markup; None is left out.
        **attributes: underscores become hyphens, `class_` is class; None is left out.
    """
    spelled = "".join(
        f' {SPELLING.get(name) or name.replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = join(child for child in children if child is not None)
    if element in VOID and not inner:
        return Markup(f"<{element}{spelled}/>")
    return Markup(f"<{element}{spelled}>{inner}</{element}>")
