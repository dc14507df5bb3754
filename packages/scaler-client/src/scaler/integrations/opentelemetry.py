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

P = ParamSpec("P")
R = TypeVar("R")

_TRACER = "scaler"


class TracedFunction(Generic[P, R]):
    """Made by ``traced``. It carries the context of the span in which it was made."""

    def __init__(self, function: Callable[P, R], carrier: dict[str, str]) -> None:
        self._function = function
        self._carrier = carrier
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self.__name__ = self.__qualname__ = name
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        context = propagate.extract(self._carrier)
        attributes: dict[str, str | int] = {
            "scaler.worker": os.environ.get("SCALER_WORKER_NAME", ""),
            "process.pid": os.getpid(),
        }
        tracer = trace.get_tracer(_TRACER)
        with tracer.start_as_current_span(self.__name__, context, trace.SpanKind.CONSUMER, attributes) as span:
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
    it starts are their children, and they record its exceptions. Call this once for each trace, not for each task: each
    trace needs a function of its own on the workers."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return TracedFunction(function, carrier)
