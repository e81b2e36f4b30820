"""Read the samples of one metric into arrays, with the id of each sample's series.

Problem: the labels of millions of samples cost more to read than their values. Shape: segments carry the id
of each sample's series, so that labels are read only to be shown. For segments without ids they are computed,
once for each stretch of rows with the same labels. Row groups that hold only the metric are not filtered.
Never: a value is interpreted here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slo_pipeline.jobs.single_pass import rows
from slo_pipeline.jobs.single_pass.arrays import Bools, Floats, Ints, ints
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.schemas.segments import SAMPLES
from slo_pipeline.schemas.series_ids import instance_digest, series_id
from slo_pipeline.sources.layout import reading

UNKNOWN: Final = 0
"""Stands for the process of a sample whose writer did not know it."""
_TEXTS: Final = ("metric", "instance", "instance_uid")


class Points(NamedTuple):
    """Samples of a metric: times, values, and ids of series, instances and processes.

    Attributes:
        labels: of each row, as far as they were wanted; else None.
        named: instances by the rows' codes.
    """

    at: Ints
    value: Floats
    series: Ints
    instance: Ints
    process: Ints
    labels: pa.Array | None
    named: rows.CodedTexts


def points(task: Task, metric: str, *, labels: bool) -> Iterator[Points]:
    """Yield the samples of a metric in a task's window, batch by batch.

    Raises:
        SegmentUnusableError: a segment cannot be read.
    """
    for path, numbers in task.parts:
        with reading(Path(path)):
            file = pq.ParquetFile(path, read_dictionary=list(_TEXTS))
            for number in numbers:
                is_pure, has_ids = _is_pure(file, number, metric), _has_ids(file, number)
                wanted = ["ts", "value", "instance", "instance_uid", *(["series"] if has_ids else [])]
                wanted += [] if is_pure and has_ids else ["metric"]
                wanted += ["labels"] if labels or not has_ids else []
                for batch in file.iter_batches(rows.BATCH_ROWS, row_groups=[number], columns=wanted):
                    table = pa.Table.from_batches([batch])
                    yield _points(table if is_pure else _of_metric(table, metric), task, labels=labels)


def _is_pure(file: pq.ParquetFile, number: int, metric: str) -> bool:
    """Tell whether the footer says that all rows of a row group are of a metric."""
    found = _statistics(file, number, "metric")
    return found is not None and found.has_min_max and found.min == found.max == metric


def _has_ids(file: pq.ParquetFile, number: int) -> bool:
    """Tell whether the footer says that all rows of a row group have ids of series."""
    found = _statistics(file, number, "series")
    return found is not None and found.has_null_count and found.null_count == 0


def _statistics(file: pq.ParquetFile, number: int, column: str) -> Any:  # noqa: ANN401 - pyarrow is untyped
    """Return what the footer says of a column in a row group; None if it says nothing."""
    names = [file.schema.column(place).path for place in range(len(file.schema))]
    if column not in names:
        return None
    return file.metadata.row_group(number).column(names.index(column)).statistics


def _of_metric(table: pa.Table, metric: str) -> pa.Table:
    return table.filter(pa.array(rows.coded_texts(table["metric"]).is_in(metric)))


def _points(table: pa.Table, task: Task, *, labels: bool) -> Points:
    at = np.asarray(table["ts"].cast(SAMPLES.field("ts").type).cast(pa.int64()).to_numpy(), np.int64)
    value = np.asarray(table["value"].cast(pa.float64()).to_numpy(), np.float64)
    kept = (at >= task.start_us) & (at < task.end_us) & ~np.isnan(value)
    if not kept.all():
        table, at, value = table.filter(pa.array(kept)), at[kept], value[kept]
    named, process = rows.coded_texts(table["instance"]), rows.coded_texts(table["instance_uid"])
    instance = _digests(named)
    unknown = [place for place, text in enumerate(process.text) if text == ""]
    digests = _digests(process)
    digests[np.isin(process.code, unknown)] = UNKNOWN
    shown = _labels(table) if labels else None
    return Points(at, value, _ids(table, instance), instance, digests, shown, named)


def _labels(table: pa.Table) -> Any:  # noqa: ANN401 - pyarrow is untyped
    """Return the column of labels as one array."""
    found: Any = table["labels"].combine_chunks()
    if not isinstance(found, pa.ChunkedArray):
        return found
    return found.chunk(0) if found.num_chunks else pa.array([], SAMPLES.field("labels").type)


def _digests(of: rows.CodedTexts) -> Ints:
    digests = ints(instance_digest(text) for text in of.text)
    return digests[of.code] if len(of.text) else ints()


def _ids(table: pa.Table, instance: Ints) -> Ints:
    """Return a number for each row's series: of its metric, its labels and its instance."""
    if "series" in table.column_names:
        return np.asarray(table["series"].to_numpy(), np.int64) ^ instance
    if not table.num_rows:
        return ints()
    return _computed(table) ^ instance


def _computed(table: pa.Table) -> Ints:
    """Return the id of the metric and the labels of each row."""
    metric = rows.coded_texts(table["metric"])
    labels = _labels(table)
    begins = np.flatnonzero(np.append(True, _changes(labels) | (np.diff(metric.code) != 0)))
    known: dict[tuple[int, tuple[tuple[str, str], ...]], int] = {}
    digests = []
    for place, found in zip(begins.tolist(), labels.take(pa.array(begins)).to_pylist(), strict=True):
        key = (int(metric.code[place]), tuple(found or ()))
        if key not in known:
            known[key] = series_id(metric.text[key[0]], key[1])
        digests.append(known[key])
    return np.repeat(ints(digests), np.diff(np.append(begins, table.num_rows)))


def _changes(labels: pa.MapArray) -> Bools:
    """Tell of each row but the first whether its labels differ from those of its predecessor."""
    offsets = np.asarray(labels.offsets.to_numpy(), np.int64)
    length = np.diff(offsets)
    changes = length[1:] != length[:-1]
    names, values = (_codes(column) for column in (labels.keys, labels.items))
    pair = names * (int(values.max(initial=0)) + 1) + values
    row = np.repeat(np.arange(len(length)), length)
    at = np.arange(offsets[0], offsets[-1])
    compared = np.flatnonzero((row > 0) & ~np.append(True, changes)[row])
    at, row = at[compared], row[compared]
    differs = pair[at] != pair[at - length[row]]
    changes[row[differs] - 1] = True
    return np.asarray(changes, np.bool_)


def _codes(texts: Any) -> Ints:  # noqa: ANN401 - pyarrow is untyped
    return np.asarray(pc.call_function("dictionary_encode", [texts]).indices.to_numpy(), np.int64)
