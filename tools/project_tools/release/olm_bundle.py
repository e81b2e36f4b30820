"""The bundle for the Operator Lifecycle Manager, in the form that operator-sdk makes.

Shape: the chart is rendered for all namespaces; its Deployment, Roles and ClusterRoles become the install
strategy of a ClusterServiceVersion, so that the bundle cannot give rights that the chart does not.
Sources: OLM's "ClusterServiceVersion" (operators.coreos.com/v1alpha1), and its bundle format.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from controller_core.command_line.program import FailedError
from project_tools.release.archives import files_below, write_tar_gz
from project_tools.release.manifests import EVERYWHERE, definitions, described_kind, rendered_chart
from project_tools.release.source_tree import SourceTree

Json = dict[str, Any]
CHANNEL: Final = "alpha"
_PACKAGE: Final = "rocketmq-ha"
_ANNOTATIONS: Final = {
    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    "operators.operatorframework.io.bundle.package.v1": _PACKAGE,
    "operators.operatorframework.io.bundle.channels.v1": CHANNEL,
    "operators.operatorframework.io.bundle.channel.default.v1": CHANNEL,
}
_DESCRIPTION: Final = (
    "Runs Apache RocketMQ 5 broker groups that fail over without losing an acknowledged message: replicated "
    "controllers, brokers with automatic master election, log replicas, name servers, proxies and reports."
)


def build_bundle(tree: SourceTree, work: Path, out: Path) -> Path:
    """Write `olm-bundle-<version>.tar.gz` and return it.

    Raises:
        FailedError: the chart has a right that a bundle cannot carry.
    """
    objects = rendered_chart(tree, *EVERYWHERE)
    _write(
        work / "manifests" / f"{_PACKAGE}.clusterserviceversion.yaml", cluster_service_version(tree, objects)
    )
    for definition in definitions(tree):
        _write(work / "manifests" / f"{definition['metadata']['name']}.crd.yaml", definition)
    _write(work / "metadata" / "annotations.yaml", {"annotations": _ANNOTATIONS})
    labels = "".join(f"LABEL {name}={value}\n" for name, value in _ANNOTATIONS.items())
    copies = "COPY manifests /manifests/\nCOPY metadata /metadata/\n"
    (work / "bundle.Dockerfile").write_text(f"FROM scratch\n{labels}{copies}", encoding="utf-8")
    target = out / f"olm-bundle-{tree.version}.tar.gz"
    write_tar_gz(target, files_below(work), tree.commit_time_s)
    return target


def cluster_service_version(tree: SourceTree, objects: list[Json]) -> Json:
    """Return the ClusterServiceVersion of the rendered chart.

    Raises:
        FailedError: a Role or ClusterRole belongs to another account than the operator's.
    """
    (deployment,) = [value for value in objects if value["kind"] == "Deployment"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    strategy = {
        "deployments": [
            {
                "name": deployment["metadata"]["name"],
                "label": deployment["metadata"]["labels"],
                "spec": deployment["spec"],
            }
        ],
        "permissions": _permissions(objects, "Role", account),
        "clusterPermissions": _permissions(objects, "ClusterRole", account),
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{_PACKAGE}.v{tree.version}",
            "annotations": {"capabilities": "Auto Pilot", "categories": "Streaming & Messaging"},
        },
        "spec": {
            "displayName": "RocketMQ HA Operator",
            "description": _DESCRIPTION,
            "version": tree.version,
            "maturity": "alpha",
            "minKubeVersion": "1.29.0",
            "keywords": ["rocketmq", "messaging", "failover"],
            "provider": {"name": "RocketMQ HA Operator"},
            "installModes": [
                {"type": mode, "supported": mode == "AllNamespaces"}
                for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "customresourcedefinitions": {"owned": list(map(_owned, definitions(tree)))},
            "install": {"strategy": "deployment", "spec": strategy},
        },
    }


def _owned(definition: Json) -> Json:
    return {"name": definition["metadata"]["name"], **described_kind(definition)}


def _permissions(objects: list[Json], kind: str, account: str) -> list[Json]:
    """Return the rules of all roles of a kind: the chart's roles are all the operator's."""
    for binding in (value for value in objects if value["kind"] == f"{kind}Binding"):
        foreign = [subject["name"] for subject in binding["subjects"] if subject["name"] != account]
        if foreign:
            raise FailedError(f"{binding['metadata']['name']}: {foreign[0]} is not the operator's account")
    rules = [rule for value in objects if value["kind"] == kind for rule in value["rules"]]
    return [{"serviceAccountName": account, "rules": rules}] if rules else []


def _write(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), encoding="utf-8")
