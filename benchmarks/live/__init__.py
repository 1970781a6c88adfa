"""The speed stage on real verl, beside Ray Tune on the same space: `python -m benchmarks.live`."""
