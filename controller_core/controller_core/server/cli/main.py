"""The command `controller-core`: serve a node, ask running nodes, look into a stopped one, measure.

Exit status: 0 done; 1 the command failed; 2 the arguments or the configuration are wrong; 3 the node's log
failed or is damaged.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import uvloop

from controller_core.command_line.attribute_help import attribute_help
from controller_core.command_line.completion import add_completion
from controller_core.command_line.output import RowPrinter, add_output, show
from controller_core.command_line.program import MisuseError, Parser, program, run
from controller_core.command_line.values import DURATION, HOSTS, NAMES, SEMICOLONS, duration, hosts, names
from controller_core.server.cli import client, import_groups, log_entries, members
from controller_core.server.cli.load_generator import WORKLOADS, BenchError, BenchPlan, run_bench
from controller_core.server.cli.route_front import MISUSES, add_route_front
from controller_core.server.settings.config import InvalidSettingError, key_infos
from controller_core.server.settings.keys import reference_lines
from controller_core.tls.dialling import dial_trusting

EXIT_LOG: Final = 3
DEFAULT_SERVER: Final = "127.0.0.1:9880"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    return run(
        parser(),
        arguments,
        misuses=(InvalidSettingError, *MISUSES),
        failures=(client.ClientError, BenchError),
    )


def parser() -> Parser:
    """Return the parser of all commands."""
    whole = program(
        "controller-core",
        "A Raft-replicated controller for unmodified RocketMQ 5 brokers.",
        "rocketmq-controller-core",
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_client_commands(commands)
    _add_inspect(commands)
    _add_bench(commands)
    add_route_front(commands)
    settings = commands.add_parser("settings", help="print every setting with meaning, range and default")
    add_output(settings)
    settings.set_defaults(carry_out=_settings)
    add_completion(commands, parser)
    return whole


def _add_serve(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    serve = commands.add_parser("serve", help="run a controller node")
    serve.add_argument(
        "-c", "--config", type=Path, metavar="FILE", help="properties file, as for mqcontroller -c"
    )
    serve.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting, over the file; may be repeated",
    )
    serve.set_defaults(carry_out=_serve)


def _add_client_commands(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    access = attribute_help(client.Access)

    def add(
        name: str, run: Callable[[argparse.Namespace], Awaitable[None]], text: str, *, changes: bool = False
    ) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, help=text)
        command.add_argument(
            "--server",
            type=hosts,
            default=[DEFAULT_SERVER],
            metavar=HOSTS,
            help=f"{access['server']} (default: {DEFAULT_SERVER})",
        )
        add_output(command)
        for key in ("cacert", "cert", "key"):
            command.add_argument(f"--{key}", default="", metavar="FILE", help=access[key])
        if changes:
            command.add_argument("--token", default="", metavar="TOKEN", help=access["token"])
        command.set_defaults(carry_out=lambda parsed: asyncio.run(_awaited(run(parsed))))
        return command

    add("status", client.status, "print the status that each node reports")
    add("groups", client.groups, "print the broker groups")
    add("failovers", client.failovers, "print the last changes of master, newest first")
    watch = add("watch", client.watch, "print new events as they happen")
    watch.add_argument("--after", type=int, default=0, metavar="N", help="begin after this sequence")
    watch.add_argument("--no-follow", dest="follow", action="store_false", help="end after what is there")
    log = add("log", log_entries.log, "print entries of a node's log, the newest by default")
    log.add_argument("--first", type=int, default=None, metavar="N", help="index of the first entry")
    log.add_argument("--limit", type=int, default=50, metavar="N", help="entries, at most 1000 (default: 50)")
    get = add("get", log_entries.get, "print what one entry of a node's log was")
    get.add_argument("index", type=int, metavar="INDEX", help="index of the entry")
    elect = add("elect", client.elect, "designate a group's master", changes=True)
    elect.add_argument("cluster", help="brokerClusterName of the group")
    elect.add_argument("group", help="brokerName of the group")
    elect.add_argument("broker_id", type=int, help="id of the member that becomes master")
    transfer = add("transfer", client.transfer, "transfer Raft leadership to a node", changes=True)
    transfer.add_argument("to", metavar="NAME", help="the node, as n1")
    add("snapshot", client.snapshot, "have one node write a snapshot now", changes=True)
    _add_import(
        add(
            "import",
            import_groups.import_groups,
            "take groups over from RocketMQ's controllers",
            changes=True,
        )
    )
    membership = add(
        "members", members.members, "list, add, promote, remove or replace controllers", changes=True
    )
    membership.add_argument(
        "action",
        choices=("list", "add", "promote", "remove", "replace"),
        help="the change of the members, or their list",
    )
    membership.add_argument(
        "member", nargs="?", default="", help="to add: n3-host:port, started with an empty store; else: n3"
    )
    for key, text in (("add", "members to add, as n3-host:port"), ("remove", "members to remove, as n0")):
        membership.add_argument(
            f"--{key}", action="extend", type=names, default=[], metavar=NAMES, help=f"with replace: {text}"
        )
    membership.add_argument(
        "--timeout",
        type=duration,
        default=60.0,
        metavar=DURATION,
        help="with replace: longest wait for added members to catch up (default: 60s)",
    )


def _add_import(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--from",
        dest="java",
        action="extend",
        type=hosts,
        required=True,
        metavar=HOSTS,
        help=f"all of RocketMQ's controllers; {SEMICOLONS}",
    )
    command.add_argument(
        "--name-servers",
        action="extend",
        type=hosts,
        required=True,
        metavar=HOSTS,
        help=f"name servers that list the groups; {SEMICOLONS}",
    )
    command.add_argument(
        "--java-cacert",
        default="",
        metavar="FILE",
        help="authorities of RocketMQ's controllers and name servers, PEM: dial them in TLS first, and in "
        "plain TCP where TLS is not answered (default: plain TCP)",
    )
    command.add_argument(
        "--silent-groups",
        action="extend",
        type=names,
        default=[],
        metavar="CLUSTER/GROUP[,...]",
        help="groups that no name server lists, because none of their brokers runs",
    )
    command.add_argument("--dry-run", action="store_true", help="only say whether it is possible")
    command.add_argument(
        "--timeout",
        type=duration,
        default=600.0,
        metavar=DURATION,
        help="longest wait for RocketMQ's controllers to be stopped (default: 10m)",
    )


def _add_inspect(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    inspect = commands.add_parser("inspect", help="print what a stopped node's store holds")
    inspect.add_argument("store", type=Path, metavar="STORE", help="the node's directory, .../raft-nK")
    add_output(inspect)
    inspect.set_defaults(carry_out=_inspect)


def _add_bench(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    bench = commands.add_parser("bench", help="measure running controllers")
    texts = attribute_help(BenchPlan)
    bench.add_argument(
        "--controllers",
        type=hosts,
        required=True,
        metavar=HOSTS,
        help=f"{texts['controllers']}; {SEMICOLONS}",
    )
    bench.add_argument(
        "--workload", choices=(*WORKLOADS, "all"), default="all", help=f"{texts['workload']} (default: all)"
    )
    for option, key, default in (("--duration", "duration_s", "5s"), ("--warm-up", "warm_up_s", "0s")):
        bench.add_argument(
            option,
            dest=key,
            type=duration,
            default=duration(default),
            metavar=DURATION,
            help=f"{texts[key]} (default: {default})",
        )
    for key, count in (("in_flight", 64), ("connections", 4), ("groups", 100)):
        bench.add_argument(
            f"--{key.replace('_', '-')}",
            type=int,
            default=count,
            metavar="N",
            help=f"{texts[key]} (default: {count})",
        )
    bench.add_argument(
        "--cacert",
        default="",
        metavar="FILE",
        help="authorities of the controllers' certificates, PEM: dial in TLS only (default: plain TCP)",
    )
    bench.add_argument("--spread", action="store_true", help=texts["spread"])
    add_output(bench)
    bench.set_defaults(carry_out=_bench)


async def _awaited(done: Awaitable[None]) -> None:
    await done


def _serve(parsed: argparse.Namespace) -> int:
    from controller_core.server.serve import serve_until_signalled

    return serve_until_signalled(parsed.config, parsed.set)


def _settings(parsed: argparse.Namespace) -> int:
    show(parsed.output, list(key_infos().values()), lines=list(reference_lines(key_infos().values())))
    return 0


def _inspect(parsed: argparse.Namespace) -> int:
    from controller_core.server.cli.store_inspection import rows

    if not parsed.store.is_dir():
        raise MisuseError(f"{parsed.store} is not a directory")
    damaged, printer = False, RowPrinter(parsed.output)
    for row in rows(parsed.store):
        damaged = damaged or row["kind"] == "DAMAGE"
        place = f"{row['file']}+{row['offset']}"
        numbers = f"index {row['index'] or '-':>8}  term {row['term'] or '-':>4}"
        printer.show(row, f"{place:<40} {row['kind']:<10} {numbers}  {row['text']}")
    return EXIT_LOG if damaged else 0


def _bench(parsed: argparse.Namespace) -> int:
    workloads = WORKLOADS if parsed.workload == "all" else (parsed.workload,)
    if parsed.cacert:
        dial_trusting("--cacert", parsed.cacert, plain_allowed=False)
    printer = RowPrinter(parsed.output)
    for workload in workloads:
        plan = BenchPlan(
            tuple(parsed.controllers),
            workload,
            parsed.duration_s,
            parsed.in_flight,
            parsed.connections,
            parsed.groups,
            parsed.warm_up_s,
            parsed.spread,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(run_bench(plan))
        printer.show(
            result,
            f"{result.workload:<17} {result.requests_per_s:>10,.0f} req/s   p50 {result.p50_ms:.2f} ms   "
            f"p99 {result.p99_ms:.2f} ms   max {result.max_ms:.1f} ms   "
            f"({result.requests:,} requests, {result.errors} errors, {parsed.in_flight} in flight, "
            f"{result.client_share:.0%} of a processor here)",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
