"""The loop that acts: asks, launches, judges, tells. Read `loop.py` first; it fits a screen."""
