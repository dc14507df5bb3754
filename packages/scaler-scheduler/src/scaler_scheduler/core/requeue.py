"""Tasks enter queues, or return to them."""

from __future__ import annotations

from scaler_scheduler.core.clients import ClientPeer


def requeue(client: ClientPeer, task: int) -> None:
    """Put a task back at the front of its queue, for its next attempt."""
    record = client.table.requeue(task)
    if record is not None:
        record.queue.push_front(client, client.table, record.priority, task, task + 1)


def push(client: ClientPeer, ranges: list) -> None:
    """Put ranges of tasks that have become ready at the end of their queues."""
    for record, first, stop in ranges:
        record.queue.push(client, client.table, record.priority, first, stop)


def push_front(client: ClientPeer, ranges: list) -> None:
    """Put ranges of tasks that have left their agent back at the front of their queues."""
    for record, first, stop in reversed(ranges):
        record.queue.push_front(client, client.table, record.priority, first, stop)
