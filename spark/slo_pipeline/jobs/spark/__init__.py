"""Where Spark runs: the session, drivers and executors in pods, the SparkApplication."""
