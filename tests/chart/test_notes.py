"""How a release is removed, as NOTES.txt and README say it: every kind, in an order that works."""

import re
import shutil
from pathlib import Path

import pytest

from project_tools.chart_files import CHART
from rocketmq_operator.api.names import (
    CONSUMER_GROUP_KIND,
    FAILOVER_KIND,
    GROUP,
    OUR_KINDS,
    TOPIC_KIND,
    USER_KIND,
)
from testkit.kube.kubectl import program
from testkit.kube.release import ROOT
from testkit.products.helm import named, rendered

pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
OBJECTS = {kind.plural for kind in OUR_KINDS} - {FAILOVER_KIND.plural}
"""Kinds whose objects a person deletes; Failovers go with their BrokerGroup."""
FORGOTTEN_FIRST = {TOPIC_KIND.plural, CONSUMER_GROUP_KIND.plural, USER_KIND.plural}
WHOLE_CLUSTER = "operator.clusterWide=true"


@pytest.fixture
def notes_chart(tmp_path: Path) -> Path:
    """Return a copy of the chart that renders NOTES.txt as an object: `helm template` shows no notes."""
    copy = tmp_path / "chart"
    shutil.copytree(CHART, copy)
    text = (copy / "templates" / "NOTES.txt").read_text()
    (copy / "templates" / "_notes.tpl").write_text(f'{{{{- define "notes" -}}}}\n{text}{{{{- end }}}}\n')
    notes = 'kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | toJson }}\n'
    (copy / "templates" / "notes.yaml").write_text(notes)
    return copy


def _notes(chart: Path, *settings: str) -> str:
    text: str = named(rendered(*settings, chart=chart), "Notes", "notes")["text"]
    return text


def _deleted(text: str) -> list[list[str]]:
    """Return the kinds that each `delete --all` names, in their order.

    Users are named with their API group: OpenShift has users too.
    """
    found = re.findall(r"delete ([-a-z,.]+) --all", text)
    return [one.replace(f"{USER_KIND.plural}.{GROUP}", USER_KIND.plural).split(",") for one in found]


def _definitions_deleted(text: str) -> list[str]:
    found = re.search(rf"delete crd((?:\s+[a-z]+\.{re.escape(GROUP)})+)", text)
    assert found is not None
    return found[1].split()


def _is_whole(text: str) -> None:
    first, then = _deleted(text)
    assert set(first) == FORGOTTEN_FIRST, "brokers and the operator must still run for these"
    assert set(then) == OBJECTS - FORGOTTEN_FIRST
    assert text.index("delete brokergroups") < text.index("uninstall ")
    assert sorted(_definitions_deleted(text)) == sorted(f"{kind.plural}.{GROUP}" for kind in OUR_KINDS)


def test_the_notes_remove_every_kind_topics_first_and_the_operator_last(notes_chart: Path) -> None:
    _is_whole(_notes(notes_chart))
    _is_whole(_notes(notes_chart, WHOLE_CLUSTER))


def test_readme_removes_every_kind_topics_first_and_the_operator_last() -> None:
    text = (ROOT / "README.md").read_text()
    _is_whole(text[text.index("### Removing it") :])


def test_the_notes_remove_nothing_outside_the_watched_namespaces(notes_chart: Path) -> None:
    text = _notes(notes_chart, 'operator.watchNamespaces=["shop","pay"]')
    assert " -A" not in text.partition("To remove everything")[2]
    for namespace in ("shop", "pay"):
        assert f"kubectl -n {namespace} delete topics,consumergroups,users.rocketmq-ha.dev --all" in text
        assert f"kubectl -n {namespace} delete pvc -l rocketmq-ha.dev/cluster" in text
    assert "delete topics,consumergroups,users.rocketmq-ha.dev --all -A" in _notes(notes_chart, WHOLE_CLUSTER)
