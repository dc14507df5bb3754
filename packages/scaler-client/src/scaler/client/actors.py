"""Actors: instances of classes that live in worker processes of their own.

The task that makes an actor, its *anchor*, runs until the actor ends. Each call of a method is a task that names the
anchor. The anchor is cancelled when no handle of the actor and no unfinished call is left.
"""

from __future__ import annotations

import inspect
import threading
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from scaler.client.calls import Encoder, FunctionBook, shape_of
from scaler.client.future import ScalerFuture, UnsentCall, cancel_futures, first_unsent
from scaler.client.inputs import ForeignInput
from scaler.client.options import shared, whole_number
from scaler.client.outcomes import actor_died
from scaler.client.signatures import ACTOR_OPTIONS, check_call, function_module, function_name, sendable_name
from scaler.core.outcome import Outcome
from scaler.core.runs import Function, Shape
from scaler.shell.client_io import ClientIO
from scaler_protocol.limits import ACTOR_CONCURRENCY_LIMIT
from scaler_protocol.messages import Status, TaskOptions

if TYPE_CHECKING:
    from scaler.core.session import Session

T = TypeVar("T")
C = TypeVar("C", bound="ActorCall[Any]")
_DEATHS = (Status.PROCESSOR_DIED, Status.WORKER_DIED, Status.NOT_FOUND)

UNLIMITED_RESTARTS = 2**31 - 1
RESTARTS_LIMIT = 250

SendCall = Callable[[Callable[..., Any], Shape, Sequence[Any], ScalerFuture[Any]], None]
SendCallBehind = Callable[[Callable[..., Any], Shape, Sequence[Any], ScalerFuture[Any], UnsentCall], None]
"""Sends a call when another one, the last argument, has been sent."""

SendLater = Callable[[str, ScalerFuture[Any], Callable[[], object], UnsentCall | None], None]
"""Lets another thread call the function, which pickles the arguments of a method of this name and sends its call, not
before the last argument."""


_own_actors: weakref.WeakValueDictionary[tuple[bytes, int], Actor] = weakref.WeakValueDictionary()
"""The actors that clients of this process have made."""

pickled_actors: dict[int, set[weakref.ref[Actor]]] = {}
"""By thread, the actors whose handles were pickled since its last call with handles as arguments."""


class ActorParts(NamedTuple):
    """The parts of a client that its actors use."""

    encoder: Encoder
    functions: FunctionBook
    client_io: ClientIO
    send: SendCall
    send_behind: SendCallBehind
    wait_until_sent: Callable[[ScalerFuture[Any]], None]


class MethodName(str):
    """The name of class and method, in the place of a function: workers find the method in their instance."""

    def __init__(self, name: str) -> None:
        self.__qualname__ = name

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class ActorCall(ScalerFuture[T]):
    """The future of a call. Until it ends, it keeps the actor alive."""

    _actor: Actor | None = None

    def __init__(self, client_io: ClientIO, actor: Actor) -> None:
        self._client_io = client_io
        self._actor = actor
        self._anchor = actor.anchor
        self._class_name = function_name(actor.cls)
        self._restarts = actor.restarts

    def settle(self, outcome: Outcome) -> bool:
        if not super().settle(outcome):
            return False
        self._actor = None
        return True

    def finish(self, outcome: Outcome) -> None:
        super().finish(outcome)
        self._actor = None

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        self._actor = None

    def _failure(self, outcome: Outcome) -> BaseException:
        if outcome.status not in _DEATHS:
            return super()._failure(outcome)
        anchor = None if self._anchor is None or self._anchor.is_unsettled else self._anchor
        return self._with_note(actor_died(self._class_name, outcome, anchor, self._restarts))


class Actor:
    """One actor, as its client sees it: the handle and the unfinished calls share it, and the actor ends with it.
    ``name``: the session and the number of its anchor. ``anchor``: None if it is an actor of another client.
    ``restarts``: how often it may be made again."""

    def __init__(
        self,
        cls: type,
        name: tuple[bytes, int],
        anchor: ScalerFuture[Any] | None,
        options: TaskOptions,
        parts: ActorParts,
        restarts: int = 0,
    ) -> None:
        self.cls = cls
        self.name = name
        self.anchor = anchor
        self.restarts = restarts
        if anchor is not None:
            _own_actors[name] = self
        self._client_io = parts.client_io
        self._options = options
        self._parts = parts
        self._last_held: UnsentCall | None = None
        self._shapes: dict[tuple[object, ...], tuple[Any, Shape]] = {}
        self._functions: dict[str, Function] = {}

    def call(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        future_type: type[C] = ActorCall,  # type: ignore[assignment]
        send_later: SendLater | None = None,
    ) -> C:
        """Submit a call of a method."""
        method, shape = self._shapes.get((name, len(args), *kwargs)) or self._new_shape(name, args, kwargs)
        future = future_type(self._client_io, self)
        values = (*args, *kwargs.values()) if kwargs else args
        last = self._last_held and first_unsent(self._last_held)
        try:
            if send_later is not None:
                send_later(method, future, self._sender(last, method, shape, values, future), last)
            elif last is not None:
                self._parts.send_behind(method, shape, values, future, last)
            else:
                self._parts.send(method, shape, values, future)
        except BaseException:
            future._actor = None
            raise
        self._last_held = future.held_call or last
        return future

    def _sender(
        self, last: UnsentCall | None, method: Any, shape: Shape, values: Sequence[Any], future: ScalerFuture[Any]
    ) -> Callable[[], None]:
        """Sends a call in another thread, but not before ``last``."""
        if last is None:
            return partial(self._parts.send, method, shape, values, future)
        return partial(self._parts.send_behind, method, shape, values, future, last)

    def _new_shape(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Shape]:
        defined = inspect.getattr_static(self.cls, name, None)
        if type(defined) is types.FunctionType:
            check_call(defined, (None, *args), kwargs)
        method = MethodName(f"{function_name(self.cls)}.{name}")
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = Function(
                sendable_name(method), self._parts.encoder.encode(method), module=function_module(self.cls)
            )
        shape = shape_of(function, len(args) + len(kwargs), tuple(kwargs), self._options)
        self._shapes[name, len(args), *kwargs] = method, shape
        return method, shape

    def end(self) -> None:
        """End the actor: its process is killed, and unfinished calls fail."""
        if self.anchor is None:
            raise RuntimeError("Cannot end the actor here: only the client that has made it can do that.")
        self.anchor.cancel()

    def __del__(self) -> None:
        anchor = self.anchor
        if anchor is not None and anchor.is_unsettled and not self._client_io.unusable:
            anchor.cancel()


class ActorClient(Protocol):
    """The part of a client that a received handle needs."""

    def _actor_parts(self) -> ActorParts: ...


class BorrowedActor:
    """An actor whose handle was received. It does not end with the handles here. If no client was chosen before, its
    first call chooses one: that which has made the actor, if it is in this process, and otherwise one of the running
    task. A call with futures of another client chooses that client, unless earlier calls have not ended, which it
    might overtake."""

    client_for: ClassVar[Callable[[bytes], ActorClient]]
    """The client for an actor that this session has made."""

    client_of: ClassVar[Callable[[ClientIO], ActorClient | None]]
    """The client that uses this input and output, if it is open."""

    def __init__(self, cls: type, name: tuple[bytes, int]) -> None:
        self.cls = cls
        self.name = name
        self._opening = threading.Lock()
        self._client: ActorClient | None = None
        self._actor: Actor | None = None
        self._moved_to: ClientIO | None = None  # of the client of a future, which may be closed before the next call
        self._last_call: Callable[[], ScalerFuture[Any] | None] = _no_call

    def call(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        future_type: type[C] = ActorCall,  # type: ignore[assignment]
        send_later: SendLater | None = None,
    ) -> C:
        """Submit a call of a method."""
        try:
            future = self._connected().call(name, args, kwargs, future_type, send_later)
        except ForeignInput as error:
            self._move(error)
            future = self._connected().call(name, args, kwargs, future_type, send_later)
        self._last_call = weakref.ref(future)
        return future

    def use(self, client: ActorClient) -> None:
        """Let its calls go through this client."""
        self._client = client

    def end(self) -> None:
        self._connected().end()

    def _connected(self) -> Actor:
        with self._opening:
            if self._moved_to is not None and BorrowedActor.client_of(self._moved_to) is not self._client:
                self._client = self._actor = self._moved_to = None
            if self._actor is None:
                self._client = self._client or BorrowedActor.client_for(self.name[0])
                options = TaskOptions(actor=self.name[1], actor_session=self.name[0], rerun=False)
                self._actor = Actor(self.cls, self.name, None, options, self._client._actor_parts())
            return self._actor

    def _move(self, error: ForeignInput) -> None:
        """Let later calls go through the client of the future that was an argument."""
        with self._opening:
            last, client = self._last_call(), BorrowedActor.client_of(error.client_io)
            if client is None:
                raise error
            if last is not None and not last.done():
                raise error.of_call_behind_others()
            self._client, self._actor, self._moved_to = client, None, error.client_io


def _no_call() -> None:
    """Before the first call."""


class ActorMethod(Generic[T]):
    """A method of an actor. A call returns a future."""

    __slots__ = ("_actor", "_name")

    def __init__(self, actor: Actor | BorrowedActor, name: str) -> None:
        self._actor = actor
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> ScalerFuture[T]:
        return self._actor.call(self._name, args, kwargs)

    def submit(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        future_type: type[C],
        send_later: SendLater | None = None,
    ) -> C:
        """Call the method. The future is of this type."""
        return self._actor.call(self._name, args, kwargs, future_type, send_later)

    def __repr__(self) -> str:
        return f"<method {self._name} of an actor of {function_name(self._actor.cls)}>"


_NOT_METHODS = "__", "_repr_", "_ipython_"
"""Names that Python, and notebooks, look for in every object, start like this."""


class ActorHandle(Generic[T]):
    """An actor of class ``T``. Its methods return futures of the results. The calls of one client run in the order in
    which they were submitted, one at a time; with ``max_concurrency`` they start in this order. The actor ends when its
    last handle is gone and its calls have ended, when its client leaves, or by ``kill``; then its process ends, without
    a further call of the instance."""

    __slots__ = ("_actor", "__weakref__")

    def __init__(self, actor: Actor | BorrowedActor) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> ActorMethod[Any]:
        cls = self._actor.cls
        if name.startswith(_NOT_METHODS) or not (hasattr(cls, name) or hasattr(cls, "__getattr__")):
            raise AttributeError(f"{function_name(cls)!r} object has no method {name!r}", name=name, obj=self)
        return ActorMethod(self._actor, name)

    def kill(self) -> None:
        """End the actor now. Unfinished calls, and later ones, raise ActorDiedError."""
        self._actor.end()

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._actor, Actor):
            pickled_actors.setdefault(threading.get_ident(), set()).add(weakref.ref(self._actor))
        return received_handle, (self._actor.cls, self._actor.name)

    def __repr__(self) -> str:
        return f"<actor of {function_name(self._actor.cls)}, task {self._actor.name[1]}>"


def received_handle(cls: type[T], name: tuple[bytes, int]) -> ActorHandle[T]:
    """A handle that was an argument, a result, or a part of one."""
    return ActorHandle(_own_actors.get(name) or BorrowedActor(cls, name))


def take_pickled_actors() -> list[Actor]:
    """The actors of this process whose handles this thread has pickled since the last call."""
    references = pickled_actors.pop(threading.get_ident(), ())
    return [actor for actor in (reference() for reference in references) if actor is not None]


def keep_actors_until_done(future: ScalerFuture[Any]) -> None:
    """The call of this future has handles as arguments, or as parts of them: these actors do not end before it."""
    kept = take_pickled_actors()
    if kept:
        future.add_done_callback(lambda _: kept.clear())


def make_actor(
    parts: ActorParts,
    cls: type[T],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: TaskOptions,
    max_restarts: int = 0,
    max_concurrency: int = 1,
    name: str = "",
) -> ActorHandle[T]:
    """Make an actor. Waits for futures among the arguments. ``options``: those of the task that makes the actor.
    ``name``: for monitors."""
    if not inspect.isclass(cls):
        raise TypeError(f"Cannot make an actor of {cls!r}: it is not a class.")
    check_call(cls, args, kwargs, ACTOR_OPTIONS)
    restarts = restarts_of(max_restarts)
    concurrency = concurrency_of(max_concurrency)
    several = concurrency if concurrency > 1 else 0
    rerun = restarts > 0
    making = replace(options, hosts_actor=True, rerun=rerun, retries=restarts, max_concurrency=several, actor_name=name)
    anchoring = shared(making)
    shape = shape_of(parts.functions.find(cls), len(args) + len(kwargs), tuple(kwargs), anchoring)
    anchor: ScalerFuture[Any] = ScalerFuture(parts.client_io)
    try:
        parts.send(cls, shape, (*args, *kwargs.values()), anchor)
        task = _sent_task(parts, anchor)
    except BaseException:
        cancel_futures(parts.client_io, (anchor,))
        raise
    calling = TaskOptions(profiling=options.profiling, stream_output=options.stream_output, actor=task, rerun=False)
    return ActorHandle(Actor(cls, (parts.client_io.session.session, task), anchor, calling, parts, restarts))


def _sent_task(parts: ActorParts, anchor: ScalerFuture[Any]) -> int:
    """The number of the task that makes the actor. Waits for futures among its arguments."""
    parts.wait_until_sent(anchor)

    def number(session: Session) -> int:
        session.submissions.close_batch()
        return anchor.task_id

    task = parts.client_io.take_turn(number)
    if not task:
        if anchor.done():
            anchor.result()  # raises what an argument has raised
        raise RuntimeError("Cannot make an actor here: the garbage collector has interrupted the client.")
    return task


def concurrency_of(max_concurrency: int) -> int:
    """Return how many calls may run at the same time. Raises TypeError or ValueError for anything but such a number."""
    return whole_number("max_concurrency", max_concurrency, 1, ACTOR_CONCURRENCY_LIMIT)


def restarts_of(max_restarts: int) -> int:
    """Return how often an actor may be made again. Raises TypeError or ValueError for anything but such a number."""
    if max_restarts == -1:
        return UNLIMITED_RESTARTS
    return whole_number("max_restarts", max_restarts, 0, RESTARTS_LIMIT)
