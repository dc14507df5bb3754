"""joblib on a cluster, and with it scikit-learn: ``with joblib.parallel_config("scaler", client=client)``.

A batch of calls is one task. Large arrays in it are sent once per call of ``Parallel``; tasks map them, read-only.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from typing import Any

import cloudpickle
from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    register_parallel_backend,
)

from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference

NAME = "scaler"
_DEFAULT_LIMIT_BYTES = 1024 * 1024
_WRITABLE_MODES = "r+", "w+"


def register() -> None:
    """Make ``joblib.parallel_config("scaler", client=client)`` known to joblib."""
    register_parallel_backend(NAME, ScalerBackend)


class _Task:
    """``client``: of the task that runs in this process, for a ``Parallel`` in it that names the backend; else None."""

    client: Client | None = None


_task = _Task()


class ScalerBackend(AutoBatchingMixin, ParallelBackendBase):
    """``client``: runs the calls. ``n_jobs=-1``, the default, means all workers of its cluster.

    A ``Parallel`` in a task uses the same cluster if it states ``n_jobs``; otherwise it runs sequentially there."""

    supports_retrieve_callback = True
    uses_threads = False
    supports_sharedmem = False

    def __init__(self, client: Client | None = None, *, nesting_level: int | None = None, **keywords: Any) -> None:
        super().__init__(nesting_level=nesting_level, **keywords)
        client = client or _task.client
        if not isinstance(client, Client):
            raise TypeError('Cannot use joblib\'s backend "scaler": pass client=Client(...) to parallel_config.')
        self._client = client
        self.default_n_jobs = -1
        self.parallel: Any = None
        self._limit_bytes: int | None = _DEFAULT_LIMIT_BYTES
        self._are_shared = True
        self._sent: dict[int, tuple[Any, ObjectReference[Any]]] = {}
        self._unfinished: set[ScalerFuture[Any]] = set()
        self._is_of_one_call = False

    def _for_one_call(self) -> ScalerBackend:
        """A backend for one ``Parallel``: several may run at a time in one ``parallel_config``."""
        backend = ScalerBackend(self._client, nesting_level=self.nesting_level)
        backend.default_n_jobs = self.default_n_jobs
        backend._is_of_one_call = True
        return backend

    # ---- what joblib asks and tells ------------------------------------------------------------------------------

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many calls may run at a time. Negative numbers count from the number of workers now. The smallest
        answer is 2: joblib runs a call in this process instead if it may run only one at a time."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            n_jobs = self.default_n_jobs
        return n_jobs if n_jobs > 0 else max(self._client.n_workers + 1 + n_jobs, 2)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,
        require: str | None = None,
        max_nbytes: int | None = _DEFAULT_LIMIT_BYTES,
        mmap_mode: str | None = "r",
        **keywords: Any,
    ) -> int:
        """``max_nbytes``: map arrays above this size; None: pickle all of them. ``mmap_mode``: "r", or "c" for arrays
        that a task may change without effect on others. Other keywords are meant for other backends."""
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        if not self._is_of_one_call:
            raise FallbackToBackend(self._for_one_call())
        if mmap_mode in _WRITABLE_MODES and max_nbytes is not None:
            raise ValueError(
                f"Cannot map arrays with mmap_mode={mmap_mode!r}: tasks on several hosts cannot write to the same "
                'memory. Use "r" or "c", and return what the tasks compute.'
            )
        self.parallel = parallel
        self._limit_bytes = max_nbytes if mmap_mode is not None else None
        self._are_shared = mmap_mode != "c"
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Any, callback: Callable[[Any], object] | None = None) -> Future[Any]:
        """Run ``func``, a batch of calls, as one task. An error of sending it is that of the future: joblib also calls
        this in threads where an exception would be lost."""
        future: Future[Any]
        try:
            future = self._send_batch(func)
        except Exception as error:
            future = Future()
            future.set_exception(error)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def _send_batch(self, batch: Any) -> ScalerFuture[Any]:
        objects: list[ObjectReference[Any]] = []
        payload = self._pickle(batch, objects)
        future = self._client.submit(_batch_function(_name_of(batch)), payload, *objects)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    apply_async = submit
    """The name of ``submit`` before joblib 1.5."""

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        return out.result()

    def start_call(self) -> None:
        self._sent = {}

    def stop_call(self) -> None:
        """Release the arrays: the next call may find other values in them."""
        self._sent = {}

    def terminate(self) -> None:
        """The client belongs to the caller and stays open."""
        self._sent = {}
        self._reset_batch_size()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A call has failed, or the program was interrupted: cancel the others."""
        for future in list(self._unfinished):
            future.cancel()
        self._unfinished.clear()
        self._sent = {}

    def get_nested_backend(self) -> tuple[Any, int | None]:
        return _NestedBackend(self._client, (self.nesting_level or 0) + 1), None

    def _reset_batch_size(self) -> None:
        self._effective_batch_size = self._DEFAULT_EFFECTIVE_BATCH_SIZE
        self._smoothed_batch_duration = self._DEFAULT_SMOOTHED_BATCH_DURATION

    # ---- batches -------------------------------------------------------------------------------------------------

    def _pickle(self, batch: Any, objects: list[ObjectReference[Any]]) -> bytes:
        """Large arrays are added to ``objects``, each once, and are named by their index there."""
        indexes: dict[int, int] = {}

        def index_of(value: Any) -> int | None:
            if value.nbytes <= (self._limit_bytes or 0) or value.dtype.hasobject:
                return None
            if id(value) not in indexes:
                indexes[id(value)] = len(objects)
                objects.append(self._send(value))
            return indexes[id(value)]

        numpy: Any = sys.modules.get("numpy")
        is_mapped = numpy is not None and self._limit_bytes is not None
        file = io.BytesIO()
        _BatchPickler(file, (numpy.ndarray, numpy.memmap) if is_mapped else (), index_of).dump(batch)
        return file.getvalue()

    def _send(self, array: Any) -> ObjectReference[Any]:
        """Once per call of Parallel. The array is kept, so that no other one gets its id meanwhile."""
        sent = self._sent.get(id(array))
        if sent is None:
            import numpy

            reference = self._client.send_object(numpy.asarray(array), shared=self._are_shared)
            sent = self._sent[id(array)] = array, reference
        return sent[1]


class _BatchPickler(cloudpickle.Pickler):
    """``index_of``: the number of an array that travels on its own; None for all others. ``array_types``: of arrays."""

    def __init__(self, file: io.BytesIO, array_types: tuple[type, ...], index_of: Callable[[Any], int | None]) -> None:
        super().__init__(file, protocol=5)
        self._array_types = array_types
        self._index_of = index_of

    def persistent_id(self, value: Any) -> int | None:
        """Called for every object in the batch, so the check of its type comes first."""
        return self._index_of(value) if type(value) in self._array_types else None


@lru_cache(maxsize=256)
def _batch_function(name: str) -> Callable[..., list[Any]]:
    """A function of its own, which is sent by value: workers need joblib, but not this package. Monitors show
    ``name``."""

    def run_batch(payload: bytes, *objects: Any) -> list[Any]:
        import io
        import pickle

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, index: int) -> Any:
                return objects[index]

        try:
            batch = Unpickler(io.BytesIO(payload)).load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "joblib":
                raise
            raise ModuleNotFoundError(
                "Cannot run a call of joblib: this worker does not have joblib. Install it on all workers.",
                name=error.name,
            ) from None
        results: list[Any] = batch()
        return results

    run_batch.__name__ = run_batch.__qualname__ = name
    return run_batch


def _name_of(batch: Any) -> str:
    """The function of the first call; scikit-learn wraps it."""
    with contextlib.suppress(AttributeError, IndexError, TypeError):
        function = batch.items[0][0]
        return str(getattr(function, "function", function).__name__)
    return "joblib"


class _NestedBackend:
    """Stands for the backend of a ``Parallel`` inside a task. Without scaler-client there, that runs sequentially."""

    supports_retrieve_callback = True

    def __init__(self, client: Client, nesting_level: int) -> None:
        self._client = client
        self.nesting_level = nesting_level

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_nested_backend(), (pickle.dumps(self._client), self.nesting_level)


@lru_cache(maxsize=1)
def _make_nested_backend() -> Callable[[bytes, int], Any]:
    """A function that is sent by value, like that of a batch."""
    this_module = __name__

    def nested_backend(client: bytes, nesting_level: int) -> Any:
        from importlib import import_module

        try:
            integration = import_module(this_module)
        except ModuleNotFoundError:
            from joblib.parallel import SequentialBackend

            return SequentialBackend(nesting_level=nesting_level)
        return integration.nested(client, nesting_level)

    return nested_backend


def nested(client: bytes, nesting_level: int) -> ScalerBackend:
    """The backend inside a task. A call that does not state ``n_jobs`` runs sequentially: the cluster is busy with the
    other calls of the outer one."""
    _task.client = pickle.loads(client)
    register()
    backend = ScalerBackend(_task.client, nesting_level=nesting_level)
    backend.default_n_jobs = 1
    return backend
