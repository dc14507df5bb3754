"""The client: functions go to the cluster, results come back."""

from __future__ import annotations

import atexit
import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scaler.client import kits
from scaler.client.arguments import Arguments
from scaler.client.calls import (
    Encoder,
    FunctionBook,
    check_call,
    shape_of,
    takes_keyword,
)
from scaler.client.future import ScalerFuture
from scaler.client.graphs import get
from scaler.client.imap import ImapCall
from scaler.client.kits import Kit
from scaler.client.mapping import MapCall
from scaler.client.object_reference import ObjectReference
from scaler.client.options import (
    AMOUNT_LIMIT,
    PRIORITY_LIMIT,
    RETRIES_LIMIT,
    capabilities_of,
    duration,
    shared,
    whole_number,
)
from scaler.client.outcomes import failure_of
from scaler.client.progress import progress_bar
from scaler.client.serializer import PICKLE_PROTOCOL, DefaultSerializer, Serializer
from scaler.core.functions import Function, Shape
from scaler.core.outcome import Outcome, Sink
from scaler.core.session import Session
from scaler.core.uploads import Upload
from scaler.shell.connection import (
    SCHEDULER_VARIABLE,
    AgentConnection,
    Connection,
    is_far_from_agents,
    nested_socket,
    parent_task,
)
from scaler.shell.host_store import HostStore
from scaler.shell.pump import STOPPED, Pump
from scaler.shell.waiting import Answer
from scaler.utility.exceptions import ClientQuitException, DisconnectedError
from scaler_protocol.address import parse_address
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, make_hello
from scaler_protocol.ids import new_session
from scaler_protocol.messages import INLINE_LIMIT_BYTES, Role, Status, TaskName, TaskOptions
from scaler_protocol.objects.layout import Layout

if TYPE_CHECKING:
    from scaler_protocol.monitor.model import Model

_FIRST_ANSWER_SECONDS = 0.5
_dumps = pickle.dumps
_IMAP_BUFFER_SIZE = 4096


class Client:
    """Connects to a scheduler. Several threads may use one client; a forked process needs its own. Use it in ``with``,
    or call ``disconnect``.

    Without an address, inside a task, it uses that task's scheduler. There it connects when it is first used: most
    clients are arguments that are only passed on.

    ``timeout_seconds``: when the scheduler is out of reach for so long, what waits fails with DisconnectedError.
    ``stream_output``: what tasks write to ``sys.stdout`` and ``sys.stderr`` is written here, too. What subprocesses and
    C code write goes to the output of their cluster only. Of more than can be taken in some is left out, and a line
    says how much."""

    _arguments: Arguments
    _functions: FunctionBook
    _known: dict[int, tuple[Callable[..., Any], Function]]
    _pump: Pump

    def __init__(
        self,
        address: str | None = None,
        profiling: bool = False,
        timeout_seconds: float = 60,
        heartbeat_interval_seconds: float = 2,
        serializer: Serializer | type[Serializer] = DefaultSerializer(),  # noqa: B008  immutable
        stream_output: bool = False,
    ) -> None:
        self._address = address or os.environ.get(SCHEDULER_VARIABLE) or ""
        if not self._address:
            raise ValueError("Client() needs the address of a scheduler; only inside a task can it be left out.")
        parse_address(self._address)
        self._settings = (address, profiling, timeout_seconds, heartbeat_interval_seconds, serializer, stream_output)
        self._options = shared(TaskOptions(profiling=profiling, stream_output=stream_output))
        self._has_left = False
        _clients.add(self)
        if nested_socket(address) is None and not is_far_from_agents():
            self._open()
            self._await_answer()

    # ---- submit ----------------------------------------------------------------------------------------------------

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ScalerFuture:
        """Run ``fn(*args, **kwargs)`` on a worker. Raises TypeError at once when the arguments do not fit.
        ``profiling=True`` is an option of the task when ``fn`` takes no such parameter."""
        known = self._known.get(id(fn))
        function = known[1] if known is not None and known[0] is fn else self._functions.find(fn)
        if kwargs:
            return self._submit_keywords(fn, function, args, kwargs)
        shape = function.usual_shapes.get(len(args))
        if shape is None or known is None:
            check_call(fn, args, kwargs)
            shape = function.usual_shapes[len(args)] = shape_of(function, len(args), (), self._options)
        return self._send_call(shape, args)

    def submit_verbose(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        capabilities: Mapping[str, int] | Sequence[str] | None = None,
        priority: int = 0,
        retries: int = 0,
        rerun: bool = True,
        timeout_seconds: float | None = None,
        memory_bytes: int | None = None,
        profiling: bool | None = None,
    ) -> ScalerFuture:
        """Submit with options. ``retries``: how often it may run again after an exception of its own. ``rerun=False``:
        once started it is never started again, whatever dies."""
        options = self._make_options(capabilities, priority, retries, rerun, timeout_seconds, memory_bytes, profiling)
        keywords = dict(kwargs or {})
        check_call(fn, args, keywords)
        shape = shape_of(self._functions.find(fn), len(args) + len(keywords), tuple(keywords), options)
        return self._send_call(shape, (*args, *keywords.values()))

    def _submit_keywords(
        self, fn: Callable[..., Any], function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ScalerFuture:
        if "profiling" in kwargs and not takes_keyword(fn, "profiling"):
            profiled = kwargs.pop("profiling")
            return self.submit_verbose(fn, args, kwargs, profiling=profiled or None)
        key = (len(args), *kwargs)
        shape = function.usual_shapes.get(key)
        if shape is None or id(fn) not in self._known:
            check_call(fn, args, kwargs)
            shape = shape_of(function, len(args) + len(kwargs), tuple(kwargs), self._options)
            function.usual_shapes[key] = shape
        return self._send_call(shape, (*args, *kwargs.values()))

    def _send_call(self, shape: Shape, values: Sequence[Any], future: ScalerFuture | None = None) -> ScalerFuture:
        if len(values) == 1 and type(values[0]) in self._arguments.plain_types:
            slots = [_dumps(values[0], PICKLE_PROTOCOL)]
            size = len(slots[0])
        else:
            slots = self._arguments.encode(values)
            size = sum(map(len, slots))
        pump = self._pump
        if future is None:
            future = ScalerFuture(pump)
        if pump.is_mine():  # in some object's __del__
            pump.do_late(partial(self._send_late_call, shape, slots, future))
            return future
        if size > INLINE_LIMIT_BYTES:
            return self._send_large_call(shape, slots, future)
        if pump.unusable:
            pump.check_usable()
        session = pump.session
        with pump.lock:
            if pump.unusable:  # asked again: nothing may be added behind a disconnect
                pump.check_usable()
            try:
                added = session.add(shape, slots, size, future)
            except BaseException as error:
                pump.note_interruption(error)
                raise
            if not added:
                if pump.background_dozes:
                    pump.wake_background()
                return future
            pump.turn()
        if pump.background_reads and not session.submitted & 63:
            pump.wake_background()
        if pump.notices or pump.leading:
            pump.settle_notices()
        return future

    def _send_late_call(self, shape: Shape, payloads: Sequence[bytes | Layout | Upload], future: ScalerFuture) -> None:
        try:
            self._send_large_call(shape, payloads, future)
        except Exception as error:
            future.set_exception(error)

    def _send_large_call(
        self, shape: Shape, payloads: Sequence[bytes | Layout | Upload], future: ScalerFuture
    ) -> ScalerFuture:
        pump = self._pump
        pump.check_usable()
        held: list[Upload] = []
        try:
            slots, uploads, size = self._arguments.place(payloads, held)
            with pump.lock:
                pump.check_usable()
                pump.session.add(shape, slots, size, future)
                entry = future._range
                assert entry is not None
                if uploads:
                    pump.session.objects.refer(entry, future._index, uploads)
                pump.turn()
        finally:
            self._arguments.let_go(held)
        pump.settle_notices()
        return future

    # ---- map ---------------------------------------------------------------------------------------------------------

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        capabilities: Mapping[str, int] | Sequence[str] | None = None,
        priority: int = 0,
        retries: int = 0,
        rerun: bool = True,
        timeout_seconds: float | None = None,
        memory_bytes: int | None = None,
        profiling: bool | None = None,
        progress: bool = False,
    ) -> list[Any]:
        """Results in order. With exactly one iterable whose items are all tuples, each tuple is an argument list;
        otherwise as the built-in ``map``. The first failure is raised and the other tasks of this call are
        cancelled. ``progress`` shows a bar while it runs, on stderr or in the notebook; it needs tqdm."""
        options = self._make_options(capabilities, priority, retries, rerun, timeout_seconds, memory_bytes, profiling)
        if not iterables:
            raise TypeError("map() must have at least one iterable.")
        if len(iterables) == 1:
            items = list(iterables[0])
            if not (items and all(isinstance(item, tuple) for item in items)):
                return self._run_map(fn, [(1, items)] if items else [], options, progress)
        else:
            items = list(zip(*iterables, strict=False))
        return self._run_map(fn, _by_length(items), options, progress)

    def starmap(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        *,
        capabilities: Mapping[str, int] | Sequence[str] | None = None,
        priority: int = 0,
        retries: int = 0,
        rerun: bool = True,
        timeout_seconds: float | None = None,
        memory_bytes: int | None = None,
        profiling: bool | None = None,
        progress: bool = False,
    ) -> list[Any]:
        """As ``map``, each item being an argument list."""
        options = self._make_options(capabilities, priority, retries, rerun, timeout_seconds, memory_bytes, profiling)
        return self._run_map(fn, _by_length([tuple(item) for item in iterable]), options, progress)

    def _run_map(
        self,
        fn: Callable[..., Any],
        groups: Sequence[tuple[int, Sequence[Any]]],
        options: TaskOptions,
        progress: bool,
    ) -> list[Any]:
        self._pump.check_usable()
        if not groups:
            return []
        function = self._functions.find(fn)
        shaped = []
        for arity, items in groups:
            check_call(fn, (None,) * arity, {})
            shaped.append((shape_of(function, arity, (), options), items))
        count = sum(len(items) for _, items in groups)
        if not progress:
            return MapCall(self._arguments, self._pump, count).run(shaped)
        with progress_bar(count, function.name) as bar:
            return MapCall(self._arguments, self._pump, count, bar.update).run(shaped)

    def imap(self, fn: Callable[..., Any], *iterables: Iterable[Any], buffer_size: int | None = None) -> Iterator[Any]:
        """Lazy: takes from the iterables as results are taken, at most ``buffer_size`` ahead. Results in order; tuples
        are never unpacked."""
        return self._prepare_imap(fn, iterables, buffer_size).in_order()

    def imap_unordered(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], buffer_size: int | None = None
    ) -> Iterator[Any]:
        """As ``imap``, with results in the order in which tasks end."""
        return self._prepare_imap(fn, iterables, buffer_size).as_ended()

    def _prepare_imap(
        self, fn: Callable[..., Any], iterables: tuple[Iterable[Any], ...], buffer_size: int | None
    ) -> ImapCall:
        self._pump.check_usable()
        if not iterables:
            raise TypeError("imap() must have at least one iterable.")
        if buffer_size is not None and buffer_size < 1:
            raise ValueError(f"buffer_size must be at least 1, not {buffer_size}.")
        check_call(fn, (None,) * len(iterables), {})
        shape = shape_of(self._functions.find(fn), len(iterables), (), self._options)
        send = partial(self._send_call, shape)
        return ImapCall(self._pump, send, zip(*iterables, strict=False), buffer_size or _IMAP_BUFFER_SIZE)

    # ---- graphs ------------------------------------------------------------------------------------------------------

    def get(
        self,
        graph: Any,
        keys: Any,
        block: bool = True,
        capabilities: Mapping[str, int] | Sequence[str] | None = None,
        **dask_options: Any,
    ) -> Any:
        """Compute ``keys`` of a graph: a dict with string keys, in which a tuple whose first item is callable is a call
        with the names of nodes as its arguments, and all else is data. Gives a dict; ``block=False``: of futures.

        Also takes what ``dask.compute(..., scheduler=client)`` hands over: then results are nested as the keys are, and
        options of Dask's own schedulers are accepted."""
        return get(self, graph, keys, block, capabilities, dask_options)

    asynchronous = False
    """Dask asks this of whatever it is given as a scheduler."""

    # ---- objects -----------------------------------------------------------------------------------------------------

    def send_object(self, obj: Any, name: str | None = None) -> ObjectReference:
        """Send ``obj`` once; the reference stands for it as an argument or as an item of a map."""
        self._pump.check_usable()
        upload = self._arguments.upload(self._arguments.encode_object(obj))
        self._pump.take_turn()
        owner, number = upload.key
        return ObjectReference(name or f"<{type(obj).__name__}>", owner, number, upload)

    def clear(self) -> None:
        """Cancel this client's tasks and drop its objects. The client stays usable."""
        pump = self._pump
        pump.check_usable()
        with pump.lock:
            pump.session.clear()
            pump.turn()
        pump.settle_notices()

    # ---- the rest -----------------------------------------------------------------------------------------------

    @property
    def identity(self) -> bytes:
        """Names this client in the cluster: logs and monitors show its first four bytes. Whoever knows all of it, and
        has a key of the cluster's, can get what is sent to this client."""
        return self._pump.session.session

    @property
    def address(self) -> str:
        return self._address

    def explain(self, future: ScalerFuture) -> str:
        """Where the task is and what it waits for."""
        if future.done():
            return "The task has ended." if not future.cancelled() else "The task was cancelled."
        pump = self._pump
        pump.check_usable()
        answer = Answer(pump)
        with pump.lock:
            if not future.task_id:
                return "The task has not left the client yet: the scheduler has not taken what was sent before it."
            pump.session.explain(future.task_id, answer)
            pump.turn()
        pump.settle_notices()
        outcome = answer.wait(self._settings[2])
        return bytes(outcome.payload).decode(errors="replace")

    def cluster_info(self) -> Model:
        """What the monitors show, now: ``rows("workers")``, ``rows("functions")``, ... and ``snapshot``. It says
        nothing of single tasks, for which monitors listen all the time."""
        from scaler.client.cluster_info import model_of

        self._pump.check_usable()
        outcome = self._ask(self._pump.session.questions.ask_cluster_info)
        if outcome.status != Status.SUCCESS:
            raise failure_of(outcome)
        return model_of(bytes(outcome.payload))

    def disconnect(self) -> None:
        """Cancel what is unfinished and leave. May be called twice."""
        pump = self.__dict__.get("_pump")
        self._has_left = True
        if pump is not None and not self._leave():
            pump.close()

    def shutdown(self) -> None:
        """Stop scheduler and workers. Raises ValueError when the scheduler is protected."""
        self._pump.check_usable()
        outcome = self._ask(self._pump.session.questions.shut_down)
        text = bytes(outcome.payload).decode(errors="replace")
        if outcome.status == Status.EXCEPTION:
            raise ValueError(text)
        if outcome.status != Status.SUCCESS:
            raise DisconnectedError(text)
        self.disconnect()

    def _ask(self, question: Callable[[Sink], None]) -> Outcome:
        """Put a question to the scheduler and wait for what it says."""
        pump = self._pump
        answer = Answer(pump)
        with pump.lock:
            question(answer)
            pump.turn()
        pump.settle_notices()
        return answer.wait()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def __reduce__(self) -> tuple[Any, ...]:
        # In a task it connects anew, by way of that task's agent when it is the same scheduler.
        return Client, (self._address, *self._settings[1:])

    def __repr__(self) -> str:
        return f"Client({self._address!r})"

    def __del__(self) -> None:
        pump = self.__dict__.get("_pump")
        if pump is None or pump.unusable:
            return
        try:
            if not self._leave():
                pump.abandon()
        except BaseException as error:
            pump.abandon()
            if isinstance(error, Exception):  # an interrupt cannot leave from here: it need not be told
                raise

    # ---- inside -------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A client inside a task that is used for the first time."""
            if name not in _KIT:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._open()
            return self.__dict__[name]

    def _open(self) -> None:
        with _opening:
            if "_pump" in self.__dict__:
                return
            if self._has_left:
                raise ClientQuitException(STOPPED)
            agent = nested_socket(self._settings[0])
            kit = kits.take(self._kind(), parent_task()) if agent else None
            self._arguments, self._functions, pump = kit or self._make_kit(agent)
            self._known = self._functions.by_reference
            self._pump = pump

    def _make_kit(self, agent: str | None) -> Kit:
        _, _, timeout_seconds, heartbeat_interval_seconds, serializer, _ = self._settings
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
        )
        encoder = Encoder(serializer)
        connection: Connection = AgentConnection(agent) if agent else _scheduler_connection(self._address, identity)
        session = Session(
            hello,
            timeout_seconds=timeout_seconds,
            heartbeat_interval_seconds=heartbeat_interval_seconds,
            serializer=encoder.definition(),
            now=time.monotonic(),
            handshake=PeerHandshake(connection.place, os.urandom(NONCE_SIZE_BYTES)),
        )
        host_store = HostStore(lambda: session.cluster, agent is not None or parse_address(self._address).is_local)
        pump = Pump(session, connection, host_store, encoder.decode, encoder.decode_object)
        return Kit(Arguments(encoder, pump), FunctionBook(encoder), pump)

    def _leave(self) -> bool:
        """Leave the kit to the next client in this process, if it may be used again."""
        if not kits.leave(Kit(self._arguments, self._functions, self._pump), self._kind()):
            return False
        for name in _KIT:
            del self.__dict__[name]
        return True

    def _kind(self) -> Hashable:
        """Clients inside tasks may follow one another when this is equal."""
        _, profiling, timeout_seconds, heartbeat_interval_seconds, serializer, stream_output = self._settings
        definition = Encoder(serializer).definition()
        digest = definition.digest if definition is not None else b""
        return self._address, profiling, timeout_seconds, heartbeat_interval_seconds, digest, stream_output

    def _await_answer(self) -> None:
        """A refusal is said here. A scheduler that does not answer may come up later: then results wait for it."""
        answer = Answer(self._pump)
        with self._pump.lock:
            if self._pump.session.welcomed:
                return
            self._pump.session.questions.await_welcome(answer)
        try:
            outcome = answer.wait(_FIRST_ANSWER_SECONDS)
        except TimeoutError:
            return
        if outcome.status != Status.SUCCESS:
            self.disconnect()
            raise DisconnectedError(bytes(outcome.payload).decode(errors="replace"))

    def _make_options(
        self,
        capabilities: Mapping[str, int] | Sequence[str] | None,
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


def _scheduler_connection(address: str, session: bytes) -> Connection:
    from scaler.shell.scheduler_connection import SchedulerConnection  # processors do without

    return SchedulerConnection(address, session)


def _by_length(items: Sequence[tuple[Any, ...]]) -> list[tuple[int, Sequence[Any]]]:
    """Argument lists, grouped where neighbours have the same length; alone, one argument stands for itself."""
    groups: list[tuple[int, Sequence[Any]]] = []
    start = 0
    while start < len(items):
        length = len(items[start])
        stop = start + 1
        while stop < len(items) and len(items[stop]) == length:
            stop += 1
        part: Sequence[Any] = items[start:stop]
        groups.append((length, [item[0] for item in part] if length == 1 else part))
        start = stop
    return groups


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_opening = threading.RLock()  # not for long; the garbage collector may call a client that is being opened
_KIT = ("_arguments", "_functions", "_known", "_pump")


@atexit.register
def _disconnect_all() -> None:
    for client in list(_clients):
        client.disconnect()
