"""Tasks enter queues, or return to them."""

from __future__ import annotations

from scaler_scheduler.core.clients import ClientPeer


def requeue(client: ClientPeer, task: int) -> None:
    """Put a task back at the front of its queue, for its next attempt."""
    record = client.table.requeue(task)
    if record is not None:
        record.queue.push(client, client.table, record.priority, task, task + 1, True)


def push(client: ClientPeer, ranges: list, front: bool) -> None:
    """Put ranges of tasks (record, first, stop) into their queues."""
    for record, first, stop in reversed(ranges) if front else ranges:
        record.queue.push(client, client.table, record.priority, first, stop, front)
