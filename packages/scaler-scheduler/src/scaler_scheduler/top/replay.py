"""Recordings on this screen: the player's keys, and the line that shows where it is."""

from __future__ import annotations

from scaler_protocol.monitor.format import format_span, format_time
from scaler_protocol.monitor.player import Player
from scaler_scheduler.top.lines import Line, Span, Style

_STEPS = {"left": -5.0, "right": 5.0, ",": -1.0, ".": 1.0}
_SHARES = {"{": -0.1, "}": 0.1}
_SPEEDS = {"<": -1, ">": 1}


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


def line(player: Player, width: int, blocks: bool) -> Line:
    """Return where the recording stands."""
    state = "end" if player.is_at_end else f"{player.speed:g}x" if player.plays else "paused"
    left = f"{state:>6} {format_time(player.position)} "
    right = f" {player.reading or format_span(player.end - player.start)}  space < > arrows ?"
    room = max(0, width - len(left) - len(right))
    done = round(room * player.fraction)
    bar = [
        Span(("━" if blocks else "=") * done, Style.GOOD),
        Span(("─" if blocks else "-") * (room - done), Style.DIM),
    ]
    return (Span(left, Style.TITLE), *bar, Span(right, Style.DIM))
