"""The status: how the stream stands, in the plain sentences that a page shows above everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler_protocol.monitor.format import format_count, format_duration, format_moment, format_span
from scaler_protocol.monitor.model import FeedState, Model
from scaler_protocol.monitor.player import Player

PATIENCE_SECONDS = 2.0
"""Seconds that a first message may take before the page says that there is none."""

RESTART_SHOWN_SECONDS = 60.0

_LABELS = {FeedState.WAITING: "Waiting", FeedState.LIVE: "Live", FeedState.LOST: "Lost"}
Notice = tuple[str, str]
"""``error``, ``warning`` or ``info``, and the sentence."""


def live_status(model: Model, now: float, address: str) -> dict[str, Any]:
    state = model.state(now)
    return {
        "state": state.value,
        "label": _LABELS[state],
        "facts": _facts(model, address),
        "notices": _notices(model, now, address),
        "alerts": alerts_of(model),
        "badges": badges(model),
        "replay": None,
    }


def replay_status(player: Player, folder: str, marks: Sequence[float] = (), problem: str = "") -> dict[str, Any]:
    """``marks``: where tasks failed, from 0 to 1. ``problem``: why the last command could not be carried out."""
    model = player.model
    return {
        "state": "replay",
        "label": "Replay",
        "facts": [(folder, False), *_facts(model, folder)] if model.snapshot is not None else [(folder, False)],
        "notices": [("warning", each) for each in (problem, player.problem) if each],
        "alerts": alerts_of(model),
        "badges": badges(model),
        "replay": {
            "start": player.start,
            "end": player.end,
            "position": player.position,
            "playing": player.plays,
            "speed": player.speed,
            "text": format_moment(player.clock),
            "length": format_span(player.end - player.start),
            "reading": player.reading,
            "marks": [round(mark, 4) for mark in marks],
        },
    }


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def alerts_of(model: Model) -> list[tuple[str, str, str, str]]:
    """Return, of each alert, severity, text, how long it has lasted, and the table that shows more."""
    return [
        (each.severity, each.text, format_duration(max(0.0, model.time - each.since)), each.table)
        for each in model.alerts
    ]


def badges(model: Model) -> dict[str, tuple[str, bool]]:
    """Numbers next to the names of views; True: they are bad news."""
    snapshot = model.snapshot
    if snapshot is None:
        return {}
    return {
        "alerts": (_number(len(model.alerts)), True),
        "running": (_number(len(model.running)), False),
        "workers": (_number(len(model.worker_rows)), False),
        "waiting": (_number(snapshot.unfinished.waiting), False),
        "failures": (_number(snapshot.tasks.failed), True),
        "progress": (_number(max(0, len(model.progress.rows) - 1)), False),
        "graphs": (_number(snapshot.graph_count), False),
    }


def _facts(model: Model, address: str) -> list[tuple[str, bool]]:
    """The details next to the state; True: a narrow screen goes without."""
    if model.snapshot is None:
        return [(address, False)]
    scheduler = model.snapshot.scheduler
    return [
        (scheduler.address, False),
        (f"up {format_duration(scheduler.uptime_seconds)}", True),
        (f"version {scheduler.version}", True),
    ]


def _notices(model: Model, now: float, address: str) -> list[Notice]:
    notices: list[Notice] = []
    state = model.state(now)
    if model.problem is not None:
        notices.append(("error", _sentence(_capitalized(model.problem))))
    elif state is FeedState.WAITING and model.silent_seconds(now) > PATIENCE_SECONDS:
        notices.append(("warning", _nothing_heard(address)))
    elif state is FeedState.LOST:
        notices.append(("error", "The scheduler is silent. This page shows old data until it is back."))
    if model.restarted_at is not None and now - model.restarted_at < RESTART_SHOWN_SECONDS:
        notices.append(("info", "The scheduler has restarted: counts begin at zero."))
    if model.snapshot is not None and model.snapshot.trouble:
        notices.append(("warning", model.snapshot.trouble))
    if model.snapshot is not None and not model.worker_rows and state is FeedState.LIVE:
        notices.append(
            ("info", f"There are no workers: start some with scaler_cluster {model.snapshot.scheduler.address}")
        )
    if model.activity.missed:
        notices.append(("warning", _missed(model.activity.missed)))
    return notices


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _nothing_heard(address: str) -> str:
    question = (
        f"Nothing has been heard from {address}: is it the monitor address that the scheduler logs when it starts?"
    )
    keys = " And does SCALER_KEYS name its keys, if it has some?" if address.startswith("tcp:") else ""
    return f"{question}{keys} This page goes on by itself when something arrives."


def _missed(count: int) -> str:
    return (
        f"{format_count(count)} event records did not arrive, so the task log and the task stream have gaps; "
        "all counts are exact."
    )


def _number(count: int) -> str:
    for limit, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= limit:
            return f"{count // (1000 if letter == 'k' else limit):,}{letter}"
    return format_count(count) if count else ""
