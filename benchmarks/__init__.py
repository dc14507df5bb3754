"""Scaler measured beside its peers: ``python -m benchmarks --help``."""
