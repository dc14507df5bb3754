"""joblib on a cluster, and with it scikit-learn: ``with joblib.parallel_config("scaler", client=client)``.

A batch of calls is one task. Large arrays in it are sent once per call of ``Parallel``; tasks map them, read-only.
"""

from __future__ import annotations

import contextlib
import copyreg
import io
import operator
import pickle
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import cloudpickle
from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    register_parallel_backend,
)

from scaler.client.calls import MapCalls
from scaler.client.client import Client
from scaler.client.future import REFERENCE_TYPES, ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.client.reducers import ArgumentReducers
from scaler.client.signatures import function_module
from scaler.utility.exceptions import ObjectStoreError
from scaler_protocol.messages import MAP_TASKS_UNKNOWN
from scaler_protocol.objects.comparison import same
from scaler_protocol.objects.proxies import is_private

NAME = "scaler"
_DEFAULT_LIMIT_BYTES = 1024 * 1024
_APART_BYTES = 8 * 1024
"""Smaller arrays are always copied with their batch, which costs less than an object in the store."""

_APART_LIMIT = 256
"""Objects of one batch after which further arrays are copied with it: a task with very many inputs starts late."""

_GROWTH_LIMIT = 8
"""A batch has at most this many times as many calls as the last one: the next calls may take longer."""

_WRITABLE_MODES = "r+", "w+"

_CONTEXT_MODULE = "sklearn.callback._callback_context"
_SUBCONTEXTS = "_children_map"
"""The module of scikit-learn's contexts, from 1.9 on, and their attribute for subcontexts. Contexts of a version
that names these differently are pickled as they are."""


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
    supports_inner_max_num_threads = True
    _effective_batch_size: int
    _smoothed_batch_duration: float

    def __init__(self, client: Client | None = None, *, nesting_level: int | None = None, **keywords: Any) -> None:
        _refuse_initializer(keywords)
        super().__init__(nesting_level=nesting_level, **keywords)
        client = client or _task.client
        if not isinstance(client, Client):
            raise TypeError('Cannot use joblib\'s backend "scaler": pass client=Client(...) to parallel_config.')
        self._client = client
        self._reducers = ArgumentReducers({}, is_private(client.address))
        self.default_n_jobs = -1
        self.parallel: Any = None
        self._limit_bytes: int | None = _DEFAULT_LIMIT_BYTES
        self._are_shared = True
        self._sent: dict[int, _SentArray] = {}
        self._unfinished: set[ScalerFuture[Any]] = set()
        self._calls: MapCalls | None = None
        self._pickled_client = b""
        self._is_of_one_call = False

    def _for_one_call(self) -> ScalerBackend:
        """A backend for one ``Parallel``: several may run at a time in one ``parallel_config``."""
        backend = ScalerBackend(self._client, nesting_level=self.nesting_level)
        backend.default_n_jobs = self.default_n_jobs
        backend.inner_max_num_threads = self.inner_max_num_threads
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
        _refuse_initializer(keywords)
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
        """Run ``func``, a batch of calls, as one task. Futures and references in it stand for their values. An error of
        sending it is that of the future: joblib also calls this in threads where an exception would be lost."""
        future: Future[Any]
        try:
            future = self._send_batch(func)
        except Exception as error:
            future = Future()
            future.set_exception(error)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def _function_of(self, batch: Any) -> Callable[..., list[Any]]:
        if not self._pickled_client:
            self._pickled_client = pickle.dumps(self._client)
        limit = self.inner_max_num_threads
        limits = () if limit is None else tuple((name, str(limit)) for name in self.MAX_NUM_THREADS_VARS)
        return _batch_function(*_name_and_module_of(batch), self._pickled_client, self._nested_level, limits)

    def _send_batch(self, batch: Any) -> ScalerFuture[Any]:
        arguments: list[Any] = []
        payload, nested_at = self._pickle(batch, arguments)
        future: ScalerFuture[Any] = ScalerFuture(self._client._client_io)
        self._calls = self._calls or self._client.new_map(self._batches)
        values = payload, nested_at, *arguments
        self._client.submit_as(future, self._function_of(batch), values, {}, self._calls)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        future.add_done_callback(partial(self._measure, len(batch)))
        return future

    apply_async = submit
    """The name of ``submit`` before joblib 1.5."""

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        return out.result()

    @property
    def _batches(self) -> int:
        """The number of batches, as of ``MapCalls``. Sizes of batches change, so it is known only if all are submitted
        at once."""
        is_whole = self.parallel is not None and self.parallel.pre_dispatch == "all"
        return 0 if is_whole else MAP_TASKS_UNKNOWN

    def start_call(self) -> None:
        """Its batches are one map in monitors."""
        self._sent.clear()
        self._calls = None

    def stop_call(self) -> None:
        """Release the arrays: the next call may find other values in them."""
        self._sent.clear()

    def terminate(self) -> None:
        """The client belongs to the caller and stays open."""
        self._sent.clear()
        self._reset_batch_size()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A call has failed, or the program was interrupted: cancel the others."""
        for future in list(self._unfinished):
            future.cancel()
        self._unfinished.clear()
        self._sent.clear()

    @property
    def _nested_level(self) -> int:
        return (self.nesting_level or 0) + 1

    def get_nested_backend(self) -> tuple[Any, int | None]:
        """The same for all batches, so it does not travel with each of them: ``run_batch`` makes it."""
        return _NestedBackend(self._nested_level), None

    def batch_completed(self, batch_size: int, duration: float) -> None:
        """joblib's duration includes waiting and transport; ``_measure`` takes that of the execution instead."""

    def _measure(self, batch_size: int, future: ScalerFuture[Any]) -> None:
        with contextlib.suppress(ValueError):  # it was cancelled
            super().batch_completed(batch_size, future.profiling_info().duration_s)

    def compute_batch_size(self) -> int:
        """Each size costs a few batches, so it grows faster than joblib's own, which at most doubles."""
        seconds = self._smoothed_batch_duration
        if seconds > self.MAX_IDEAL_BATCH_DURATION:
            return int(super().compute_batch_size())
        size = grown_batch_size(self._effective_batch_size, seconds, self.MIN_IDEAL_BATCH_DURATION)
        if size != self._effective_batch_size:
            self._effective_batch_size = size
            self._smoothed_batch_duration = self._DEFAULT_SMOOTHED_BATCH_DURATION
        return size

    def _reset_batch_size(self) -> None:
        self._effective_batch_size = self._DEFAULT_EFFECTIVE_BATCH_SIZE
        self._smoothed_batch_duration = self._DEFAULT_SMOOTHED_BATCH_DURATION

    # ---- batches -------------------------------------------------------------------------------------------------

    def _pickle(self, batch: Any, arguments: list[Any]) -> tuple[bytes, int]:
        """Add to ``arguments`` what travels apart from the batch, in the order of the pickle. Returns the pickle, and
        which of them stands for the backend of nested calls; -1: none."""
        numpy: Any = sys.modules.get("numpy")
        array_types = (numpy.ndarray, numpy.memmap) if numpy is not None else ()
        file = io.BytesIO()

        def argument_of(array: Any) -> ObjectReference[Any] | None:
            return self._argument_of(array, len(arguments) < _APART_LIMIT)

        pickler = _BatchPickler(file, array_types, argument_of, self._reducers, arguments)
        pickler.dump(batch)
        return file.getvalue(), pickler.nested_at

    def _argument_of(self, array: Any, may_be_copied: bool) -> ObjectReference[Any] | None:
        """None: the array is pickled with its batch."""
        is_mapped = self._limit_bytes is not None and array.nbytes > self._limit_bytes
        if array.dtype.hasobject or not (is_mapped or (may_be_copied and array.nbytes >= _APART_BYTES)):
            return None
        key = id(array)
        sent = self._sent.get(key)
        if sent is None:
            by_id = self._sent
            sent = by_id[key] = _SentArray(self._client, weakref.ref(array, lambda _: by_id.pop(key, None)))
        return sent.mapped(array, self._are_shared) if is_mapped else sent.copied(array)


def grown_batch_size(size: int, seconds: float, ideal_seconds: float) -> int:
    """The size of the next batches if those of ``size`` calls run for ``seconds`` (0: not yet known). Those that run
    for at least half of the ideal time keep their size."""
    if not 0 < seconds < ideal_seconds / 2:
        return size
    return min(_GROWTH_LIMIT * size, int(size * ideal_seconds / seconds))


class _SentArray:
    """An array in one call of Parallel. ``array``: a weak reference, which is kept with this."""

    def __init__(self, client: Client, array: object) -> None:
        self._client = client
        self._array = array
        self._times = 0
        self._reference: ObjectReference[Any] | None = None
        self._form: tuple[Any, ...] = ()
        self._content = b""

    def mapped(self, array: Any, is_shared: bool) -> ObjectReference[Any]:
        """It is sent once. Later changes are not seen by tasks, as with joblib's own backends."""
        if self._reference is None:
            import numpy

            self._reference = self._client.send_object(numpy.asarray(array), shared=is_shared)
        return self._reference

    def copied(self, array: Any) -> ObjectReference[Any] | None:
        """Each task gets a copy of what the array is now. None: pickle it with the batch, because it occurs for the
        first time, or changes."""
        self._times += 1
        if self._times == 1 or (self._times > 2 and self._reference is None):
            return None
        form = repr(array.dtype), array.shape, array.strides, array.flags.writeable  # names of fields can change
        content = _content_of(array)
        if self._times == 2 and content is not None and self._client._functions.encoder.is_default:
            try:
                self._reference = self._client.send_object(array, shared=False)
            except ObjectStoreError:
                return None  # the store is full
            self._form, self._content = form, content.tobytes()
        elif content is None or form != self._form or not same(memoryview(self._content), content):
            self._reference, self._content = None, b""
        return self._reference


def _content_of(array: Any) -> memoryview | None:
    """The bytes of an array, without gaps. None: its type has no buffers."""
    is_dense = array.flags.c_contiguous or array.flags.f_contiguous
    try:
        return pickle.PickleBuffer(array if is_dense else array.copy("K")).raw()
    except (BufferError, ValueError):
        return None


class _BatchPickler(cloudpickle.Pickler):
    """``array_types``: the types of arrays. ``argument_of``: what is sent for an array; None: it is pickled here. The
    argument takes the place of a buffer, of which the pickle says only that the next one comes here. So do futures,
    references, and the backend of nested calls. ``reducers``: how the client pickles locks and proxies."""

    def __init__(
        self,
        file: io.BytesIO,
        array_types: tuple[type, ...],
        argument_of: Callable[[Any], ObjectReference[Any] | None],
        reducers: ArgumentReducers,
        arguments: list[Any],
    ) -> None:
        own, usual = cloudpickle.Pickler.dispatch_table.maps
        self.dispatch_table = {**usual, **own}  # asked for the type of most objects, and faster than a ChainMap
        # No method of this pickler: a cycle would keep the batch until it is collected.
        following = self._next = pickle.PickleBuffer(bytearray())
        super().__init__(file, protocol=5, buffer_callback=lambda buffer: buffer is not following)  # takes the table
        self._array_types = array_types
        self._argument_of = argument_of
        self._reducers = reducers
        self._arguments = arguments
        self.nested_at = -1
        self._usual_types: set[type] = set()
        self._context_type = getattr(sys.modules.get(_CONTEXT_MODULE), "CallbackContext", None)

    def reducer_override(self, value: Any) -> Any:
        """Called for most objects in the batch, so cloudpickle is asked only for those that concern it."""
        kind = type(value)
        if kind in self._usual_types:
            return NotImplemented
        if kind in self._array_types:
            argument = self._argument_of(value)
            return NotImplemented if argument is None else self._apart(argument)
        if kind is FunctionType or issubclass(kind, type):
            return super().reducer_override(value)
        if kind in REFERENCE_TYPES:
            return self._apart(value)
        if kind is _NestedBackend:
            self.nested_at = len(self._arguments)
            return self._apart(None)
        if kind is self._context_type and _is_without_callbacks(value):
            return _without_subcontexts(value)
        reducer = self._reducers.find(kind)
        if reducer is not None:
            return reducer(value)
        self._usual_types.add(kind)
        return NotImplemented

    def _apart(self, argument: Any) -> Any:
        self._arguments.append(argument)
        return operator.getitem, ((self._next,), 0)


def _is_without_callbacks(context: Any) -> bool:
    return not vars(context).get("_callbacks", True) and _SUBCONTEXTS in vars(context)


def _without_subcontexts(context: Any) -> Any:
    """Reduce a context of scikit-learn that has no callbacks. Each fit of a search has a context, which leads to all
    others, so every batch would contain them all. Only callbacks look at contexts, and those of scikit-learn look
    at a context and what is above it."""
    return copyreg.__newobj__, (type(context),), {**vars(context), _SUBCONTEXTS: {}}  # type: ignore[attr-defined]


@lru_cache(maxsize=256)
def _batch_function(
    name: str, module: str, client: bytes, nesting_level: int, thread_limits: tuple[tuple[str, str], ...]
) -> Callable[..., list[Any]]:
    """A function of its own, which is sent by value: workers need joblib, but not this package. Monitors show
    ``name`` and ``module``. ``client``: pickled, for a ``Parallel`` inside a call; ``nesting_level``: of that one.
    ``thread_limits``: environment variables with the number of threads of libraries; empty: that of the worker."""
    this_module = __name__
    run = _limited(thread_limits)

    def run_batch(payload: bytes, nested_at: int, *arguments: Any) -> list[Any]:
        import pickle

        try:
            apart = [nested_backend() if place == nested_at else each for place, each in enumerate(arguments)]
            batch = pickle.loads(payload, buffers=apart)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "joblib":
                raise
            raise ModuleNotFoundError(
                "Cannot run a call of joblib: this worker does not have joblib. Install it on all workers.",
                name=error.name,
            ) from None
        return run(batch)

    def nested_backend() -> Any:
        """The backend of a ``Parallel`` inside a call, which runs sequentially if scaler-client is not installed
        there."""
        from importlib import import_module

        try:
            integration = import_module(this_module)
        except ModuleNotFoundError:
            from joblib.parallel import SequentialBackend

            return SequentialBackend(nesting_level=nesting_level)
        return integration.nested(client, nesting_level)

    # The client remembers the pickle of the last function of some code, so each name has its own.
    run_batch.__code__ = run_batch.__code__.replace(co_name=name)
    run_batch.__name__ = run_batch.__qualname__ = name
    run_batch.__module__ = module
    return run_batch


def _limited(thread_limits: tuple[tuple[str, str], ...]) -> Callable[[Callable[[], list[Any]]], list[Any]]:
    """Return a function that runs a batch with ``thread_limits``, sent by value, too."""

    def run(batch: Callable[[], list[Any]]) -> list[Any]:
        return run_limited(batch) if thread_limits else batch()

    def run_limited(batch: Callable[[], list[Any]]) -> list[Any]:
        """The variables limit libraries that the calls load, threadpoolctl those that are loaded now."""
        import os
        from contextlib import ExitStack, suppress
        from importlib import import_module

        before = {variable: os.environ.get(variable) for variable, _ in thread_limits}
        os.environ.update(thread_limits)
        try:
            with ExitStack() as stack:
                with suppress(ModuleNotFoundError):
                    limit = import_module("threadpoolctl").threadpool_limits
                    stack.enter_context(limit(int(thread_limits[0][1])))
                return batch()
        finally:
            for variable, value in before.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value

    return run


def _refuse_initializer(keywords: dict[str, Any]) -> None:
    if keywords.get("initializer") is not None:
        raise ValueError(
            'Cannot use an initializer with the backend "scaler": its workers serve several programs. Initialize in '
            "the call, or start the workers with --preload."
        )


def _name_and_module_of(batch: Any) -> tuple[str, str]:
    """The name and the module of the function of the first call; scikit-learn wraps it."""
    with contextlib.suppress(AttributeError, IndexError, TypeError):
        function = batch.items[0][0]
        function = getattr(function, "function", function)
        return str(function.__name__), function_module(function)
    return "joblib", "joblib"


class _NestedBackend:
    """Stands for the backend of a ``Parallel`` inside a task."""

    supports_retrieve_callback = True

    def __init__(self, nesting_level: int) -> None:
        self.nesting_level = nesting_level


def nested(client: bytes, nesting_level: int) -> ScalerBackend:
    """The backend inside a task. A call that does not state ``n_jobs`` runs sequentially: the cluster is busy with the
    other calls of the outer one."""
    _task.client = pickle.loads(client)
    register()
    backend = ScalerBackend(_task.client, nesting_level=nesting_level)
    backend.default_n_jobs = 1
    return backend
