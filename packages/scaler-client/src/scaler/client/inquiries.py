"""Requests of clients to the scheduler, to look at tasks or to act on them, and the meaning of the answers.

``Client`` waits for the answer, and ``AsyncClient`` awaits it; the rest is the same for both, and is here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from scaler.client.outcomes import failure_of
from scaler.core.outcome import Outcome, Sink
from scaler.core.questions import Questions
from scaler.utility.exceptions import ControlError
from scaler_protocol.limits import REAL_LIMIT, TEXT_LIMIT_BYTES
from scaler_protocol.messages import ControlAction, OutputPiece, Status
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.output_text import STREAM_NAMES, text_of

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

T = TypeVar("T")

_SHOWN_NAME_LIMIT = 60


class SubmittedTask(Protocol):
    """A future of a task."""

    @property
    def task_id(self) -> int: ...

    @property
    def _client_io(self) -> ClientIO: ...

    def done(self) -> bool: ...


class Inquiry(NamedTuple, Generic[T]):
    """``ask`` sends the request; ``read`` turns the payload of a successful answer into what the caller gets."""

    ask: Callable[[Questions, Sink], None]
    read: Callable[[Any], T]


def answer_in(inquiry: Inquiry[T], outcome: Outcome) -> T:
    """Return what the caller of ``inquiry`` gets. Raises ControlError if the scheduler refused it."""
    if outcome.status == Status.SUCCESS:
        return inquiry.read(outcome.payload)
    if outcome.status == Status.EXCEPTION:
        raise ControlError(_text(outcome.payload))
    raise failure_of(outcome)


# ---- looking -----------------------------------------------------------------------------------------------------


def check_own(purpose: str, task: SubmittedTask, client_io: ClientIO) -> None:
    """Raise ValueError if the task is not one of the client that uses ``client_io``. Each client numbers its tasks, so
    that it would take the task for another one."""
    if task._client_io is not client_io:
        raise ValueError(f"Cannot {purpose}: it is a task of another client. Ask the client that has submitted it.")


def stack_inquiry(task: SubmittedTask | str, client_io: ClientIO) -> Inquiry[str]:
    """See :meth:`scaler.Client.stack`."""
    if isinstance(task, str):
        worker = _sendable(task)
        return Inquiry(lambda questions, sink: questions.ask_stack(0, worker, sink), _text)
    _check_task("the stack", task)
    check_own("show the stack of the task", task, client_io)
    if task.done():
        raise ControlError("Cannot show the stack: the task has ended.")
    number = task.task_id
    if not number:
        raise ControlError("Cannot show the stack: the task has not left the client yet.")
    return Inquiry(lambda questions, sink: questions.ask_stack(number, "", sink), _text)


def output_inquiry(task: SubmittedTask | str, stream: str | None, client_io: ClientIO) -> Inquiry[str] | None:
    """See :meth:`scaler.Client.output`. None if the task has not been sent, and has no output therefore."""
    if stream not in (None, "stdout", "stderr"):
        raise ValueError(f"Cannot show the stream {stream!r}. Give 'stdout', 'stderr' or None.")
    if not isinstance(task, str):
        _check_task("the output", task)
        check_own("show the output of the task", task, client_io)
    number, worker = (0, task) if isinstance(task, str) else (task.task_id, "")
    if not number and not worker:
        return None

    inquiry = pieces_inquiry(number, worker)

    def read(payload: Any) -> str:
        pieces = [each for each in inquiry.read(payload) if stream is None or STREAM_NAMES.get(each.stream) == stream]
        return text_of(pieces, names_tasks=bool(worker))

    return Inquiry(inquiry.ask, read)


def _check_task(what: str, task: Any) -> None:
    if not hasattr(task, "task_id"):
        raise TypeError(
            f"Cannot show {what} of {task!r}: it is neither a future of a Scaler client nor the name of a worker."
        )


def pieces_inquiry(task: int, worker: str) -> Inquiry[list[OutputPiece]]:
    """The output of a task, or with 0, the latest of the tasks of a worker."""
    worker = _sendable(worker)
    return Inquiry(lambda questions, sink: questions.ask_output(task, worker, sink), list)


def profile_inquiry(number: int, interval_us: int) -> Inquiry[list[bytes]]:
    """Begin the profile with this number, or end it with an interval of 0; then the answer is what the agents found."""
    return Inquiry(lambda questions, sink: questions.profile(number, interval_us, sink), list)


# ---- acting ------------------------------------------------------------------------------------------------------


def agents_of(action: ControlAction, target: str) -> Inquiry[list[str]]:
    """Act on agents. The answer is their names."""
    return _control(action, target, 0.0, lambda payload: list(payload[0]))


def act_on_worker(action: ControlAction, worker: str) -> Inquiry[None]:
    return _control(action, worker, 0.0, _nothing)


def cancel_inquiry(client: str | None, function: str | None, task: int | None, graph: int | None) -> Inquiry[int]:
    """See :meth:`scaler.Client.cancel_tasks`."""
    if (client is None) == (function is None):
        raise TypeError("cancel_tasks() takes either client or function.")
    if task is None and graph is None:
        if client is not None:
            return _control(ControlAction.CANCEL_CLIENT, client, 0.0, _count)
        return _control(ControlAction.CANCEL_FUNCTION, function, 0.0, _count)
    if client is None or (task is not None and graph is not None):
        raise TypeError("cancel_tasks() takes either task or graph, with the client that submitted it.")
    if task is not None:
        return _control(ControlAction.CANCEL_TASK, f"{client}/{task}", 0.0, _count)
    return _control(ControlAction.CANCEL_GRAPH, f"{client}/{graph}", 0.0, _count)


def weight_inquiry(weight: float, client: str | None, group: str | None) -> Inquiry[None]:
    """See :meth:`scaler.Client.set_weight`."""
    if (client is None) == (group is None):
        raise TypeError("set_weight() takes either client or group.")
    if client is not None:
        return _control(ControlAction.SET_CLIENT_WEIGHT, client, weight, _nothing)
    return _control(ControlAction.SET_GROUP_WEIGHT, group, weight, _nothing)


def limit_inquiry(workers: int, group: str) -> Inquiry[None]:
    return _control(ControlAction.SET_GROUP_LIMIT, group, workers, _nothing)


def priority_inquiry(priority: int, client: str | None, function: str | None) -> Inquiry[int]:
    """See :meth:`scaler.Client.set_priority`."""
    if (client is None) == (function is None):
        raise TypeError("set_priority() takes either client or function.")
    if client is not None:
        return _control(ControlAction.SET_CLIENT_PRIORITY, client, priority, _count)
    return _control(ControlAction.SET_FUNCTION_PRIORITY, function, priority, _count)


def _control(action: ControlAction, target: Any, value: Any, read: Callable[[Any], T]) -> Inquiry[T]:
    """The payload of the answer: the names of the agents, and the number of the tasks, that were concerned."""
    if not isinstance(target, str):
        raise TypeError(f"Cannot control {target!r}: it is not a string.")
    if not isinstance(value, (int, float)):
        raise TypeError(f"Cannot set {value!r}: it is not a number.")
    name, number = _sendable(target), _sendable_number(value)
    return Inquiry(lambda questions, sink: questions.control(action, name, number, sink), read)


def _sendable(name: str) -> str:
    """Return the name. Raises ControlError if no message may contain it: the connection would end."""
    with contextlib.suppress(UnicodeEncodeError):
        if len(name.encode()) <= TEXT_LIMIT_BYTES:
            return name
    shown = short_text(name, _SHOWN_NAME_LIMIT)
    raise ControlError(f"Cannot find {shown!r}: nothing can have this name. Use a name that the monitors show.")


def _sendable_number(value: float) -> float:
    """Return the number. Raises ControlError if no message may contain it: the connection would end."""
    if -REAL_LIMIT <= value <= REAL_LIMIT:
        return float(value)
    raise ControlError(f"Cannot set this value: it is not a number from -{REAL_LIMIT:g} to {REAL_LIMIT:g}.")


def _count(payload: Any) -> int:
    return int(payload[1])


def _nothing(payload: Any) -> None:
    """The answer says nothing more than that it is done."""


def _text(payload: Any) -> str:
    return bytes(payload).decode(errors="replace")
