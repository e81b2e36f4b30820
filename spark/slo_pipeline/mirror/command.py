"""`slo-pipeline mirror FROM TO`: segments and extracts of one place, in another one too.

Problem: measurements must outlive the volume they were written to, and be readable elsewhere. Shape: either
side is a directory or `s3://bucket/prefix`. A run copies what TO lacks and ends; with `--follow` it goes
round until it is told to end, and says what went wrong instead of ending. Credentials are those of the usual
AWS variables of the environment. Never: nothing is deleted, on either side.

Exit status: 0 TO has all that FROM has, 1 some names stand for different sizes, some segments are unusable
and were not copied, or a file cannot be copied (the command names them), 2 a place is wrong.
"""

import argparse
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from controller_core.command_line.values import DURATION, positive_duration
from slo_pipeline.mirror.copying import Choice, Mirror, Mirrored, day_of
from slo_pipeline.mirror.places import SCHEME, TABLES, PlaceError, place
from slo_pipeline.shell.exit_codes import EXIT_DONE, EXIT_FAILED
from slo_pipeline.shell.options import PROGRAM, add_endpoint, day
from slo_pipeline.sources.layout import ignored, ignored_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `mirror`."""
    parser.add_argument("source", metavar="FROM", help="directory, or s3://bucket/prefix")
    parser.add_argument("target", metavar="TO", help="directory, or s3://bucket/prefix")
    add_endpoint(parser)
    parser.add_argument("--since", type=day, metavar="DAY", help="leave older days alone")
    parser.add_argument(
        "--follow",
        type=positive_duration,
        metavar=DURATION,
        help="go round again so long after each round",
    )


def run(args: argparse.Namespace) -> int:
    """Mirror once, or until SIGTERM or SIGINT comes; return the exit status.

    Raises:
        PlaceError: a place is invalid.
        OSError: a place cannot be listed, or refuses a file; not with `--follow`.
    """
    if not args.source.startswith(SCHEME) and not Path(args.source).is_dir() and args.follow is None:
        raise PlaceError(f"{args.source}: no such directory")

    def choose(folders: list[str]) -> Choice:
        return Choice([one for one in folders if args.since is None or day_of(one) >= args.since])

    source, target = place(args.source, args.endpoint), place(args.target, args.endpoint)
    if not args.source.startswith(SCHEME) and (strays := ignored(Path(args.source), TABLES)):
        _complain(ignored_text(strays))
    if args.follow is None:
        done = Mirror(source, target, choose).round()
        _say(done, done.apart, done.unusable)
        return EXIT_FAILED if done.failures or done.apart or done.unusable else EXIT_DONE
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _follow(Mirror(source, target, choose, stop.is_set), args.follow, stop)
    return 0


def _follow(copier: Mirror, every_s: float, stop: threading.Event) -> None:
    told: set[str] = set()
    while not stop.is_set():
        try:
            done = copier.round()
            _say(done, *([one for one in found if one not in told] for found in (done.apart, done.unusable)))
            told = {*done.apart, *done.unusable}
        except (OSError, PlaceError) as error:
            _complain(error)
        stop.wait(every_s)


def _say(done: Mirrored, apart: Iterable[str], unusable: Iterable[str]) -> None:
    if done.files:
        sys.stdout.write(f"{done.files} files, {done.size_bytes} bytes\n")
        sys.stdout.flush()
    for path in apart:
        _complain(f"{path} is of another size there than here")
    for line in (*unusable, *done.failures):
        _complain(line)


def _complain(what: object) -> None:
    sys.stderr.write(f"{PROGRAM}: {what}\n")
