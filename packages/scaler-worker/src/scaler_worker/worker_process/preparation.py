"""Imports modules that tasks may need later, while no task waits."""

from __future__ import annotations

import gc
import importlib
import sys
from importlib.util import find_spec

IDLE_SECONDS = 0.2
"""A process that was idle for this long may use the time for imports."""

_MODULES = ("concurrent.futures.thread", "scaler_protocol.transport.dealer_connection", "scaler")
"""The last is the client, for tasks that have tasks of their own: it may be installed here or not."""


def is_prepared() -> bool:
    return _MODULES[-1] in sys.modules


def prepare() -> None:
    """Starts no thread and makes no ZeroMQ context, so that this process may fork afterwards."""
    for name in _MODULES:
        _import(name)
    gc.collect()
    gc.freeze()


def _import(name: str) -> None:
    """A task that needs it and cannot have it gets the error itself."""
    try:
        if find_spec(name) is not None:
            importlib.import_module(name)
    except Exception:
        sys.modules.pop(name, None)
