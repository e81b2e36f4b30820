"""Measure three controllers on loopback, ours or RocketMQ's own, for `tests/bench/bench_controller.py`."""
