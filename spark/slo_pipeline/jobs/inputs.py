"""Where a job's segments are: a directory, or a bucket of which the days that are needed are copied into one.

Problem: Spark's wheel lacks a reader of buckets, and our search for segments looks at files. Shape:
`directory` yields what `--input` names; for a bucket a scratch directory, filled as `slo-pipeline mirror`
does it, so that a reused scratch directory downloads only new segments. `last_days` and others choose what a
job needs of it. Never: a job knows which of the two it was.
"""

import datetime as dt
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from slo_pipeline.mirror.copying import Choice, Choose, Mirror, day_of, everything
from slo_pipeline.mirror.places import SCHEME, DirectoryPlace, place
from slo_pipeline.schemas.names import KINDS
from slo_pipeline.shell.options import PROGRAM
from slo_pipeline.sources.layout import ignored, ignored_text, refuse
from slo_pipeline.sources.segments import InputError, check_directory


def last_days(count: int, today: dt.date, without: Collection[dt.date] = ()) -> Choose:
    """Choose the days that a window of so many days can touch, and one before it.

    Args:
        count: of the window, which ends with the newest send, or without sends with the newest event or
            sample.
        today: the newest day that can be; later ones come along, and do not move the window.
        without: days that are read from elsewhere.
    """

    def choose(folders: list[str]) -> Choice:
        days = [[day_of(one) for one in folders if one.startswith(f"{kind}/")] for kind in KINDS]
        possible = [[day for day in of_kind if day <= today + dt.timedelta(days=1)] for of_kind in days]
        newest = max(next(filter(None, possible), [dt.date.min]))
        oldest = newest - dt.timedelta(days=min(count + 1, newest.toordinal() - 1))
        return Choice([one for one in folders if day_of(one) >= oldest and day_of(one) not in without])

    return choose


@contextmanager
def directory(args: Namespace, kinds: Collection[str] = KINDS, choose: Choose = everything) -> Iterator[Path]:
    """Yield the directory with a job's segments.

    Args:
        args: of a job that declares `add_input` and `add_master`.
        kinds: that the job reads; one of them must be there.
        choose: which of a bucket's days are needed.

    Raises:
        InputError: the folder does not exist, or holds none of the kinds.
        PlaceError: `--input` is not a bucket, or `--endpoint` not an endpoint.
        SegmentUnusableError: a segment of the bucket cannot be read.
        OSError: the bucket cannot be read.
    """
    if not args.input.startswith(SCHEME):
        check_directory(Path(args.input), *kinds)
        if strays := ignored(Path(args.input), kinds):
            sys.stderr.write(f"{PROGRAM}: {ignored_text(strays)}\n")
        yield Path(args.input)
        return
    if args.scratch is None and not args.master.startswith("local"):
        raise InputError(
            f"{args.input}: executors cannot see a temporary directory: name a --scratch that they can"
        )
    kept = (
        tempfile.TemporaryDirectory(prefix="segments-") if args.scratch is None else nullcontext(args.scratch)
    )
    with kept as scratch:
        target = DirectoryPlace(Path(scratch))
        done = Mirror(place(args.input, args.endpoint), target, _of(args.input, kinds, choose)).round()
        if done.failures:
            raise done.failures[0]
        refuse(done.unusable)
        if done.apart:
            raise InputError(f"{args.input}: {done.apart[0]} is of another size than in {target}")
        yield Path(scratch)


def _of(source: str, kinds: Collection[str], choose: Choose) -> Callable[[list[str]], Choice]:
    def chosen(folders: list[str]) -> Choice:
        found = [one for one in folders if one.partition("/")[0] in kinds]
        if not found:
            wanted = " or ".join(f"{kind}/day=*/*.parquet" for kind in kinds)
            raise InputError(f"{source}: holds no {wanted}")
        return choose(found)

    return chosen
