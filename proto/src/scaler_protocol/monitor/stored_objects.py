"""The names of objects for people."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import PRIVATE_UPLOAD_NUMBER, UPLOAD_NUMBER
from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.messages import ObjectStatus
from scaler_protocol.monitor.records import NONE

_LAST_NUMBER = 2**64 - 1


def label_of(status: ObjectStatus) -> str:
    """``result-17`` of task 17, ``sent-1`` with ``send_object``, ``argument-1``, or ``function-0a1b2c3d``."""
    if status.digest:
        return f"function-{status.digest.hex()[:8]}"
    if status.number >= PRIVATE_UPLOAD_NUMBER:
        return f"argument-{_LAST_NUMBER - status.number + 1}"
    if status.number >= UPLOAD_NUMBER:
        return f"sent-{PRIVATE_UPLOAD_NUMBER - status.number}"
    return f"result-{status.number}"


def is_result(status: ObjectStatus) -> bool:
    """Return whether it is the result of a task."""
    return not status.digest and status.number < UPLOAD_NUMBER


def reader_tasks(status: ObjectStatus) -> list[int]:
    """The first of the unfinished tasks that need it."""
    return [int(each) for each in status.reader_tasks.split() if each.isdecimal() and len(each) <= 20]


def function_of(activity: Activity, status: ObjectStatus) -> str:
    """The name of a function, or of that of the task whose result it is; empty if it is not known."""
    return functions_of(activity, [status])[0]


def functions_of(activity: Activity, objects: Sequence[ObjectStatus]) -> list[str]:
    """The same of each of these, in one pass over all functions and sessions, of which there may be very many."""
    digests = {each.digest for each in objects}
    names: dict[bytes, str] = {}
    for function in activity.functions.values():
        if function.digest in digests:
            names.setdefault(function.digest, activity.function_names.shown(function.name, function.module))
    owners = {each.session for each in objects}
    indices: dict[bytes, list[int]] = {}
    for index, named in activity.sessions.items():
        if named.session in owners:
            indices.setdefault(named.session, []).append(index)
    return [
        names.get(each.digest, "") if each.digest else _producer(activity, indices.get(each.session, []), each)
        for each in objects
    ]


def _producer(activity: Activity, sessions: list[int], status: ObjectStatus) -> str:
    """The function of the task whose result it is; empty for other objects."""
    if not is_result(status):
        return ""
    found = (activity.times.function_of(index, status.number) for index in sessions)
    return activity.function_name(next((each for each in found if each != NONE), NONE))
