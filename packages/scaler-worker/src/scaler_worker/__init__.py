"""The workers of Scaler: one agent per host and its processors."""

from scaler_worker.cluster import Cluster

__all__ = ["Cluster"]
__version__ = "1.0.0"
