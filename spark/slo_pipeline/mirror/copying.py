"""What one place has and another lacks, copied.

Problem: segments outlive the volume they were written to only if they are somewhere else too, and whoever
copies them is killed, started twice, and loses its connection. Shape: a segment never changes, so a file of
the same name and size is the same file. Missing files are copied, oldest day first. It needs no record of its
own: the destination lists the copied files. With repeated rounds it lists there only folders that have
another file since. A file that cannot be copied holds up none of the others. An unusable segment is named and
not copied: every job at the destination would refuse it. Never: deletes, or writes over. A name with
different sizes is reported and left alone: one of the two files is wrong.
"""

import datetime as dt
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from slo_pipeline.mirror.places import FileGoneError, SegmentPlace, UnusableError
from slo_pipeline.sources.layout import SegmentUnusableError

FAILURES_MAX: Final = 8
"""In a round: where more files fail it is the place that does, and each would wait for it in vain."""


class Choice(NamedTuple):
    """What of a place is copied.

    Attributes:
        folders: those that are looked into.
        needless: paths in them that may stay where they are.
    """

    folders: Collection[str]
    needless: Collection[str] = frozenset()


Choose = Callable[[list[str]], Choice]
"""Of the folders that there are."""


def everything(folders: list[str]) -> Choice:
    """Choose all there is."""
    return Choice(folders)


def day_of(folder: str) -> dt.date:
    """Return the day of a folder `<table>/day=YYYY-MM-DD`."""
    return dt.date.fromisoformat(folder.rpartition("=")[2])


@dataclass(slots=True)
class Mirrored:
    """What a round did.

    Attributes:
        files: that were copied.
        size_bytes: of all of them.
        apart: paths that stand for another size here than there.
        unusable: a line for each file that was not copied because no job could read it.
        failures: why files could not be copied, which each of them says.
    """

    files: int = 0
    size_bytes: int = 0
    apart: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    failures: list[OSError] = field(default_factory=list)


class Mirror:
    """Keeps one place like another."""

    def __init__(
        self,
        source: SegmentPlace,
        target: SegmentPlace,
        choose: Choose = everything,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Describe the two.

        Args:
            source: is only read.
            target: gets what it lacks.
            choose: says what of the source is copied.
            stopped: called between files; once true, the remaining files wait for the next round.
        """
        self._source = source
        self._target = target
        self._choose = choose
        self._stopped = stopped
        self._whole: dict[str, int] = {}
        self._refused: dict[tuple[str, int], str] = {}

    def round(self) -> Mirrored:
        """Copy what the target lacks.

        Raises:
            OSError: one of the places cannot be listed, or refuses a file; files copied by then are complete.
            PlaceError: the source no longer exists, or does not exist yet.
        """
        done, choice = Mirrored(), self._choose(self._source.folders())
        with self._target.held(), ThreadPoolExecutor(self._target.puts_at_once) as pool:
            for folder in sorted(choice.folders, key=lambda one: (day_of(one), one)):
                if not self._stopped():
                    self._folder(folder, choice.needless, done, pool)
        return done

    def _folder(
        self, folder: str, needless: Collection[str], done: Mirrored, pool: ThreadPoolExecutor
    ) -> None:
        listed = self._source.files(folder)
        sizes = {name: size for name, size in listed.items() if f"{folder}/{name}" not in needless}
        state = hash(frozenset(sizes.items()))
        if self._whole.get(folder) == state:
            return
        there = self._target.files(folder)
        apart = [f"{folder}/{name}" for name, size in sizes.items() if there.get(name, size) != size]
        done.apart += sorted(apart)
        bad_before = len(done.failures), len(done.unusable)
        absent = [(f"{folder}/{name}", sizes[name]) for name in sorted(sizes) if name not in there]
        done.unusable += [self._refused[one] for one in absent if one in self._refused]
        lacking = iter([one for one in absent if one not in self._refused])
        while some := list(islice(lacking, self._target.puts_at_once)):
            if self._stopped():
                return
            for copy in [pool.submit(self._copy, *one) for one in some]:
                try:
                    copied_bytes = copy.result()
                except OSError as error:
                    done.failures.append(error)
                    continue
                except SegmentUnusableError as error:
                    done.unusable.append(str(error))
                    continue
                done.files += copied_bytes is not None
                done.size_bytes += copied_bytes or 0
            if len(done.failures) > FAILURES_MAX:
                raise done.failures[0]
        if not apart and bad_before == (len(done.failures), len(done.unusable)):
            self._whole[folder] = state

    def _copy(self, path: str, size_bytes: int) -> int | None:
        """Copy a file; return its size, None if it is gone from the source.

        Raises:
            OSError: it cannot be copied.
            SegmentUnusableError: no job could read it, as in the words of the jobs.
        """
        try:
            self._target.put(path, self._source.read(path), size_bytes)
        except FileGoneError:
            return None
        except UnusableError as error:
            said = f"{self._source}/{path}: {error}"
            # Files never change: another round need not read it again.
            self._refused[path, size_bytes] = said
            raise SegmentUnusableError(said) from None
        return size_bytes
