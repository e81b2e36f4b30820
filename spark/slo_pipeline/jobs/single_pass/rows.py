"""Read the rows of a task into arrays.

Problem: a day has millions of rows, and Python objects of them would not fit. Shape: texts become codes into
a list of different texts, times become whole microseconds, and rows outside the task's window, or with times
that cannot be true, are dropped from each batch before the next one is read. Never: a row is interpreted
here.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slo_pipeline.jobs.late import TIME_OF
from slo_pipeline.jobs.single_pass.arrays import Bools, Ints
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.schemas.names import OPERATIONS_TABLE, SAMPLES_TABLE
from slo_pipeline.schemas.segments import SEGMENTS
from slo_pipeline.sources.layout import reading
from slo_pipeline.transforms.clocks import EARLIEST_US, TIMES, latest_us

BATCH_ROWS: Final = 262_144
"""Rows that are decoded at once."""
PARTED_BY: Final = {SAMPLES_TABLE: "instance", OPERATIONS_TABLE: "group"}
"""By kind of segment: rows with one text in this column are in one part of a window."""
_CODED: Final = pa.dictionary(pa.int32(), pa.string())


class CodedTexts(NamedTuple):
    """A column of texts: codes, and the different texts in order of first appearance."""

    code: Ints
    text: list[str]

    def is_in(self, *wanted: str) -> Bools:
        """Tell of each row whether it has one of these texts."""
        return np.isin(self.code, [place for place, text in enumerate(self.text) if text in wanted])

    def used(self) -> list[str]:
        """Return the texts that rows have."""
        return [self.text[place] for place in np.unique(self.code)]

    def places(self) -> Iterator[tuple[str, Ints]]:
        """Yield each text that rows have, and their places in order."""
        order = np.argsort(self.code, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(self.code[order])) + 1):
            if len(own):
                yield self.text[self.code[own[0]]], own

    def among(self, chosen: Bools | Ints) -> "CodedTexts":
        """Return chosen rows."""
        return CodedTexts(self.code[chosen], self.text)


def call(function: str, *arguments: object, options: object = None) -> Any:  # noqa: ANN401 - pyarrow is untyped
    """Call a function of pyarrow by its name."""
    return pc.call_function(function, list(arguments), options)


def read(task: Task, columns: Sequence[str], now_us: int) -> pa.Table:
    """Return the credible rows of a task's window; `columns` in the types of the segment's schema.

    CodedTexts are dictionary-encoded, and a row's times are whole microseconds.

    Raises:
        SegmentUnusableError: a segment cannot be read.
    """
    schema = SEGMENTS[task.kind]
    wanted = list(dict.fromkeys([*columns, *_judged_by(task, now_us)]))
    kept = [batch.filter(_mask(batch, task, now_us)).select(list(columns)) for batch in batches(task, wanted)]
    if not kept:
        return pa.table({name: pa.array([], _type(schema.field(name).type)) for name in columns})
    return pa.concat_tables(kept).unify_dictionaries().combine_chunks()


def is_credible(task: Task, now_us: int) -> bool:
    """Tell whether footers say that the times of all rows can be true."""
    return task.low_us >= EARLIEST_US and task.high_us <= latest_us(now_us)


def _judged_by(task: Task, now_us: int) -> list[str]:
    """Return the columns that tell whether a row is one of a task's."""
    times = [TIME_OF[task.kind]] if is_credible(task, now_us) else [*TIMES[task.kind]]
    return times if task.parts_of == 1 else [*times, PARTED_BY[task.kind]]


def batches(task: Task, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield all rows of a task's row groups.

    Raises:
        SegmentUnusableError: a segment cannot be read.
    """
    schema = SEGMENTS[task.kind]
    texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
    for path, numbers in task.parts:
        with reading(Path(path)):
            file = pq.ParquetFile(path, read_dictionary=texts)
            for batch in file.iter_batches(BATCH_ROWS, row_groups=list(numbers), columns=list(columns)):
                found = pa.Table.from_batches([batch]).select(list(columns))
                yield coded(found, schema)


def coded(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with its texts as codes and its times as whole microseconds."""
    names = table.column_names
    return pa.table({name: _column(table[name], schema.field(name).type) for name in names})


def _type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return _CODED
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _column(found: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_string(kind):
        if found.type == _CODED:
            return found
        return call("dictionary_encode", found.cast(pa.string())).cast(_CODED)
    if pa.types.is_timestamp(kind):
        return found.cast(kind).cast(pa.int64())
    return found.cast(kind)


def _mask(batch: pa.Table, task: Task, now_us: int) -> pa.ChunkedArray:
    at = batch[TIME_OF[task.kind]]
    inside = call(
        "and",
        call("greater_equal", at, pa.scalar(task.start_us)),
        call("less", at, pa.scalar(task.end_us)),
    )
    kept = call("coalesce", inside, pa.scalar(False))
    if not is_credible(task, now_us):
        kept = call("and", kept, credible(batch, task.kind, now_us))
    if task.parts_of == 1:
        return kept
    named = texts(batch, PARTED_BY[task.kind])
    own = np.array([zlib.crc32(text.encode()) % task.parts_of == task.part for text in named.text], np.bool_)
    return call("and", kept, pa.array(own[named.code]))


def credible(batch: pa.Table, kind: str, now_us: int) -> Any:  # noqa: ANN401 - pyarrow is untyped
    """Tell of each row whether its times can be true; a missing time can."""
    fits: Any = None
    for name in TIMES[kind]:
        at = batch[name]
        one = call(
            "and",
            call("less_equal", at, pa.scalar(latest_us(now_us))),
            call("greater_equal", at, pa.scalar(EARLIEST_US)),
        )
        one = call("coalesce", one, pa.scalar(True))
        fits = one if fits is None else call("and", fits, one)
    return fits


def texts(table: pa.Table, name: str) -> CodedTexts:
    """Return a column of texts of a table of `read`."""
    return coded_texts(table[name])


def coded_texts(found: pa.ChunkedArray) -> CodedTexts:
    """Return texts, or codes of them, as codes and the different texts."""
    column = _column(found, pa.string()).unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], _CODED)
    code = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return CodedTexts(code, column.dictionary.to_pylist())


def numbers(table: pa.Table, name: str) -> Ints:
    """Return a column of whole numbers, 0 for a missing one."""
    known = call("coalesce", table[name], pa.scalar(0, pa.int64()))
    return np.asarray(known.to_numpy(), dtype=np.int64)


def is_there(table: pa.Table, name: str) -> Bools:
    """Tell of each row whether it has a value."""
    return np.asarray(call("is_valid", table[name]).to_numpy(), dtype=np.bool_)
