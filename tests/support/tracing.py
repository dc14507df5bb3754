"""Spans in worker processes, kept in memory."""

from __future__ import annotations

import time

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

EXPORTER = InMemorySpanExporter()


def set_up() -> None:
    """Have this process keep its spans. For ``--preload``."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)


def inner(number: int) -> int:
    """Start a span of its own; negative numbers fail."""
    with trace.get_tracer("user").start_as_current_span("inner"):
        if number < 0:
            raise ValueError("negative")
        return number + 1


def give_late() -> int:
    """Take time to return -1."""
    time.sleep(0.02)
    return -1


def finished_spans() -> list[tuple[str, int, int, int, str]]:
    """Name, trace, span and parent of each span that has ended here, and its status."""
    return [
        (
            span.name,
            span.context.trace_id if span.context is not None else 0,
            span.context.span_id if span.context is not None else 0,
            span.parent.span_id if span.parent is not None else 0,
            span.status.status_code.name,
        )
        for span in EXPORTER.get_finished_spans()
    ]


class BrokenProcessor(SpanProcessor):
    """Raises whenever a span ends."""

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("on purpose")


def set_up_broken() -> None:
    """For ``--preload``."""
    provider = TracerProvider()
    provider.add_span_processor(BrokenProcessor())
    trace.set_tracer_provider(provider)


class SlowToLoad:
    def __getstate__(self) -> object:
        return {"anything": 1}

    def __setstate__(self, state: object) -> None:
        time.sleep(0.02)


class SlowToStore:
    def __reduce__(self) -> object:
        time.sleep(0.02)
        return int, ()


def give_slow(value: object) -> object:
    """Return a value that takes time to store."""
    return SlowToStore()


def times_of_spans() -> list[tuple[int | None, int | None]]:
    """The beginning and the end of each span that has ended here."""
    return [(span.start_time, span.end_time) for span in EXPORTER.get_finished_spans()]
