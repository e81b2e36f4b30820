"""Text formats that others define: Prometheus exposition and OpenMetrics."""
