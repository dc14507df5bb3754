"""The client behind an AsyncClient: its calls that may wait run in other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from scaler.asynchronous.future import AsyncFuture
from scaler.asynchronous.tasks import LoopTask, PureTask, send_unless_settled
from scaler.asynchronous.thread_call import arm
from scaler.client.actors import ActorParts
from scaler.client.arguments import Payload
from scaler.client.client import Client
from scaler.client.fronts import task_future
from scaler.client.future import CallSink, ScalerFuture, cancel_futures
from scaler.client.inputs import wait_until_sent
from scaler.client.keyed import Identity
from scaler.client.mapping import MapCall
from scaler.core.outcome import CANCELLED
from scaler.core.runs import Shape
from scaler_protocol.messages import TaskOptions

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.shell.client_io import ClientIO


class InnerClient(Client):
    link: LoopLink

    def open(self) -> ClientIO:
        """Connect, where a client inside a task has not done so."""
        return self._client_io

    # ---- submit, in the loop ---------------------------------------------------------------------------------------

    def submit_later(self, future: ScalerFuture[Any], send: Callable[[], object]) -> None:
        """Send a call, in another thread."""
        send_unless_settled(self._client_io, future, send)

    def call_of(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Shape, tuple[Any, ...]]:
        """The shape and the values of a call with keyword arguments. ``profiling`` is an option if ``fn`` has no
        parameter of this name."""
        return self._keyword_call(fn, self._functions.find(fn), args, kwargs)

    def call_with_options(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], options: TaskOptions
    ) -> tuple[Shape, tuple[Any, ...]]:
        return self._call_with(fn, self._functions.find(fn), args, kwargs, options)

    def options_of(self, *options: Any) -> TaskOptions:
        """``options``: those of ``submit_verbose``, in order."""
        return self._make_options(*options)

    def send_as(self, future: CallSink, fn: Callable[..., Any], shape: Shape, values: Sequence[Any]) -> None:
        """Submit a call whose future the caller has made."""
        try:
            self._send_call(fn, shape, values, future)
        except BaseException as error:
            self._give_up_call(error, future)
            raise

    def future_of(
        self,
        identity: Identity,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        submit: Callable[[], AsyncFuture[Any]],
    ) -> AsyncFuture[Any]:
        """The future of the call with this identity; ``submit`` makes it if there is none."""
        return self._keyed_call(identity, fn, args, kwargs, submit)

    def send_pure(
        self, future: AsyncFuture[Any], task: PureTask[Any], fn: Callable[..., Any], shape: Shape, values: Sequence[Any]
    ) -> None:
        """Submit a pure call, in another thread, unless an equal one has a future. ``task``: behind ``future``."""
        key = self._pure_key(fn, shape.function, values, shape.keywords)
        known = self._keyed.future_of(key, lambda: future)
        if known is not future:
            task.follow(known.behind())
            return
        try:
            self.send_as(task, fn, shape, values)
        except BaseException:
            self._keyed.forget(key, future)
            raise

    def _send_large_call(self, shape: Shape, payloads: Sequence[Payload], future: CallSink) -> None:
        """A call that turns out to be large when its arguments have been pickled. Those of actors keep their order."""
        call = task_future(future)
        send = partial(super()._send_large_call, shape, payloads, call)
        if type(call) is LoopTask and _in_loop():
            self.link.start_call(partial(self.submit_later, call, send))
        else:
            send()

    # ---- calls that wait, in threads of their own --------------------------------------------------------------------

    def _map_call(self, fn: Callable[..., Any], count: int, report: Callable[[int], object] | None = None) -> MapCall:
        call = super()._map_call(fn, count, report)
        arm(partial(self._abort_map, call))
        return call

    def _abort_map(self, call: MapCall) -> None:
        if not self._client_io.unusable and not self._client_io.take_turn(lambda session: call.settle(CANCELLED)):
            call.finish(CANCELLED)

    def _actor_parts(self) -> ActorParts:
        return super()._actor_parts()._replace(wait_until_sent=self._wait_until_sent)

    def _wait_until_sent(self, anchor: ScalerFuture[Any]) -> None:
        arm(partial(cancel_futures, self._client_io, (anchor,)))
        wait_until_sent(anchor)

    def get_and_wait(
        self, graph: Any, keys: Any, capabilities: Mapping[str, float] | Sequence[str] | None, shows_progress: bool
    ) -> Any:
        """Like ``get``. The awaiting task can abort it."""
        if shows_progress:
            return self.get(graph, keys, capabilities=capabilities, progress=True)
        futures = self.get(graph, keys, block=False, capabilities=capabilities)
        unfinished = list(_leaves(futures))
        try:
            arm(lambda: cancel_futures(self._client_io, unfinished))
            return _results(futures)
        except BaseException:
            cancel_futures(self._client_io, unfinished)
            raise

    def _graph_bar(self, futures: list[ScalerFuture[Any]]) -> AbstractContextManager[None]:
        arm(partial(cancel_futures, self._client_io, futures))
        return super()._graph_bar(futures)


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _leaves(nested: Any) -> Iterable[ScalerFuture[Any]]:
    if isinstance(nested, ScalerFuture):
        yield nested
        return
    for item in nested.values() if isinstance(nested, dict) else nested:
        yield from _leaves(item)


def _results(nested: Any) -> Any:
    """The results of the futures in a dict, or in the nested tuples and lists that Dask uses."""
    if isinstance(nested, ScalerFuture):
        return nested.result()
    if isinstance(nested, dict):
        return {key: _results(value) for key, value in nested.items()}
    return type(nested)(map(_results, nested))
