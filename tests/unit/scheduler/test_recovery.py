"""Connections that are cut, and schedulers that are restarted."""

from __future__ import annotations

from scaler_protocol.messages import Blocked, Cancel, DroppedTasks, Status, TaskColumn, Tasks
from tests.unit.scheduler.playbook import Peer, Playbook, attach, definition, handed, results, run, statuses, tasks


def test_a_resumed_link_repeats_what_was_lost():
    book = Playbook()
    client, agent = book.client(), book.agent()
    book.deaf = {"agent"}
    client.says(tasks(client, 1, 1))
    book.deaf = set()
    book.lose(agent)
    assert handed(agent.connect(), agent) == [(1, 1)]
    assert agent.welcome.resumed


def test_a_client_that_was_away_gets_its_results_when_it_returns():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    book.lose(client)
    assert agent.says(results(client, 1)) == []
    assert statuses(client.connect(), client) == {1: Status.SUCCESS}


def test_what_a_client_sent_in_vain_arrives_once():
    book = Playbook()
    client = book.client()
    client.link.wrap(tasks(client, 1, 1))
    book.lose(client)
    client.connect()
    book.lose(client)
    client.connect()
    assert book.core.state.placement.queued == 1


def resubmit(client, first, count):
    return Tasks([run(client, first, count)], [definition()], [], True)


def restarted(name="client", agent="agent"):
    """A scheduler of a new epoch, to which a client and an agent come back."""
    book = Playbook(epoch=2)
    client = book.client(name, epoch=1, received=7)
    return book, client


def test_resubmitted_tasks_wait_for_the_agent_that_has_them():
    book, client = restarted()
    assert client.says(resubmit(client, 1, 3)) == []
    agent = book.agent(slots=4, holds=(TaskColumn(client.session, (2,), (5,)),))
    assert handed(agent.joined, agent) == []
    assert statuses(agent.says(results(client, (2, 5))), client) == {2: Status.SUCCESS}
    assert handed(book.wait(1.5, (agent,)), agent) == [(1, 1), (3, 1)]


def test_what_the_client_has_not_stated_again_is_cancelled_at_once():
    """It has stated a later task, so it does not wait for the first any more. It may state the last one."""
    book, client = restarted()
    client.says(resubmit(client, 2, 1))
    agent = book.agent(slots=4, holds=(TaskColumn(client.session, (1, 2, 3), (1, 1, 1)),))
    assert agent.joined == [("agent", Cancel((TaskColumn(client.session, (1,), (1,)),)))]
    assert client.says(resubmit(client, 3, 1)) == []


def cancelled(said: list, agent: Peer) -> list[tuple[int, int]]:
    return [
        pair
        for name, body in said
        if name == agent.name and isinstance(body, Cancel)
        for column in body.columns
        for pair in zip(column.tasks, column.attempts, strict=True)
    ]


def test_a_cancel_that_the_last_scheduler_did_not_hear_reaches_the_agent_that_has_the_task():
    """At once, whoever of the two comes back first: the agent may be about to start it."""
    book, client = restarted()
    client.says(resubmit(client, 1, 1), Cancel((TaskColumn(client.session, (2, 3)),)))
    agent = book.agent(holds=(TaskColumn(client.session, (1, 2), (1, 7)),))
    assert cancelled(agent.joined, agent) == [(2, 7)]
    other = book.agent("other", holds=(TaskColumn(client.session, (3,), (4,)),))
    assert cancelled(other.joined, other) == [(3, 4)]


def test_the_same_when_the_agent_is_back_before_the_client():
    book = Playbook(epoch=2)
    session = b"client".ljust(16, b".")
    agent = book.agent(holds=(TaskColumn(session, (1, 2), (1, 7)),))
    client = book.client(epoch=1, received=7)
    said = client.says(resubmit(client, 1, 1), Cancel((TaskColumn(session, (2,)),)))
    assert cancelled(said, agent) == [(2, 7)]
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}


def test_cancels_are_remembered_only_while_agents_come_back():
    book, client = restarted()
    client.says(Cancel((TaskColumn(client.session, (2,)),)))
    assert book.core.state.clients[client.session].stated_cancels
    book.wait(1.5)
    assert not book.core.state.clients[client.session].stated_cancels
    client.says(Cancel((TaskColumn(client.session, (3,)),)))
    assert not book.core.state.clients[client.session].stated_cancels


def test_an_agent_that_comes_back_too_late_is_given_another_attempt():
    """What it then still says of the one it is told to stop is not of this one."""
    book, client = restarted()
    client.says(resubmit(client, 1, 1))
    book.wait(1.5)
    agent = book.agent(holds=(TaskColumn(client.session, (1,), (1,)),))
    assert handed(agent.joined, agent) == [(1, 2)]
    assert ("agent", Cancel((TaskColumn(client.session, (1,), (1,)),))) in agent.joined
    assert statuses(agent.says(results(client, (1, 1, Status.CANCELLED, b""))), client) == {}
    assert statuses(agent.says(results(client, (1, 2))), client) == {1: Status.SUCCESS}


def test_a_task_that_runs_elsewhere_may_come_to_a_late_agent_as_another_attempt():
    book, client = restarted()
    first = book.agent("first")
    client.says(resubmit(client, 1, 1))
    assert handed(book.wait(1.5, (first,)), first) == [(1, 1)]
    late = book.agent("late", holds=(TaskColumn(client.session, (1,), (2,)),))
    assert cancelled(late.joined, late) == [(1, 2)]
    book.lose(first)
    assert handed(book.wait(1.0, (late,)), late) == [(1, 3)]
    assert statuses(late.says(results(client, (1, 2, Status.CANCELLED, b""))), client) == {}
    assert statuses(late.says(results(client, (1, 3))), client) == {1: Status.SUCCESS}


def test_what_an_agent_holds_waits_for_its_client():
    book = Playbook(epoch=2)
    client = book._peer("client", 1)
    agent = book.agent(slots=4, holds=(TaskColumn(client.session, (2,), (5,)),))
    agent.says(results(client, (1, 3)))
    client.connect(epoch=1)
    said = client.says(resubmit(client, 1, 3))
    assert statuses(said, client) == {1: Status.SUCCESS}
    assert statuses(agent.says(results(client, (2, 5))), client) == {2: Status.SUCCESS}
    assert handed(book.wait(1.5, (agent,)), agent) == [(3, 1)]


def test_what_nobody_comes_back_for_is_cancelled_and_released():
    book = Playbook(epoch=2)
    client = book._peer("client", 1)
    agent = book.agent(holds=(TaskColumn(client.session, (2,), (5,)),))
    agent.says(results(client, (1, 3)))
    said = book.wait(1.5, (agent,))
    # The first may be a node of a graph, whose value the agent keeps.
    assert said == [
        ("agent", DroppedTasks(client.session, (2,))),
        ("agent", DroppedTasks(client.session, (1,))),
        ("agent", Cancel((TaskColumn(client.session, (2, 1), (5, 3)),))),
    ]
    assert not book.core.state.unclaimed


def restarted_with_child() -> tuple[Playbook, Peer, Peer, Peer]:
    """An agent runs task 2 of a client that is away; the client inside it has submitted its task 1 again."""
    book = Playbook(epoch=2, client_timeout_seconds=1.0)
    client = book._peer("client", 1)
    agent = book.agent(holds=(TaskColumn(client.session, (2,), (5,)),))
    parent = {"parent_session": client.session, "parent_task": 2, "parent_attempt": 5}
    child = book._peer("child", 1, agent)
    child.connect(epoch=1, **parent)
    agent.says(Blocked(1, 0))
    child.says(resubmit(child, 1, 1))
    return book, client, agent, child


def test_what_was_submitted_inside_a_task_that_nobody_comes_back_for_is_cancelled():
    book, client, agent, child = restarted_with_child()
    assert statuses(book.wait(3.0, (agent,)), child) == {1: Status.CANCELLED}


def test_what_was_submitted_inside_a_task_that_its_client_does_not_want_any_more_is_cancelled():
    book, client, agent, child = restarted_with_child()
    client.connect(epoch=1)
    said = client.says(resubmit(client, 3, 3))
    assert statuses(said, child) == {1: Status.CANCELLED}
    assert ("agent", Cancel((TaskColumn(client.session, (2,), (5,)),))) in said


def test_what_was_submitted_inside_a_task_goes_on_if_another_agent_drops_the_same_attempt():
    book, client, agent, child = restarted_with_child()
    client.connect(epoch=1)
    client.says(resubmit(client, 1, 2))
    late = book.agent("late", holds=(TaskColumn(client.session, (2,), (5,)),))
    assert late.joined == [("late", Cancel((TaskColumn(client.session, (2,), (5,)),)))]
    assert handed(book.wait(3.0, (agent, late)), agent) == [(1, 1)]


def test_tasks_sent_again_after_a_restart_may_be_cancelled_while_they_are_held():
    book, client = restarted()
    client.says(resubmit(client, 1, 2))
    assert statuses(client.says(Cancel((TaskColumn(client.session, (1,)),))), client) == {1: Status.CANCELLED}
    agent = book.agent()
    assert handed(book.wait(1.5, (agent,)), agent) == [(2, 1)]


def test_an_agent_that_says_hello_anew_has_lost_its_state():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    agent.epoch = 0
    assert agent.connect() == []
    assert not agent.welcome.resumed
    said = agent.says(attach("agent"))
    assert handed(said, agent) == [(1, 2)]


def test_a_client_that_begins_anew_leaves_nothing_behind_at_agents():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 2))
    client.epoch = 0
    assert client.connect() == [("agent", Cancel((TaskColumn(client.session, (1, 2), (1, 1)),)))]
    assert not client.welcome.resumed
    assert book.core.state.agents[agent.session].load.outstanding == 0
    client.says(resubmit(client, 1, 2))
    assert agent.says(results(client, (1, 1, Status.CANCELLED, b""), (2, 1, Status.CANCELLED, b""))) == []
    assert handed(book.wait(1.5, (agent,)), agent) == [(1, 1), (2, 1)]


def test_a_nested_client_whose_agent_was_lost_and_came_back_begins_anew():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=1, parent_attempt=1)
    child.says(tasks(child, 1, 1))
    agent.epoch = 0
    agent.connect()
    agent.says(attach("agent"))
    assert [name for name, body in child.says(tasks(child, 2, 1)) if name == "child"] == ["child"]
    child.connect()
    assert not child.welcome.resumed
