"""What the load monitor itself takes of a step, by batch size: `python -m benchmarks.load_monitor`."""
