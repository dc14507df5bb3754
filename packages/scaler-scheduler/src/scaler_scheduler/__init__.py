"""The scheduler of Scaler: takes tasks from clients and spreads them over workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaler_scheduler.scheduler import Scheduler

__version__ = "1.0.0"
__all__ = ["Scheduler"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the command itself has no use for it."""
    if name == "Scheduler":
        from scaler_scheduler.scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
