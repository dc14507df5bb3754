"""Actions on the cluster that a monitor offers, and the words for them."""

from __future__ import annotations

import ipaddress

from scaler_protocol.address import Address
from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.format import format_count, printable
from scaler_protocol.value import value

ACTION_LABELS = {
    ControlAction.PAUSE: "Pause",
    ControlAction.RESUME: "Resume",
    ControlAction.DRAIN: "Drain",
    ControlAction.CANCEL_CLIENT: "Cancel tasks",
    ControlAction.CANCEL_FUNCTION: "Cancel tasks",
}
_ON_WORKERS = (ControlAction.PAUSE, ControlAction.RESUME, ControlAction.DRAIN)
ACTIONS_OF_TABLE = {
    "workers": _ON_WORKERS,
    "objects": _ON_WORKERS,
    "functions": (ControlAction.CANCEL_FUNCTION,),
    "running": (ControlAction.CANCEL_FUNCTION,),
    "clients": (ControlAction.CANCEL_CLIENT,),
}
"""The actions on what a row of a table shows."""

TARGET_COLUMNS = {
    "workers": "name",
    "objects": "host",
    "functions": "name",
    "running": "function",
    "clients": "session",
}
"""The column with the target of an action, by table."""

TARGET_LIMIT = 10_000
"""Characters."""

_SHOWN_TARGET_LIMIT = 60
_SHOWN_NAMES_LIMIT = 5
_QUESTIONS = {
    ControlAction.PAUSE: "Pause {}, with all workers of the agent? Running tasks continue.",
    ControlAction.RESUME: "Resume {}, with all workers of the agent?",
    ControlAction.DRAIN: "Drain {}, with all workers of the agent? They end when their running tasks have ended.",
    ControlAction.CANCEL_CLIENT: "Cancel all tasks of client {}? Running ones are interrupted.",
    ControlAction.CANCEL_FUNCTION: "Cancel all tasks of function {}? Running ones are interrupted.",
}
_DONE = {ControlAction.PAUSE: "Paused", ControlAction.RESUME: "Resumed", ControlAction.DRAIN: "Draining"}


@value(frozen=True, slots=True)
class Operation:
    """``target``: as in ControlRequest."""

    action: ControlAction
    target: str


@value(frozen=True, slots=True)
class OperationOutcome:
    """``text``: a sentence for the person who asked for it."""

    is_done: bool
    text: str


def question_of(operation: Operation) -> str:
    """The question to which a person says yes before it is carried out."""
    return _QUESTIONS[operation.action].format(_shown(operation.target))


def done_text(action: ControlAction, names: tuple[str, ...], count: int) -> str:
    """``names``, ``count``: as in ControlReply."""
    if action not in _DONE:
        return f"Cancelled {format_count(count)} task{'' if count == 1 else 's'}."
    others = len(names) - _SHOWN_NAMES_LIMIT
    shown = ", ".join(_shown(name) for name in names[:_SHOWN_NAMES_LIMIT])
    return f"{_DONE[action]}: {shown}{f' and {others} others' if others > 0 else ''}."


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


def _shown(target: str) -> str:
    text = printable(target)
    return text if len(text) <= _SHOWN_TARGET_LIMIT else text[: _SHOWN_TARGET_LIMIT - 3] + "..."
