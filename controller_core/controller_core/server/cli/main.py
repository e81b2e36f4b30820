"""The command `controller-core`: serve a node, ask running nodes, look into a stopped one, measure.

Exit status: 0 done; 1 the command failed; 2 the arguments or the configuration are wrong; 3 the node's log
failed or is damaged.
"""

import argparse
import asyncio
import dataclasses
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import uvloop

from controller_core.command_line.program import MisuseError, Parser, program, run
from controller_core.server.cli import client, members
from controller_core.server.cli.load_generator import WORKLOADS, BenchError, BenchPlan, run_bench
from controller_core.server.cli.route_front import MISUSES, add_route_front
from controller_core.server.settings.config import InvalidSettingError, reference_lines

EXIT_LOG: Final = 3
DEFAULT_HTTP: Final = "127.0.0.1:9880"
OUTPUT_HELP: Final = "form of the output (default: text)"


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
    settings.set_defaults(carry_out=_settings)
    return whole


def _add_serve(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    serve = commands.add_parser("serve", help="run a controller node")
    serve.add_argument("-c", "--config", type=Path, help="properties file, as for mqcontroller -c")
    serve.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting, over the file; may be repeated",
    )
    serve.set_defaults(carry_out=_serve)


def _add_client_commands(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    def add(
        name: str, run: Callable[[argparse.Namespace], Awaitable[None]], text: str, *, changes: bool = False
    ) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, help=text)
        command.add_argument(
            "--http",
            default=DEFAULT_HTTP,
            metavar="HOST:PORT[,...]",
            help=f"nodes to ask, default {DEFAULT_HTTP}",
        )
        command.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)
        command.add_argument(
            "--cacert", default="", help="authorities of the nodes' certificates; with it, HTTPS"
        )
        command.add_argument("--cert", default="", help="certificate of this client, if nodes require one")
        command.add_argument("--key", default="", help="its private key, if it is not in the same file")
        if changes:
            command.add_argument("--token", default="", help="the nodes' httpToken")
        command.set_defaults(carry_out=lambda parsed: asyncio.run(_awaited(run(parsed))))
        return command

    add("status", client.status, "print the status that each node reports")
    add("groups", client.groups, "print the broker groups")
    add("failovers", client.failovers, "print the last changes of master, newest first")
    watch = add("watch", client.watch, "print new events as they happen")
    watch.add_argument("--after", type=int, default=0, metavar="N", help="begin after this sequence")
    watch.add_argument("--no-follow", dest="follow", action="store_false", help="end after what is there")
    elect = add("elect", client.elect, "designate a group's master", changes=True)
    elect.add_argument("cluster", help="brokerClusterName of the group")
    elect.add_argument("group", help="brokerName of the group")
    elect.add_argument("broker_id", type=int, help="id of the member that becomes master")
    transfer = add("transfer", client.transfer, "transfer Raft leadership to a node", changes=True)
    transfer.add_argument("to", metavar="NAME", help="the node, as n1")
    add("snapshot", client.snapshot, "have one node write a snapshot now", changes=True)
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
    comma = "with replace, comma separated: "
    membership.add_argument(
        "--add", default="", metavar="NODES", help=comma + "members to add, as n3-host:port"
    )
    membership.add_argument("--remove", default="", metavar="NAMES", help=comma + "members to remove, as n0")
    membership.add_argument(
        "--within",
        type=float,
        default=60.0,
        metavar="S",
        help="seconds to wait for added members to catch up (60)",
    )


def _add_inspect(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    inspect = commands.add_parser("inspect", help="print what a stopped node's store holds")
    inspect.add_argument("store", type=Path, metavar="STORE", help="the node's directory, .../raft-nK")
    inspect.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)
    inspect.set_defaults(carry_out=_inspect)


def _add_bench(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    bench = commands.add_parser("bench", help="measure running controllers")
    bench.add_argument("--controllers", required=True, metavar="HOST:PORT[;...]", help="remoting addresses")
    bench.add_argument(
        "--workload", choices=(*WORKLOADS, "all"), default="all", help="the requests to send (default: all)"
    )
    bench.add_argument("--seconds", type=float, default=5.0, help="duration of each workload (default: 5)")
    bench.add_argument("--warm-up", type=float, default=0.0, help="seconds before requests are counted")
    bench.add_argument("--in-flight", type=int, default=64, help="requests under way at a time")
    bench.add_argument("--connections", type=int, default=4, help="number of connections (default: 4)")
    bench.add_argument("--groups", type=int, default=100, help="broker groups to work on")
    bench.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)
    bench.set_defaults(carry_out=_bench)


async def _awaited(done: Awaitable[None]) -> None:
    await done


def _serve(parsed: argparse.Namespace) -> int:
    from controller_core.server.serve import serve_until_signalled

    return serve_until_signalled(parsed.config, parsed.set)


def _settings(_parsed: argparse.Namespace) -> int:
    sys.stdout.write("\n".join(reference_lines()) + "\n")
    return 0


def _inspect(parsed: argparse.Namespace) -> int:
    from controller_core.server.cli.store_inspection import rows

    if not parsed.store.is_dir():
        raise MisuseError(f"{parsed.store} is not a directory")
    damaged = False
    for row in rows(parsed.store):
        damaged = damaged or row["kind"] == "DAMAGE"
        if parsed.output == "json":
            sys.stdout.write(json.dumps(row) + "\n")
        else:
            place = f"{row['file']}+{row['offset']}"
            numbers = f"index {row['index'] or '-':>8}  term {row['term'] or '-':>4}"
            client.show(f"{place:<40} {row['kind']:<10} {numbers}  {row['text']}")
    return EXIT_LOG if damaged else 0


def _bench(parsed: argparse.Namespace) -> int:
    workloads = WORKLOADS if parsed.workload == "all" else (parsed.workload,)
    controllers = tuple(address for address in parsed.controllers.replace(",", ";").split(";") if address)
    for workload in workloads:
        plan = BenchPlan(
            controllers,
            workload,
            parsed.seconds,
            parsed.in_flight,
            parsed.connections,
            parsed.groups,
            parsed.warm_up,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(run_bench(plan))
        if parsed.output == "json":
            sys.stdout.write(json.dumps(dataclasses.asdict(result)) + "\n")
        else:
            sys.stdout.write(
                f"{result.workload:<17} {result.requests_per_s:>10,.0f} req/s   p50 {result.p50_ms:.2f} ms   "
                f"p99 {result.p99_ms:.2f} ms   max {result.max_ms:.1f} ms   "
                f"({result.requests:,} requests, {result.errors} errors, {parsed.in_flight} in flight, "
                f"{result.client_share:.0%} of a processor here)\n"
            )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
