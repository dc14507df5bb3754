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
from scaler.client.shipping import ship  # noqa: E402
from scaler.utility.exceptions import ScalerError  # noqa: E402
from scaler_protocol.shipping.environments import Environment  # noqa: E402

if TYPE_CHECKING:
    from scaler.asynchronous.client import AsyncClient
    from scaler.cluster.combo import SchedulerClusterCombo
    from scaler.cluster.local import LocalCluster
    from scaler.cluster.slurm import SlurmCluster
    from scaler.cluster.ssh import SSHCluster
    from scaler_scheduler import Scheduler
    from scaler_worker import Cluster

__version__ = "1.0.0"
__all__ = [
    "AsyncClient",
    "Client",
    "Cluster",
    "DefaultSerializer",
    "Environment",
    "Executor",
    "LocalCluster",
    "ObjectReference",
    "SSHCluster",
    "ScalerError",
    "ScalerFuture",
    "Scheduler",
    "SchedulerClusterCombo",
    "Serializer",
    "SlurmCluster",
    "ship",
]

_LAZY = ("AsyncClient", "Cluster", "LocalCluster", "SSHCluster", "Scheduler", "SchedulerClusterCombo", "SlurmCluster")


def __getattr__(name: str) -> Any:
    """Load a class when it is used: importing asyncio takes long, and the classes that run a cluster on this machine
    need other distributions."""
    if name == "AsyncClient":
        from scaler.asynchronous.client import AsyncClient

        return AsyncClient
    if name == "SchedulerClusterCombo":
        from scaler.cluster.combo import SchedulerClusterCombo
        from scaler.utility.siblings import require_siblings

        require_siblings(name)
        return SchedulerClusterCombo
    if name == "LocalCluster":
        from scaler.cluster.local import LocalCluster
        from scaler.utility.siblings import require_siblings

        require_siblings(name)
        return LocalCluster
    if name == "SSHCluster":
        from scaler.cluster.ssh import SSHCluster
        from scaler.utility.siblings import require_siblings

        require_siblings(name)
        return SSHCluster
    if name == "SlurmCluster":
        from scaler.cluster.slurm import SlurmCluster
        from scaler.utility.siblings import require_siblings

        require_siblings(name)
        return SlurmCluster
    if name in _LAZY:
        from scaler.utility.siblings import load_sibling

        return load_sibling({"Cluster": "scaler_worker", "Scheduler": "scaler_scheduler"}[name], name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
