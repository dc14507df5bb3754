"""The workers of Scaler: one agent per host and its worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaler_worker.cluster import Cluster

__version__ = "1.0.0"
__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: agent and worker processes have no use for it."""
    if name == "Cluster":
        from scaler_worker.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
