"""What a person types for a migration: options are read, and refused by name where they make no sense."""

import argparse
import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from rocketmq_operator.plan.migration import checks as migration_checks
from rocketmq_operator.plan.migration.observed import (
    MigrationRequest,
    OldBrokerKind,
    StoreInClaim,
    locate_store,
)
from rocketmq_operator.plugin import cli, migrate_command
from rocketmq_operator.plugin.queries import RequestError
from testkit.worlds.migration import GROUP, MigrationKube, MigrationWorld
from testkit.worlds.old_sets import NAMESPACE, stateful_set

Json = dict[str, Any]
ROOT = Path(__file__).parents[4]
BOTH = "--old-master statefulset/old-master --old-slaves statefulset/old-slave"


def _manifest(path: Path, world: MigrationWorld, **changed: Any) -> Path:
    value = {"apiVersion": "rocketmq-ha.dev/v1alpha1", "kind": "BrokerGroup", "metadata": {"name": GROUP}}
    path.write_text(yaml.safe_dump(value | {"spec": world.spec} | changed))
    return path


def _options(words: str, path: Path) -> argparse.Namespace:
    named = ["migrate", GROUP, "-f", str(path), "--name-servers", "names:9876; others:9876"]
    return cli.parser().parse_args([*named, *shlex.split(words)])


async def _wish(world: MigrationWorld, words: str, path: Path) -> MigrationRequest:
    return await migrate_command.read_request(world.kube, NAMESPACE, _options(words, path))


async def test_sets_stand_for_all_of_their_pods_and_pods_for_themselves(tmp_path: Path) -> None:
    world = MigrationWorld(2)
    path = _manifest(tmp_path / "orders.yaml", world)
    for words in (BOTH, "--old-master pod/old-master-0 --old-slaves pod/old-slave-0,pod/old-slave-1"):
        wish = await _wish(world, words, path)
        assert wish.pods == ("old-master-0", "old-slave-0", "old-slave-1")
    assert (wish.broker_name, wish.old_kind) == (GROUP, OldBrokerKind.MASTER_SLAVE)
    assert wish.name_servers == ("names:9876", "others:9876")
    assert wish.credentials == ""
    assert wish.trust == ""
    assert (await _wish(world, f"{BOTH} --credentials-secret old-admin", path)).credentials == "old-admin"
    assert (await _wish(world, f"{BOTH} --trust-config-map old-trust", path)).trust == "old-trust"
    assert wish.manifest["metadata"] == {"name": GROUP, "namespace": NAMESPACE}
    wish = await _wish(
        world, "--path dledger --old-members statefulset/old-slave --broker-name RaftNode00", path
    )
    assert (wish.old_kind, wish.broker_name) == (OldBrokerKind.DLEDGER, "RaftNode00")


def _shown() -> list[str]:
    text = (ROOT / "docs" / "reference" / "migration.md").read_text()
    return re.findall(r"^kubectl rmqha (migrate .*)$", text, re.MULTILINE)


@pytest.mark.parametrize("command", _shown())
def test_the_commands_that_the_reference_shows_are_understood(command: str) -> None:
    options = cli.parser().parse_args(shlex.split(command))
    manifest, spec = migrate_command.read_manifest(
        ROOT / options.broker_group, options.group, options.namespace
    )
    assert (manifest["metadata"]["name"], spec.cluster) == ("payments", "main")


def test_every_option_stands_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "migration.md").read_text()
    options = set(re.findall(r"(--[a-z-]+)", _help())) - {
        "--help",
        "--namespace",
        "--context",
        "--kubeconfig",
        "--output",
    }
    assert {option for option in options if f"`{option}" not in text and f"{option} " not in text} == set()


def _help() -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit):
        cli.parser().parse_args(["migrate", "--help"])
    return printed.getvalue()


REFUSALS = [
    ("--old-slaves statefulset/old-slave", "needs --old-master"),
    (f"{BOTH} --old-members pod/old-slave-0", "takes --old-slaves, not --old-members"),
    ("--path dledger --old-master pod/old-master-0", "needs --old-members"),
    ("--old-master statefulset/old-slave", "it has 2 pods, name the one by pod/NAME"),
    ("--old-master old-master", "old-master: name it as statefulset/NAME or pod/NAME-0"),
    ("--old-master pod/old-master", "name it as statefulset/NAME or pod/NAME-0"),
    ("--old-master statefulset/none", "StatefulSet none does not exist in namespace shop"),
    ("--old-master pod/old-slave-0 --old-slaves statefulset/old-slave", "a pod is named twice"),
]


@pytest.mark.parametrize(("words", "complaint"), REFUSALS, ids=[one[1] for one in REFUSALS])
async def test_options_that_make_no_sense_are_refused(tmp_path: Path, words: str, complaint: str) -> None:
    world = MigrationWorld(2)
    with pytest.raises(RequestError, match=complaint):
        await _wish(world, words, _manifest(tmp_path / "orders.yaml", world))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"kind": "Topic"}, "expected a single BrokerGroup in it"),
        ({"metadata": {"name": "stock"}}, "its name is stock, and not orders"),
        ({"metadata": {"name": GROUP, "namespace": "other"}}, "its namespace is other, and not shop"),
        (
            {"spec": {"cluster": "main", "durability": "AllInSync", "replicas": 1}},
            "Field required|two copies",
        ),
    ],
)
async def test_a_manifest_that_would_not_do_is_refused(tmp_path: Path, changed: Json, complaint: str) -> None:
    world = MigrationWorld()
    with pytest.raises(RequestError, match=complaint):
        await _wish(world, BOTH, _manifest(tmp_path / "orders.yaml", world, **changed))
    with pytest.raises(RequestError, match="--broker-group"):
        await _wish(world, BOTH, tmp_path / "none.yaml")


async def test_the_command_says_what_it_does_and_is_short_where_all_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration_checks, "STILL_S", 0.0)
    world = MigrationWorld()
    options = _options(f"{BOTH} --yes", _manifest(tmp_path / "orders.yaml", world))
    answer = await migrate_command.migrate(world.kube, NAMESPACE, options)
    assert answer.lines == ["orders is migrated"]
    printed = capsys.readouterr().out
    assert "next: stop old-master-0, then old-slave-0" in printed
    assert "done: give the volume of old-slave-0 to orders-1" in printed
    again = await migrate_command.migrate(world.kube, NAMESPACE, options)
    assert again.lines[0].startswith("orders is migrated: 12 topics")
    assert capsys.readouterr().out == ""


class _Watched:
    """A server that keeps which verb was used on which kind."""

    def __init__(self, server: MigrationKube) -> None:
        self._server = server
        self.used: set[tuple[str, str]] = set()

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        self.used.add(("get", kind))
        return await self._server.get(kind, namespace, name)

    async def create(self, body: Json) -> Json:
        self.used.add(("create", body["kind"]))
        return await self._server.create(body)

    async def patch(self, kind: str, namespace: str, name: str, body: Json) -> Json:
        self.used.add(("patch", kind))
        return await self._server.patch(kind, namespace, name, body)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        self.used.add(("delete", kind))
        await self._server.delete(kind, namespace, name, uid)


async def test_the_rights_that_it_takes_are_those_that_the_reference_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration_checks, "STILL_S", 0.0)
    world = MigrationWorld()
    watched = _Watched(world.kube)
    options = _options(f"{BOTH} --yes", _manifest(tmp_path / "orders.yaml", world))
    await migrate_command.migrate(watched, NAMESPACE, options)
    text = (ROOT / "docs" / "reference" / "migration.md").read_text()
    rights = text[text.index("## Rights") : text.index("## Limits")].replace("\n", " ")
    listed = {
        (verb, kind)
        for verbs, kinds in re.findall(r"((?:`[a-z]+`(?: and )?)+) of ([a-z, ]+)[;.]", rights)
        for verb in re.findall("[a-z]+", verbs.replace(" and ", " "))
        for kind in re.split(", | and ", kinds)
    }
    assert {(verb, f"{kind.lower()}s") for verb, kind in watched.used} == listed


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ([{"mountPath": "/data"}], StoreInClaim("data-old-0", "home/store", "home/store/commitlog")),
        ([{"mountPath": "/data/home"}], StoreInClaim("data-old-0", "store", "store/commitlog")),
        ([{"mountPath": "/data/home/store"}], StoreInClaim("data-old-0", "", "commitlog")),
        (
            [{"mountPath": "/data/home/store/", "subPath": "a/b"}],
            StoreInClaim("data-old-0", "a/b", "a/b/commitlog"),
        ),
        (
            [{"mountPath": "/data/home/store", "subPath": "s"}, {"mountPath": "/data", "subPath": "d"}],
            StoreInClaim("data-old-0", "s", "s/commitlog"),
        ),
        ([{"mountPath": "/data/home/sto"}], "/data/home/store of old-0 lies on no volume of a claim"),
    ],
)
def test_a_store_is_found_on_its_volume(mounts: list[Json], expected: StoreInClaim | str) -> None:
    live = stateful_set("old", 1)
    live["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "data", **one} for one in mounts
    ]
    found = locate_store(live, "old-0", "/data/home/store", "/data/home/store/commitlog")
    assert found == expected or (isinstance(found, str) and str(expected) in found)
