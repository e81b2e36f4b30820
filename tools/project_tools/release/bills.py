"""Bills of materials in the CycloneDX form: what each package and the plugin are made of.

uv writes them from uv.lock, with the hash of every file. Its random number and time are replaced, so that the
same commit gives the same bytes.
"""

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from project_tools.release.commands import run_uv
from project_tools.release.source_tree import PACKAGES, SourceTree

Json = dict[str, Any]
_OWN_ADDRESSES: Final = "externalReferences"


def build_bills(tree: SourceTree, out: Path) -> list[Path]:
    """Write `<image>-<version>.cdx.json` for each image and return the files.

    Raises:
        FailedError: uv is not installed, or refused.
    """
    return [_bill(tree, name, package, out) for name, package in PACKAGES.items()]


def _bill(tree: SourceTree, name: str, package: str, out: Path) -> Path:
    words = ["export", "--frozen", "--no-dev", "--preview-features", "sbom-export"]
    words += ["--format", "cyclonedx1.5", "--package", package]
    bill = with_fixed_names(json.loads(run_uv(words, tree.root)), tree, package)
    target = out / f"{name}-{tree.version}.cdx.json"
    target.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    return target


def with_fixed_names(bill: Json, tree: SourceTree, package: str) -> Json:
    """Return the bill with a serial number and a time that follow from the commit.

    Addresses of files are left out: they name the index that this machine uses. Hashes stay.
    """
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"rocketmq-ha:{package}:{tree.version}:{tree.commit}")
    time = datetime.fromtimestamp(tree.commit_time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    component = bill["metadata"]["component"] | {"version": tree.version}
    metadata = bill["metadata"] | {"timestamp": time, "component": component}
    components = [_with_hashes(value) for value in bill["components"]]
    return bill | {"serialNumber": f"urn:uuid:{serial}", "metadata": metadata, "components": components}


def _with_hashes(component: Json) -> Json:
    hashes = {
        (value["alg"], value["content"]): value
        for reference in component.get(_OWN_ADDRESSES, [])
        for value in reference.get("hashes", [])
    }
    kept = {key: value for key, value in component.items() if key != _OWN_ADDRESSES}
    return kept | {"properties": [*kept.get("properties", []), *map(_hash_property, sorted(hashes))]}


def _hash_property(named_hash: tuple[str, str]) -> Json:
    algorithm, content = named_hash
    return {"name": f"rocketmq-ha:file-hash:{algorithm}", "value": content}
