"""`python -m testkit.conformance`: is our controller to its peers what RocketMQ's own is?

Without `--controller` it starts a fresh one-node `controller-core serve`. It holds the conversation of
`script`, prints every answer, compares with the project's recording of Java's controller, with each
`--golden`, and with a Java controller that runs now for each `--live`, and ends with `N passed, M failed`
(exit status 1 if any failed). `--record` makes the recording instead, from real Java.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from controller_core.channel import ChannelError
from testkit.conformance.comparison import StepVerdict, compare
from testkit.conformance.improvements import IMPROVEMENTS
from testkit.conformance.java import java_lines, write
from testkit.conformance.player import PlayError, play, wait_until_serving
from testkit.conformance.script import conversation
from testkit.conformance.transcript import Line, TranscriptError, parse
from testkit.processes.process import ProcessFailedError
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import JarsUnavailableError

RECORDED_VERSION: Final = "5.4.0"
RECORDING: Final = (
    Path(__file__).parents[2] / "testdata" / "conformance" / f"java_controller_{RECORDED_VERSION}.txt"
)


async def our_lines(controller: str | None) -> list[Line]:
    """Hold the conversation with the controller at `host:port`, or with a fresh one of our own."""
    if controller is not None:
        host, _, port = controller.rpartition(":")
        await wait_until_serving(host, int(port))
        return await play(host, int(port), conversation())
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        cluster = ControllerCluster(Path(directory), nodes=1)
        await cluster.start()
        try:
            return await our_lines(cluster.remoting_addresses[0])
        finally:
            await cluster.stop()


def report(source: str, verdicts: Sequence[StepVerdict]) -> int:
    """Print the allowed and the disallowed differences; return how many steps failed."""
    _print(f"\ncompared with {source}")
    for verdict in verdicts:
        if verdict.problems:
            _print(f"DIFFERS   {verdict.name}")
            for problem in verdict.problems:
                _print(f"          {problem}")
        elif verdict.improvement is not None:
            _print(f"improved  {verdict.name}: {verdict.improvement.what}; {verdict.improvement.why}")
    failed = sum(bool(verdict.problems) for verdict in verdicts)
    _print(f"          {len(verdicts) - failed} passed, {failed} failed")
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.record:
            lines = asyncio.run(java_lines(options.version))
            write(RECORDING.with_name(f"java_controller_{options.version}.txt"), options.version, lines)
            return 0
        references = [
            (path.name, parse(path.read_text(), path.name)) for path in [RECORDING, *options.golden]
        ]
        for version in options.live:
            source = f"the controller of RocketMQ {version}, started for this"
            references.append((source, asyncio.run(java_lines(version))))
        lines = asyncio.run(java_lines(options.version) if options.java else our_lines(options.controller))
    except (
        ChannelError,
        JarsUnavailableError,
        OSError,
        PlayError,
        ProcessFailedError,
        TranscriptError,
    ) as error:
        sys.stderr.write(f"conformance: {error}\n")
        return 2
    for line in lines:
        _print(str(line))
    passed = failed = 0
    for source, reference in references:
        verdicts = compare(lines, reference, () if options.java else IMPROVEMENTS)
        wrong = report(source, verdicts)
        failed += wrong
        passed += len(verdicts) - wrong
    _print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m testkit.conformance", description="Hold our controller against RocketMQ's own."
    )
    parser.add_argument(
        "--controller", metavar="HOST:PORT", help="a fresh single-node controller that runs already"
    )
    parser.add_argument(
        "--golden",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="compare with this recording too",
    )
    parser.add_argument(
        "--live",
        metavar="VERSION",
        action="append",
        default=[],
        help="start Java's controller of this release and compare with its answers; may be given again",
    )
    parser.add_argument(
        "--java", action="store_true", help="hold the conversation with Java's controller instead"
    )
    parser.add_argument("--record", action="store_true", help="write the recording of Java's controller")
    parser.add_argument(
        "--version", default=RECORDED_VERSION, help="RocketMQ version for --java and --record"
    )
    return parser


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
