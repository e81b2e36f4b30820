"""Sums of counters again, in DuckDB's SQL: written apart from the pipeline, for comparison only."""

from pathlib import Path
from typing import Final

import duckdb

_INCREMENTS: Final = """
    WITH ordered AS (
        SELECT *, lag(value) OVER series AS before, lag(instance_uid) OVER series AS uid_before
        FROM read_parquet($files)
        WHERE metric = $metric AND NOT isnan(value)
        WINDOW series AS (PARTITION BY instance, labels ORDER BY ts)
    )
    SELECT epoch_us(time_bucket(to_microseconds($window_us), ts, TIMESTAMPTZ '1970-01-01 00:00:00+00'))
               AS window_us,
           sum(CASE WHEN value < before
                      OR (instance_uid <> uid_before AND '' NOT IN (instance_uid, uid_before))
                    THEN value
                    ELSE value - before END) AS increase
    FROM ordered WHERE before IS NOT NULL GROUP BY ALL
"""


def increases(directory: Path, metric: str, window_us: int) -> dict[int, float]:
    """Sum pair increments over all series of a data directory by window.

    Gaps are not spread, so compare windows only of histories without long ones, and totals of any.
    """
    files = str(directory / "samples" / "day=*" / "*.parquet")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        found = connection.execute(
            _INCREMENTS, {"files": files, "metric": metric, "window_us": window_us}
        ).fetchall()
    return {int(start): float(grown) for start, grown in found}
