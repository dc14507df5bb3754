"""Samples: the histories of the model for one page, each value once."""

from __future__ import annotations

from typing import Any

from scaler_protocol.monitor.history import outages
from scaler_protocol.monitor.model import HISTORIES, Model

_SETTLED_SECONDS = 1.0
"""A sample is the mean of a second: it may change until that is over."""

_BASE = "running"
"""This history has a value for each moment for which there is any."""


class Samples:
    def __init__(self) -> None:
        self._model: Model | None = None
        self._next = 0.0
        self._last: list[float] = []  # the times sent last, without which a pause is not seen

    def new(self, model: Model) -> dict[str, Any] | None:
        """The samples new since the last call; None: nothing. ``reset``: the page's data is of another past."""
        reset = model is not self._model or model.time < self._next  # the scheduler's clock was set back
        if reset:
            self._model, self._next, self._last = model, 0.0, []
        times, _ = model.history(_BASE, self._next)
        settled = [time for time in times if time < model.time - _SETTLED_SECONDS]
        if not settled and not reset:
            return None
        values = {name: _aligned(model, name, self._next, settled) for name in HISTORIES}
        self._next = settled[-1] + 1e-6 if settled else self._next
        times = self._mark_outages(settled, values)
        return {"reset": reset, "times": [round(time, 2) for time in times], "values": values}

    def _mark_outages(self, settled: list[float], values: dict[str, list[float | None]]) -> list[float]:
        """Put a moment without values into each outage, so that lines end there. Returns all times."""
        known = len(self._last)
        times = [*self._last, *settled]
        self._last = times[-2:]
        for place in reversed(outages(times)):
            if place + 1 >= known:
                times.insert(place + 1, times[place] + 1.0)
                for column in values.values():
                    column.insert(place + 1 - known, None)
        return times[known:]


def _aligned(model: Model, name: str, start: float, times: list[float]) -> list[float | None]:
    """Values at ``times``; None where this history has none."""
    found = dict(zip(*model.history(name, start), strict=True))
    return [float(f"{found[time]:.5g}") if time in found else None for time in times]
