"""Tasks that an operator cancels: their client is told who did it, before they end."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.keys import holder_of_user
from scaler_protocol.messages import CANCEL_REASONS_SINCE_MINOR, Cancel, TaskColumn
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.format import printable
from scaler_scheduler.core import cancellation, outbox
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.dispatch import CANCELS_PER_MESSAGE
from scaler_scheduler.core.state import SchedulerState

_NAME_LIMIT = 60


def cancel(
    state: SchedulerState, operator: ClientPeer, client: ClientPeer, tasks: Sequence[int], what: str, now: float
) -> int:
    """Cancel tasks of ``client`` on behalf of ``operator``. ``what``: these tasks, in words. Returns their number."""
    if client.hello.minor >= CANCEL_REASONS_SINCE_MINOR:
        reason = f"An operator has cancelled {_shown(what)}: {who(state, operator)}."
        for start in range(0, len(tasks), CANCELS_PER_MESSAGE):
            column = TaskColumn(client.session, tuple(tasks[start : start + CANCELS_PER_MESSAGE]))
            outbox.send(state, client, Cancel((column,), reason=reason), now)
    cancellation.cancel(state, client, tasks, now)
    return len(tasks)


def user_of(state: SchedulerState, operator: ClientPeer) -> str:
    """The holder of the operator's key, or without keys the user of the scheduler."""
    return holder_of_user(operator.user) if operator.user else state.settings.user


def who(state: SchedulerState, operator: ClientPeer) -> str:
    """Describe an operator to the owner of tasks."""
    hello = operator.hello
    program = f", with {_shown(hello.program)}" if hello.program else ""
    return f"{_shown(user_of(state, operator)) or 'a user'} on {_shown(hello.host)} (pid {hello.pid}){program}"


def _shown(text: str) -> str:
    return printable(short_text(text, _NAME_LIMIT))
