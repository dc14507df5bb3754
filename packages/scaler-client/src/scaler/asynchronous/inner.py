"""The client behind an AsyncClient: its calls that may wait run in other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scaler.asynchronous.future import AsyncFuture
from scaler.asynchronous.thread_call import arm
from scaler.client.arguments import Payload
from scaler.client.client import Client
from scaler.client.future import CallSink, ScalerFuture, cancel_futures
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

    def submit_later(self, future: AsyncFuture[Any], send: Callable[[], object]) -> None:
        """Send a call, in another thread. It may have been cancelled before, or meanwhile."""
        if future.cancelled():
            return
        try:
            send()
        except BaseException as error:
            self.link.post(partial(future.fail, error))
        if future.cancelled():
            cancel_futures(self._client_io, (future,))

    def submit_verbose_as(
        self,
        future: AsyncFuture[Any],
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        options: TaskOptions,
    ) -> None:
        shape, values = self._call_with(fn, self._functions.find(fn), args, dict(kwargs or {}), options)
        self._send_call(fn, shape, values, future)

    def options_of(self, *options: Any) -> TaskOptions:
        """``options``: those of ``submit_verbose``, in order."""
        return self._make_options(*options)

    def _send_large_call(self, shape: Shape, payloads: Sequence[Payload], future: CallSink) -> None:
        """A call that turns out to be large when its arguments have been pickled."""
        send = partial(super()._send_large_call, shape, payloads, future)
        if isinstance(future, AsyncFuture) and _in_loop():
            self.link.start(partial(self.submit_later, future, send))
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

    def get_and_wait(self, graph: Any, keys: Any, capabilities: Mapping[str, float] | Sequence[str] | None) -> Any:
        """Like ``get``. The awaiting task can abort it."""
        futures = self.get(graph, keys, block=False, capabilities=capabilities)
        unfinished = list(_leaves(futures))
        try:
            arm(lambda: cancel_futures(self._client_io, unfinished))
            return _results(futures)
        except BaseException:
            cancel_futures(self._client_io, unfinished)
            raise


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
