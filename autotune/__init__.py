"""autotune: an automatic tuner for verl. Start reading at `autotune/README.md`."""

__version__ = "0.1.0"
