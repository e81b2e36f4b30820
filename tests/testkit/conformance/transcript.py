"""What a controller answered, one line a step: written, read back, and made comparable.

Two forms of line, after any comments (`#`):

- `label -> code=0 ext={'masterEpoch': '1'} remark=None body={...}`: an answer; `ext` and `remark` as
  Python writes them, `body` as text. A label may come several times; its place in the conversation
  tells the occurrences apart.
- `cfg ['key=value', ...]`: the settings among `CONFIG_KEYS` that a controller lists.

Addresses of the controller itself and its group's name differ from run to run: they are replaced by words.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

CONFIG_LABEL: Final = "cfg"
CONFIG_KEYS: Final = (
    "controllerDLegerGroup",
    "controllerDLegerPeers",
    "controllerDLegerSelfId",
    "enableElectUncleanMaster",
    "isProcessReadEvent",
    "listenPort",
    "notifyBrokerRoleChanged",
    "scanInactiveMasterInterval",
    "scanNotActiveBrokerInterval",
)
"""Settings whose meaning ours shares with Java's; all others are each controller's own."""

_ANSWER: Final = re.compile(
    r"(?P<label>.+?) -> code=(?P<code>-?\d+) ext=(?P<ext>None|\{.*?\}) "
    r"remark=(?P<remark>None|'.*'|\".*\") body=(?P<body>.*)",
    re.DOTALL,
)
_MASKED_CONFIG: Final = {
    "controllerDLegerGroup": re.compile(r".*"),
    "controllerDLegerPeers": re.compile(r"(?<=-)[^;]+"),
    "listenPort": re.compile(r".*"),
}
_MASK: Final = "<own>"


class TranscriptError(ValueError):
    """A transcript's line has neither form; the text names file and line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered step."""

    label: str
    code: int
    ext: dict[str, str] | None
    remark: str | None
    body: str

    def __str__(self) -> str:
        return f"{self.label} -> code={self.code} ext={self.ext} remark={self.remark!r} body={self.body}"


@dataclass(frozen=True, slots=True)
class MaskedSettings:
    """The listed settings, `key=value`, masked and sorted."""

    entries: tuple[str, ...]
    label: str = CONFIG_LABEL

    def __str__(self) -> str:
        return f"{self.label} {list(self.entries)}"


Line = Answer | MaskedSettings


def settings(entries: Iterable[str]) -> MaskedSettings:
    """Keep the comparable settings of a listing and mask what differs from run to run."""
    kept: list[str] = []
    for entry in entries:
        key, _, value = entry.partition("=")
        if key in CONFIG_KEYS:
            mask = _MASKED_CONFIG.get(key)
            kept.append(f"{key}={mask.sub(_MASK, value, count=1) if mask else value}")
    return MaskedSettings(tuple(sorted(kept)))


def masked_metadata(ext: dict[str, str] | None) -> dict[str, str] | None:
    """Replace a controller's own name and addresses in the header of a 1005 answer."""
    if ext is None:
        return None
    masks = {
        "group": re.compile(r".+"),
        "controllerLeaderAddress": re.compile(r".+"),
        "peers": re.compile(r"(?<=n\d:)[^;]+"),
    }
    return {key: masks[key].sub(_MASK, value) if key in masks else value for key, value in ext.items()}


def parse(text: str, source: str) -> list[Line]:
    """Read a transcript; `source` names it in errors.

    Raises:
        TranscriptError: a line has neither form.
    """
    lines: list[Line] = []
    for number, text_line in enumerate(text.splitlines(), 1):
        if text_line and not text_line.startswith("#"):
            lines.append(_parse_line(text_line, f"{source}:{number}"))
    return lines


def _parse_line(text: str, where: str) -> Line:
    if text.startswith(f"{CONFIG_LABEL} ["):
        return settings(ast.literal_eval(text.removeprefix(CONFIG_LABEL).strip()))
    match = _ANSWER.fullmatch(text)
    if match is None:
        raise TranscriptError(f"{where}: not an answer and not settings: {text!r}")
    return Answer(
        match["label"],
        int(match["code"]),
        ast.literal_eval(match["ext"]),
        ast.literal_eval(match["remark"]),
        match["body"],
    )
