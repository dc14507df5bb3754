"""Recordings on this screen: the player's keys, and the line that shows where it is."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.monitor.format import format_moment, format_span
from scaler_protocol.monitor.player import Player
from scaler_scheduler.top.lines import Line, Span, Style

_STEPS = {"left": -5.0, "right": 5.0, ",": -1.0, ".": 1.0}
_SHARES = {"{": -0.1, "}": 0.1}
_SPEEDS = {"<": -1, ">": 1}
_DATED_WIDTH = 60
"""A narrower screen shows no date next to the time."""


def press(player: Player, key: str) -> bool:
    """Return whether the key was one of the player's."""
    if key == " ":
        player.toggle()
    elif key in _SPEEDS:
        player.change_speed(_SPEEDS[key])
    elif key in _STEPS:
        player.seek(player.position + _STEPS[key])
    elif key in _SHARES:
        player.seek(player.position + _SHARES[key] * (player.end - player.start))
    else:
        return False
    return True


def line(player: Player, width: int, blocks: bool, marks: Sequence[float] = ()) -> Line:
    """Return where the recording stands. ``marks``: where tasks failed, from 0 to 1."""
    state = "end" if player.is_at_end else f"{player.speed:g}x" if player.plays else "paused"
    moment = format_moment(player.clock)
    right = f" {player.reading or format_span(player.end - player.start)}  space < > arrows ?"
    left = f"{state:>6} {moment if width >= _DATED_WIDTH else moment[11:]} "
    room = max(0, width - len(left) - len(right))
    done = round(room * player.fraction)
    failed = {min(room - 1, int(mark * room)) for mark in marks}
    bar = [_cell(place < done, place in failed, blocks) for place in range(room)]
    return (Span(left, Style.TITLE), *bar, Span(right, Style.DIM))


def _cell(is_done: bool, has_failures: bool, blocks: bool) -> Span:
    if has_failures:
        return Span("╋" if blocks else "!", Style.BAD)
    return Span("━" if blocks else "=", Style.GOOD) if is_done else Span("─" if blocks else "-", Style.DIM)
