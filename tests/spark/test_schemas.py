"""Schemas: one source, derived types, a check that names each error."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slo_pipeline.schemas import tables
from slo_pipeline.schemas.frames import SchemaMismatchError, assert_schema, conform, struct_type
from slo_pipeline.schemas.segments import PROBE_OPS, SEGMENTS
from testkit.generators.segment_rows import inputs, send


@pytest.mark.parametrize("kind", sorted(SEGMENTS))
def test_spark_reads_every_segment_with_the_names_and_order_of_its_schema(kind: str) -> None:
    assert struct_type(SEGMENTS[kind]).names == SEGMENTS[kind].names


def test_a_frame_with_another_order_of_columns_is_refused_by_position(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = inputs(spark, tmp_path, probe_ops=[send(1, 0)]).probe_ops
    assert assert_schema(frame, PROBE_OPS) is frame
    with pytest.raises(SchemaMismatchError, match="probe: column 0 is group string, want op string"):
        assert_schema(frame.select("group", "op"), PROBE_OPS, table="probe")


def test_a_missing_column_is_named(spark: SparkSession, tmp_path: Path) -> None:
    frame = inputs(spark, tmp_path, probe_ops=[send(1, 0)]).probe_ops.drop("seq")
    with pytest.raises(SchemaMismatchError, match=r"slices: lacks \['slice_start'"):
        conform(frame, tables.SLICES_1S, table="slices")
