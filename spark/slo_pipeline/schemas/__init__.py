"""One frozen schema a table. Segments and gold tables are pyarrow; `frames` derives Spark's types.

Import `slo_pipeline.schemas.segments` where Spark must not come along.
"""

from slo_pipeline.schemas.segments import EVENTS, OPS, PROBE_OPS, RESULTS, SAMPLES, SEGMENT_VERSION, SEGMENTS

__all__ = ["EVENTS", "OPS", "PROBE_OPS", "RESULTS", "SAMPLES", "SEGMENTS", "SEGMENT_VERSION"]
