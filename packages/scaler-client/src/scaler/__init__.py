"""Send Python functions to a cluster: submit, map and futures."""

__version__ = "1.0.0"
