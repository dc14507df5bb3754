"""``scaler pause``, ``resume``, ``drain`` and ``cancel``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from scaler import Client
from scaler.command.settings import CancelSettings, WorkersSettings
from scaler_protocol.command import BadInput


def pause(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, "Pause", "Paused", Client.pause_workers)


def resume(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, "Resume", "Resumed", Client.resume_workers)


def drain(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, "Drain", "Draining", Client.drain_workers)


def cancel(settings: CancelSettings) -> int:
    if (settings.client is None) == (settings.function is None):
        raise BadInput("Cannot tell which tasks to cancel. Give either --client ID or --function NAME.")
    whose = f"client {settings.client}" if settings.client is not None else f"function {settings.function}"
    if not _is_confirmed(f"Cancel all tasks of {whose}?", settings.yes):
        return 1
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        count = client.cancel_tasks(client=settings.client, function=settings.function)
    print(f"Cancelled {count:,} tasks.")
    return 0


def _act_on_workers(
    settings: WorkersSettings, verb: str, done: str, act: Callable[[Client, str], Sequence[str]]
) -> int:
    if not _is_confirmed(f"{verb} all workers of {settings.target}?", settings.yes):
        return 1
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        names = act(client, settings.target)
    print(f"{done}: {', '.join(names)}")
    return 0


def _is_confirmed(question: str, yes: bool) -> bool:
    """Raises BadInput if it is not clear who could answer."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput("Cannot ask for confirmation: this is not a terminal. Give --yes.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
