"""The client: sends functions to the cluster and gets their results."""

from __future__ import annotations

import atexit
import concurrent.futures
import itertools
import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, TypeVarTuple, Unpack, cast, overload

from scaler.client import client_pool
from scaler.client.actor_names import named_actor, named_handle
from scaler.client.actors import (
    ActorHandle,
    ActorParts,
    BorrowedActor,
    keep_actors_until_done,
    make_actor,
    pickled_actors,
)
from scaler.client.argument_lists import Groups, groups_of_items, groups_of_lists
from scaler.client.arguments import Arguments, Payload
from scaler.client.calls import Encoder, FunctionBook, MapCalls, shape_of
from scaler.client.client_pool import ClientParts
from scaler.client.event import Event
from scaler.client.executor import Executor
from scaler.client.fronts import task_future
from scaler.client.future import (
    FUTURE_TYPES,
    CallSink,
    FutureInArgument,
    ScalerFuture,
    cancel_futures,
    unsent_state,
)
from scaler.client.gathering import (
    Collection,
    ScatteredFuture,
    check_scattered,
    futures_in,
    futures_to_wait_for,
    gather,
    note_interrupted_wait,
)
from scaler.client.get import get
from scaler.client.imap import ImapCall
from scaler.client.inputs import InputCalls, wait_until_sent
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
from scaler.client.keyed import Identity, KeyedFutures, identity_of, take_identity
from scaler.client.lock import Lock
from scaler.client.map_items import ItemFailure
from scaler.client.mapping import MapCall
from scaler.client.module_changes import ModuleChanges
from scaler.client.named import NamedObject
from scaler.client.object_reference import ObjectReference
from scaler.client.options import (
    AMOUNT_LIMIT,
    PRIORITY_LIMIT,
    RETRIES_LIMIT,
    MapOptions,
    capabilities_of,
    duration,
    group_of,
    shared,
    weight_of,
    whole_number,
)
from scaler.client.outcomes import failure_of, hide_frames
from scaler.client.program_names import program_name, user_name
from scaler.client.progress import map_tasks_of, progress_bar, progress_of, progress_of_results, wants_progress
from scaler.client.published import PublishedValue, publish_all, published_names
from scaler.client.queue import Queue
from scaler.client.representations import table
from scaler.client.semaphore import Semaphore
from scaler.client.serializer import PICKLE_PROTOCOL, DefaultSerializer, Serializer
from scaler.client.shipping import environment_text, modules_of, sources_of
from scaler.client.signatures import TASK_OPTIONS, argument_list, check_call, function_name, takes_keyword
from scaler.client.variable import Variable
from scaler.core.outcome import Outcome, Sink
from scaler.core.questions import Questions
from scaler.core.runs import Function, Shape
from scaler.core.session import Session
from scaler.core.uploads import Upload
from scaler.shell.client_io import STOPPED, ClientIO
from scaler.shell.client_store import ClientStore
from scaler.shell.connection import (
    SCHEDULER_VARIABLE,
    ClientConnection,
    NestedConnection,
    is_far_from_agents,
    nested_socket,
    parent_task,
)
from scaler.shell.waiting import PendingAnswer
from scaler.utility.exceptions import ClientQuitException, DisconnectedError
from scaler.utility.late_imports import late_import
from scaler.utility.other_names import warn_of_effectless
from scaler_protocol.address import parse_address
from scaler_protocol.command.descriptors import require_descriptors
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, make_hello
from scaler_protocol.ids import new_session
from scaler_protocol.messages import INLINE_LIMIT_BYTES, ControlAction, Role, Status, TaskName, TaskOptions
from scaler_protocol.objects.proxies import is_private
from scaler_protocol.shipping.environments import Environment

if TYPE_CHECKING:
    from scaler.client.cluster_info import ClusterInfo
    from scaler.client.live_panel import LivePanel
    from scaler.client.profile import Profile

T = TypeVar("T")
F = TypeVar("F")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
Remote: TypeAlias = A | ScalerFuture[A]
"""An argument: the value, or a future of it."""

_FIRST_ANSWER_SECONDS = 0.5
_dumps = pickle.dumps
_DESCRIPTORS = 10
"""A client opens 9, and reads its token from a file meanwhile."""

_NESTED_DESCRIPTORS = 5
_IMAP_BUFFER_SIZE = 4096


class Client:
    """A connection to a scheduler. Several threads may share one client; a forked process needs its own. Use the
    client in a ``with`` statement, or call ``disconnect``.

    Inside a task, the address may be omitted: the client then uses the scheduler of the task, and connects when it is
    first used, because most clients inside tasks are arguments that are only passed on.

    ``timeout_seconds``: if the scheduler is out of reach for this long, waiting calls fail with DisconnectedError.
    ``group``: the clients with which this one shares the workers, by default those of its user; groups get equal shares
    of the running time. ``weight``: how much of its group's time this client gets, compared with the others in it.
    Clients inside tasks belong to the share of the client outside; their group and weight do not count.
    ``stream_output``: print the output of tasks in this program. If it arrives too fast, part of it is left out, and a
    line says how many bytes.
    ``modules``: local modules and packages whose source is sent to the workers, as it is now. Clients inside tasks have
    the modules of the client outside.
    ``environment``: packages, variables and a directory for the tasks, which run in worker processes of their own.
    Clients inside tasks have the environment of their task by default.
    ``object_storage_address`` and ``security_config`` have no effect: programs written for opengris-scaler pass
    them."""

    _arguments: Arguments
    _functions: FunctionBook
    _known: dict[int, tuple[Callable[..., Any], Function]]
    _client_io: ClientIO
    _inputs: InputCalls

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
        object_storage_address: str | None = None,
        security_config: object = None,
    ) -> None:
        warn_of_effectless("Client", object_storage_address=object_storage_address, security_config=security_config)
        self._address = address or os.environ.get(SCHEDULER_VARIABLE) or ""
        if not self._address:
            raise ValueError("Client() needs the address of a scheduler; only inside a task can it be left out.")
        parse_address(self._address)
        group_of(group)
        duration("timeout_seconds", timeout_seconds)
        duration("heartbeat_interval_seconds", heartbeat_interval_seconds)
        settings = (address, profiling, timeout_seconds, heartbeat_interval_seconds, serializer, stream_output)
        self._profile_numbers = itertools.count(1)
        self._settings = (*settings, group, weight_of(weight))
        sources = sources_of(modules)
        self._modules = modules_of(sources)
        self._on_function = ModuleChanges(sources).on_function if sources else None
        self._environment = environment_text(environment)
        self._options = shared(TaskOptions(profiling=profiling, stream_output=stream_output))
        self._has_left = False
        _clients.add(self)
        if nested_socket(address) is None and not is_far_from_agents():
            self._open()
            self._await_answer()

    # ---- submit ----------------------------------------------------------------------------------------------------

    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> ScalerFuture[T]: ...

    @overload
    def submit(  # type: ignore[overload-cannot-match]  # it is: by a function without this parameter
        self, fn: Callable[..., T], /, *args: Any, profiling: bool, **kwargs: Any
    ) -> ScalerFuture[T]: ...

    @overload
    def submit(  # type: ignore[overload-cannot-match]
        self, fn: Callable[..., T], /, *args: Any, key: Hashable, **kwargs: Any
    ) -> ScalerFuture[T]: ...

    @overload
    def submit(  # type: ignore[overload-cannot-match]
        self, fn: Callable[..., T], /, *args: Any, pure: bool, **kwargs: Any
    ) -> ScalerFuture[T]: ...

    @overload  # futures as arguments by position; elsewhere type checkers do not know them
    def submit(self, fn: Callable[[A], T], first: Remote[A], /) -> ScalerFuture[T]: ...

    @overload
    def submit(self, fn: Callable[[A, B], T], first: Remote[A], second: Remote[B], /) -> ScalerFuture[T]: ...

    @overload
    def submit(
        self, fn: Callable[[A, B, C], T], first: Remote[A], second: Remote[B], third: Remote[C], /
    ) -> ScalerFuture[T]: ...

    @overload
    def submit(
        self,
        fn: Callable[[A, B, C, D], T],
        first: Remote[A],
        second: Remote[B],
        third: Remote[C],
        fourth: Remote[D],
        /,
    ) -> ScalerFuture[T]: ...

    @overload
    def submit(self, fn: Callable[[list[A]], T], first: list[ScalerFuture[A]], /) -> ScalerFuture[T]: ...

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ScalerFuture[Any]:
        """Run ``fn(*args, **kwargs)`` on a worker. Raises TypeError at once if the arguments do not fit the signature.
        ``profiling``, ``key`` and ``pure`` are those of ``submit_verbose`` if ``fn`` has no parameter of that name."""
        future: ScalerFuture[Any] | None = None
        try:
            if kwargs and ("key" in kwargs or "pure" in kwargs):
                identity = take_identity(fn, kwargs)
                if identity is not None:
                    return self._keyed_call(identity, fn, args, kwargs, partial(self.submit, fn, *args, **kwargs))
            known = self._known.get(id(fn))
            function = known[1] if known is not None and known[0] is fn else self._functions.find(fn)
            shape: Shape | None
            if kwargs:
                shape, args = self._keyword_call(fn, function, args, kwargs)
            else:
                shape = function.usual_shapes.get(len(args))
                if shape is None:
                    check_call(fn, args, kwargs)
                    shape = function.usual_shapes[len(args)] = shape_of(function, len(args), (), self._options)
            future = ScalerFuture(self._client_io)
            self._send_call(fn, shape, args, future)
            return future
        except BaseException as error:
            self._give_up_call(error, future)
            raise

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
        reserialize: bool = False,
    ) -> ScalerFuture[T]:
        """Submit a task with options. ``retries``: how often the task may run again after an exception.
        ``rerun=False``: never start the task a second time, even if its process or its host dies. ``key``: if a future
        with this key is alive, it is returned, and no task is submitted. ``pure=True`` derives the key from the
        function and the arguments. ``reserialize`` has no effect: a function that has changed is serialized again in
        any case."""
        future: ScalerFuture[T] | None = None
        try:
            identity = identity_of(key, pure)
            if identity is not None:
                submit = partial(
                    self.submit_verbose,
                    fn,
                    args,
                    kwargs,
                    capabilities=capabilities,
                    priority=priority,
                    retries=retries,
                    rerun=rerun,
                    timeout_seconds=timeout_seconds,
                    memory_bytes=memory_bytes,
                    profiling=profiling,
                )
                return self._keyed_call(identity, fn, args, dict(kwargs or {}), submit)
            options = self._make_options(
                capabilities, priority, retries, rerun, timeout_seconds, memory_bytes, profiling
            )
            shape, values = self._call_with(fn, self._functions.find(fn), args, dict(kwargs or {}), options)
            future = ScalerFuture(self._client_io)
            self._send_call(fn, shape, values, future)
            return future
        except BaseException as error:
            self._give_up_call(error, future)
            raise

    def submit_as(
        self,
        future: CallSink,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        calls: MapCalls | None = None,
    ) -> None:
        """Submit a call whose future the caller has made. All keyword arguments belong to ``fn``. ``calls``: the call
        is one of these."""
        try:
            known = self._known.get(id(fn))
            function = known[1] if known is not None and known[0] is fn else self._functions.find(fn)
            key = (len(args), *kwargs) if kwargs else len(args)
            shape = function.usual_shapes.get(key) if calls is None else calls.find(function, key)
            if shape is None:
                check_call(fn, args, kwargs)
                arity, keywords = len(args) + len(kwargs), tuple(kwargs)
                if calls is not None:
                    shape = calls.add(function, key, arity, keywords)
                else:
                    shape = function.usual_shapes[key] = shape_of(function, arity, keywords, self._options)
            self._send_call(fn, shape, (*args, *kwargs.values()) if kwargs else args, future)
        except BaseException as error:
            self._give_up_call(error, future)
            raise

    def new_map(self, tasks: int = 0) -> MapCalls:
        """Return a map for ``submit_as``. Monitors show the progress of its calls. ``tasks``: how many calls there will
        be, or MAP_TASKS_UNKNOWN; 0: all are submitted at once."""
        return MapCalls(self._options, self._client_io.session.submissions.number_map(), tasks)

    def as_executor(self) -> Executor:
        """A :class:`concurrent.futures.Executor` that uses this client. Its ``shutdown`` waits for its own calls and
        leaves the client open."""
        return Executor.of_client(self)

    def _keyed_call(
        self,
        identity: Identity,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        submit: Callable[[], F],
    ) -> F:
        """The future of the call with this identity; ``submit`` makes it if there is none."""
        self._client_io.check_usable()
        key = identity.key
        if identity.is_pure:
            function = self._functions.find(fn)
            key = self._pure_key(fn, function, (*args, *kwargs.values()), tuple(kwargs))
        return self._keyed.future_of(key, submit)

    def _pure_key(
        self, fn: Callable[..., Any], function: Function, values: Sequence[Any], keywords: Sequence[str]
    ) -> Hashable:
        """The key of a call with ``pure=True``. Raises what pickling an argument raises, with its name."""
        try:
            return self._keyed.pure_key(self._arguments, function, values, keywords)
        except Exception as error:
            raise self._arguments.explain(error, fn, values, keywords) from None

    def _keyword_call(
        self, fn: Callable[..., Any], function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Shape, tuple[Any, ...]]:
        if "profiling" in kwargs and not takes_keyword(fn, "profiling"):
            profiled = kwargs.pop("profiling")
            options = shared(replace(self._options, profiling=profiled)) if profiled else self._options
            return self._call_with(fn, function, args, kwargs, options)
        key = (len(args), *kwargs)
        shape = function.usual_shapes.get(key)
        if shape is not None:
            return shape, (*args, *kwargs.values())
        shape, values = self._call_with(fn, function, args, kwargs, self._options)
        function.usual_shapes[key] = shape
        return shape, values

    def _call_with(
        self,
        fn: Callable[..., Any],
        function: Function,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> tuple[Shape, tuple[Any, ...]]:
        """Check a call. Returns its shape, and its values in order."""
        if type(args) is not tuple:
            args = argument_list(args)
        check_call(fn, args, kwargs, TASK_OPTIONS)
        shape = shape_of(function, len(args) + len(kwargs), tuple(kwargs), options)
        return shape, (*args, *kwargs.values())

    def _give_up_call(self, error: BaseException, future: CallSink | None) -> None:
        """Cancel the task of a call that ends by ``error``, so that no caller gets its future."""
        if future is not None:
            cancel_futures(self._client_io, (future,))
        hide_frames(error)

    def _send_call(self, fn: Callable[..., Any], shape: Shape, values: Sequence[Any], future: CallSink) -> None:
        if len(values) == 1 and type(values[0]) in self._arguments.plain_types:
            slots = [_dumps(values[0], PICKLE_PROTOCOL)]
            size = len(slots[0])
        elif values and (type(values[0]) in FUTURE_TYPES or type(values[-1]) in FUTURE_TYPES):
            # the usual places; in others an exception says so, which costs more
            self._send_with_inputs(fn, shape, values, future)
            return
        else:
            try:
                slots = self._arguments.encode(values)
            except FutureInArgument:
                self._send_with_inputs(fn, shape, values, future)
                return
            except Exception as error:
                raise self._arguments.explain(error, fn, values, shape.keywords) from None
            size = sum(map(len, slots))
            if pickled_actors:
                future = task_future(future)
                keep_actors_until_done(future)
        client_io = self._client_io
        if client_io.is_mine():
            client_io.defers(partial(self._send_late_call, shape, slots, task_future(future)))
            return
        if size > INLINE_LIMIT_BYTES:
            self._send_large_call(shape, slots, future)
            return
        if client_io.unusable:
            client_io.check_usable()
        submissions = client_io.session.submissions
        with client_io.lock:
            if client_io.unusable:  # again: nothing may be added after a disconnect
                client_io.check_usable()
            try:
                added = submissions.add(shape, slots, size, future)
            except BaseException as error:
                client_io.note_interruption(error)
                raise
            if not added:
                if client_io.background.dozes:
                    client_io.background.wake()
                return
            client_io.turn()
        if client_io.background.reads and not submissions.submitted & 63:
            client_io.background.wake()
        if client_io.notices or client_io.leading:
            client_io.settle_after_call()

    def _send_with_inputs(self, fn: Callable[..., Any], shape: Shape, values: Sequence[Any], future: CallSink) -> None:
        if self._client_io.is_mine():
            self._client_io.defers(partial(self._inputs.send, fn, shape, values, task_future(future)))
        else:
            self._inputs.send(fn, shape, values, future)
        if pickled_actors:
            keep_actors_until_done(task_future(future))

    def _send_late_call(self, shape: Shape, payloads: Sequence[Payload], future: CallSink) -> None:
        try:
            self._send_large_call(shape, payloads, future)
        except Exception as error:
            future.set_exception(error)

    def _send_large_call(self, shape: Shape, payloads: Sequence[Payload], future: CallSink) -> None:
        self._client_io.check_usable()
        held: list[Upload] = []

        def add(session: Session) -> None:
            session.submissions.add(shape, slots, size, future)
            entry = future.task_range
            assert entry is not None
            if uploads:
                session.objects.refer(entry, future.task_index, uploads)

        try:
            slots, uploads, size = self._arguments.place(payloads, held)
            self._client_io.take_turn(add)
        finally:
            self._arguments.let_go(held)

    # ---- map ---------------------------------------------------------------------------------------------------------

    @overload
    def map(self, fn: Callable[[A], T], iterable: Iterable[A], /, **options: Unpack[MapOptions]) -> list[T]: ...

    @overload
    def map(
        self, fn: Callable[[*Ts], T], iterable: Iterable[tuple[*Ts]], /, **options: Unpack[MapOptions]
    ) -> list[T]: ...

    @overload
    def map(
        self, fn: Callable[[A, B], T], first: Iterable[A], second: Iterable[B], /, **options: Unpack[MapOptions]
    ) -> list[T]: ...

    @overload
    def map(
        self,
        fn: Callable[[A, B, C], T],
        first: Iterable[A],
        second: Iterable[B],
        third: Iterable[C],
        /,
        **options: Unpack[MapOptions],
    ) -> list[T]: ...

    @overload
    def map(
        self,
        fn: Callable[[A, B, C, D], T],
        first: Iterable[A],
        second: Iterable[B],
        third: Iterable[C],
        fourth: Iterable[D],
        /,
        **options: Unpack[MapOptions],
    ) -> list[T]: ...

    @overload
    def map(
        self,
        fn: Callable[[A, B, C, D, E], T],
        first: Iterable[A],
        second: Iterable[B],
        third: Iterable[C],
        fourth: Iterable[D],
        fifth: Iterable[E],
        /,
        **options: Unpack[MapOptions],
    ) -> list[T]: ...

    @overload
    def map(
        self,
        fn: Callable[..., T],
        first: Iterable[Any],
        second: Iterable[Any],
        third: Iterable[Any],
        fourth: Iterable[Any],
        fifth: Iterable[Any],
        sixth: Iterable[Any],
        /,
        *iterables: Iterable[Any],
        **options: Unpack[MapOptions],
    ) -> list[T]: ...

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        priority: int = 0,
        retries: int = 0,
        rerun: bool = True,
        timeout_seconds: float | None = None,
        memory_bytes: int | None = None,
        profiling: bool | None = None,
        progress: bool = False,
        reserialize: bool = False,
    ) -> list[Any]:
        """Return the results in order, like the built-in ``map``. One case differs: a single iterable whose items are
        all tuples (namedtuples do not count). Tuples of one item are argument lists. Longer tuples are argument lists
        if the signature of ``fn`` accepts them, and single arguments otherwise; if both are possible, a warning says
        so. ``starmap`` and ``imap`` never have to choose.

        The first failure is raised with a note that names its item, and the other tasks of this call are cancelled.
        ``progress`` shows a bar on stderr or in the notebook; it needs tqdm or rich. ``reserialize`` has no effect."""
        try:
            options = self._make_options(
                capabilities, priority, retries, rerun, timeout_seconds, memory_bytes, profiling
            )
            if not iterables:
                raise TypeError("map() must have at least one iterable.")
            if len(iterables) == 1:
                groups = groups_of_items(fn, list(iterables[0]))
            else:
                groups = groups_of_lists(list(zip(*iterables, strict=False)))
            return self._run_map("map", fn, groups, options, progress)
        except BaseException as error:
            hide_frames(error)
            raise

    def starmap(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        *,
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        priority: int = 0,
        retries: int = 0,
        rerun: bool = True,
        timeout_seconds: float | None = None,
        memory_bytes: int | None = None,
        profiling: bool | None = None,
        progress: bool = False,
        reserialize: bool = False,
    ) -> list[T]:
        """Like ``map``, but each item is an argument list."""
        try:
            options = self._make_options(
                capabilities, priority, retries, rerun, timeout_seconds, memory_bytes, profiling
            )
            return self._run_map("starmap", fn, groups_of_lists(list(map(tuple, iterable))), options, progress)
        except BaseException as error:
            hide_frames(error)
            raise

    def _run_map(
        self, method: str, fn: Callable[..., Any], groups: Groups, options: TaskOptions, progress: bool
    ) -> list[Any]:
        shows_progress = wants_progress(progress)
        self._client_io.check_usable()
        if not groups:
            return []
        function = self._functions.find(fn)
        shaped = []
        for arity, items in groups:
            check_call(fn, (None,) * arity, {})
            shaped.append((shape_of(function, arity, (), options), items))
        count = sum(len(items) for _, items in groups)
        try:
            if not shows_progress:
                return self._map_call(fn, count).run(shaped)
            with progress_bar(count, function.name) as bar:
                return self._map_call(fn, count, bar.update).run(shaped)
        except ItemFailure as caught:
            failure = caught.name_item(method, fn, groups)
        try:
            raise failure  # outside the handler above, whose exception would become its context
        finally:
            del failure  # no cycle through the traceback

    def _map_call(self, fn: Callable[..., Any], count: int, report: Callable[[int], object] | None = None) -> MapCall:
        send = partial(self._inputs.send, fn)
        return MapCall(fn, self._arguments, self._client_io, count, send, report)

    @overload
    def imap(
        self, fn: Callable[[A], T], iterable: Iterable[A], /, *, buffer_size: int | None = None, progress: bool = False
    ) -> Generator[T, None, None]: ...

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
    ) -> Generator[T, None, None]: ...

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
    ) -> Generator[T, None, None]: ...

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
    ) -> Generator[T, None, None]: ...

    def imap(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], buffer_size: int | None = None, progress: bool = False
    ) -> Generator[Any, None, None]:
        """Yield the results in order. The call is lazy: it takes from the iterables as results are taken, at most
        ``buffer_size`` items ahead. Tuples are never unpacked. ``progress`` as in ``map``, for results taken."""
        try:
            shows_progress = wants_progress(progress)
            results = self._prepare_imap(fn, iterables, buffer_size).in_order()
            return progress_of_results(results, iterables, function_name(fn)) if shows_progress else results
        except BaseException as error:
            hide_frames(error)
            raise

    @overload
    def imap_unordered(
        self, fn: Callable[[A], T], iterable: Iterable[A], /, *, buffer_size: int | None = None, progress: bool = False
    ) -> Generator[T, None, None]: ...

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
    ) -> Generator[T, None, None]: ...

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
    ) -> Generator[T, None, None]: ...

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
    ) -> Generator[T, None, None]: ...

    def imap_unordered(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], buffer_size: int | None = None, progress: bool = False
    ) -> Generator[Any, None, None]:
        """Like ``imap``, but yield the results in the order in which the tasks end."""
        try:
            shows_progress = wants_progress(progress)
            results = self._prepare_imap(fn, iterables, buffer_size).as_ended()
            return progress_of_results(results, iterables, function_name(fn)) if shows_progress else results
        except BaseException as error:
            hide_frames(error)
            raise

    def _prepare_imap(
        self, fn: Callable[..., Any], iterables: tuple[Iterable[Any], ...], buffer_size: int | None
    ) -> ImapCall:
        self._client_io.check_usable()
        if not iterables:
            raise TypeError("imap() must have at least one iterable.")
        if buffer_size is not None and buffer_size < 1:
            raise ValueError(f"buffer_size must be at least 1, not {buffer_size}.")
        check_call(fn, (None,) * len(iterables), {})
        shape = self.new_map(map_tasks_of(iterables)).add(self._functions.find(fn), len(iterables), len(iterables), ())
        send = partial(self._send_call, fn, shape)
        return ImapCall(self._client_io, send, zip(*iterables, strict=False), buffer_size or _IMAP_BUFFER_SIZE)

    # ---- graphs ------------------------------------------------------------------------------------------------------

    @overload
    def get(
        self,
        graph: dict[str, Any],
        keys: Iterable[str],
        block: Literal[True] = True,
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        *,
        progress: bool = False,
    ) -> dict[str, Any]: ...

    @overload
    def get(
        self,
        graph: dict[str, Any],
        keys: Iterable[str],
        block: Literal[False],
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
    ) -> dict[str, ScalerFuture[Any]]: ...

    @overload
    def get(
        self,
        graph: Any,
        keys: Any,
        block: bool = True,
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        **dask_options: Any,
    ) -> Any: ...

    def get(
        self,
        graph: Any,
        keys: Any,
        block: bool = True,
        capabilities: Mapping[str, float] | Sequence[str] | None = None,
        reserialize: bool = False,
        progress: bool = False,
        **dask_options: Any,
    ) -> Any:
        """Compute ``keys`` of a graph and return a dict of results, or of futures if ``block`` is False. A graph is a
        dict with string keys. A tuple whose first item is callable is a call, with the names of nodes as its arguments;
        everything else is data.

        This is also a scheduler for ``dask.compute(..., scheduler=client)``. Then the results are nested like the keys,
        and the options of Dask's own schedulers are accepted. ``progress`` as in ``map``, for the calls of a graph that
        the caller waits for. ``reserialize`` has no effect."""
        try:
            parts = ClientParts(self._arguments, self._functions, self._client_io)
            bar_of = self._graph_bar if wants_progress(progress) else None
            return get(parts, self._options, graph, keys, block, capabilities, dask_options, bar_of)
        except BaseException as error:
            hide_frames(error)
            raise

    def _graph_bar(self, futures: list[ScalerFuture[Any]]) -> AbstractContextManager[None]:
        return progress_of(futures, "get")

    def persist(self, collections: Any, *, optimize_graph: bool = True, **dask_options: Any) -> Any:
        """Begin to compute a collection of Dask, or each of a sequence, and return the same with futures for their
        values, which stay in the cluster. Dask calls this for ``persist``."""
        if isinstance(collections, Collection):
            return self.persist([collections], optimize_graph=optimize_graph, **dask_options)[0]
        try:
            with late_import("persist the collections"):
                from scaler.integrations.dask_persistence import persist

            self._client_io.check_usable()
            parts = ClientParts(self._arguments, self._functions, self._client_io)
            options = replace(self._options, shares_values=True)
            return persist(parts, options, collections, optimize_graph, **dask_options)
        except BaseException as error:
            hide_frames(error)
            raise

    def compute(self, collections: Any, *, sync: bool = False, optimize_graph: bool = True) -> Any:
        """Begin to compute a collection of Dask, or each of a sequence, and return a future for its whole value, or a
        list of futures. With ``sync`` wait, and return the values instead."""
        if isinstance(collections, Collection):
            return self.compute([collections], sync=sync, optimize_graph=optimize_graph)[0]
        try:
            with late_import("compute the collections"):
                from scaler.integrations.dask_collections import compute

            futures = compute(partial(self.get, block=False), collections, optimize_graph)
            return self.gather(futures) if sync else futures
        except BaseException as error:
            hide_frames(error)
            raise

    asynchronous = False
    """Dask reads this attribute of a scheduler."""

    # ---- actors ------------------------------------------------------------------------------------------------------

    def actor(self, cls: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> ActorHandle[T]:
        """Create an actor: an instance of ``cls`` that occupies a worker process of its own until it ends. Return a
        handle whose methods return futures. Wait for futures among the arguments, but not for the constructor: if it
        raises an exception, calls raise ActorDiedError with that exception as their cause."""
        try:
            self._client_io.check_usable()
            return make_actor(self._actor_parts(), cast("type[T]", cls), args, kwargs, self._options)
        except BaseException as error:
            hide_frames(error)
            raise

    def actor_verbose(
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
    ) -> ActorHandle[T]:
        """Create an actor with options. ``name``: other clients and tasks find the actor with ``get_actor`` until it
        ends. Raises ValueError if another actor has the name. ``max_restarts``: how often the actor is created again,
        with the same arguments and a new state, when its process or its host dies; -1 means always. Calls that had not
        ended raise ActorDiedError nevertheless; later calls reach the new instance. ``max_concurrency``: this many
        calls may run at the same time, in threads; they start in the order of their submission."""
        try:
            self._client_io.check_usable()
            options = self._make_options(capabilities, priority, 0, True, None, None, None)
            parts = self._actor_parts()
            make = partial(
                make_actor,
                parts,
                cast("type[T]", cls),
                args,
                dict(kwargs or {}),
                options,
                max_restarts,
                max_concurrency,
                name or "",
            )
            return make() if name is None else named_actor(self, name, make)
        except BaseException as error:
            hide_frames(error)
            raise

    def get_actor(self, name: str) -> ActorHandle[Any]:
        """Return a handle of the actor with this name, whichever client or task created it. The handle does not keep an
        actor of another client alive. Raises ValueError if there is no such actor."""
        try:
            return named_handle(self, name)
        except BaseException as error:
            hide_frames(error)
            raise

    # ---- objects -----------------------------------------------------------------------------------------------------

    def send_object(self, obj: T, name: str | None = None, *, shared: bool = True) -> ObjectReference[T]:
        """Send ``obj`` once. Pass the reference in its place as an argument or as an item of a map.

        A worker process loads it once, for all its tasks. Its arrays are read-only. If a task changes another part (a
        dict, a list), later tasks of that process see the change. With ``shared=False`` every task gets a copy of its
        own, whose arrays it may change."""
        self._client_io.check_usable()
        held: list[Upload] = []
        try:
            upload = self._arguments.upload(self._arguments.encode_object(obj, shared), held, shared)
            self._client_io.take_turn(lambda session: None)  # announce it now
            owner, number = upload.key
            return ObjectReference(name or f"<{type(obj).__name__}>", owner, number, upload)
        except BaseException as error:
            for upload in held:
                self._arguments.discard([upload.key])
            hide_frames(error)
            raise

    def scatter(self, values: Iterable[T], *, shared: bool = True) -> list[ScalerFuture[T]]:
        """Send each of the values once, and return futures that stand for them in arguments. ``shared`` as in
        ``send_object``. Raises TypeError for a text, a mapping or an array: pass ``[value]`` to send it as one."""
        try:
            check_scattered(values)
            return [ScatteredFuture(self._client_io, self.send_object(each, shared=shared), each) for each in values]
        except BaseException as error:
            hide_frames(error)
            raise

    # ---- futures -----------------------------------------------------------------------------------------------------

    @overload
    def gather(self, nested: dict[A, ScalerFuture[T]], *, progress: bool = False) -> dict[A, T]: ...

    @overload
    def gather(self, nested: list[ScalerFuture[T]], *, progress: bool = False) -> list[T]: ...

    @overload
    def gather(self, nested: Any, *, progress: bool = False) -> Any: ...

    def gather(self, nested: Any, *, progress: bool = False) -> Any:
        """Wait for all futures in lists, tuples, sets and dicts, at any depth, and return the same containers with
        their results. Collections of Dask are computed. Raises the first exception, in the order of the futures. An
        interruption (Ctrl-C) cancels the futures. ``progress`` as in ``map``."""
        try:
            if not wants_progress(progress):
                return gather(nested, self.get)
            with progress_of(futures_in(nested), "gather"):
                return gather(nested, self.get)
        except BaseException as error:
            hide_frames(error)
            raise

    def wait(
        self,
        futures: Iterable[ScalerFuture[T]],
        timeout: float | None = None,
        return_when: str = concurrent.futures.ALL_COMPLETED,
        *,
        progress: bool = False,
    ) -> concurrent.futures._base.DoneAndNotDoneFutures[T]:
        """``concurrent.futures.wait``, but Ctrl-C (KeyboardInterrupt) cancels the futures. A persisted collection of
        Dask stands for its futures. ``progress`` as in ``map``."""
        shows_progress = wants_progress(progress)
        futures = futures_to_wait_for(futures)
        try:
            if not shows_progress:
                return concurrent.futures.wait(futures, timeout, return_when)
            with progress_of(futures, "wait"):
                return concurrent.futures.wait(futures, timeout, return_when)
        except KeyboardInterrupt:
            note_interrupted_wait(futures)
            raise

    def lock(self, name: str) -> Lock:
        """Create a lock that excludes all others of this name in the whole cluster. Use it like ``threading.Lock``. It
        may be passed to tasks."""
        return Lock(name, self)

    def semaphore(self, name: str, limit: int) -> Semaphore:
        """Create a semaphore with at most ``limit`` holders at a time in the whole cluster. Use it like
        ``threading.Semaphore``. It may be passed to tasks. All semaphores of one name must have the same limit."""
        return Semaphore(name, limit, self)

    def event(self, name: str) -> Event:
        """Create an event of the whole cluster. All events of this name are one event. Use it like ``threading.Event``.
        It may be passed to tasks."""
        return Event(name, self)

    def variable(self, name: str) -> Variable:
        """Create a variable of the whole cluster. All variables of this name have one value. It may be passed to
        tasks."""
        return Variable(name, self)

    def queue(self, name: str, maximum_size: int = 0) -> Queue:
        """Create a queue of the whole cluster. All queues of this name are one queue. Use it like ``queue.Queue``. It
        may be passed to tasks. All queues of one name must have the same maximum size; 0 means no limit."""
        return Queue(name, maximum_size, self)

    # ---- published values --------------------------------------------------------------------------------------------

    def publish(self, /, **values: Any) -> None:
        """Publish values under names, for all clients of the cluster and their tasks, until they are unpublished. In
        place of a future, its result is published. Raises ValueError if a name is taken or a value too large; then
        none of the values is published."""
        publish_all(self, values)

    def published(self, name: str) -> Any:
        """The published value of this name. Raises KeyError if there is none."""
        return PublishedValue(name, self).read()

    def unpublish(self, name: str) -> None:
        """Remove a published value. Any client may do that. Raises KeyError if there is none."""
        PublishedValue(name, self).remove()

    def list_published(self) -> list[str]:
        """The names of all published values, sorted."""
        return published_names(self)

    def clear(self) -> None:
        """Cancel the tasks of this client and drop its objects. The client stays usable."""
        self._client_io.take_turn(Session.clear)

    # ---- the rest -----------------------------------------------------------------------------------------------

    @property
    def identity(self) -> bytes:
        """The name of this client in the cluster. Logs and monitors show its first four bytes. Keep it secret: a
        program that knows it and has a key of the cluster can receive the messages for this client."""
        return self._client_io.session.session

    @property
    def address(self) -> str:
        return self._address

    def explain(self, future: ScalerFuture[Any]) -> str:
        """Return where the task is and what it waits for."""
        if not isinstance(future, ScalerFuture):
            raise TypeError(f"Cannot explain {future!r}: it is not a future of a Scaler client.")
        check_own("explain the task", future, self._client_io)
        if future.done():
            return "The task has ended." if not future.cancelled() else "The task was cancelled."
        answer = PendingAnswer(self._client_io)

        def ask(session: Session) -> str:
            if future.task_id:
                session.explain(future.task_id, answer)
                return ""
            return unsent_state(future.held_call)

        unsent = self._client_io.take_turn(ask)
        if unsent:
            return unsent
        outcome = answer.wait(self._settings[2])
        return bytes(outcome.payload).decode(errors="replace")

    def stack(self, task: ScalerFuture[Any] | str) -> str:
        """Return the stack of a running task: its threads, with the innermost frame first, as Python's faulthandler
        prints them. The task is not disturbed, and may hold the GIL. In place of a future, ``task`` may be the name of
        a worker, as monitors show it; with keys, this requires ``admin.key``. Raises ``ControlError`` if the task is
        not running."""
        return self._inquire(stack_inquiry(task, self._client_io))

    def output(self, task: ScalerFuture[Any] | str, *, stream: str | None = None) -> str:
        """Return what a task has printed so far, from Python code, C code and subprocesses, in order of arrival. The
        task may be running or have ended. ``stream``: only ``"stdout"`` or only ``"stderr"``. In place of a future,
        ``task`` may be the name of a worker: then the latest output of its tasks, with the names of function and task
        at the beginning of each line; with keys, this requires ``admin.key``.

        The hosts of the workers keep the first 16 KiB and the last 48 KiB of the output of each task, and at most 16
        MiB of all tasks. The text is empty if nothing was printed or kept. It has no escape sequences or other control
        characters. Raises ``ControlError`` if there is no answer."""
        inquiry = output_inquiry(task, stream, self._client_io)
        return "" if inquiry is None else self._inquire(inquiry)

    def profile(self, interval_seconds: float = 0.02) -> Profile:
        """Return a profile of the running tasks on all hosts, by function, worker and client, down to each call. It
        records from ``start()`` to ``stop()``, or within a ``with`` block::

            with client.profile() as profile:
                client.map(price, trades)
            print(profile)                  # or profile.save("profile.html")

        While it records, each worker process samples the stack of its task at this interval, which costs less than 1 %
        of its time at 0.02 s. Other threads of the task, and code that is not Python, are not shown; their time counts
        for the call that waits for them. With keys, a client sees its own tasks only, unless it has ``admin.key``."""
        with late_import("make a profile"):
            from scaler.client.profile import Profile

        return Profile(self._inquire, self._profile_numbers, interval_seconds)

    def monitor(self, interval_seconds: float = 1.0) -> LivePanel:
        """Return a panel for a notebook, as the last value of a cell: tasks by state, alerts, the progress of
        functions, clients and graphs with estimates, and the longest-running tasks. It is updated at this interval
        while other cells run, until its ``stop()`` is called or this client disconnects."""
        with late_import("make a panel"):
            from scaler.client.live_panel import LivePanel

        if not 0.1 <= interval_seconds <= 3600:
            raise ValueError(f"Cannot refresh every {interval_seconds} s. Choose an interval from 0.1 to 3600 s.")
        return LivePanel(self.cluster_info, interval_seconds)

    def cluster_info(self) -> ClusterInfo:
        """Describe the cluster at this moment: ``workers``, ``tasks``, ``functions``, ``clients`` and more, as rows
        with named fields. It does not list single tasks; monitors do."""
        with late_import("describe the cluster"):
            from scaler.client.cluster_info import info_of

        outcome = self._ask(Questions.ask_cluster_info)
        if outcome.status != Status.SUCCESS:
            raise failure_of(outcome)
        return info_of(bytes(outcome.payload))

    def pause_workers(self, target: str) -> list[str]:
        """Stop giving tasks to some workers. Running tasks continue, and tasks that have not started go to other
        workers.

        ``target`` names a host, an agent, or a worker, which stands for all workers of its agent; ``cluster_info()``
        shows these names. The pause ends with ``resume_workers``, or when the scheduler restarts. Returns the names of
        the agents. Raises ``ControlError`` if nothing has this name, or if the key of this client is not
        ``admin.key``."""
        return self._inquire(agents_of(ControlAction.PAUSE, target))

    def resume_workers(self, target: str) -> list[str]:
        """Give tasks to paused workers again. ``target`` is that of ``pause_workers``."""
        return self._inquire(agents_of(ControlAction.RESUME, target))

    def drain_workers(self, target: str) -> list[str]:
        """Like ``pause_workers``, but the agents end when their running tasks have ended and other agents have fetched
        the results and values that only they have."""
        return self._inquire(agents_of(ControlAction.DRAIN, target))

    def kill_worker(self, worker: str) -> None:
        """Kill the process of the worker with this name, as monitors show it. Another process takes its place. The task
        that it was running runs again, unless its process has now died three times."""
        self._inquire(act_on_worker(ControlAction.KILL_WORKER, worker))

    def restart_worker(self, worker: str) -> None:
        """Replace the process of a worker when its task has ended. Tasks that it has not started go to others."""
        self._inquire(act_on_worker(ControlAction.RESTART_WORKER, worker))

    def cancel_tasks(
        self,
        *,
        client: str | None = None,
        function: str | None = None,
        task: int | None = None,
        graph: int | None = None,
    ) -> int:
        """Cancel unfinished tasks: those of another client, given by the beginning of its id as monitors show it, of
        all functions with a name, or, of a client, one ``task`` or ``graph``, given by its number. With keys, only
        tasks of clients with the same key, unless this client has ``admin.key``. Returns how many tasks these are.
        Raises ``ControlError`` if nothing has this name or number."""
        return self._inquire(cancel_inquiry(client, function, task, graph))

    def set_weight(self, weight: float, *, client: str | None = None, group: str | None = None) -> None:
        """Change how much of the running time another client gets within its group, or a group compared with others.
        The change lasts until the scheduler restarts, or until the client (or the last client of the group) leaves.
        With keys, this requires ``admin.key``."""
        self._inquire(weight_inquiry(weight, client, group))

    def set_limit(self, workers: int, *, group: str) -> None:
        """Change the maximum number of workers that a group uses; 0 means any number. Duration and permission are those
        of ``set_weight``."""
        self._inquire(limit_inquiry(workers, group))

    def set_priority(self, priority: int, *, client: str | None = None, function: str | None = None) -> int:
        """Change the priority of waiting tasks of another client, or of all functions with a name. Tasks that are
        submitted later have the priority of their call. Return the number of tasks changed. With keys, this requires
        ``admin.key``."""
        return self._inquire(priority_inquiry(priority, client, function))

    @property
    def n_workers(self) -> int:
        """The number of workers in the cluster now, including those that are starting. Each access asks the scheduler.
        Right after a cluster was started, its workers may still be joining."""
        return len(self.cluster_info().workers)

    def disconnect(self) -> None:
        """Cancel all unfinished tasks and disconnect from the scheduler. May be called twice."""
        client_io = self.__dict__.get("_client_io")
        self._has_left = True
        if client_io is not None and not self._leave():
            client_io.close()

    def shutdown(self) -> None:
        """Stop the scheduler and the workers. Raises ValueError if the scheduler is protected."""
        outcome = self._ask(Questions.shut_down)
        text = bytes(outcome.payload).decode(errors="replace")
        if outcome.status == Status.EXCEPTION:
            raise ValueError(text)
        if outcome.status != Status.SUCCESS:
            raise DisconnectedError(text)
        self.disconnect()

    def _ask(self, question: Callable[[Questions, Sink], None]) -> Outcome:
        """Put a question to the scheduler and wait for the answer."""
        answer = PendingAnswer(self._client_io)
        self._client_io.take_turn(lambda session: question(session.questions, answer))
        return answer.wait()

    def _inquire(self, inquiry: Inquiry[T]) -> T:
        return answer_in(inquiry, self._ask(inquiry.ask))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def __reduce__(self) -> tuple[Any, ...]:
        # In a task it connects again: through the agent of the task if the scheduler is the same.
        return Client, (self._address, *self._settings[1:])

    def __repr__(self) -> str:
        return f"Client({self._address!r})"

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        try:
            rows = self.cluster_info().facts()
        except Exception as error:
            rows = [("State", str(error))]
        return table(f"Scaler client of {self._address}", rows)

    def __del__(self) -> None:
        client_io = self.__dict__.get("_client_io")
        if client_io is None or client_io.unusable:
            return
        try:
            if not self._leave():
                client_io.abandon()
        except BaseException as error:
            client_io.abandon()
            if isinstance(error, Exception):  # an interrupt cannot leave __del__, and would only be printed
                raise

    # ---- inside -------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Connect a client inside a task that is used for the first time."""
            if name not in _PARTS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._open()
            return self.__dict__[name]

    def _open(self) -> None:
        with _opening:
            if "_client_io" in self.__dict__:
                return
            if self._has_left:
                raise ClientQuitException(STOPPED)
            agent = nested_socket(self._settings[0])
            parts = client_pool.reuse(self._kind(), parent_task()) if agent else None
            self._arguments, self._functions, client_io = parts or self._make_parts(agent)
            self._known = {} if self._on_function else self._functions.by_reference  # it is told of each call
            self._inputs = InputCalls(self._arguments, self._functions, client_io)
            self._keyed = KeyedFutures()
            self._client_io = client_io

    def _make_parts(self, agent: str | None) -> ClientParts:
        _, _, timeout_seconds, heartbeat_interval_seconds, serializer, _, group, weight = self._settings
        require_descriptors(_NESTED_DESCRIPTORS if agent else _DESCRIPTORS, "create a client")
        identity = new_session()
        parent = parent_task() if agent or is_far_from_agents() else TaskName(b"", 0, 0)
        hello = make_hello(
            Role.SUBMIT,
            identity,
            distribution="scaler-client",
            parent_session=parent.session,
            parent_task=parent.task,
            parent_attempt=parent.attempt,
            parent_depth=parent.depth,
            group=group_of(group),
            weight=weight,
            user=user_name(),
            program="" if parent.session else program_name(),
        )
        encoder = Encoder(serializer, is_private(self._address))
        connection: ClientConnection = NestedConnection(agent) if agent else _direct_connection(self._address, identity)
        session = Session(
            hello,
            timeout_seconds=timeout_seconds,
            heartbeat_interval_seconds=heartbeat_interval_seconds,
            serializer=encoder.definition(self._modules, self._environment),
            now=time.monotonic(),
            wall_offset_seconds=None if agent else time.time() - time.monotonic(),
            handshake=PeerHandshake(connection.place, os.urandom(NONCE_SIZE_BYTES)),
            address=self._address,
        )
        host_store = ClientStore(lambda: session.cluster, agent is not None or parse_address(self._address).is_local)
        client_io = ClientIO(session, connection, host_store, encoder.decode, encoder.decode_object)
        functions = FunctionBook(encoder, self._on_function)
        return ClientParts(Arguments(encoder, client_io), functions, client_io)

    def _leave(self) -> bool:
        """Return the parts to the pool for the next client of this process, if they can be used again."""
        if not client_pool.give_back(ClientParts(self._arguments, self._functions, self._client_io), self._kind()):
            return False
        for name in _PARTS:
            del self.__dict__[name]
        return True

    def _actor_parts(self) -> ActorParts:
        functions = self._functions
        return ActorParts(
            functions.encoder, functions, self._client_io, self._send_call, self._inputs.send, wait_until_sent
        )

    def _kind(self) -> Hashable:
        """The settings that a client inside a task must share with the previous user of the parts."""
        _, profiling, timeout_seconds, heartbeat_interval_seconds, serializer, stream_output, *_ = self._settings
        definition = Encoder(serializer).definition()
        digest = definition.digest if definition is not None else b""
        modules = tuple(each.digest for each in self._modules)
        shipped = modules, self._environment
        return self._address, profiling, timeout_seconds, heartbeat_interval_seconds, digest, stream_output, shipped

    def _await_answer(self) -> None:
        """Raise an exception if the scheduler refuses this client. A scheduler that does not answer may start later;
        then results wait for it."""
        answer = PendingAnswer(self._client_io)

        def ask(session: Session) -> bool:
            if not session.welcomed:
                session.questions.await_welcome(answer)
            return session.welcomed

        if self._client_io.take_turn(ask):
            return
        try:
            outcome = answer.wait(_FIRST_ANSWER_SECONDS)
        except TimeoutError:
            return
        if outcome.status != Status.SUCCESS:
            self.disconnect()
            raise DisconnectedError(bytes(outcome.payload).decode(errors="replace"))

    def _make_options(
        self,
        capabilities: Mapping[str, float] | Sequence[str] | None,
        priority: int,
        retries: int,
        rerun: bool,
        timeout_seconds: float | None,
        memory_bytes: int | None,
        profiling: bool | None,
    ) -> TaskOptions:
        base = self._options
        options = TaskOptions(
            priority=whole_number("priority", priority, -PRIORITY_LIMIT, PRIORITY_LIMIT),
            retries=whole_number("retries", retries, 0, RETRIES_LIMIT),
            rerun=bool(rerun),
            timeout_seconds=duration("timeout_seconds", timeout_seconds),
            memory_bytes=0 if memory_bytes is None else whole_number("memory_bytes", memory_bytes, 0, AMOUNT_LIMIT),
            profiling=base.profiling if profiling is None else bool(profiling),
            stream_output=base.stream_output,
            capabilities=capabilities_of(capabilities),
        )
        return shared(options)


def _direct_connection(address: str, session: bytes) -> ClientConnection:
    with late_import("create a client"):  # loads ZeroMQ, which worker processes need not
        from scaler.shell.direct_connection import DirectConnection

    return DirectConnection(address, session)


def _client_for(session: bytes) -> Client:
    """The client of this session, if it is in this process; otherwise one for the task that runs here."""
    for client, client_io in _open_clients():
        if client_io.session.session == session:
            return client
    if nested_socket(None) is None and not is_far_from_agents():
        raise RuntimeError(
            "Cannot call the actor here: the client that has made it is not in this process, or has ended. Use "
            "client.get_actor(name), or call it in a task."
        )
    return Client()


def _client_of(client_io: ClientIO) -> Client | None:
    """The open client that uses this input and output."""
    return next((client for client, its in _open_clients() if its is client_io), None)


def _open_clients() -> Iterator[tuple[Client, ClientIO]]:
    for client in list(_clients):
        client_io = client.__dict__.get("_client_io")
        if client_io is not None and not client_io.unusable:
            yield client, client_io


NamedObject.default_client = Client
BorrowedActor.client_of = _client_of
BorrowedActor.client_for = _client_for
Executor.default_client = Client
_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_opening = threading.RLock()  # reentrant: the garbage collector may call a client that is being opened
_PARTS = ("_arguments", "_functions", "_known", "_inputs", "_keyed", "_client_io")


def _renew_lock() -> None:
    """Replace the lock in a forked child, because another thread of the parent may have held it."""
    global _opening
    _opening = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@atexit.register
def _disconnect_all() -> None:
    for client in list(_clients):
        client.disconnect()
