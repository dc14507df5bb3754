"""The workers of Scaler: one agent per host and its processors."""

__version__ = "1.0.0"
