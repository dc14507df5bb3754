"""The executor: Scaler behind the interface of ``concurrent.futures.Executor``."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, Protocol, TypeVar

from scaler.client.future import ScalerFuture, ask_to_cancel, cancel_unstarted
from scaler.client.map_items import note_item
from scaler.client.outcomes import hide_frames
from scaler.client.progress import map_tasks_of, progress_of_results, require_bars, wants_progress
from scaler.client.signatures import function_module, function_name
from scaler.core.outcome import Outcome
from scaler.shell.client_io import ClientIO
from scaler.utility.exceptions import ClientQuitException, ExecutorProcessDiedError, ProcessorDiedError
from scaler.utility.late_imports import late_import
from scaler.utility.private_apis import call_before_exit
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.client.calls import MapCalls
    from scaler.cluster.combo import SchedulerClusterCombo

T = TypeVar("T")
P = ParamSpec("P")

_AFTER_SHUTDOWN = "cannot schedule new futures after shutdown"
_FORKED = (
    "Cannot use this executor here: it was created before its process was forked. Create another one in the child."
)
_AFTER_EXIT = "cannot schedule new futures after interpreter shutdown"
_CALLBACK_SECONDS = 0.001


class ExecutorClient(Protocol):
    """The part of a client that an executor needs."""

    _client_io: ClientIO

    @property
    def address(self) -> str: ...

    @property
    def n_workers(self) -> int: ...

    def submit_as(
        self,
        future: ScalerFuture[T],
        fn: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        calls: MapCalls | None = None,
    ) -> None: ...

    def new_map(self, tasks: int = 0) -> MapCalls: ...

    def disconnect(self) -> None: ...


class ExecutorFuture(ScalerFuture[T]):
    """The future of an executor's call. Unlike the other futures of a client, ``cancel()`` does not interrupt a running
    task. The cluster does not report the starts of tasks: ``running()`` is False until a cancel has found that the task
    has started. ``finisher``: the thread that calls the callbacks."""

    finisher = 0
    _has_started = False

    def __init__(self, client_io: ClientIO, work: Work) -> None:
        super().__init__(client_io)
        self._work = work

    def cancel(self, running: bool = False) -> bool:
        return super().cancel(running)

    def running(self) -> bool:
        return self._has_started and not self.done()

    def note_started(self) -> None:
        self._has_started = True

    def note_interrupted_wait(self) -> None:
        """The call continues, as in the standard library."""

    def settle(self, outcome: Outcome) -> bool:
        self._work.note_outcome(self, outcome)
        is_settled = super().settle(outcome)
        if is_settled:
            self._work.remove(self)
        return is_settled

    def finish(self, outcome: Outcome) -> None:
        self._work.note_outcome(self, outcome)
        self.finisher = threading.get_ident()
        try:
            super().finish(outcome)
        finally:
            self._work.remove(self)

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        self._work.remove(self)

    def _load(self, timeout: float | None) -> None:
        try:
            super()._load(timeout)
        except ClientQuitException:
            if not self._loaded:  # by the thread that has closed the client meanwhile
                raise

    def _failure(self, outcome: Outcome) -> BaseException:
        error = super()._failure(outcome)
        if not isinstance(error, ProcessorDiedError):
            return error
        return self._with_note(ExecutorProcessDiedError(str(error), error.certificates))

    def load_now(self) -> None:
        """Fetch a large result while the cluster is still running. A failure is kept for ``result``."""
        try:
            self._load(None)
        except Exception as error:
            self._exception, self._loaded = error, True

    def __repr__(self) -> str:
        state = self._state if self._has_started or self.is_settled() else "pending"
        return f"<{type(self).__name__} at {id(self):#x} state={state.lower()}>"


class Work:
    """The calls of an executor that have not ended, and what they run on. It outlives an executor that is not waited
    for: it closes when the last call has ended."""

    def __init__(self, client_io: ClientIO, client: ExecutorClient | None, combo: SchedulerClusterCombo | None) -> None:
        """``client`` and ``combo`` end with this work."""
        self.client_io = client_io
        self._client = client
        self._combo = combo
        self._unfinished: dict[int, ExecutorFuture[Any]] = {}
        self._large: weakref.WeakSet[ExecutorFuture[Any]] = weakref.WeakSet()
        self._closing = threading.RLock()
        self._process = os.getpid()
        _works.add(self)

    def add(self, future: ExecutorFuture[Any]) -> None:
        self._unfinished[id(future)] = future

    def remove(self, future: ExecutorFuture[Any]) -> None:
        self._unfinished.pop(id(future), None)

    def note_outcome(self, future: ExecutorFuture[Any], outcome: Outcome) -> None:
        """Called before other threads can see that the future has ended."""
        if self._client is not None and outcome.status == Status.SUCCESS_LARGE:
            self._large.add(future)

    def cancel_unstarted(self) -> None:
        cancel_unstarted(self.client_io, list(self._unfinished.values()))

    def close(self) -> None:
        """Wait for all calls, then end what belongs to this work. May be called twice and from several threads."""
        if self._process != os.getpid():
            return
        with self._closing:
            self._wait()
            if self in _works:
                self._end()
            _works.discard(self)

    def close_later(self) -> None:
        """Close in another thread when all calls have ended."""
        if self._client is None and not self._unfinished:
            _works.discard(self)
        elif self in _works:
            try:
                threading.Thread(target=self.close, name="scaler-executor", daemon=True).start()
            except RuntimeError:
                pass  # the interpreter exits, and closes this work

    def _wait(self) -> None:
        """Wait until all calls have ended and their callbacks have been called."""
        for future in iter(self._next_unfinished, None):
            try:
                self.client_io.wait(future)
            except ClientQuitException:
                return
            if future.finisher == threading.get_ident():
                self.remove(future)  # this is one of its callbacks
            elif id(future) in self._unfinished:
                time.sleep(_CALLBACK_SECONDS)

    def _next_unfinished(self) -> ExecutorFuture[Any] | None:
        return next(iter(list(self._unfinished.values())), None)

    def _end(self) -> None:
        if self._client is None:
            return
        try:
            for future in list(self._large):
                future.load_now()
            self._client.disconnect()
        finally:
            if self._combo is not None:
                self._combo.shutdown()


class Executor(concurrent.futures.Executor):
    """A :class:`concurrent.futures.Executor` that runs its calls on the workers of a cluster.

    ``address``: the scheduler of a running cluster. ``n_workers``: start a cluster of this many workers on this
    machine, which ends with the executor (see :class:`SchedulerClusterCombo`). Give exactly one of them. For other
    settings, use ``Client(...).as_executor()``.

    Like the executors of the standard library, ``shutdown``, leaving ``with`` and the exit of the interpreter wait for
    calls that have not ended."""

    default_client: ClassVar[Callable[..., ExecutorClient]]
    """The class of clients, which uses this class."""

    def __init__(
        self,
        address: str | None = None,
        *,
        n_workers: int | None = None,
        timeout_seconds: float = 60,
        stream_output: bool = False,
    ) -> None:
        if (address is None) == (n_workers is None):
            raise ValueError("Cannot make an executor: give either an address or n_workers.")
        if n_workers is not None and n_workers <= 0:
            raise ValueError(f"Cannot make an executor with {n_workers} workers: n_workers must be greater than 0.")
        combo = None if n_workers is None else _start_cluster(n_workers)
        try:
            client = Executor.default_client(
                address if combo is None else combo.get_address(),
                timeout_seconds=timeout_seconds,
                stream_output=stream_output,
            )
            self._open(client, Work(client._client_io, client, combo))
        except BaseException:
            if combo is not None:
                combo.shutdown()
            raise

    @classmethod
    def of_client(cls, client: ExecutorClient) -> Executor:
        """Return an executor that uses ``client`` and leaves it open when it shuts down."""
        executor = cls.__new__(cls)
        executor._open(client, Work(client._client_io, None, None))
        return executor

    def _open(self, client: ExecutorClient, work: Work) -> None:
        _close_works_at_exit()
        self._client = client
        self._work = work
        self._is_shut_down = False
        self._lock = threading.RLock()
        weakref.finalize(self, work.close_later).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> ScalerFuture[T]:
        """Run ``fn(*args, **kwargs)`` on a worker. Raises RuntimeError after ``shutdown``, and TypeError at once if the
        arguments do not fit the signature."""
        return self._submit(fn, args, kwargs, None)

    def _submit(
        self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any], calls: MapCalls | None
    ) -> ScalerFuture[T]:
        """``calls``: the map that the call belongs to."""
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError(_AFTER_SHUTDOWN)
            if _exit.is_near:
                raise RuntimeError(_AFTER_EXIT)
            future: ExecutorFuture[T] = ExecutorFuture(self._work.client_io, self._work)
            self._work.add(future)
            try:
                self._client.submit_as(future, fn, args, kwargs, calls)
            except ClientQuitException as error:
                self._work.remove(future)
                raise RuntimeError(_FORKED if self._work.client_io.is_forked else _AFTER_SHUTDOWN) from error
            except BaseException:
                self._work.remove(future)
                raise
            return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        progress: bool = False,
    ) -> Iterator[T]:
        """Return an iterator over the results, in order. All calls are submitted now; with ``buffersize``, at most this
        many are ahead of the results that are taken. ``chunksize``: calls per task. The iterator raises TimeoutError if
        a result is not available ``timeout`` seconds after the call of ``map``. When it ends early, calls that have not
        started are cancelled. ``progress`` shows a bar with the number of results taken; it needs tqdm or rich."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and not isinstance(buffersize, int):
            raise TypeError("buffersize must be an integer or None")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        shows_progress = wants_progress(progress)
        if shows_progress:
            require_bars()
        deadline = None if timeout is None else timeout + time.monotonic()
        calls = zip(*iterables, strict=False)
        tasks = 0 if buffersize is None else map_tasks_of(iterables, chunksize)
        if chunksize == 1:
            results = self._map(fn, calls, deadline, buffersize, tasks, 1)
            return progress_of_results(results, iterables, function_name(fn)) if shows_progress else results
        chunks = ((chunk,) for chunk in iter(lambda: list(islice(calls, chunksize)), []))
        lists = self._map(_chunk_function(fn), chunks, deadline, buffersize, tasks, chunksize)
        if shows_progress:
            return progress_of_results(_items_of(lists), iterables, function_name(fn))
        return chain.from_iterable(lists)

    def _map(
        self,
        fn: Callable[..., T],
        calls: Iterator[tuple[Any, ...]],
        deadline: float | None,
        buffersize: int | None,
        tasks: int,
        chunksize: int,
    ) -> Generator[T, None, None]:
        """``tasks``: as of ``MapCalls``."""
        futures: deque[ScalerFuture[T]] = deque()
        its_calls = self._client.new_map(tasks)
        try:
            futures.extend(self._submit(fn, call, {}, its_calls) for call in islice(calls, buffersize))
        except BaseException:
            ask_to_cancel(self._work.client_io, futures)
            raise
        later = calls if buffersize is not None else iter(())
        return _results(weakref.ref(self), self._work.client_io, fn, its_calls, futures, later, deadline, chunksize)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. ``wait``: return when all calls have ended. ``cancel_futures``: cancel the calls that
        have not started."""
        with self._lock:
            self._is_shut_down = True
        if cancel_futures:
            self._work.cancel_unstarted()
        if wait:
            self._work.close()
        else:
            self._work.close_later()

    @property
    def _max_workers(self) -> int:
        """The number of workers in the cluster now, at least 1; each access asks the scheduler. Libraries that keep
        some calls in flight, such as Dask, read this attribute of the standard library's executors."""
        return max(1, self._client.n_workers)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "An executor cannot be sent or pickled: it belongs to its process. In a task, use Client().as_executor()."
        )

    def __repr__(self) -> str:
        return f"Executor({self._client.address!r})"


def _results(
    executor: weakref.ref[Executor],
    client_io: ClientIO,
    fn: Callable[..., T],
    its_calls: MapCalls,
    futures: deque[ScalerFuture[T]],
    later: Iterator[tuple[Any, ...]],
    deadline: float | None,
    chunksize: int,
) -> Generator[T, None, None]:
    """Yield the results. One of the ``later`` calls is submitted for each result that is taken."""
    taken = 0
    try:
        while True:
            if not futures:
                return
            submitter = executor()
            call = next(later, None) if submitter is not None else None
            if submitter is not None and call is not None:
                futures.append(submitter._submit(fn, call, {}, its_calls))
            del submitter
            _await_item(futures[0], deadline, taken * chunksize, chunksize)
            taken += 1
            yield futures.popleft().result()  # without a reference to the future
    except BaseException as error:
        hide_frames(error)
        raise
    finally:
        ask_to_cancel(client_io, futures)
        futures.clear()


def _await_item(future: ScalerFuture[Any], deadline: float | None, place: int, count: int) -> None:
    """Wait for the task of the ``count`` items from ``place``. A failure names them."""
    try:
        future.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except Exception as error:
        if future.is_settled():
            note_item(error, "map", place, count)
        raise
    finally:
        del future  # no cycle through the traceback


def _items_of(lists: Generator[list[T], None, None]) -> Generator[T, None, None]:
    """Yield the items of all lists."""
    try:
        for each in lists:
            yield from each
    finally:
        lists.close()


def _chunk_function(fn: Callable[..., T]) -> Callable[[list[tuple[Any, ...]]], list[T]]:
    """A function of its own, which is sent by value: workers need not have this package. Monitors show the name of
    ``fn``."""

    def run_chunk(calls: list[tuple[Any, ...]]) -> list[T]:
        return [fn(*call) for call in calls]

    run_chunk.__name__ = run_chunk.__qualname__ = function_name(fn)
    run_chunk.__module__ = function_module(fn)
    return run_chunk


def _start_cluster(n_workers: int) -> SchedulerClusterCombo:
    with late_import("start a cluster"):
        from scaler.cluster.combo import SchedulerClusterCombo
        from scaler.utility.siblings import require_siblings

    require_siblings("Executor(n_workers=...)")
    return SchedulerClusterCombo(n_workers)


class _Exit:
    """``is_near``: the interpreter exits and waits for the calls of all executors."""

    is_known = False
    is_near = False


_exit = _Exit()
_works: set[Work] = set()


def _close_works_at_exit() -> None:
    if _exit.is_known:
        return
    try:
        call_before_exit(_close_works)
    except RuntimeError:
        raise RuntimeError(_AFTER_EXIT) from None
    _exit.is_known = True


def _close_works() -> None:
    _exit.is_near = True
    for work in list(_works):
        work.close()
