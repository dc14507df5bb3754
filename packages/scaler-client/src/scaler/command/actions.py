"""``scaler pause``, ``resume``, ``drain``, ``kill``, ``restart``, ``cancel`` and ``set``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from scaler import Client
from scaler.command.settings import CancelSettings, SetSettings, WorkerSettings, WorkersSettings
from scaler_protocol.command import BadInput


def pause(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, "Pause", "Paused", Client.pause_workers)


def resume(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, "Resume", "Resumed", Client.resume_workers)


def drain(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, "Drain", "Draining", Client.drain_workers)


def kill(settings: WorkerSettings) -> int:
    if not _is_confirmed(f"Kill the process of worker {settings.worker}?", settings.yes):
        return 1
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        client.kill_worker(settings.worker)
    print(f"Killed the process of worker {settings.worker}. Another takes its place.")
    return 0


def restart(settings: WorkerSettings) -> int:
    if not _is_confirmed(f"Replace the process of worker {settings.worker} when its task has ended?", settings.yes):
        return 1
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        client.restart_worker(settings.worker)
    print(f"The process of worker {settings.worker} will be replaced when its task has ended.")
    return 0


def cancel(settings: CancelSettings) -> int:
    if (settings.client is None) == (settings.function is None):
        raise BadInput("Cannot tell which tasks to cancel. Give either --client ID or --function NAME.")
    if settings.function is not None and (settings.task is not None or settings.graph is not None):
        raise BadInput("Cannot find a task or a graph by a function. Give --client ID with it.")
    if settings.task is not None and settings.graph is not None:
        raise BadInput("Cannot cancel a task and a graph at once. Give either --task NUMBER or --graph NUMBER.")
    if not _is_confirmed(f"Cancel {_cancelled(settings)}?", settings.yes):
        return 1
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        count = client.cancel_tasks(
            client=settings.client, function=settings.function, task=settings.task, graph=settings.graph
        )
    print(f"Cancelled {_tasks(count)}.")
    return 0


def set_values(settings: SetSettings) -> int:
    """One or more of weight, limit and priority."""
    if sum(each is not None for each in (settings.client, settings.group, settings.function)) != 1:
        raise BadInput("Cannot tell what to change. Give one of --client ID, --group NAME and --function NAME.")
    changes = _changes(settings)
    if not changes:
        raise BadInput("Cannot tell what to change. Give --weight, --limit or --priority.")
    whose = _whose(settings)
    texts = [f"the {change.quantity} of {whose} to {change.value}" for change in changes]
    if not _is_confirmed(f"Set {' and '.join(texts)}?", settings.yes):
        return 1
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        for text, change in zip(texts, changes, strict=True):
            count = change.make(client)
            print(f"Set {text}{'' if count is None else f', for {_tasks(count)}'}.")
    return 0


class SettingChange(NamedTuple):
    """A value to set, in words. ``make`` sets it, and returns the number of tasks changed if that is known."""

    quantity: str
    value: str
    make: Callable[[Client], int | None]


def _changes(settings: SetSettings) -> list[SettingChange]:
    """Return the changes that the options ask for. Raises BadInput if a value cannot be set there."""
    changes: list[SettingChange] = []
    weight, limit, priority, group = settings.weight, settings.limit, settings.priority, settings.group
    if weight is not None:
        if settings.function is not None:
            raise BadInput("Cannot set the weight of a function. Give --client ID or --group NAME.")
        set_weight = partial(Client.set_weight, weight=weight, client=settings.client, group=group)
        changes.append(SettingChange("weight", f"{weight:g}", set_weight))
    if limit is not None:
        if group is None:
            raise BadInput("Cannot set the limit of anything but a group. Give --group NAME.")
        workers = f"{limit} worker{'' if limit == 1 else 's'}" if limit else "any number of workers"
        changes.append(SettingChange("limit", workers, partial(Client.set_limit, workers=limit, group=group)))
    if priority is not None:
        if group is not None:
            raise BadInput("Cannot set the priority of a group. Give --client ID or --function NAME.")
        set_priority = partial(
            Client.set_priority, priority=priority, client=settings.client, function=settings.function
        )
        changes.append(SettingChange("priority", str(priority), set_priority))
    return changes


def _whose(settings: SetSettings | CancelSettings) -> str:
    if settings.client is not None:
        return f"client {settings.client}"
    return f"function {settings.function}" if settings.function is not None else f"group {settings.group}"  # type: ignore[union-attr]


def _cancelled(settings: CancelSettings) -> str:
    if settings.task is not None:
        return f"task {settings.task} of {_whose(settings)}"
    return (
        f"graph {settings.graph} of {_whose(settings)}"
        if settings.graph is not None
        else f"all tasks of {_whose(settings)}"
    )


def _tasks(count: int) -> str:
    return f"{count:,} task{'' if count == 1 else 's'}"


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
