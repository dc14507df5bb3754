"""The state of the stream, in one sentence."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.monitor.alerts import alerts_text
from scaler_protocol.monitor.format import format_duration
from scaler_protocol.monitor.model import FeedState, Model
from scaler_protocol.monitor.player import Player

PATIENCE_SECONDS = 2.0
RESTART_SHOWN_SECONDS = 30.0


class ConnectionStatus(NamedTuple):
    """``trouble`` is for a banner: empty when all is well. ``text`` is for the line at the bottom."""

    text: str
    trouble: str = ""


def live_status(model: Model, now: float, address: str) -> ConnectionStatus:
    trouble = model.problem or _trouble(model, now, address)
    if model.snapshot is None:
        return ConnectionStatus(f"Connecting to {address}", _sentence(trouble))
    return ConnectionStatus(f"{address}   {_about(model)}", _sentence(trouble))


def replay_status(player: Player | None, path: str, problem: str) -> ConnectionStatus:
    """``player`` is None when there is nothing to play, for a ``problem``."""
    if player is None:
        return ConnectionStatus(f"Recording {path}", _sentence(problem))
    text = f"Recording {path}   {player.reading or _about(player.model)}"
    return ConnectionStatus(text, player.problem or _sentence(player.model.problem or ""))


def _trouble(model: Model, now: float, address: str) -> str:
    state, silent = model.state(now), model.silent_seconds(now)
    if state is FeedState.WAITING and silent > PATIENCE_SECONDS:
        return (
            f"Nothing heard from {address} for {format_duration(silent)}: "
            "does the scheduler run, and is this its monitor address?"
        )
    if state is FeedState.LOST:
        silence = f"The scheduler has been silent for {format_duration(silent)}"
        return f"{silence}: the window shows its last report, and waits for the next one."
    if model.restarted_at is not None and now - model.restarted_at < RESTART_SHOWN_SECONDS:
        return "The scheduler has restarted: its counts have begun again from zero."
    trouble = model.snapshot.trouble if model.snapshot is not None else ""
    return trouble or alerts_text(model.alerts)


def _about(model: Model) -> str:
    if model.snapshot is None:
        return ""
    scheduler = model.snapshot.scheduler
    parts = [f"scheduler {scheduler.version} at {scheduler.address}", f"up {format_duration(scheduler.uptime_seconds)}"]
    if model.activity.missed:
        parts.append(f"{model.activity.missed:,} events missed, counts are exact")
    return ",  ".join(parts)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "?")) else ".")
