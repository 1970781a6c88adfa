"""What each opt-in extension of verl is worth on the tiny job with two ranks: `python -m benchmarks.extensions`."""
