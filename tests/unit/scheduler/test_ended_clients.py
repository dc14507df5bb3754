"""What clients have used remains visible when they have left, within bounds."""

from __future__ import annotations

from scaler_protocol.messages import Cancel, Goodbye, Status, TaskColumn, Tasks
from scaler_scheduler.core.ended_clients import CLIENT_LIMIT
from tests.unit.scheduler.playbook import Playbook, definition, results, run

LARGE = (10**6).to_bytes(8, "little")


def test_a_client_that_has_left_keeps_its_row() -> None:
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    client.says(Tasks([run(client, 1, 2)], [definition()]))
    agent.says(results(client, 1, 2, duration_us=500_000))
    (present,) = book.core.snapshot(book.now).clients
    assert (present.finished, present.used_seconds) == (2, 1.0)
    client.says(Goodbye())
    snapshot = book.core.snapshot(book.now)
    assert snapshot.clients == ()
    (ended,) = snapshot.ended_clients
    assert ended.session == present.session
    assert (ended.finished, ended.used_seconds, ended.count) == (2, 1.0, 1)


def test_clients_without_tasks_are_left_out() -> None:
    """They have used nothing, and the actions of monitors would push out those that have."""
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    client.says(Tasks([run(client, 1, 1)], [definition()]))
    agent.says(results(client, 1))
    client.says(Goodbye())
    for number in range(CLIENT_LIMIT + 1):
        book.client(f"monitor {number}").says(Goodbye())
    (ended,) = book.core.snapshot(book.now).ended_clients
    assert (ended.finished, ended.count) == (1, 1)


def test_failed_and_cancelled_tasks_are_counted_apart_as_long_as_the_client_and_afterwards() -> None:
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    client.says(Tasks([run(client, 1, 1000)], [definition()]))
    agent.says(results(client, 1, (2, 1, Status.EXCEPTION, b""), (3, 1, Status.TIMED_OUT, b"")))
    client.says(Cancel((TaskColumn(client.session, (1000,), ()),)))
    (present,) = book.core.snapshot(book.now).clients
    assert (present.finished, present.failed, present.canceled) == (4, 2, 1)
    client.says(Goodbye())
    agent.says(Goodbye())
    (ended,) = book.core.snapshot(book.now).ended_clients
    assert (ended.finished, ended.failed, ended.canceled) == (1000, 2, 997)


def test_large_results_that_the_client_has_released_remain_successes() -> None:
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    client.says(Tasks([run(client, 1, 3, map_number=1, map_tasks=3)], [definition()]))
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, LARGE), (2, 1, Status.SUCCESS_LARGE, LARGE)))
    client.says(Cancel((TaskColumn(client.session, (1,), ()),)))
    snapshot = book.core.snapshot(book.now)
    (present,), (called,) = snapshot.clients, snapshot.maps
    assert (present.finished, present.failed, present.canceled) == (1, 0, 0)
    assert (called.unfinished, called.failed, called.canceled) == (1, 0, 0)
    client.says(Goodbye())
    agent.says(Goodbye())
    (ended,) = book.core.snapshot(book.now).ended_clients
    assert (ended.finished, ended.failed, ended.canceled) == (3, 0, 1)


def test_running_time_in_nested_clients_is_that_of_their_root_only() -> None:
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    client.says(Tasks([run(client, 1, 1)], [definition()]))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=1, parent_attempt=1)
    child.says(Tasks([run(child, 1, 1)], [definition()]))
    agent.says(results(child, 1, duration_us=500_000))
    child.says(Goodbye())
    snapshot = book.core.snapshot(book.now)
    assert [each.used_seconds for each in snapshot.clients] == [0.5]
    assert [(each.finished, each.used_seconds) for each in snapshot.ended_clients] == [(1, 0.0)]


def test_earlier_ones_are_one_row_and_nothing_is_lost() -> None:
    book = Playbook()
    agent = book.agent(slots=4)
    for number in range(CLIENT_LIMIT + 5):
        client = book.client(f"client {number}")
        client.says(Tasks([run(client, 1, 1)], [definition()]))
        agent.says(results(client, (1, 1, Status.EXCEPTION, b""), duration_us=1_000_000))
        client.says(Goodbye())
    rows = book.core.snapshot(book.now).ended_clients
    assert len(rows) == CLIENT_LIMIT + 1
    assert (rows[-1].session, rows[-1].count, rows[-1].finished, rows[-1].used_seconds) == (b"", 5, 5, 5.0)
    assert sum(row.finished for row in rows) == CLIENT_LIMIT + 5
    assert [sum(row.failed for row in rows), rows[-1].failed] == [CLIENT_LIMIT + 5, 5]
