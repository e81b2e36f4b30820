"""Write the chart's generated files: the Prometheus rules and the page about its values.

Rules: what `slo-pipeline export` makes of the default objectives. Page: keys and comments of
values.yaml, and what values.schema.json allows; a key without a comment takes that of the nearest key
around it. `python -m project_tools.chart_files` writes both; tests hold them equal. Never: a value's
meaning that only this module knows.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from slo_pipeline.objectives import prometheus
from slo_pipeline.objectives.file import load

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts" / "rocketmq-ha"
RULES: Final = CHART / "files" / "prometheus-rules.yaml"
PAGE: Final = ROOT / "docs" / "reference" / "chart.md"
Json = dict[str, Any]
_INDENT: Final = 2
_WIDTH: Final = 110
_KEY: Final = re.compile(r"( *)([A-Za-z]+):(?: (.*))?")
_HEAD: Final = """\
# Values of the chart

The values that `helm install -f values.yaml` accepts; `values.schema.json` refuses other values and names
them. `make chart` generates this page from [values.yaml](../../charts/rocketmq-ha/values.yaml) and its
schema.

For a cluster with the Prometheus operator and Grafana in the namespace `monitoring`:

```yaml
{example}```
"""
EXAMPLE: Final = """\
measure:
  enabled: true
monitoring:
  podMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true}
networkPolicies:
  enabled: true
  monitoring:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}
"""
"""What the page shows first."""


class _Plain(yaml.SafeDumper):
    """Writes a repeated value again: people read the file, and anchors are hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        """Disable anchors for every value."""
        return True


@dataclass(frozen=True, slots=True)
class ValuesKey:
    """One key of values.yaml: its path, its comment, whether keys are below it."""

    path: tuple[str, ...]
    comment: str
    has_keys: bool


def values() -> Json:
    """Return the chart's values."""
    read: Json = yaml.safe_load((CHART / "values.yaml").read_text())
    return read


def schema() -> Json:
    """Return the schema of the values."""
    read: Json = json.loads((CHART / "values.schema.json").read_text())
    return read


def entries(text: str) -> Iterator[ValuesKey]:
    """Yield each key of a values.yaml, in its order; skip keys of lists and of values on one line."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comment.append(line.strip().lstrip("#").strip())
            continue
        found = _KEY.fullmatch(line)
        if found is not None:
            depth = len(found[1]) // _INDENT
            path = [*path[:depth], found[2]]
            yield ValuesKey(tuple(path), " ".join(comment), found[3] is None)
        comment = []


def at(tree: Json, path: Sequence[str]) -> Any:  # noqa: ANN401 - whatever YAML holds
    """Return the value at a path."""
    for key in path:
        tree = tree[key]
    return tree


def resolved(part: Json, whole: Json) -> Json:
    """Return a part of the schema, or the definition that it points to."""
    if "$ref" not in part:
        return part
    definition: Json = whole["definitions"][part["$ref"].removeprefix("#/definitions/")]
    return definition


def schema_at(path: Sequence[str], whole: Json) -> Json:
    """Return what the schema says of the value at a path; KeyError if it says nothing."""
    part = whole
    for key in path:
        part = resolved(part["properties"][key], whole)
    return part


def allowed(part: Json) -> str:
    """Return in words what the schema allows."""
    if "enum" in part:
        return ", ".join(f"`{json.dumps(choice).strip(chr(34))}`" for choice in part["enum"])
    if "description" in part:
        return str(part["description"])
    kind = part["type"] if isinstance(part["type"], str) else " or ".join(part["type"])
    limits = [f"{word} {part[key]:g}" for key, word in _LIMITS.items() if key in part]
    if part.get("minItems"):
        limits.append("not empty")
    return ", ".join([_KINDS.get(kind, kind), *limits])


_LIMITS: Final[Mapping[str, str]] = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "exclusiveMaximum": "below",
}
_KINDS: Final[Mapping[str, str]] = {
    "array": "a list",
    "boolean": "`true` or `false`",
    "integer": "an integer",
    "number": "a number",
    "object": "a map",
    "string": "a string",
    "string or null": "a string or `null`",
}


def page() -> str:
    """Return the page about the values."""
    known, whole = values(), schema()
    text = _HEAD.replace("{example}", EXAMPLE)
    said: dict[tuple[str, ...], str] = {}
    for entry in entries((CHART / "values.yaml").read_text()):
        above = said.get(entry.path[:-1], "") if len(entry.path) > 2 else ""
        said[entry.path] = entry.comment or above
        if len(entry.path) == 1:
            text += f"\n## {entry.path[0]}\n\n"
            text += f"{entry.comment}\n\n" if entry.comment else ""
            text += "| value | default | meaning | allowed |\n|---|---|---|---|\n"
        elif not entry.has_keys or isinstance(at(known, entry.path), list):
            default = json.dumps(at(known, entry.path), ensure_ascii=False)
            cells = (
                f"`{'.'.join(entry.path)}`",
                f"`{default}`",
                said[entry.path],
                allowed(schema_at(entry.path, whole)),
            )
            text += f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"
    return text


def rules() -> str:
    """Return the rule file of the default objectives."""
    return yaml.dump(
        prometheus.rules(load()), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=_WIDTH
    )


def main() -> int:
    """Write both files."""
    RULES.parent.mkdir(exist_ok=True)
    RULES.write_text(rules())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
