"""``scaler pause``, ``resume``, ``drain``, ``kill``, ``restart``, ``cancel`` and ``set``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from scaler import Client
from scaler.command.settings import AddressSettings, CancelSettings, SetSettings, WorkerSettings, WorkersSettings
from scaler.utility.exceptions import ControlError
from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput
from scaler_protocol.keys import keys_directory
from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.operation import Action, Operation, done_text, question_of
from scaler_protocol.monitor.operator import missing_key


def pause(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, ControlAction.PAUSE, Client.pause_workers)


def resume(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, ControlAction.RESUME, Client.resume_workers)


def drain(settings: WorkersSettings) -> int:
    return _act_on_workers(settings, ControlAction.DRAIN, Client.drain_workers)


def kill(settings: WorkerSettings) -> int:
    return _act_on_process(settings, ControlAction.KILL_WORKER, Client.kill_worker)


def restart(settings: WorkerSettings) -> int:
    return _act_on_process(settings, ControlAction.RESTART_WORKER, Client.restart_worker)


def cancel(settings: CancelSettings) -> int:
    if (settings.client is None) == (settings.function is None):
        raise BadInput("Cannot tell which tasks to cancel. Give either --client ID or --function NAME.")
    if settings.function is not None and (settings.task is not None or settings.graph is not None):
        raise BadInput("Cannot find a task or a graph by a function. Give --client ID with it.")
    if settings.task is not None and settings.graph is not None:
        raise BadInput("Cannot cancel a task and a graph at once. Give either --task NUMBER or --graph NUMBER.")
    operation = _cancellation(settings)
    if not _is_confirmed(question_of(operation), settings.yes):
        return 1
    with _connected(settings, operation.action) as client:
        count = client.cancel_tasks(
            client=settings.client, function=settings.function, task=settings.task, graph=settings.graph
        )
    print(done_text(operation, (), count))
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
    with _connected(settings, ControlAction.SET_GROUP_WEIGHT) as client:  # all of them need the same key
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


def _whose(settings: SetSettings) -> str:
    if settings.client is not None:
        return f"client {settings.client}"
    return f"function {settings.function}" if settings.function is not None else f"group {settings.group}"


def _cancellation(settings: CancelSettings) -> Operation:
    if settings.function is not None:
        return Operation(ControlAction.CANCEL_FUNCTION, settings.function)
    if settings.task is not None:
        return Operation(ControlAction.CANCEL_TASK, f"{settings.client}/{settings.task}")
    if settings.graph is not None:
        return Operation(ControlAction.CANCEL_GRAPH, f"{settings.client}/{settings.graph}")
    return Operation(ControlAction.CANCEL_CLIENT, settings.client or "")


def _tasks(count: int) -> str:
    return f"{count:,} task{'' if count == 1 else 's'}"


def _act_on_workers(
    settings: WorkersSettings, action: ControlAction, act: Callable[[Client, str], Sequence[str]]
) -> int:
    operation = Operation(action, settings.target)
    if not _is_confirmed(question_of(operation), settings.yes):
        return 1
    with _connected(settings, action) as client:
        names = act(client, settings.target)
    print(done_text(operation, tuple(names), 0))
    return 0


def _act_on_process(settings: WorkerSettings, action: ControlAction, act: Callable[[Client, str], None]) -> int:
    operation = Operation(action, settings.worker)
    if not _is_confirmed(question_of(operation), settings.yes):
        return 1
    with _connected(settings, action) as client:
        act(client, settings.worker)
    print(done_text(operation, (), 0))
    return 0


def _connected(settings: AddressSettings, action: Action) -> Client:
    """Raises ControlError if this user has no key that could permit the action."""
    obstacle = missing_key(parse_address(settings.address), action, keys_directory())
    if obstacle:
        raise ControlError(obstacle)
    return Client(settings.address, timeout_seconds=settings.timeout)


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
