"""Values that clients and tasks share by name: answers, and ends of requests. See ``named_table``."""

from __future__ import annotations

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import CoordinationKind, NamedReply, NamedState
from scaler_scheduler.core import named_table, outbox
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.named_table import Answer
from scaler_scheduler.core.state import SchedulerState

_TASK_ENDED_TEXT = "The task that waited has ended."


def on_connection_ended(state: SchedulerState, session: bytes) -> None:
    """The session may come back."""
    named_table.note_away(state.named, session)


def on_connection_resumed(state: SchedulerState, session: bytes, now: float) -> None:
    """The session has come back."""
    tell(state, named_table.note_back(state.named, session), now)


def on_session_ended(state: SchedulerState, session: bytes) -> None:
    """Nothing more comes from this session."""
    named_table.end_session(state.named, session)


def on_results(state: SchedulerState, run: ResultRun, now: float) -> None:
    """Executions of tasks have ended, and with them the requests that they made."""
    table = state.named
    if run.session not in table.by_task:
        return
    for execution in zip(run.task_column, run.attempt_column, strict=True):
        for request in named_table.requests_of(table, run.session, execution):
            named_table.withdraw(table, request)
            tell(state, [Answer(request, NamedState.ENDED)], now, _TASK_ENDED_TEXT)


def tell(state: SchedulerState, answers: list[Answer], now: float, text: str = "") -> None:
    """Tell sessions what became of their requests."""
    for request, outcome, value, version, length in answers:
        client = state.clients.get(request.session)
        if client is not None:
            kind = CoordinationKind(request.name[0])
            reply(state, client, kind, request.number, outcome, now, text, value, version, length)


def reply(
    state: SchedulerState,
    client: ClientPeer,
    kind: CoordinationKind,
    number: int,
    outcome: NamedState,
    now: float,
    text: str = "",
    value: bytes = b"",
    version: int = 0,
    count: int = 0,
) -> None:
    """Tell a client what became of one of its requests."""
    outbox.send(state, client, NamedReply(kind, outcome, number, text, value, version, count), now)
