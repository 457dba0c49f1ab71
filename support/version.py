"""The version of mlc, which caches, reproducers and `mlc --version` name."""

__version__ = "0.1.0"
