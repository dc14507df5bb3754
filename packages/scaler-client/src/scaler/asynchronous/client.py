"""The client of asyncio: its calls are awaited, and nothing that it does blocks the event loop for long."""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeAlias, TypeVar, TypeVarTuple, Unpack, overload

from scaler.asynchronous.actors import AsyncActorHandle
from scaler.asynchronous.event import AsyncEvent
from scaler.asynchronous.future import AnswerFuture, AsyncFuture, ItemFuture
from scaler.asynchronous.imap import AsyncSource, EndedLine, ImapLine, OrderedLine, Source, results_of
from scaler.asynchronous.inner import InnerClient
from scaler.asynchronous.lock import AsyncLock
from scaler.asynchronous.loop_link import LoopLink, new_threads
from scaler.asynchronous.progress import progress_of_results, progress_of_tasks
from scaler.asynchronous.published import AsyncPublishedValue, publish_all_async, published_names_async
from scaler.asynchronous.queue import AsyncQueue
from scaler.asynchronous.semaphore import AsyncSemaphore
from scaler.asynchronous.sizes import are_large, are_small
from scaler.asynchronous.tasks import PureTask
from scaler.asynchronous.thread_call import call_in_thread
from scaler.asynchronous.variable import AsyncVariable
from scaler.asynchronous.waits import wait_for_tasks
from scaler.client.future import unsent_state
from scaler.client.gathering import replace_instances
from scaler.client.inquiries import (
    Inquiry,
    act_on_worker,
    agents_of,
    answer_in,
    cancel_inquiry,
    check_own,
    limit_inquiry,
    output_inquiry,
    priority_inquiry,
    stack_inquiry,
    weight_inquiry,
)
from scaler.client.keyed import identity_of, take_identity
from scaler.client.object_reference import ObjectReference
from scaler.client.options import MapOptions
from scaler.client.outcomes import failure_of, hide_frames
from scaler.client.progress import map_tasks_of, wants_progress
from scaler.client.serializer import DefaultSerializer, Serializer
from scaler.client.signatures import check_call, function_name
from scaler.core.questions import Questions
from scaler.core.session import Session
from scaler.shell.client_io import STOPPED
from scaler.utility.exceptions import ClientQuitException, DisconnectedError
from scaler.utility.late_imports import late_import
from scaler_protocol.messages import ControlAction, Status
from scaler_protocol.shipping.environments import Environment

if TYPE_CHECKING:
    from scaler.asynchronous.profile import AsyncProfile
    from scaler.client.actors import ActorHandle
    from scaler.client.calls import MapCalls
    from scaler.client.cluster_info import ClusterInfo
    from scaler.core.outcome import Outcome, Sink
    from scaler.core.runs import Shape

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

Remote: TypeAlias = A | AsyncFuture[A]
"""An argument: the value, or a future of it."""

_BUFFER_SIZE = 4096


class AsyncClient:
    """A connection to a scheduler for coroutines. It belongs to the event loop in which it is opened: use it in
    ``async with``, or ``await client.open()`` and ``await client.close()``.

    The settings are those of :class:`~scaler.Client`. Inside a task, the address may be omitted, too."""

    _client: InnerClient

    def __init__(
        self,
        address: str | None = None,
        profiling: bool = False,
        timeout_seconds: float = 60,
        heartbeat_interval_seconds: float = 2,
        serializer: Serializer | type[Serializer] = DefaultSerializer(),  # noqa: B008  immutable
        stream_output: bool = False,
        group: str | None = None,
        weight: float = 1.0,
        *,
        modules: Iterable[ModuleType | str] = (),
        environment: Environment | None = None,
    ) -> None:
        self._make = partial(
            InnerClient,
            address,
            profiling=profiling,
            timeout_seconds=timeout_seconds,
            heartbeat_interval_seconds=heartbeat_interval_seconds,
            serializer=serializer,
            stream_output=stream_output,
            group=group,
            weight=weight,
            modules=modules,
            environment=environment,
        )
        self._open_link: LoopLink | None = None
        self._was_opened = False
        self._profile_numbers = itertools.count(1)

    # ---- opening and closing ---------------------------------------------------------------------------------------

    async def open(self) -> AsyncClient:
        """Connect. Raises what the constructor of :class:`~scaler.Client` raises."""
        if self._was_opened:
            raise RuntimeError("Cannot open this AsyncClient: it was opened before. Make another one.")
        self._was_opened = True
        loop, threads = asyncio.get_running_loop(), new_threads()
        try:
            inner = await loop.run_in_executor(threads, self._make)
            client_io = await loop.run_in_executor(threads, inner.open)
        except BaseException as error:
            threads.shutdown(wait=False)
            hide_frames(error)
            raise
        inner.link = link = LoopLink(loop, client_io, threads)
        self._client, self._open_link = inner, link
        link.begin_reading()
        return self

    async def close(self) -> None:
        """Cancel all unfinished tasks and disconnect from the scheduler. May be called twice."""
        link, self._open_link = self._open_link, None
        if link is None:
            return
        link.end_reading()
        try:
            await link.in_thread(self._client.disconnect)
        finally:
            link.take()
            link.close_threads()

    async def __aenter__(self) -> AsyncClient:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        link = self.__dict__.get("_open_link")
        if link is not None:
            link.post(partial(_stop_reading, link, self._client))
            warnings.warn(f"{self!r} was not closed. Use it in 'async with'.", ResourceWarning, stacklevel=2)

    # ---- submit ----------------------------------------------------------------------------------------------------

    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncFuture[T]: ...

    @overload
    def submit(  # type: ignore[overload-cannot-match]  # it is: by a function without this parameter
        self, fn: Callable[..., T], /, *args: Any, profiling: bool, **kwargs: Any
    ) -> AsyncFuture[T]: ...

    @overload
    def submit(  # type: ignore[overload-cannot-match]
        self, fn: Callable[..., T], /, *args: Any, key: Hashable, **kwargs: Any
    ) -> AsyncFuture[T]: ...

    @overload
    def submit(  # type: ignore[overload-cannot-match]
        self, fn: Callable[..., T], /, *args: Any, pure: bool, **kwargs: Any
    ) -> AsyncFuture[T]: ...

    @overload  # futures as arguments by position; elsewhere type checkers do not know them
    def submit(self, fn: Callable[[A], T], first: Remote[A], /) -> AsyncFuture[T]: ...

    @overload
    def submit(self, fn: Callable[[A, B], T], first: Remote[A], second: Remote[B], /) -> AsyncFuture[T]: ...

    @overload
    def submit(
        self, fn: Callable[[A, B, C], T], first: Remote[A], second: Remote[B], third: Remote[C], /
    ) -> AsyncFuture[T]: ...

    @overload
    def submit(
        self,
        fn: Callable[[A, B, C, D], T],
        first: Remote[A],
        second: Remote[B],
        third: Remote[C],
        fourth: Remote[D],
        /,
    ) -> AsyncFuture[T]: ...

    @overload
    def submit(self, fn: Callable[[list[A]], T], first: list[AsyncFuture[A]], /) -> AsyncFuture[T]: ...

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> AsyncFuture[Any]:
        """Run ``fn(*args, **kwargs)`` on a worker. It starts now, not when the future is awaited. Raises TypeError at
        once if the arguments do not fit the signature. ``profiling``, ``key`` and ``pure`` are those of
        ``submit_verbose`` if ``fn`` has no parameter of that name.

        Futures of this client may be arguments, or parts of them: the task gets their results. Arguments that are
        obviously large are pickled in another thread. Do not change them before the result is there."""
        if kwargs:
            return self._submit_with_keywords(fn, args, kwargs)
        return self._submit(None, fn, *args)

    def _submit(self, calls: MapCalls | None, fn: Callable[..., T], /, *args: Any) -> AsyncFuture[T]:
        """``calls``: the map that the call belongs to."""
        link, inner = self._link, self._client
        future: AsyncFuture[T] = AsyncFuture(link) if calls is None else ItemFuture(link)
        if not are_small(args) and are_large(args):
            check_call(fn, args, {})
            call = future.behind()
            link.start_call(partial(inner.submit_later, call, partial(inner.submit_as, call, fn, args, {}, calls)))
        else:
            inner.submit_as(future, fn, args, {}, calls)
        if link.is_nested:
            link.note_wait(future)
        return future

    def _submit_with_keywords(
        self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AsyncFuture[T]:
        link, inner = self._link, self._client
        try:
            if "key" in kwargs or "pure" in kwargs:
                identity = take_identity(fn, kwargs)
                if identity is not None and identity.is_pure and are_large((*args, *kwargs.values())):
                    return self._send_pure(link, fn, *inner.call_of(fn, args, kwargs))
                if identity is not None:
                    return inner.future_of(identity, fn, args, kwargs, partial(self.submit, fn, *args, **kwargs))
            return self._send(link, fn, *inner.call_of(fn, args, kwargs))
        except BaseException as error:
            hide_frames(error)
            raise

    def _send(self, link: LoopLink, fn: Callable[..., T], shape: Shape, values: tuple[Any, ...]) -> AsyncFuture[T]:
        inner = self._client
        future: AsyncFuture[T] = AsyncFuture(link)
        if are_large(values):
            call = future.behind()
            link.start_call(partial(inner.submit_later, call, partial(inner.send_as, call, fn, shape, values)))
        else:
            inner.send_as(future, fn, shape, values)
        link.note_wait(future)
        return future

    def _send_pure(self, link: LoopLink, fn: Callable[..., T], shape: Shape, values: tuple[Any, ...]) -> AsyncFuture[T]:
        """A call with ``pure=True`` and large arguments. Only their bytes tell whether there is an equal one, so it has
        a future of its own in any case."""
        inner = self._client
        task: PureTask[T] = PureTask(link.client_io)
        future = AsyncFuture.of_task(link, task)
        link.start_call(partial(inner.submit_later, task, partial(inner.send_pure, future, task, fn, shape, values)))
        link.note_wait(future)
        return future

    def submit_verbose(
        self,
        fn: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        priority: int = 0,
        retries: int = 0,
        rerun: bool = True,
        timeout_seconds: float | None = None,
        memory_bytes: int | None = None,
        profiling: bool | None = None,
        key: Hashable = None,
        pure: bool = False,
    ) -> AsyncFuture[T]:
        """Submit a task with options. See :meth:`scaler.Client.submit_verbose`."""
        link, inner = self._link, self._client
        keywords = dict(kwargs or {})
        try:
            identity = identity_of(key, pure)
            options = inner.options_of(capabilities, priority, retries, rerun, timeout_seconds, memory_bytes, profiling)

            def call() -> tuple[Shape, tuple[Any, ...]]:
                return inner.call_with_options(fn, args, keywords, options)

            if identity is None:
                return self._send(link, fn, *call())
            if identity.is_pure and are_large((*args, *keywords.values())):
                return self._send_pure(link, fn, *call())
            return inner.future_of(identity, fn, args, keywords, lambda: self._send(link, fn, *call()))
        except BaseException as error:
            hide_frames(error)
            raise

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of ``fn(*args, **kwargs)``, which starts when this is awaited. A coroutine, for
        ``asyncio.TaskGroup.create_task``, which takes no futures."""
        return await self.submit(fn, *args, **kwargs)

    @overload
    async def gather(self, nested: dict[A, AsyncFuture[T]], *, progress: bool = False) -> dict[A, T]: ...

    @overload
    async def gather(self, nested: list[AsyncFuture[T]], *, progress: bool = False) -> list[T]: ...

    @overload
    async def gather(self, nested: Any, *, progress: bool = False) -> Any: ...

    async def gather(self, nested: Any, *, progress: bool = False) -> Any:
        """Await all futures in lists, tuples, sets and dicts, at any depth, and return the same containers with their
        results. As with ``asyncio.gather``, the first exception is raised at once and other tasks continue, and if this
        is cancelled, all its futures are. ``progress`` as in ``map``."""
        _ = self._link  # open, and in its loop
        shows_progress = wants_progress(progress)
        futures: list[AsyncFuture[Any]] = []
        replace_instances(nested, AsyncFuture, futures.append)
        try:
            with progress_of_tasks(futures, "gather") if shows_progress else nullcontext():
                await asyncio.gather(*futures)
        except BaseException as error:
            hide_frames(error)
            raise
        return replace_instances(nested, AsyncFuture, AsyncFuture.result)

    async def wait(
        self,
        futures: Iterable[AsyncFuture[T]],
        timeout: float | None = None,
        return_when: str = asyncio.ALL_COMPLETED,
        *,
        progress: bool = False,
    ) -> tuple[set[AsyncFuture[T]], set[AsyncFuture[T]]]:
        """Like ``asyncio.wait``: return the futures whose tasks have ended, and the others. Neither the timeout nor a
        cancellation of this cancels a task. In contrast to ``asyncio.wait``, large results stay in the cluster, and no
        futures give two empty sets. ``progress`` as in ``map``."""
        return await wait_for_tasks(self._link.loop, futures, timeout, return_when, wants_progress(progress))

    # ---- actors ------------------------------------------------------------------------------------------------------

    async def actor(self, cls: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncActorHandle[T]:
        """Create an actor. See :meth:`scaler.Client.actor`. This waits for futures among the arguments."""
        return await self._actor_of(partial(self._client.actor, cls, *args, **kwargs))

    async def actor_verbose(
        self,
        cls: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        max_restarts: int = 0,
        max_concurrency: int = 1,
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        priority: int = 0,
    ) -> AsyncActorHandle[T]:
        """Create an actor with options. See :meth:`scaler.Client.actor_verbose`."""
        make = partial(
            self._client.actor_verbose,
            cls,
            args,
            kwargs,
            name=name,
            max_restarts=max_restarts,
            max_concurrency=max_concurrency,
            capabilities=capabilities,
            priority=priority,
        )
        return await self._actor_of(make)

    async def get_actor(self, name: str) -> AsyncActorHandle[Any]:
        """Return a handle of the actor with this name. See :meth:`scaler.Client.get_actor`."""
        return await self._actor_of(partial(self._client.get_actor, name))

    async def _actor_of(self, make: Callable[[], ActorHandle[T]]) -> AsyncActorHandle[T]:
        link = self._link
        try:
            return AsyncActorHandle(await call_in_thread(link, make), link)
        except BaseException as error:
            hide_frames(error)
            raise

    # ---- map ---------------------------------------------------------------------------------------------------------

    @overload
    async def map(self, fn: Callable[[A], T], iterable: Iterable[A], /, **options: Unpack[MapOptions]) -> list[T]: ...

    @overload
    async def map(
        self, fn: Callable[[*Ts], T], iterable: Iterable[tuple[*Ts]], /, **options: Unpack[MapOptions]
    ) -> list[T]: ...

    @overload
    async def map(
        self, fn: Callable[[A, B], T], first: Iterable[A], second: Iterable[B], /, **options: Unpack[MapOptions]
    ) -> list[T]: ...

    @overload
    async def map(
        self,
        fn: Callable[[A, B, C], T],
        first: Iterable[A],
        second: Iterable[B],
        third: Iterable[C],
        /,
        **options: Unpack[MapOptions],
    ) -> list[T]: ...

    @overload
    async def map(
        self,
        fn: Callable[..., T],
        first: Iterable[Any],
        second: Iterable[Any],
        third: Iterable[Any],
        fourth: Iterable[Any],
        /,
        *iterables: Iterable[Any],
        **options: Unpack[MapOptions],
    ) -> list[T]: ...

    async def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> list[Any]:
        """Return the results in order. See :meth:`scaler.Client.map`. The iterables are read in another thread. If this
        is cancelled, all its tasks are."""
        try:
            return await call_in_thread(self._link, partial(self._client.map, fn, *iterables, **options))
        except BaseException as error:
            hide_frames(error)
            raise

    async def starmap(
        self, fn: Callable[..., T], iterable: Iterable[Iterable[Any]], /, **options: Unpack[MapOptions]
    ) -> list[T]:
        """Like ``map``, but each item is an argument list."""
        try:
            return await call_in_thread(self._link, partial(self._client.starmap, fn, iterable, **options))
        except BaseException as error:
            hide_frames(error)
            raise

    @overload
    def imap(
        self,
        fn: Callable[[A], T],
        iterable: Iterable[A] | AsyncIterable[A],
        /,
        *,
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    @overload
    def imap(
        self,
        fn: Callable[[A, B], T],
        first: Iterable[A],
        second: Iterable[B],
        /,
        *,
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    @overload
    def imap(
        self,
        fn: Callable[[A, B, C], T],
        first: Iterable[A],
        second: Iterable[B],
        third: Iterable[C],
        /,
        *,
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    @overload
    def imap(
        self,
        fn: Callable[..., T],
        first: Iterable[Any],
        second: Iterable[Any],
        third: Iterable[Any],
        fourth: Iterable[Any],
        /,
        *iterables: Iterable[Any],
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    def imap(
        self, fn: Callable[..., Any], *iterables: Any, buffer_size: int | None = None, progress: bool = False
    ) -> AsyncGenerator[Any, None]:
        """Yield the results in order, for ``async for``. The call is lazy: it takes from the iterables as results are
        taken, at most ``buffer_size`` items ahead. A single iterable may be asynchronous. Tuples are never unpacked.
        ``progress`` as in ``map``, for results taken."""
        return self._imap(fn, iterables, buffer_size, OrderedLine(), progress)

    @overload
    def imap_unordered(
        self,
        fn: Callable[[A], T],
        iterable: Iterable[A] | AsyncIterable[A],
        /,
        *,
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    @overload
    def imap_unordered(
        self,
        fn: Callable[[A, B], T],
        first: Iterable[A],
        second: Iterable[B],
        /,
        *,
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    @overload
    def imap_unordered(
        self,
        fn: Callable[[A, B, C], T],
        first: Iterable[A],
        second: Iterable[B],
        third: Iterable[C],
        /,
        *,
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    @overload
    def imap_unordered(
        self,
        fn: Callable[..., T],
        first: Iterable[Any],
        second: Iterable[Any],
        third: Iterable[Any],
        fourth: Iterable[Any],
        /,
        *iterables: Iterable[Any],
        buffer_size: int | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]: ...

    def imap_unordered(
        self, fn: Callable[..., Any], *iterables: Any, buffer_size: int | None = None, progress: bool = False
    ) -> AsyncGenerator[Any, None]:
        """Like ``imap``, but yield the results in the order in which the tasks end."""
        return self._imap(fn, iterables, buffer_size, EndedLine(), progress)

    def _imap(
        self,
        fn: Callable[..., Any],
        iterables: tuple[Any, ...],
        buffer_size: int | None,
        line: ImapLine,
        progress: bool,
    ) -> AsyncGenerator[Any, None]:
        _ = self._link  # open, and in its loop
        shows_progress = wants_progress(progress)
        if not iterables:
            raise TypeError("imap() must have at least one iterable.")
        if buffer_size is not None and buffer_size < 1:
            raise ValueError(f"buffer_size must be at least 1, not {buffer_size}.")
        check_call(fn, (None,) * len(iterables), {})
        its_calls = self._client.new_map(map_tasks_of(iterables))
        submit, ahead = partial(self._submit, its_calls, fn), buffer_size or _BUFFER_SIZE
        source: Source | AsyncSource
        if isinstance(iterables[0], AsyncIterable):
            if len(iterables) > 1:
                raise TypeError("imap() takes several iterables, or one that is asynchronous.")
            source = AsyncSource(submit, iterables[0], line, ahead)
        else:
            source = Source(submit, zip(*iterables, strict=False), line, ahead)
        results = results_of(source, line)
        return progress_of_results(results, iterables, function_name(fn)) if shows_progress else results

    # ---- graphs, objects, locks --------------------------------------------------------------------------------------

    async def get(
        self,
        graph: Any,
        keys: Any,
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        *,
        progress: bool = False,
    ) -> Any:
        """Compute ``keys`` of a graph, and return a dict of results. See :meth:`scaler.Client.get`."""
        link, shows_progress = self._link, wants_progress(progress)
        try:
            return await call_in_thread(
                link, partial(self._client.get_and_wait, graph, keys, capabilities, shows_progress)
            )
        except BaseException as error:
            hide_frames(error)
            raise

    async def send_object(self, obj: T, name: str | None = None, *, shared: bool = True) -> ObjectReference[T]:
        """Send ``obj`` once, from another thread. See :meth:`scaler.Client.send_object`."""
        return await self._link.in_thread(partial(self._client.send_object, obj, name, shared=shared))

    async def scatter(self, values: Iterable[T], *, shared: bool = True) -> list[AsyncFuture[T]]:
        """Send each of the values once, from another thread, and return futures that stand for them in arguments. See
        :meth:`scaler.Client.scatter`."""
        link = self._link
        scattered = await link.in_thread(partial(self._client.scatter, values, shared=shared))
        return [AsyncFuture.of_scattered(link, each) for each in scattered]

    def lock(self, name: str) -> AsyncLock:
        """Create a lock that excludes all others of this name in the whole cluster, for ``async with``."""
        return AsyncLock(name, *self._parts)

    def semaphore(self, name: str, limit: int) -> AsyncSemaphore:
        """Create a semaphore with at most ``limit`` holders at a time in the whole cluster, for
        ``async with``."""
        return AsyncSemaphore(name, limit, *self._parts)

    def event(self, name: str) -> AsyncEvent:
        """Create an event of the whole cluster. All of this name are one event, also those of threads and tasks."""
        return AsyncEvent(name, *self._parts)

    def variable(self, name: str) -> AsyncVariable:
        """Create a variable of the whole cluster. All of this name have one value, also those of threads and tasks."""
        return AsyncVariable(name, *self._parts)

    def queue(self, name: str, maximum_size: int = 0) -> AsyncQueue:
        """Create a queue of the whole cluster. All of this name are one queue, also those of threads and tasks. All
        queues of one name must have the same maximum size; 0 means no limit."""
        return AsyncQueue(name, maximum_size, *self._parts)

    async def publish(self, /, **values: Any) -> None:
        """Publish values under names, for all clients of the cluster. See :meth:`scaler.Client.publish`."""
        await publish_all_async(*self._parts, values)

    async def published(self, name: str) -> Any:
        """The published value of this name. Raises KeyError if there is none."""
        return await AsyncPublishedValue(name, *self._parts).read()

    async def unpublish(self, name: str) -> None:
        """Remove a published value. Raises KeyError if there is none."""
        await AsyncPublishedValue(name, *self._parts).remove()

    async def list_published(self) -> list[str]:
        """The names of all published values, sorted."""
        return await published_names_async(*self._parts)

    def clear(self) -> None:
        """Cancel the tasks of this client and drop its objects. The client stays usable."""
        self._link.check()
        self._client.clear()

    # ---- the rest ----------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return self._opened.address

    @property
    def identity(self) -> bytes:
        """The name of this client in the cluster. See :attr:`scaler.Client.identity`."""
        return self._opened.identity

    async def explain(self, future: AsyncFuture[Any]) -> str:
        """Return where the task is and what it waits for."""
        if not isinstance(future, AsyncFuture):
            raise TypeError(f"Cannot explain {future!r}: it is not a future of an AsyncClient.")
        link = self._link
        check_own("explain the task", future, link.client_io)
        if future.has_ended:
            return "The task has ended." if not future.cancelled() else "The task was cancelled."
        answer = AnswerFuture(link)

        def ask(session: Session) -> str:
            if future.task_id:
                session.explain(future.task_id, answer)
                return ""
            return unsent_state(future.held_call)

        unsent = link.client_io.take_turn(ask)
        return unsent or bytes((await answer).payload).decode(errors="replace")

    async def stack(self, task: AsyncFuture[Any] | str) -> str:
        """Return where the execution of a task, or the task of a worker, is now. See :meth:`scaler.Client.stack`."""
        return await self._inquire(stack_inquiry(task, self._link.client_io))

    async def output(self, task: AsyncFuture[Any] | str, *, stream: str | None = None) -> str:
        """Return what a task, or the tasks of a worker, have printed so far. See :meth:`scaler.Client.output`."""
        inquiry = output_inquiry(task, stream, self._link.client_io)
        return "" if inquiry is None else await self._inquire(inquiry)

    def profile(self, interval_seconds: float = 0.02) -> AsyncProfile:
        """A profile of the tasks that run, on all hosts, for ``async with``. See :meth:`scaler.Client.profile`."""
        with late_import("make a profile"):
            from scaler.asynchronous.profile import AsyncProfile

        return AsyncProfile(self._inquire, self._link, self._profile_numbers, interval_seconds)

    async def cluster_info(self) -> ClusterInfo:
        """Describe the cluster at this moment. See :meth:`scaler.Client.cluster_info`."""
        with late_import("describe the cluster"):
            from scaler.client.cluster_info import info_of

        outcome = await self._ask(Questions.ask_cluster_info)
        if outcome.status != Status.SUCCESS:
            raise failure_of(outcome)
        return info_of(bytes(outcome.payload))

    async def n_workers(self) -> int:
        """The number of workers in the cluster now. See :attr:`scaler.Client.n_workers`, which is not called."""
        return len((await self.cluster_info()).workers)

    # ---- acting ------------------------------------------------------------------------------------------------------

    async def pause_workers(self, target: str) -> list[str]:
        """Give some workers no more tasks. See :meth:`scaler.Client.pause_workers`."""
        return await self._inquire(agents_of(ControlAction.PAUSE, target))

    async def resume_workers(self, target: str) -> list[str]:
        """Give paused workers tasks again. See :meth:`scaler.Client.resume_workers`."""
        return await self._inquire(agents_of(ControlAction.RESUME, target))

    async def drain_workers(self, target: str) -> list[str]:
        """Let agents end when their running tasks have ended. See :meth:`scaler.Client.drain_workers`."""
        return await self._inquire(agents_of(ControlAction.DRAIN, target))

    async def kill_worker(self, worker: str) -> None:
        """Kill the process of a worker. See :meth:`scaler.Client.kill_worker`."""
        await self._inquire(act_on_worker(ControlAction.KILL_WORKER, worker))

    async def restart_worker(self, worker: str) -> None:
        """Replace the process of a worker when its task has ended. See :meth:`scaler.Client.restart_worker`."""
        await self._inquire(act_on_worker(ControlAction.RESTART_WORKER, worker))

    async def cancel_tasks(
        self,
        *,
        client: str | None = None,
        function: str | None = None,
        task: int | None = None,
        graph: int | None = None,
    ) -> int:
        """Cancel unfinished tasks of another client or of a function, and return how many these are. See
        :meth:`scaler.Client.cancel_tasks`."""
        return await self._inquire(cancel_inquiry(client, function, task, graph))

    async def set_weight(self, weight: float, *, client: str | None = None, group: str | None = None) -> None:
        """Change the weight of another client or of a group. See :meth:`scaler.Client.set_weight`."""
        await self._inquire(weight_inquiry(weight, client, group))

    async def set_limit(self, workers: int, *, group: str) -> None:
        """Change how many workers a group uses at most; 0: any number. See :meth:`scaler.Client.set_limit`."""
        await self._inquire(limit_inquiry(workers, group))

    async def set_priority(self, priority: int, *, client: str | None = None, function: str | None = None) -> int:
        """Change the priority of tasks that wait, and return how many these are. See
        :meth:`scaler.Client.set_priority`."""
        return await self._inquire(priority_inquiry(priority, client, function))

    async def shutdown(self) -> None:
        """Stop scheduler and workers, and close this client. Raises ValueError when the scheduler is protected."""
        outcome = await self._ask(Questions.shut_down)
        text = bytes(outcome.payload).decode(errors="replace")
        if outcome.status == Status.EXCEPTION:
            raise ValueError(text)
        if outcome.status != Status.SUCCESS:
            raise DisconnectedError(text)
        await self.close()

    async def _ask(self, question: Callable[[Questions, Sink], None]) -> Outcome:
        answer = AnswerFuture(self._link)
        self._link.client_io.take_turn(lambda session: question(session.questions, answer))
        return await answer

    async def _inquire(self, inquiry: Inquiry[T]) -> T:
        return answer_in(inquiry, await self._ask(inquiry.ask))

    def __reduce__(self) -> NoReturn:
        raise TypeError("Cannot send an AsyncClient to a task: it belongs to an event loop. Make a client in the task.")

    def __repr__(self) -> str:
        return f"AsyncClient({self._client.address!r})" if "_client" in self.__dict__ else "AsyncClient()"

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def _link(self) -> LoopLink:
        """The link to the loop, checked: the client is open, and this is its loop."""
        link = self._open_link
        if link is None:
            _ = self._opened
            raise ClientQuitException(STOPPED)
        link.check()
        return link

    @property
    def _opened(self) -> InnerClient:
        """The client of threads behind this, which was opened and may be closed."""
        if "_client" not in self.__dict__:
            raise RuntimeError("This AsyncClient is not open. Use it in 'async with', or await its open().")
        return self._client

    @property
    def _parts(self) -> tuple[InnerClient, LoopLink]:
        """The client of threads behind this and its link, for locks and named values. Checked like the link."""
        link = self._link
        return self._client, link


def _stop_reading(link: LoopLink, client: InnerClient) -> None:
    """Stop reading, in the loop, for a client that was not closed. ``client`` keeps the connection until the loop does
    not watch it any more: its descriptor may be used again."""
    link.end_reading()
