"""Whether one can connect to a place at all."""

from __future__ import annotations

from pathlib import Path

from scaler_gui.models.recent import Place
from scaler_protocol.address import parse_watched_address

_NEEDED = ("peer.key", "peer.pub", "scheduler.pub")


def problem_of(place: Place) -> str:
    """One sentence, or nothing when one can try."""
    try:
        parse_watched_address(place.address)
    except ValueError as error:
        return str(error)
    return _problem_of_keys(place.keys) if place.keys else ""


def _problem_of_keys(folder: str) -> str:
    missing = [name for name in _NEEDED if not (Path(folder) / name).is_file()]
    if not missing:
        return ""
    return f"{folder} has no {' and no '.join(missing)}: make keys with scaler_keygen and copy them from the scheduler."
