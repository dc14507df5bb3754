"""The private parts of Python and of libraries that the client uses, each with its reason.

Each has a test in ``tests/unit/client/test_private_apis.py``, so that a release that changes one fails there. The
versions of a required library whose private parts are used have an upper limit in ``pyproject.toml``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, RUNNING
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import cloudpickle

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "CANCELLED_AND_NOTIFIED",
    "FINISHED",
    "RUNNING",
    "call_before_exit",
    "clear_globals",
    "dask_task_spec",
    "has_callbacks",
    "invoke_callbacks",
    "loaded_dask_task_spec",
    "ownership_of",
    "reduce_code",
    "runs_event_loop",
]

_DASK_TASK_SPEC = "dask._task_spec"


# ---- concurrent.futures: a future that makes its condition when it is first needed shares the states and the callbacks


def invoke_callbacks(future: Future[Any]) -> None:
    """Call the callbacks of a future that has just ended."""
    future._invoke_callbacks()  # type: ignore[attr-defined]


# ---- threading: code that the garbage collector runs must not take a lock that its thread holds


def ownership_of(lock: threading.RLock) -> Callable[[], bool]:
    """A function that says whether the calling thread holds ``lock``."""
    owned: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]
    return owned


# ---- asyncio: its public function raises where no loop runs, and importing it takes long


def runs_event_loop() -> bool:
    """Return whether an event loop of asyncio runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    running = getattr(asyncio, "_get_running_loop", None)  # not there while another thread imports asyncio
    return running is not None and running() is not None


# ---- asyncio: a future does not tell whether something waits for it


def has_callbacks(future: asyncio.Future[Any]) -> bool:
    """Return whether something waits for the end of ``future``."""
    return bool(future._callbacks)


# ---- threading: tasks must be waited for before the functions of ``atexit`` end clients and clusters


def call_before_exit(function: Callable[[], object]) -> None:
    """Call ``function`` when the main thread has ended, before any function of ``atexit``. Raises RuntimeError if that
    is too late."""
    threading._register_atexit(function)  # type: ignore[attr-defined]


# ---- cloudpickle: a pickler that is used again must not keep the globals of functions


def clear_globals(pickler: cloudpickle.Pickler) -> None:
    """Forget the global variables of functions that ``pickler`` has pickled."""
    pickler.globals_ref.clear()


# ---- cloudpickle: since 3.1.3, it replaces the names of files, and tracebacks do not say where a task failed

_FILE_LEFT_OUT = "<dynamic-code>"


def reduce_code(code: CodeType) -> tuple[Any, ...]:
    """Reduce code as cloudpickle does, with the name of its file."""
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    file = "".join(code.co_filename)  # a string of its own: pickles of equal functions are equal
    return make, tuple(file if each == _FILE_LEFT_OUT else each for each in arguments)


# ---- dask: its task objects have no public module


def dask_task_spec() -> ModuleType:
    """The module of Dask's task objects. Raises ImportError if Dask is missing or older than 2024.12."""
    try:
        import dask._task_spec as task_spec
    except ImportError as error:
        raise ImportError(
            "Cannot read this graph: it is not a dict with string keys and a list of keys, and graphs of Dask need "
            "dask >= 2024.12. Run: pip install 'dask>=2024.12'."
        ) from error
    module: ModuleType = task_spec
    return module


def loaded_dask_task_spec() -> ModuleType | None:
    """The module of Dask's task objects, if the process has loaded it."""
    return sys.modules.get(_DASK_TASK_SPEC)
