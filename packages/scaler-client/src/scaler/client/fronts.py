"""Futures of another kind that stand in front of a ScalerFuture, as those of an event loop do.

A program gives such a future as an argument, and the ScalerFuture behind it takes its place: it names the task.
"""

from __future__ import annotations

from typing import Any, cast

from scaler.client.future import CallSink, InputFuture, ScalerFuture, note_future_type


class FutureFront:
    """The base class of these futures."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        note_future_type(cls)

    def behind(self) -> ScalerFuture[Any]:
        """Return the future of the task, which is the one in the session from now on. Any thread may call this."""
        raise NotImplementedError

    def as_input(self) -> InputFuture:
        """Return the future that the session knows if it must not be waited for here. Any thread may call this."""
        raise NotImplementedError

    def as_argument(self) -> ScalerFuture[Any]:
        """Return the future that takes the place of this one in a call. Any thread may call this."""
        raise NotImplementedError


def argument_of(value: Any) -> Any:
    """The argument that is sent: ``value``, or the future behind it."""
    return value.as_argument() if isinstance(value, FutureFront) else value


def task_future(sink: CallSink) -> ScalerFuture[Any]:
    """The future of a call: ``sink``, or the one behind it."""
    return sink.behind() if isinstance(sink, FutureFront) else cast("ScalerFuture[Any]", sink)
