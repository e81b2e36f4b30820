"""Pure functions of data frames: no I/O, no clock, no UDF.

Every table they return is checked against its schema.
"""
