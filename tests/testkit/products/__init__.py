"""Our own commands as real processes, and the chart as helm renders it."""
