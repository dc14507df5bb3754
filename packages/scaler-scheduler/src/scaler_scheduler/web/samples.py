"""Samples: the histories of the model for one page, each value once."""

from __future__ import annotations

from typing import Any

from scaler_protocol.monitor.model import HISTORIES, Model

_SETTLED_SECONDS = 1.0
"""A sample is the mean of a second: it may change until that is over."""

_BASE = "running"
"""This history has a value for each moment for which there is any."""


class Samples:
    def __init__(self) -> None:
        self._model: Model | None = None
        self._next = 0.0

    def new(self, model: Model) -> dict[str, Any] | None:
        """The samples new since the last call; None: nothing. ``reset``: the page's data is of another past."""
        reset = model is not self._model or model.time < self._next  # the scheduler's clock was set back
        if reset:
            self._model, self._next = model, 0.0
        times, _ = model.history(_BASE, self._next)
        settled = [time for time in times if time < model.time - _SETTLED_SECONDS]
        if not settled and not reset:
            return None
        values = {name: _aligned(model, name, self._next, settled) for name in HISTORIES}
        self._next = settled[-1] + 1e-6 if settled else self._next
        return {"reset": reset, "times": [round(time, 2) for time in settled], "values": values}


def _aligned(model: Model, name: str, start: float, times: list[float]) -> list[float | None]:
    """Values at ``times``; None where this history has none."""
    found = dict(zip(*model.history(name, start), strict=True))
    return [float(f"{found[time]:.5g}") if time in found else None for time in times]
