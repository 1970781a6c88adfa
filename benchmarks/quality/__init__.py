"""What the quality stage makes of poor learning settings: `python -m benchmarks.quality`."""
