"""The past of a running cluster: which part of it a monitor knows, and where the rest is recorded."""

from __future__ import annotations

from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.moments import find_moment

GO_TO_TEXT = "Cannot begin at a time of a running cluster. Use --replay DIR, with what --event-log recorded."
"""The answer of commands to a time without a recording."""

_EVENT_LOG = "event_log"


def find_past(model: Model, text: str, command: str) -> float:
    """Unix seconds of a time as people write it, of which the model knows what happened. ValueError, with sentences, if
    it does not; they tell how ``command`` shows that time of a recording."""
    start, end = _known_span(model)
    try:
        return find_moment(text, start, end)
    except ValueError as error:
        raise ValueError(f"{error} {_recording_text(model, text.strip()[:40], command)}") from None


def _known_span(model: Model) -> tuple[float, float]:
    first = model.log.row(model.log.first)
    oldest_task = (first[1] - first[2]) / 1e6 if first is not None else model.time
    if model.log.total > len(model.log):
        return oldest_task, model.time
    watched = model.history("workers")[0]
    return min(oldest_task, watched[0] if len(watched) else model.time), model.time


def _recording_text(model: Model, text: str, command: str) -> str:
    settings = model.snapshot.settings if model.snapshot is not None else ()
    folder = next((each.value for each in settings if each.name == _EVENT_LOG), "")
    if folder:
        return f"The recording of the scheduler may contain it: {command} --replay {folder} --go-to {text}"
    return "A scheduler that is started with --event-log DIR records everything."
