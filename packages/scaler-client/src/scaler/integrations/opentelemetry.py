"""Spans of OpenTelemetry for tasks: those inside tasks continue the trace of the code that submitted them.

Install ``scaler-client[opentelemetry]``. The worker processes set up their tracer provider as any program does, for
example in the function of ``--preload``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from opentelemetry import propagate, trace

from scaler_protocol.task_phases import TaskPhases, watch

P = ParamSpec("P")
R = TypeVar("R")

_TRACER = "scaler"
_LEAST_NANOSECONDS = 20_000
"""Shorter phases have no span."""


class TaskSpanPhases:
    """The spans of the phases of a task around its call: ``waiting for dependencies``, ``waiting for a worker``,
    ``fetching``, ``loading`` and ``storing``, children of its span, which lasts from its submission until its result
    is stored. Outside of workers, and wherever else phases are not known, there are no such spans."""

    def __init__(self) -> None:
        self._phases: TaskPhases | None = None
        self._span: trace.Span | None = None
        self._offset = time.time_ns() - time.monotonic_ns()

    def begin(self, function: Callable[..., Any]) -> int | None:
        """Return when the task was submitted, in nanoseconds since 1970; None: now."""
        self._phases = watch(function, self._end)
        return self._phases.submitted + self._offset if self._phases is not None else None

    def follow(self, span: trace.Span) -> bool:
        """Return whether the span will be ended when the result of the task is stored."""
        if self._phases is None:
            return False
        self._span = span
        return True

    def _end(self, called: int, stored: int) -> None:
        """Make all spans here, after the task: an exporter that fails must not fail it."""
        if self._span is None or self._phases is None:
            return
        submitted, ready, started, fetching, loaded = self._phases
        self._add(self._span, "waiting for dependencies", submitted, ready)
        self._add(self._span, "waiting for a worker", ready, started)
        self._add(self._span, "fetching", started, started + fetching)
        self._add(self._span, "loading", started + fetching, loaded)
        self._add(self._span, "storing", called, stored)
        self._span.end(stored + self._offset)

    def _add(self, task: trace.Span, name: str, start: int, stop: int) -> None:
        if stop - start >= _LEAST_NANOSECONDS:
            context = trace.set_span_in_context(task)
            span = trace.get_tracer(_TRACER).start_span(name, context, start_time=start + self._offset)
            span.end(stop + self._offset)


class TracedFunction(Generic[P, R]):
    """Made by ``traced``. It carries the context of the span in which it was made. Its tasks state when they were
    submitted."""

    states_submission = True

    def __init__(self, function: Callable[P, R], carrier: dict[str, str]) -> None:
        self._function = function
        self._carrier = carrier
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self.__name__ = self.__qualname__ = name
        self.__module__ = getattr(function, "__module__", None) or type(function).__module__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        phases = TaskSpanPhases()
        span = trace.get_tracer(_TRACER).start_span(
            self.__name__,
            propagate.extract(self._carrier),
            trace.SpanKind.CONSUMER,
            {"scaler.worker": os.environ.get("SCALER_WORKER_NAME", ""), "process.pid": os.getpid()},
            start_time=phases.begin(self),
        )
        is_ended_later = phases.follow(span)
        with trace.use_span(span, end_on_exit=not is_ended_later):
            started = time.process_time()
            try:
                return self._function(*args, **kwargs)
            finally:
                span.set_attribute("scaler.cpu_seconds", time.process_time() - started)

    def __reduce__(self) -> tuple[Any, ...]:
        return TracedFunction, (self._function, self._carrier)


def traced(function: Callable[P, R]) -> TracedFunction[P, R]:
    """Return ``function``, for ``submit``, ``map`` and others, with a span for each task.

    The spans are children of the span in which this is called. They are current while the function runs, so spans that
    it starts are their children, and they record its exceptions. Inside them are spans of waiting for dependencies and
    for a worker, of fetching and loading arguments, and of storing the result. Call this once for each trace, not for
    each task: each trace needs a function of its own on the workers."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return TracedFunction(function, carrier)
