"""Defaults of parameters: ``DEFAULT_TASK_TIMEOUT_SECONDS`` is the default of ``task_timeout_seconds`` of
``SchedulerClusterCombo``, and so on for all of its parameters."""

from __future__ import annotations

import inspect
import os
from typing import Any

_PREFIX = "DEFAULT_"
_PARAMETERS = {
    "io_threads": "scheduler_io_threads",
    "per_worker_task_queue_size": "per_worker_queue_size",
    "worker_death_timeout": "death_timeout_seconds",
}
"""The parameters here for which opengris-scaler has another name."""


def __getattr__(name: str) -> Any:
    if name == "DEFAULT_NUMBER_OF_WORKERS":
        return len(os.sched_getaffinity(0))
    return _default_of(name.removeprefix(_PREFIX).lower() if name.startswith(_PREFIX) else "", name)


def _default_of(parameter: str, name: str) -> Any:
    from scaler.cluster.combo import SchedulerClusterCombo

    parameters = inspect.signature(SchedulerClusterCombo).parameters
    found = parameters.get(_PARAMETERS.get(parameter, parameter))
    if found is None or found.default is inspect.Parameter.empty:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: there is no such parameter here", name=name
        )
    return found.default
