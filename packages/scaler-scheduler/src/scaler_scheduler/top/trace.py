"""``scaler_top --trace``: a window of a recording as a trace for Perfetto."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.monitor.format import format_count
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.player import LOOK_BACK_SECONDS
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.trace import TraceBuilder

LOOK_AHEAD_SECONDS = LOOK_BACK_SECONDS
"""A task is known when it has ended: one that ends so long after the window is in the trace."""


def write_trace(replay: Replay, path: str, start: float, stop: float) -> str:
    """Write the tasks that ran between two moments; a sentence about the file. OSError if it cannot be written."""
    builder = TraceBuilder(start, stop)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(_pieces(builder, replay, start, stop))
    return f"{format_count(builder.slices)} executions were written to {path}. Open it at https://ui.perfetto.dev."


def _pieces(builder: TraceBuilder, replay: Replay, start: float, stop: float) -> Iterator[str]:
    model = Model(start)
    yield builder.head()
    for message in replay.messages(start, min(replay.end, stop + LOOK_AHEAD_SECONDS)):
        model.apply(message, message.time)
        yield from builder.take(model)
    yield from builder.take_running(model)
    yield from builder.tail()
