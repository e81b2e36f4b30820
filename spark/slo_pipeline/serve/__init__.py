"""A small server for finished reports. No Spark here."""
