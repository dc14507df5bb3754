"""Checks whether an address can be connected to at all."""

from __future__ import annotations

from pathlib import Path

from scaler_gui.models.recent import RecentAddress
from scaler_protocol.address import parse_watched_address
from scaler_protocol.keys import files_of_peer
from scaler_protocol.messages import Role


def problem_of(place: RecentAddress) -> str:
    """One sentence, or nothing when one can try."""
    try:
        parse_watched_address(place.address)
    except ValueError as error:
        return str(error)
    return _problem_of_keys(place.keys) if place.keys else ""


def _problem_of_keys(folder: str) -> str:
    missing = [path.name for path in files_of_peer(Path(folder), Role.OBSERVE) if not path.is_file()]
    if not missing:
        return ""
    names = " and no ".join(missing)
    return f"Cannot use {folder}: it has no {names}. Make keys with scaler_keygen and copy them from the scheduler."
