"""The scheduler of Scaler: takes tasks from clients and spreads them over workers."""

__version__ = "1.0.0"
