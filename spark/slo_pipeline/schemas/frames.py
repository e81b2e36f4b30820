"""Spark's side of the schemas: derived types, and the check at each border.

Problem: two hand-written copies of a schema drift apart, and Spark notices late and vaguely. Shape:
`struct_type` derives a StructType from the pyarrow schema that is the source; `assert_schema` compares a
frame with it and names the first difference. Nullability is not compared: whatever Parquet says, Spark reads
nullable. Never: this module holds no schema of its own.
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as t


class SchemaMismatchError(Exception):
    """A frame at a border differs from the table's schema.

    That is our mistake, or a file that another program wrote.
    """


def spark_type(kind: pa.DataType) -> t.DataType:
    """Return the Spark type of a pyarrow type.

    Raises:
        TypeError: the schema uses a type that no table here needs.
    """
    if pa.types.is_map(kind):
        return t.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    simple: tuple[tuple[pa.DataType, t.DataType], ...] = (
        (pa.string(), t.StringType()),
        (pa.int64(), t.LongType()),
        (pa.int32(), t.IntegerType()),
        (pa.float64(), t.DoubleType()),
        (pa.bool_(), t.BooleanType()),
        (pa.timestamp("us", tz="UTC"), t.TimestampType()),
    )
    for arrow, spark in simple:
        if kind == arrow:
            return spark
    raise TypeError(f"no Spark type chosen for {kind}")


def struct_type(schema: pa.Schema) -> t.StructType:
    """Return the StructType of a table: same names, same order, every field nullable."""
    return t.StructType(
        [t.StructField(field.name, spark_type(field.type), nullable=True) for field in schema]
    )


def assert_schema(frame: DataFrame, schema: pa.Schema, *, table: str = "frame") -> DataFrame:
    """Check names, types and order of a frame's columns against a table's schema.

    Returns:
        The same frame, so that the check can stand in a `DataFrame.transform` chain.

    Raises:
        SchemaMismatchError: naming the table, the position and the field found there.
    """
    wanted = [(field.name, field.dataType.simpleString()) for field in struct_type(schema).fields]
    found = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    for position, (want, have) in enumerate(zip(wanted, found, strict=False)):
        if want != have:
            raise SchemaMismatchError(
                f"{table}: column {position} is {have[0]} {have[1]}, want {want[0]} {want[1]}"
            )
    if len(wanted) != len(found):
        surplus = [name for name, _ in found[len(wanted) :]]
        lacking = [name for name, _ in wanted[len(found) :]]
        raise SchemaMismatchError(f"{table}: lacks {lacking}, has too much {surplus}")
    return frame


def conform(frame: DataFrame, schema: pa.Schema, *, table: str = "frame") -> DataFrame:
    """Select a table's columns in its order, then check their types.

    Raises:
        SchemaMismatchError: a column is missing or has another type.
    """
    lacking = [name for name in schema.names if name not in frame.columns]
    if lacking:
        raise SchemaMismatchError(f"{table}: lacks {lacking}")
    return assert_schema(frame.select(*[frame[name] for name in schema.names]), schema, table=table)
