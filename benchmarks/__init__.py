"""Measurements of autotune: `python -m benchmarks.NAME` prints a table, then one JSON line."""
