"""Send Python functions to a cluster: submit, map and futures."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from scaler.utility.foreign import check_not_overwritten

check_not_overwritten(os.path.dirname(__file__))

from scaler.client.actors import ActorHandle  # noqa: E402  after the check, which tells why an import would fail
from scaler.client.client import Client  # noqa: E402
from scaler.client.executor import Executor  # noqa: E402
from scaler.client.future import ScalerFuture  # noqa: E402
from scaler.client.object_reference import ObjectReference  # noqa: E402
from scaler.client.serializer import DefaultSerializer, Serializer  # noqa: E402
from scaler.client.shipping import ship  # noqa: E402
from scaler.utility.exceptions import ScalerError  # noqa: E402
from scaler.utility.late_imports import late_import  # noqa: E402
from scaler_protocol.shipping.environments import Environment  # noqa: E402

if TYPE_CHECKING:
    from scaler.asynchronous.client import AsyncClient
    from scaler.cluster.combo import SchedulerClusterCombo
    from scaler.cluster.gridengine import GridEngineCluster
    from scaler.cluster.kubernetes import KubernetesCluster
    from scaler.cluster.local import LocalCluster
    from scaler.cluster.lsf import LSFCluster
    from scaler.cluster.pbs import PBSCluster
    from scaler.cluster.slurm import SlurmCluster
    from scaler.cluster.ssh import SSHCluster
    from scaler.cluster.symphony import SymphonyCluster
    from scaler_scheduler import Scheduler
    from scaler_worker import Cluster

__version__ = "1.0.0"
__all__ = [
    "ActorHandle",
    "AsyncClient",
    "Client",
    "Cluster",
    "DefaultSerializer",
    "Environment",
    "Executor",
    "GridEngineCluster",
    "KubernetesCluster",
    "LSFCluster",
    "LocalCluster",
    "ObjectReference",
    "PBSCluster",
    "SSHCluster",
    "ScalerError",
    "ScalerFuture",
    "Scheduler",
    "SchedulerClusterCombo",
    "Serializer",
    "SlurmCluster",
    "SymphonyCluster",
    "ship",
]

_CLUSTERS = {
    "GridEngineCluster": "gridengine",
    "KubernetesCluster": "kubernetes",
    "LSFCluster": "lsf",
    "LocalCluster": "local",
    "PBSCluster": "pbs",
    "SSHCluster": "ssh",
    "SchedulerClusterCombo": "combo",
    "SlurmCluster": "slurm",
    "SymphonyCluster": "symphony",
}
"""The module of each class that starts a cluster."""

_LAZY = ("AsyncClient", "Cluster", "Scheduler", *_CLUSTERS)


def __getattr__(name: str) -> Any:
    """Load a class when it is used: importing asyncio takes long, and the classes that run a cluster on this machine
    need other distributions."""
    if name in _LAZY:
        with late_import(f"load {name}"):
            return _load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _load(name: str) -> Any:
    if name == "AsyncClient":
        from scaler.asynchronous.client import AsyncClient

        return AsyncClient
    from scaler.utility.siblings import load_sibling, require_siblings

    if name in _CLUSTERS:
        module = importlib.import_module(f"scaler.cluster.{_CLUSTERS[name]}")
        require_siblings(name)
        return getattr(module, name)
    return load_sibling({"Cluster": "scaler_worker", "Scheduler": "scaler_scheduler"}[name], name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
