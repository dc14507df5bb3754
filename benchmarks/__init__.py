"""Compare Scaler with its peers: ``python -m benchmarks --help``."""
