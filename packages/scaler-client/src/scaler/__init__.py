"""Send Python functions to a cluster: submit, map and futures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from scaler.utility.foreign import check_not_overwritten

check_not_overwritten(os.path.dirname(__file__))

from scaler.client.client import Client  # noqa: E402  after the check, which tells why an import would fail
from scaler.client.executor import Executor  # noqa: E402
from scaler.client.future import ScalerFuture  # noqa: E402
from scaler.client.object_reference import ObjectReference  # noqa: E402
from scaler.client.serializer import DefaultSerializer, Serializer  # noqa: E402
from scaler.utility.exceptions import ScalerError  # noqa: E402

if TYPE_CHECKING:
    from scaler.cluster.combo import SchedulerClusterCombo
    from scaler_scheduler import Scheduler
    from scaler_worker import Cluster

__version__ = "1.0.0"
__all__ = [
    "Client",
    "Cluster",
    "DefaultSerializer",
    "Executor",
    "ObjectReference",
    "ScalerError",
    "ScalerFuture",
    "Scheduler",
    "SchedulerClusterCombo",
    "Serializer",
]

_LAZY = ("Cluster", "Scheduler", "SchedulerClusterCombo")


def __getattr__(name: str) -> Any:
    """Load the classes that run a cluster on this machine when they are used: they need other distributions."""
    if name == "SchedulerClusterCombo":
        from scaler.cluster.combo import SchedulerClusterCombo
        from scaler.utility.siblings import require_siblings

        require_siblings(name)
        return SchedulerClusterCombo
    if name in _LAZY:
        from scaler.utility.siblings import load_sibling

        return load_sibling({"Cluster": "scaler_worker", "Scheduler": "scaler_scheduler"}[name], name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
