"""The command line of `kubectl rmqha`; kubectl finds it in PATH by its name, kubectl-rmqha.

    kubectl rmqha status [GROUP]                       what a group is doing
    kubectl rmqha switchover GROUP [--to MEMBER]       make another broker master
    kubectl rmqha failovers [GROUP]                    every change of master, the newest first
    kubectl rmqha explain GROUP                        the problems of a group, and their remedies
    kubectl rmqha report [NAME] [--run]                results of SLOReports
    kubectl rmqha bootstrap [CLUSTER]                  the addresses that applications use
    kubectl rmqha migrate GROUP -f FILE ...            move brokers without controllers to a BrokerGroup

Never here: what a command asks or shows.
"""

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from controller_core.command_line.completion import add_completion
from controller_core.command_line.output import add_output, show
from controller_core.command_line.program import MisuseError, Parser, program, run
from controller_core.command_line.values import DURATION, positive_duration
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.clients.kube import (
    KubeClient,
    connect_as_person,
    namespace_of_person,
)
from rocketmq_operator.plugin import addresses, migrate_command, rendering, reports, rows
from rocketmq_operator.plugin.queries import (
    GroupServer,
    RequestError,
    check_namespace,
    failovers_of,
    list_groups,
    observe_group,
    switch_over,
)
from rocketmq_operator.plugin.result import CommandResult

FILE: Final = "kubectl-rmqha"
TIMEOUT_DEFAULT_S: Final = 60.0
REPORT_TIMEOUT_DEFAULT_S: Final = 600.0


CommandFunction = Callable[[KubeClient, str, argparse.Namespace], Coroutine[Any, Any, CommandResult]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code.

    It is 1 if the cluster or the group is in the way, 2 for a wrong command line.
    """
    return run(parser(), arguments, failures=(RequestError, PeerUnavailableError))


def _show(options: argparse.Namespace) -> int:
    answer = _run_command(options)
    show(options.output, answer.data, rows=answer.rows, lines=answer.lines)
    return 0


def _run_command(options: argparse.Namespace) -> CommandResult:
    dynamic = connect_as_person(options.kubeconfig, options.context)
    namespace = options.namespace or namespace_of_person(options.kubeconfig, options.context)
    kube = KubeClient(dynamic)

    async def ask() -> CommandResult:
        try:
            answer = await _COMMANDS[options.command](kube, namespace, options)
        except RequestError:
            await check_namespace(kube, namespace)
            raise
        if not answer.data:
            await check_namespace(kube, namespace)
        return answer

    try:
        return asyncio.run(ask())
    finally:
        kube.close()


def parser() -> Parser:
    """Return the parser of all commands."""
    common = Parser(add_help=False)
    common.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="of the group; default: the context's own"
    )
    common.add_argument("--context", metavar="NAME", help="of the kubeconfig; default: the current one")
    common.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG or ~/.kube/config")
    add_output(common)
    whole = program(
        "kubectl rmqha",
        "Look after RocketMQ broker groups of the RocketMQ HA Operator.",
        "rocketmq-ha-operator",
    )
    whole.set_defaults(carry_out=_show)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    status = commands.add_parser("status", parents=[common], help="what a group, or each, is doing")
    status.add_argument("group", nargs="?", metavar="GROUP", help="a BrokerGroup (default: all)")
    switchover = commands.add_parser("switchover", parents=[common], help="make another broker master")
    switchover.add_argument("group", metavar="GROUP", help="the BrokerGroup")
    switchover.add_argument("--to", default="", metavar="MEMBER", help="which; default: the best")
    switchover.add_argument(
        "--timeout",
        type=positive_duration,
        default=TIMEOUT_DEFAULT_S,
        metavar=DURATION,
        help=f"after it the request is withdrawn (default: {TIMEOUT_DEFAULT_S:g}s)",
    )
    failovers = commands.add_parser("failovers", parents=[common], help="every change of master")
    failovers.add_argument("group", nargs="?", metavar="GROUP", help="a BrokerGroup (default: all)")
    explain = commands.add_parser("explain", parents=[common], help="what is wrong, and what to do")
    explain.add_argument("group", metavar="GROUP", help="the BrokerGroup")
    report = commands.add_parser("report", parents=[common], help="what an SLOReport, or each, came to")
    report.add_argument("name", nargs="?", metavar="NAME", help="an SLOReport (default: all)")
    report.add_argument("--run", action="store_true", help="have it made now; needs NAME")
    report.add_argument(
        "--timeout",
        type=positive_duration,
        default=REPORT_TIMEOUT_DEFAULT_S,
        metavar=DURATION,
        help=f"longest wait of --run (default: {REPORT_TIMEOUT_DEFAULT_S:g}s)",
    )
    bootstrap = commands.add_parser("bootstrap", parents=[common], help="the addresses that applications use")
    bootstrap.add_argument("cluster", nargs="?", metavar="CLUSTER", help="a RocketMQCluster (default: all)")
    migrate_command.add_command(commands, common)
    add_completion(commands, file_parser)
    return whole


def file_parser() -> Parser:
    """Return the parser under the name of the program's file, which is what a shell completes."""
    whole = parser()
    whole.prog = FILE
    return whole


async def _status(server: GroupServer, namespace: str, options: argparse.Namespace) -> CommandResult:
    if options.group is None:
        views = await list_groups(server, namespace)
        data = [view.resource for view in views]
        return CommandResult(rendering.list_lines(views), data, rows.group_rows(views))
    view = await observe_group(server, namespace, options.group)
    found = {"brokerGroup": view.resource, "nodes": dict(view.nodes), "lastFailover": view.failover}
    return CommandResult(rendering.status_lines(view), found, rows.member_rows(view))


async def _switchover(server: GroupServer, namespace: str, options: argparse.Namespace) -> CommandResult:
    done = await switch_over(server, namespace, options.group, options.to, options.timeout)
    if done is None:
        return CommandResult([f"{options.group}: {options.to} is master already"], None)
    line = (
        f"{done.group}: {done.new_master} is master in epoch {done.epoch}, it was {done.old_master}; "
        f"{done.took_s:.1f} s"
    )
    return CommandResult([line], asdict(done))


async def _failovers(server: GroupServer, namespace: str, options: argparse.Namespace) -> CommandResult:
    found = await failovers_of(server, namespace, options.group)
    lines = rendering.failover_lines(found, datetime.now(UTC))
    return CommandResult(lines, rendering.newest_first(found), rows.failover_rows(found))


async def _explain(server: GroupServer, namespace: str, options: argparse.Namespace) -> CommandResult:
    view = await observe_group(server, namespace, options.group)
    data = {"brokerGroup": view.resource, "events": list(view.events)}
    return CommandResult(rendering.explain_lines(view), data, rows.condition_rows(view))


async def _report(server: GroupServer, namespace: str, options: argparse.Namespace) -> CommandResult:
    now = datetime.now(UTC)
    if options.run:
        if options.name is None:
            raise MisuseError("--run needs the name of a report")
        made = await reports.run_now(server, namespace, options.name, options.timeout)
        lines = reports.report_lines(made, datetime.now(UTC))
        return CommandResult(lines, made, rows.objective_rows(made))
    found = await reports.reports_of(server, namespace, options.name)
    if options.name is None:
        return CommandResult(reports.list_lines(found, now), found, rows.report_rows(found))
    return CommandResult(reports.report_lines(found[0], now), found[0], rows.objective_rows(found[0]))


async def _bootstrap(server: GroupServer, namespace: str, options: argparse.Namespace) -> CommandResult:
    return await addresses.bootstrap(server, namespace, options.cluster)


_COMMANDS: Final[dict[str, CommandFunction]] = {
    "status": _status,
    "switchover": _switchover,
    "failovers": _failovers,
    "explain": _explain,
    "report": _report,
    "bootstrap": _bootstrap,
    "migrate": migrate_command.migrate,
}
