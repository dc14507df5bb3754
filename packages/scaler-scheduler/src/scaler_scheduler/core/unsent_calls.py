"""Calls that wait in their clients for results of other tasks, as the clients say. Monitors count them as waiting; for
everything else they are not here yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scaler_protocol.messages import UNSENT_FUNCTIONS_LIMIT, UnsentCalls, UnsentCount
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.function_keys import NAME_LIMIT_CHARACTERS
from scaler_scheduler.core.state import SchedulerState

REASON = "Waits in its client for results of other tasks."


def on_unsent_calls(state: SchedulerState, client: ClientPeer, body: UnsentCalls, now: float) -> None:
    """A client states its counts again."""
    if not client.unsent:
        client.unsent_since = now
    client.unsent = tuple(
        replace(each, module=each.module[:NAME_LIMIT_CHARACTERS]) for each in body.counts[:UNSENT_FUNCTIONS_LIMIT]
    )


def count_of(client: ClientPeer) -> int:
    return sum(each.count for each in client.unsent)


def counts_of(state: SchedulerState) -> Iterator[UnsentCount]:
    """Yield the counts of all clients."""
    for client in state.clients.values():
        yield from client.unsent
