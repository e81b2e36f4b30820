"""The whole chain on one machine, on real brokers: what `make demo` runs."""
