"""`install.yaml`: what `helm install` would create, for people who use kubectl alone."""

from pathlib import Path
from typing import Any, Final

import yaml

from project_tools.release.commands import find_program, run_program
from project_tools.release.source_tree import SourceTree
from testkit.kube.kubectl import STACK_BINARIES

Json = dict[str, Any]
NAMESPACE: Final = "rocketmq-ha"
RELEASE: Final = "rocketmq-ha"
EVERYWHERE: Final = ("operator.clusterWide=true", 'operator.clusters=["*"]')
"""Settings of manifests without values to set: all namespaces, and clusters of any name."""
_KUBERNETES: Final = "1.34.0"


def rendered_chart(tree: SourceTree, *settings: str) -> list[Json]:
    """Return the chart's objects, without hooks.

    Args:
        tree: with the chart.
        settings: each `path=JSON`, as helm's `--set-json` takes them.

    Raises:
        FailedError: helm is not installed, or refused.
    """
    words = [
        find_program("helm", Path(STACK_BINARIES)),
        "template",
        RELEASE,
        str(tree.chart),
        f"--namespace={NAMESPACE}",
    ]
    words += ["--no-hooks", f"--kube-version={_KUBERNETES}"]
    words += [word for setting in settings for word in ("--set-json", setting)]
    return [value for value in yaml.safe_load_all(run_program(words, tree.root)) if value]


def definitions(tree: SourceTree) -> list[Json]:
    """Return the CustomResourceDefinitions of the chart."""
    return [yaml.safe_load(path.read_bytes()) for path in sorted((tree.chart / "crds").glob("*.yaml"))]


def described_kind(definition: Json) -> dict[str, str]:
    """Return what catalogues of charts and bundles show of a kind, without the name that each has for it."""
    (version,) = definition["spec"]["versions"]
    kind = definition["spec"]["names"]["kind"]
    return {
        "kind": kind,
        "version": version["name"],
        "displayName": kind,
        "description": version["schema"]["openAPIV3Schema"]["description"],
    }


def build_manifests(tree: SourceTree, out: Path) -> Path:
    """Write `install.yaml` and return it: namespace, definitions, then the operator for all namespaces."""
    namespace: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    objects = [
        namespace,
        *definitions(tree),
        *map(_placed, rendered_chart(tree, *EVERYWHERE)),
    ]
    head = (
        f"# RocketMQ HA Operator {tree.version}, commit {tree.commit}. It watches every namespace and\n"
        f"# may read every Secret. The chart can allow less: operator.watchNamespaces, operator.clusters.\n"
        "# kubectl apply --server-side -f install.yaml\n"
    )
    target = out / "install.yaml"
    target.write_text(head + yaml.safe_dump_all(objects, sort_keys=False), encoding="utf-8")
    return target


_WITHOUT_NAMESPACE: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "Namespace",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


def _placed(value: Json) -> Json:
    """Name the namespace: helm adds it only when it installs."""
    if value["kind"] not in _WITHOUT_NAMESPACE:
        value["metadata"].setdefault("namespace", NAMESPACE)
    return value
