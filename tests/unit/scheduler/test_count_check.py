"""Counts that are wrong are found, put right and reported."""

from __future__ import annotations

from scaler_protocol.messages import Capability
from scaler_scheduler.core import count_check, faults
from scaler_scheduler.core.count_check import RECOUNT_SECONDS, SECONDS_PER_MILLION_TASKS
from tests.unit.scheduler.playbook import FUNCTION, Playbook, handed, results, statuses, tasks
from tests.unit.scheduler.test_graphs import nodes


def warnings(book: Playbook) -> list[str]:
    return [text for text in book.logs if "has been corrected" in text]


def test_a_queue_that_counts_too_few_gives_out_all_its_tasks():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 5))
    [queue] = book.core.state.placement.classes.values()
    queue.count -= 3
    count_check.correct(book.core.state)
    assert queue.count == 5
    agent = book.agent(slots=9)
    assert len(handed(agent.joined, agent)) == 5
    assert "2 tasks queued" in warnings(book)[0]


def test_an_agent_that_seems_to_have_too_much_gets_tasks_again():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2, capabilities={"gpu": 1})
    load = book.core.state.agents[agent.session].load
    load.resources = {"gpu": 0}
    count_check.correct(book.core.state)
    said = client.says(tasks(client, 1, 1, capabilities=(Capability("gpu", 1),)))
    assert handed(said, agent) == [(1, 1)] and "left" in warnings(book)[0]


def test_counts_of_functions_and_of_their_users_are_put_right():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 2))
    book.core.state.function_loads[FUNCTION].unfinished = 7
    book.core.state.function_users[b"x" * 16] = 1
    count_check.correct(book.core.state)
    book.core.check()
    assert book.core.state.function_loads[FUNCTION].unfinished == 2
    assert statuses(agent.says(results(client, 1)), client) == {1: 0}


def test_bytes_under_way_to_a_client_are_counted():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    client.says(tasks(client, 1, 2))
    agent.says(results(client, 1))
    known = book.core.state.clients[client.session]
    known.amend_bytes(1 << 40)
    assert known.is_paused
    count_check.correct(book.core.state)
    assert not known.is_paused and known.unacknowledged_bytes < 1000


def test_an_agent_is_not_a_copy_of_itself():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]], 2), nodes(client, 2, [[1]], 2, True))
    agent.says(results(client, 1))
    known = book.core.state.clients[client.session].table.nodes
    known.note_copy(1, known.value_holder(1))
    count_check.correct(book.core.state)
    book.run()
    assert known.copies_of(1) == () and "copies of 1" in warnings(book)[0]


def test_right_counts_are_not_reported():
    book = Playbook()
    client, agent = book.client(), book.agent("a", slots=2)
    book.agent("b")
    client.says(tasks(client, 1, 50), nodes(client, 51, [[]], 52), nodes(client, 52, [[51]], 52))
    for _ in range(3):
        book.core.state.recount_at = book.now
        book.wait(0.3, (agent,))
    assert warnings(book) == []


def test_many_tasks_are_counted_more_rarely():
    book = Playbook()
    client, agent = book.client(), book.agent()
    for first in range(1, 200_001, 50_000):
        client.says(tasks(client, first, 50_000))
    book.core.state.recount_at = book.now
    book.wait(0.25, (agent,))
    assert book.core.state.recount_at >= book.now - 0.25 + RECOUNT_SECONDS + 0.2 * SECONDS_PER_MILLION_TASKS


def test_the_number_of_all_tasks_follows_each_task_until_its_client_is_gone():
    book = Playbook()
    client, other, agent = book.client("one"), book.client("two"), book.agent(slots=4)
    totals = book.core.state.totals
    client.says(tasks(client, 1, 2), nodes(client, 3, [[]], 4), nodes(client, 4, [[3]], 4, True))
    other.says(tasks(other, 1, 500))
    assert totals.unfinished == 504
    agent.says(results(client, 1, 2))
    assert totals.unfinished == 502
    agent.says(results(client, 3))
    assert totals.unfinished == 502, "the value is needed"
    agent.says(results(client, 4))
    assert totals.unfinished == 500
    faults._remove(book.core.state, other.session)
    assert totals.unfinished == 0 and not warnings(book)


def test_a_wrong_number_of_all_tasks_is_put_right():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 2))
    book.core.state.totals.unfinished = 7
    count_check.correct(book.core.state)
    assert book.core.state.totals.unfinished == 2
