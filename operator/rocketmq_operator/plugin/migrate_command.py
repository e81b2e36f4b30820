"""`kubectl rmqha migrate`: its options, and what a person reads of it.

    kubectl rmqha migrate GROUP -f FILE --path master-slave --name-servers HOST:PORT --old-master REF
        --old-slaves REF[,...]
    kubectl rmqha migrate GROUP -f FILE --path dledger --name-servers HOST:PORT --old-members REF[,...]

REF is `statefulset/NAME`, all of its pods, or `pod/NAME`, one of them. `plan.migration` decides the steps and
their order.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from controller_core.command_line.output import TABLE
from controller_core.command_line.values import (
    DURATION,
    HOSTS,
    NAMES,
    SEMICOLONS,
    hosts,
    names,
    positive_duration,
)
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.names import GROUP_KIND
from rocketmq_operator.clients.api import Json
from rocketmq_operator.plan.common.names import BROKER_PORT
from rocketmq_operator.plan.migration.observed import (
    MIGRATED_ANNOTATION,
    MigrationRequest,
    OldBrokerKind,
    annotation,
    recorded_pods,
)
from rocketmq_operator.plugin.migration import MigrationOptions, MigrationRun, MigrationServer
from rocketmq_operator.plugin.queries import RequestError
from rocketmq_operator.plugin.result import CommandResult

TIMEOUT_DEFAULT_S: Final = 600.0


def add_command(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse's action has no public name
    """Add the command to the plugin's parser."""
    text = "move brokers that predate controller mode to a BrokerGroup"
    migrate_ = commands.add_parser("migrate", parents=[common], help=text)
    migrate_.add_argument("group", metavar="GROUP", help="name of the BrokerGroup")
    migrate_.add_argument(
        "-f", "--broker-group", type=Path, required=True, metavar="FILE", help="its manifest"
    )
    migrate_.add_argument(
        "--path",
        choices=[one.value for one in OldBrokerKind],
        default=OldBrokerKind.MASTER_SLAVE.value,
        help=f"kind of the old brokers (default: {OldBrokerKind.MASTER_SLAVE.value})",
    )
    migrate_.add_argument(
        "--name-servers",
        type=hosts,
        required=True,
        metavar=HOSTS,
        help=f"of the old brokers; {SEMICOLONS}",
    )
    migrate_.add_argument("--broker-name", metavar="NAME", help="of the old brokers; default: GROUP")
    migrate_.add_argument("--port", type=int, default=BROKER_PORT, metavar="PORT", help="of the old brokers")
    migrate_.add_argument("--old-master", metavar="REF", help="statefulset/NAME or pod/NAME")
    for option, text in (("--old-slaves", "of the old master"), ("--old-members", "of DLedger")):
        migrate_.add_argument(
            option,
            action="extend",
            type=names,
            default=[],
            metavar="REF[,...]",
            help=f"{text}, as --old-master; may be repeated",
        )
    migrate_.add_argument(
        "--ignore",
        action="extend",
        type=names,
        default=[],
        metavar=NAMES,
        help="topics or groups whose unread messages you give up (DLedger); may be repeated",
    )
    migrate_.add_argument(
        "--empty-slaves",
        action="store_true",
        help="do not look at the slaves: they copy from the master anyway",
    )
    migrate_.add_argument(
        "--credentials-secret",
        metavar="SECRET",
        default="",
        help="Secret of type kubernetes.io/basic-auth with a super user of the old brokers",
    )
    migrate_.add_argument(
        "--trust-config-map",
        metavar="CONFIGMAP",
        default="",
        help="ConfigMap with the authorities (ca.crt) of the old brokers and name servers: ask them in TLS "
        "first, and in plain TCP where TLS is not answered (default: plain TCP)",
    )
    migrate_.add_argument("--yes", action="store_true", help="do not ask before each step")
    migrate_.add_argument("--dry-run", action="store_true", help="only say what comes next")
    migrate_.add_argument("--step", action="store_true", help="end after one step")
    migrate_.add_argument("--undo", action="store_true", help="go back, as long as no store is prepared")
    migrate_.add_argument(
        "--timeout",
        type=positive_duration,
        default=TIMEOUT_DEFAULT_S,
        metavar=DURATION,
        help=f"longest wait in one step (default: {TIMEOUT_DEFAULT_S:g}s)",
    )


async def migrate(server: MigrationServer, namespace: str, options: argparse.Namespace) -> CommandResult:
    """Carry out the command.

    Raises:
        RequestError: something is in the way.
    """
    say = _to_stdout if options.output == TABLE else _to_stderr
    live = await server.get(GROUP_KIND.kind, namespace, options.group)
    if annotation(live, MIGRATED_ANNOTATION):
        line = f"{options.group} is migrated: {annotation(live, MIGRATED_ANNOTATION)}"
        return CommandResult([line], {"group": options.group, "step": ""})
    request = await read_request(server, namespace, options)
    run_options = MigrationOptions(
        say=say,
        confirm=None if options.yes else _confirm,
        dry_run=options.dry_run,
        one_step=options.step,
        undo=options.undo,
        timeout_s=options.timeout,
    )
    plan = await MigrationRun(server, request, run_options).run()
    word = "is as it was" if options.undo else "is migrated"
    line = f"{options.group}: next {plan.title}" if plan.step else f"{options.group} {word}"
    steps = [{"name": name, "title": title, "done": is_done} for name, title, is_done in plan.steps]
    return CommandResult([line], {"group": options.group, "step": plan.step, "steps": steps}, steps)


async def read_request(
    server: MigrationServer, namespace: str, options: argparse.Namespace
) -> MigrationRequest:
    """Read the request.

    Raises:
        RequestError: it makes no sense; the text names the option and why.
    """
    course = OldBrokerKind(options.path)
    manifest, spec = read_manifest(options.broker_group, options.group, namespace)
    if course is OldBrokerKind.MASTER_SLAVE:
        if options.old_members or not options.old_master:
            raise RequestError(
                "--path master-slave needs --old-master, and takes --old-slaves, not --old-members"
            )
        references = [options.old_master, *options.old_slaves]
    else:
        if options.old_master or options.old_slaves or not options.old_members:
            raise RequestError(
                "--path dledger needs --old-members with each broker, and does not accept --old-master or "
                "--old-slaves"
            )
        references = options.old_members
    pods = [await _pods_of(server, namespace, reference) for reference in references]
    if course is OldBrokerKind.MASTER_SLAVE and len(pods[0]) != 1:
        raise RequestError(
            f"--old-master {options.old_master}: it has {len(pods[0])} pods, name the one by pod/NAME"
        )
    named = [pod for some in pods for pod in some]
    if len(set(named)) != len(named):
        raise RequestError(f"a pod is named twice: {', '.join(named)}")
    return MigrationRequest(
        group=options.group,
        namespace=namespace,
        old_kind=course,
        manifest=manifest,
        spec=spec,
        broker_name=options.broker_name or options.group,
        pods=tuple(named),
        name_servers=tuple(options.name_servers),
        port=options.port,
        ignored=tuple(options.ignore),
        empty_slaves=options.empty_slaves,
        credentials=options.credentials_secret,
        trust=options.trust_config_map,
    )


def read_manifest(path: Path, group: str, namespace: str) -> tuple[Json, BrokerGroupSpec]:
    """Return the BrokerGroup of a file, and its spec.

    Raises:
        RequestError: it is missing, or belongs to another group.
    """
    try:
        manifest = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise RequestError(f"--broker-group {path}: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != GROUP_KIND.kind:
        raise RequestError(f"--broker-group {path}: expected a single {GROUP_KIND.kind} in it")
    metadata = manifest.get("metadata") or {}
    if metadata.get("name") != group:
        raise RequestError(f"--broker-group {path}: its name is {metadata.get('name')}, and not {group}")
    if metadata.get("namespace", namespace) != namespace:
        raise RequestError(
            f"--broker-group {path}: its namespace is {metadata['namespace']}, and not {namespace}"
        )
    try:
        spec = BrokerGroupSpec.model_validate(manifest.get("spec") or {})
    except ValidationError as error:
        raise RequestError(f"--broker-group {path}: {error.errors()[0]['msg']}") from error
    return manifest | {"metadata": {**metadata, "namespace": namespace}}, spec


async def _pods_of(server: MigrationServer, namespace: str, reference: str) -> Sequence[str]:
    """Return the pods that are named, also those of a set that was stopped by us."""
    kind, _, name = reference.partition("/")
    if kind == "pod" and name.rpartition("-")[2].isdigit():
        return [name]
    if kind != "statefulset" or not name:
        raise RequestError(f"{reference}: name it as statefulset/NAME or pod/NAME-0")
    live = await server.get("StatefulSet", namespace, name)
    if live is None:
        raise RequestError(f"StatefulSet {name} does not exist in namespace {namespace}")
    replicas = int(live["spec"].get("replicas", 0)) or int(recorded_pods(live).get("replicas", 0))
    if not replicas:
        raise RequestError(
            f"StatefulSet {name} is scaled to 0: start its pods, so that the command can query them"
        )
    return [f"{name}-{ordinal}" for ordinal in range(replicas)]


async def _confirm(question: str) -> bool:
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = await asyncio.to_thread(sys.stdin.readline)
    return answer.strip().lower() in {"y", "yes"}


def _to_stdout(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
