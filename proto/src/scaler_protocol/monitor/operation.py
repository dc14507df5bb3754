"""Actions on the cluster that a monitor offers, and the words for them."""

from __future__ import annotations

import enum
import ipaddress
import math
from typing import Union

from scaler_protocol.address import Address
from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.format import format_count, printable
from scaler_protocol.monitor.tables import Row, TableSpec
from scaler_protocol.profile import FRAME_LIMIT, ProfileTree
from scaler_protocol.profile_report import text_of
from scaler_protocol.value import value

PROFILE_SECONDS = 5.0
"""Time for which a monitor samples tasks."""


class LookAction(enum.IntEnum):
    """Questions about what runs. They change nothing, so they need no confirmation."""

    STACK = 100
    PROFILE_WORKER = 101
    PROFILE_CLIENT = 102
    PROFILE_FUNCTION = 103


Action = Union[ControlAction, LookAction]

ACTION_LABELS: dict[Action, str] = {
    LookAction.STACK: "Show stack",
    LookAction.PROFILE_WORKER: "Profile for 5 s",
    LookAction.PROFILE_CLIENT: "Profile for 5 s",
    LookAction.PROFILE_FUNCTION: "Profile for 5 s",
    ControlAction.PAUSE: "Pause",
    ControlAction.RESUME: "Resume",
    ControlAction.DRAIN: "Drain",
    ControlAction.CANCEL_CLIENT: "Cancel tasks",
    ControlAction.CANCEL_FUNCTION: "Cancel tasks of function",
    ControlAction.CANCEL_TASK: "Cancel task",
    ControlAction.CANCEL_GRAPH: "Cancel graph",
    ControlAction.KILL_WORKER: "Kill process",
    ControlAction.RESTART_WORKER: "Restart process",
    ControlAction.SET_CLIENT_WEIGHT: "Set weight",
    ControlAction.SET_GROUP_WEIGHT: "Set weight of group",
    ControlAction.SET_GROUP_LIMIT: "Set limit of group",
    ControlAction.SET_CLIENT_PRIORITY: "Set priority",
    ControlAction.SET_FUNCTION_PRIORITY: "Set priority",
}
VALUE_LABELS: dict[Action, str] = {
    ControlAction.SET_CLIENT_WEIGHT: "weight (1 = usual)",
    ControlAction.SET_GROUP_WEIGHT: "weight (1 = usual)",
    ControlAction.SET_GROUP_LIMIT: "workers (0 = any number)",
    ControlAction.SET_CLIENT_PRIORITY: "priority of waiting tasks (0 = usual)",
    ControlAction.SET_FUNCTION_PRIORITY: "priority of waiting tasks (0 = usual)",
}
"""The number that these actions need."""

_PRIORITIES = (ControlAction.SET_CLIENT_PRIORITY, ControlAction.SET_FUNCTION_PRIORITY)
_ON_HOSTS = (ControlAction.PAUSE, ControlAction.RESUME, ControlAction.DRAIN)
_LOOKS = (LookAction.STACK, LookAction.PROFILE_WORKER)
_ON_PROCESSES = (ControlAction.RESTART_WORKER, ControlAction.KILL_WORKER)
ACTIONS_OF_TABLE: dict[str, dict[Action, tuple[str, ...]]] = {
    "workers": dict.fromkeys((*_LOOKS, *_ON_HOSTS, *_ON_PROCESSES), ("name",)),
    "agents": dict.fromkeys(_ON_HOSTS, ("name",)),
    "processors": dict.fromkeys((*_LOOKS, *_ON_PROCESSES), ("name",)),
    "hosts": dict.fromkeys(_ON_HOSTS, ("host",)),
    "objects": dict.fromkeys(_ON_HOSTS, ("host",)),
    "functions": dict.fromkeys(
        (LookAction.PROFILE_FUNCTION, ControlAction.CANCEL_FUNCTION, ControlAction.SET_FUNCTION_PRIORITY), ("name",)
    ),
    "running": {
        LookAction.STACK: ("worker",),
        LookAction.PROFILE_FUNCTION: ("function",),
        ControlAction.CANCEL_TASK: ("session", "task"),
        ControlAction.CANCEL_FUNCTION: ("function",),
        **dict.fromkeys(_ON_PROCESSES, ("worker",)),
    },
    "actors": {
        LookAction.STACK: ("worker",),
        ControlAction.CANCEL_TASK: ("session", "task"),
        ControlAction.KILL_WORKER: ("worker",),
    },
    "graphs": {ControlAction.CANCEL_GRAPH: ("session", "graph")},
    "clients": {
        LookAction.PROFILE_CLIENT: ("session",),
        ControlAction.CANCEL_CLIENT: ("session",),
        ControlAction.SET_CLIENT_PRIORITY: ("session",),
        ControlAction.SET_CLIENT_WEIGHT: ("session",),
        ControlAction.SET_GROUP_WEIGHT: ("group",),
        ControlAction.SET_GROUP_LIMIT: ("group",),
    },
}
"""The actions on what a row of a table shows, and the columns whose values, joined by slashes, are the target."""

TARGET_LIMIT = 10_000
"""Characters."""

_SHOWN_TARGET_LIMIT = 60
_SHOWN_NAMES_LIMIT = 5
_QUESTIONS: dict[Action, str] = {
    ControlAction.PAUSE: "Pause {}? All workers of its agents pause; running tasks continue.",
    ControlAction.RESUME: "Resume {}? All workers of its agents resume.",
    ControlAction.DRAIN: "Drain {}? Its agents leave when their running tasks have ended.",
    ControlAction.CANCEL_CLIENT: "Cancel all tasks of client {}? Running ones are interrupted.",
    ControlAction.CANCEL_FUNCTION: "Cancel all tasks of function {}? Running ones are interrupted.",
    ControlAction.CANCEL_TASK: "Cancel task {}? If it runs, it is interrupted.",
    ControlAction.CANCEL_GRAPH: "Cancel all tasks of graph {}? Running ones are interrupted.",
    ControlAction.KILL_WORKER: "Kill the process of worker {}? Its task dies, and usually runs again.",
    ControlAction.RESTART_WORKER: "Replace the process of worker {} when its task has ended?",
    ControlAction.SET_CLIENT_WEIGHT: "Give client {} the weight {value} within its group?",
    ControlAction.SET_GROUP_WEIGHT: "Give group {} the weight {value}?",
    ControlAction.SET_GROUP_LIMIT: "Let group {} use {value}?",
    ControlAction.SET_CLIENT_PRIORITY: "Give the waiting tasks of client {} the priority {value}?",
    ControlAction.SET_FUNCTION_PRIORITY: "Give the waiting tasks of function {} the priority {value}?",
}
_DONE: dict[Action, str] = {
    ControlAction.PAUSE: "Paused {}.",
    ControlAction.RESUME: "Resumed {}.",
    ControlAction.DRAIN: "Draining {}: {they} when the running tasks have ended.",
    ControlAction.KILL_WORKER: "Killed the process of worker {}. Another takes its place.",
    ControlAction.RESTART_WORKER: "The process of worker {} is replaced when its task has ended.",
    ControlAction.CANCEL_CLIENT: "Cancelled {tasks} of client {}.",
    ControlAction.CANCEL_FUNCTION: "Cancelled {tasks} of function {}.",
    ControlAction.CANCEL_TASK: "Cancelled task {}.",
    ControlAction.CANCEL_GRAPH: "Cancelled {tasks} of graph {}.",
    ControlAction.SET_CLIENT_WEIGHT: "Gave client {} the weight {value} within its group.",
    ControlAction.SET_GROUP_WEIGHT: "Gave group {} the weight {value}.",
    ControlAction.SET_GROUP_LIMIT: "Group {} may use {value}.",
    ControlAction.SET_CLIENT_PRIORITY: "Gave {tasks} of client {} the priority {value}.",
    ControlAction.SET_FUNCTION_PRIORITY: "Gave {tasks} of function {} the priority {value}.",
}
"""The place without a name is that of the agents, worker, client or group that the scheduler has named, otherwise that
of the target."""


@value(frozen=True, slots=True)
class Operation:
    """``target``, ``value``: as in ControlRequest."""

    action: Action
    target: str
    value: float = 0.0


def actions_of_table(name: str) -> tuple[Action, ...]:
    """The actions on rows of a table; none if there is no such table."""
    return tuple(ACTIONS_OF_TABLE.get(name, ()))


def targets_of(spec: TableSpec, row: Row) -> dict[Action, str]:
    """The actions on this row of a table, and their targets."""
    actions = ACTIONS_OF_TABLE.get(spec.name, {})
    found = {action: [str(row[spec.index(key)]) for key in columns] for action, columns in actions.items()}
    return {action: "/".join(parts) for action, parts in found.items() if all(parts)}


def action_of(number: int) -> Action:
    """Return the action with this number. Raises ValueError if there is none."""
    return LookAction(number) if number >= min(LookAction) else ControlAction(number)


def needs_confirmation(operation: Operation) -> bool:
    return isinstance(operation.action, ControlAction)


def profile_outcome(operation: Operation, tree: ProfileTree) -> OperationOutcome:
    """Return the part of a profile of the whole cluster that an operation is about."""
    place = {LookAction.PROFILE_WORKER: 0, LookAction.PROFILE_CLIENT: 1, LookAction.PROFILE_FUNCTION: 2}[
        LookAction(operation.action)
    ]
    found = ProfileTree()
    rows = [row for row in tree.rows() if len(row[0]) > place]
    target = operation.target[:FRAME_LIMIT]
    if operation.action == LookAction.PROFILE_FUNCTION:
        target = _without_module(target, {path[place] for path, _ in rows})
    for path, microseconds in rows:
        if path[place].startswith(target) if place == 1 else path[place] == target:
            found.add(path, microseconds)
    # Frames have no modules, so that functions of one name cannot be told apart.
    others = f" (all functions named {_shown(target)})" if target != operation.target[:FRAME_LIMIT] else ""
    text = f"Profile of {_shown(operation.target)}{others}, {PROFILE_SECONDS:g} s"
    return OperationOutcome(True, text, text_of(found), found)


def _without_module(target: str, names: set[str]) -> str:
    """Return the name of a function as profiles contain it; ``target`` may include the module."""
    matching = [name for name in names if target == name or target.endswith(f".{name}")]
    return max(matching, key=len, default=target)


def read_value(text: str) -> float | None:
    """The number that a person has typed; None if it is not one."""
    try:
        number = float(text.strip())
    except ValueError:
        return None
    return number if math.isfinite(number) else None


@value(frozen=True, slots=True)
class OperationOutcome:
    """``text``: a sentence for the person who asked for it. ``report``: a stack or a profile, in lines.
    ``profile``: the same profile as a tree."""

    is_done: bool
    text: str
    report: str = ""
    profile: ProfileTree | None = None


def question_of(operation: Operation) -> str:
    """The question to which a person says yes before it is carried out."""
    return _QUESTIONS[operation.action].format(_shown(operation.target), value=_shown_value(operation))


def done_text(operation: Operation, names: tuple[str, ...], count: int) -> str:
    """``names``, ``count``: as in ControlReply."""
    if operation.action in _PRIORITIES and not count:
        return f"Nothing has changed: no task of {_shown(operation.target)} waits."
    others = len(names) - _SHOWN_NAMES_LIMIT
    named = ", ".join(_shown(name) for name in names[:_SHOWN_NAMES_LIMIT]) or _shown(operation.target)
    tasks = (
        f"{format_count(count)} {'waiting ' if operation.action in _PRIORITIES else ''}task{'' if count == 1 else 's'}"
    )
    shown = f"{named}{f' and {others} others' if others > 0 else ''}"
    they = "it leaves" if len(names) == 1 else "they leave"
    return _DONE[operation.action].format(shown, value=_shown_value(operation), tasks=tasks, they=they)


def scheduler_address(watched: Address, listening: Address) -> Address:
    """The address at which a monitor reaches the scheduler that it watches. ``watched``: of the publisher;
    ``listening``: of the scheduler, as its snapshot says it. A scheduler that listens at all addresses is reached
    through the publisher's host."""
    if listening.scheme != "tcp" or not _is_wildcard(listening.host):
        return listening
    host = watched.host if watched.scheme == "tcp" and not _is_wildcard(watched.host) else "127.0.0.1"
    return Address("tcp", host, listening.port)


def _is_wildcard(host: str) -> bool:
    try:
        return host == "*" or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _shown_value(operation: Operation) -> str:
    number = f"{operation.value:g}"
    if operation.action != ControlAction.SET_GROUP_LIMIT:
        return number
    return (
        f"at most {number} worker{'' if operation.value == 1 else 's'}" if operation.value else "any number of workers"
    )


def _shown(target: str) -> str:
    text = printable(target)
    return text if len(text) <= _SHOWN_TARGET_LIMIT else text[: _SHOWN_TARGET_LIMIT - 3] + "..."
