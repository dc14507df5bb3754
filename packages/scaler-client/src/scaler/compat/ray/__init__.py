"""Ray's interface for tasks: ``from scaler.compat import ray``. docs/ray.md lists what there is."""

from __future__ import annotations

from typing import NoReturn

import scaler.compat.ray.exceptions as exceptions
import scaler.compat.ray.util as util
from scaler.compat.ray.actor_classes import get_actor, kill, method
from scaler.compat.ray.connecting import RayContext, init, is_initialized, scaler_init, shutdown
from scaler.compat.ray.object_refs import ObjectRef
from scaler.compat.ray.remote_functions import RemoteFunction, remote
from scaler.compat.ray.resources import available_resources, cluster_resources, nodes
from scaler.compat.ray.retrieving import cancel, get, put, wait

__all__ = [
    "ObjectRef",
    "RayContext",
    "RemoteFunction",
    "available_resources",
    "cancel",
    "cluster_resources",
    "exceptions",
    "get",
    "get_actor",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "scaler_init",
    "shutdown",
    "util",
    "wait",
]

_LIBRARIES = frozenset(
    ["air", "autoscaler", "dag", "data", "job_submission", "llm", "rllib", "serve", "train", "tune", "workflow"]
)


def __getattr__(name: str) -> NoReturn:
    """Refuse the rest of Ray. The error of a library is an ImportError, which ``from ... import`` does not replace."""
    if name in _LIBRARIES:
        raise ImportError(f"Cannot use ray.{name}: scaler.compat.ray has tasks, objects and actors. Use Ray for it.")
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}. It has only these names of Ray: {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return sorted(__all__)
