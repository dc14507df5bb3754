"""Tasks with ``rerun=False`` after restarts of the scheduler: a started task is never started again."""

from __future__ import annotations

import pytest

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import (
    STARTING_AGENTS_LIMIT,
    AllReported,
    Cancel,
    CancelRefused,
    DroppedTasks,
    Goodbye,
    Refused,
    Results,
    StartingAgents,
    Status,
    TaskColumn,
    Tasks,
    Withdraw,
    Withdrawn,
)
from tests.unit.scheduler.playbook import Peer, Playbook, attach, definition, handed, results, run, statuses, tasks
from tests.unit.scheduler.test_graphs import nodes


def restated(client: Peer, first: int, count: int, **options) -> Tasks:
    return Tasks([run(client, first, count, rerun=False, **options)], [definition()], [], True)


def restated_graph(client: Peer) -> list[Tasks]:
    return [
        nodes(client, 1, [[]], 2, resubmitted=True, rerun=False),
        nodes(client, 2, [[1]], 2, target=True, resubmitted=True, rerun=False),
    ]


def restarted(*names: str) -> tuple[Playbook, Peer, list[Peer]]:
    """A scheduler of a new epoch, and a client that comes back and knows these agents, which are not there yet."""
    book = Playbook(epoch=2)
    client = book.client(epoch=1, received=7)
    return book, client, [Peer(book, name, 2) for name in names]


def returned(book: Playbook, name: str, slots: int = 1, holds: tuple[TaskColumn, ...] = ()) -> Peer:
    """An agent that comes back, and has nothing more than it says when it attaches."""
    return book.agent(name, slots, holds=holds, reports_all=True)


# ---- before the restart ----------------------------------------------------------------------------------------------


def test_a_client_is_told_of_an_agent_before_it_gets_its_first_task():
    book = Playbook()
    client, agent = book.client(), book.agent()
    book.deaf = {"client"}
    assert client.says(tasks(client, 1, 1, rerun=False)) == []
    assert handed(book.wait(2.0, (agent,)), agent) == []
    book.deaf = set()
    book.lose(client)
    assert handed(client.connect(), agent) == [(1, 1)]
    assert list(client.starting_agents) == [agent.session]


def test_an_agent_keeps_tasks_that_no_other_one_may_be_given_yet():
    """The idle agent would be given them if the client, which does not answer, knew it."""
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    assert handed(client.says(tasks(client, 1, 4, rerun=False)), agent) == [(1, 1), (2, 1), (3, 1), (4, 1)]
    book.deaf = {"client"}
    idle = book.agent("idle")
    said, asked = idle.joined, 0
    for _ in range(100):
        if ("agent", Withdraw(1)) in said:
            asked += 1
            said = agent.says(Withdrawn((TaskColumn(client.session, (4,), (asked,)),)))
            assert handed(said, agent) == [(4, asked + 1)]
        else:
            said = book.wait(0.1, (agent, idle))
    assert 0 < asked < 20  # it is left alone for a while, again and again


def test_other_tasks_do_not_wait_for_that():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    book.deaf = {"client"}
    assert handed(client.says(tasks(client, 1, 1, rerun=False), tasks(client, 2, 1)), agent) == [(2, 1)]


def test_a_client_is_told_only_of_as_many_agents_as_its_tasks_need():
    book = Playbook()
    client = book.client()
    for name in ("first", "second", "third"):
        book.agent(name)
    client.says(tasks(client, 1, 1, rerun=False))
    assert len(client.starting_agents) == 1
    client.says(tasks(client, 2, 50, rerun=False))
    assert len(client.starting_agents) == 3


def test_tasks_go_to_an_agent_that_the_client_knows_without_another_message():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    client.says(tasks(client, 1, 1, rerun=False))
    book.deaf = {"client"}
    assert handed(client.says(tasks(client, 2, 1, rerun=False)), agent) == [(2, 1)]


def test_a_client_drops_an_agent_that_is_gone_after_the_ends_of_its_tasks():
    book = Playbook()
    client, agent, other = book.client(), book.agent(), book.agent("other")
    client.says(tasks(client, 1, 2, rerun=False))
    assert len(client.starting_agents) == 2
    book.lose(agent)
    assert list(statuses(book.wait(1.0, (other,)), client).values()) == [Status.WORKER_DIED]
    assert list(client.starting_agents) == [other.session]
    other.says(Goodbye())
    assert not client.starting_agents


def test_an_agent_that_is_gone_stays_known_until_the_graph_is_over():
    """The value of a node may be needed again: whoever has made it is to be waited for."""
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    other = book.agent("other", slots=2)
    client.says(tasks(client, 1, 1), nodes(client, 10, [[]], 11, rerun=False))
    named = dict(client.starting_agents)
    assert named
    gone = agent if agent.session in named else other
    gone.says(Goodbye())
    assert gone.session in client.starting_agents
    client.says(Cancel((TaskColumn(client.session, (10, 11)),)))
    book.wait(1.0)
    assert gone.session not in client.starting_agents


def test_a_client_of_an_earlier_version_is_not_told():
    book = Playbook()
    client, agent = book.client(minor=3), book.agent()
    assert handed(client.says(tasks(client, 1, 1, rerun=False)), agent) == [(1, 1)]
    assert not client.starting_agents


def test_tasks_that_were_queued_again_go_to_an_agent_that_joins():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1, rerun=False))
    agent.says(Goodbye())
    other = book.agent("other")
    assert handed([*other.joined, *book.wait(0.5, (other,))], other) == [(1, 2)]


# ---- after the restart -----------------------------------------------------------------------------------------------


def test_tasks_are_queued_as_soon_as_all_agents_have_reported():
    book, client, [first, second] = restarted("first", "second")
    client.says(client.states_agents(first, second), restated(client, 1, 2))
    first = returned(book, "first", slots=4, holds=(TaskColumn(client.session, (1,), (1,)),))
    assert handed(book.wait(4.0, (first,)), first) == []
    second = returned(book, "second", slots=4)
    said = book.wait(0.5, (first, second))
    assert [*handed(said, first), *handed(said, second)] == [(2, 1)]


def test_an_agent_that_has_attached_may_still_have_results():
    book, client, [agent] = restarted("agent")
    client.says(client.states_agents(agent), restated(client, 1, 2))
    agent = book.agent("agent")
    assert handed(book.wait(3.0, (agent,)), agent) == []
    said = agent.says(results(client, 1), AllReported())
    assert statuses(said, client) == {1: Status.SUCCESS}
    assert handed(book.wait(0.5, (agent,)), agent) == [(2, 1)]


def test_a_client_without_agents_need_not_wait_for_any():
    book, client, _ = restarted()
    client.says(restated(client, 1, 1))
    idle = book.agent("idle")
    assert handed(book.wait(1.5, (idle,)), idle) == [(1, 1)]


def test_tasks_that_may_have_started_fail_if_an_agent_does_not_come_back():
    book, client, [agent] = restarted("agent")
    client.says(client.states_agents(agent), restated(client, 1, 2))
    idle = book.agent("idle")
    assert statuses(book.wait(9.5, (idle,)), client) == {}
    said = book.wait(1.0, (idle,))
    assert statuses(said, client) == {1: Status.WORKER_DIED, 2: Status.WORKER_DIED}
    assert handed(said, idle) == []
    late = book.agent("agent", holds=(TaskColumn(client.session, (1,), (1,)),))
    assert handed(book.wait(3.0, (late, idle)), late) == []


def test_an_agent_that_is_lost_before_it_has_reported_is_waited_for():
    """It has attached, but its results were still under way."""
    book, client, [agent] = restarted("agent")
    client.starting_agents[agent.session] = None
    client.says(client.states_agents(agent), restated(client, 1, 2))
    idle = returned(book, "idle", slots=4)
    book.lose(book.agent("agent"))
    said = book.wait(4.0, (idle,))
    assert agent.session not in book.core.state.agents
    assert (handed(said, idle), statuses(said, client)) == ([], {})
    assert agent.session in client.starting_agents  # for another restart
    back = returned(book, "agent", holds=(TaskColumn(client.session, (1,), (1,)),))
    said = book.wait(0.5, (back, idle))
    assert [*handed(said, back), *handed(said, idle)] == [(2, 1)]


def test_tasks_fail_if_an_agent_is_lost_before_it_has_reported():
    book, client, [agent] = restarted("agent")
    client.starting_agents[agent.session] = None
    client.says(client.states_agents(agent), restated(client, 1, 2))
    idle = returned(book, "idle", slots=4)
    book.lose(book.agent("agent"))
    said = book.wait(10.5, (idle,))
    assert handed(said, idle) == []
    assert statuses(said, client) == {1: Status.WORKER_DIED, 2: Status.WORKER_DIED}
    assert agent.session not in client.starting_agents


@pytest.mark.parametrize("has_result", [False, True])
def test_what_was_lost_with_an_agent_before_its_client_had_stated_it_is_not_started_again(has_result: bool):
    book, client, [agent] = restarted("agent")
    client.says(client.states_agents(agent))
    idle = returned(book, "idle", slots=4)
    agent = book.agent("agent", holds=() if has_result else (TaskColumn(client.session, (1,), (1,)),))
    agent.says(*([results(client, 1)] if has_result else []), AllReported())
    book.lose(agent)
    book.wait(0.9, (idle,))
    assert agent.session not in book.core.state.agents
    said = client.says(restated(client, 1, 2))
    assert statuses(said, client) == {1: Status.WORKER_DIED}
    assert handed(book.wait(12.0, (idle,)), idle) == [(2, 1)]


def test_the_same_with_nodes_of_graphs():
    book, client, [agent] = restarted("agent")
    client.says(client.states_agents(agent), *restated_graph(client))
    idle = book.agent("idle")
    said = book.wait(11.0, (idle,))
    assert handed(said, idle) == []
    assert statuses(said, client)[2] in (Status.WORKER_DIED, Status.CANCELLED)


def test_the_value_of_a_node_stays_until_its_graph_is_over():
    """That its agent has it is all that proves, after a restart, that the node has started."""
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    client.says(
        nodes(client, 1, [[]], 3, rerun=False), nodes(client, 2, [[1]], 3), nodes(client, 3, [[2]], 3, target=True)
    )
    assert ("agent", Cancel((TaskColumn(client.session, (1,), (1,)),))) not in agent.says(results(client, 1))
    said = agent.says(results(client, 2))
    assert said == []
    said = agent.says(results(client, 3))
    freed = [task for _, body in said if isinstance(body, Cancel) for column in body.columns for task in column.tasks]
    assert {1, 2} <= set(freed)


def test_nodes_run_when_all_agents_have_reported():
    book, client, [agent] = restarted("agent")
    client.says(client.states_agents(agent), *restated_graph(client))
    agent = returned(book, "agent")
    assert handed(book.wait(1.5, (agent,)), agent) != []


def test_a_client_is_told_that_an_agent_that_never_came_is_gone():
    book, client, [agent] = restarted("agent")
    client.starting_agents[agent.session] = None
    client.says(client.states_agents(agent))
    book.wait(9.0)
    assert list(client.starting_agents) == [agent.session]
    book.wait(2.0)
    assert not client.starting_agents


def test_what_an_agent_dropped_before_its_client_was_back_is_not_started_again():
    book = Playbook(epoch=2)
    session = b"client".ljust(16, b".")
    agent = returned(book, "agent", holds=(TaskColumn(session, (1,), (1,)),))
    said = book.wait(1.5, (agent,))
    assert ("agent", Cancel((TaskColumn(session, (1,), (1,)),))) in said
    client = book.client(epoch=1, received=7)
    said = client.says(client.states_agents(agent), restated(client, 1, 2))
    assert statuses(said, client) == {1: Status.WORKER_DIED}  # at once: another restart would forget why
    assert handed(book.wait(2.0, (agent,)), agent) == [(2, 1)]


@pytest.mark.parametrize("has_result", [False, True])
def test_the_agent_is_told_what_it_drops_because_the_next_scheduler_must_know(has_result: bool):
    book = Playbook(epoch=2)
    session = b"client".ljust(16, b".")
    agent = book.agent("agent", holds=() if has_result else (TaskColumn(session, (1,), (1,)),))
    agent.says(*([Results([ResultRun(session, [(1, 1, 0, b"", 0, 0, 0)])])] if has_result else []), AllReported())
    said = [body for name, body in book.wait(1.5, (agent,)) if name == "agent"]
    assert said[:2] == [DroppedTasks(session, (1,)), Cancel((TaskColumn(session, (1,), (1,)),))]


@pytest.mark.parametrize("is_first", [False, True])
def test_what_an_earlier_scheduler_had_an_agent_drop_is_not_started_again(is_first: bool):
    book, client, [agent] = restarted("agent")
    stated = [client.states_agents(agent), restated(client, 1, 3)]
    said = client.says(*stated) if is_first else []
    agent = book.agent("agent")
    said += agent.says(DroppedTasks(client.session, (2,)), AllReported())
    said += client.says(*stated) if not is_first else []
    assert statuses(said, client) == {2: Status.WORKER_DIED}
    assert handed(book.wait(2.0, (agent,)), agent) == [(1, 1), (3, 1)]


def test_nodes_that_an_earlier_scheduler_had_an_agent_drop_are_not_started_again():
    book, client, [agent] = restarted("agent")
    client.says(client.states_agents(agent), *restated_graph(client))
    agent = book.agent("agent")
    agent.says(DroppedTasks(client.session, (1,)), AllReported())
    said = book.wait(2.0, (agent,))
    assert handed(said, agent) == []
    assert statuses(said, client)[2] in (Status.WORKER_DIED, Status.CANCELLED)


@pytest.mark.parametrize("rerun", [False, True])
def test_a_task_that_its_agent_had_not_stopped_yet_when_it_reported_is_not_cancelled(rerun: bool):
    """An earlier scheduler had told the agent to drop it."""
    book, client, [agent] = restarted("agent")
    agent = book.agent("agent", slots=2, holds=(TaskColumn(client.session, (1,), (1,)),))
    if rerun:
        client.says(Tasks(tasks(client, 1, 1).runs, [definition()], [], True))
    else:
        client.says(client.states_agents(agent), restated(client, 1, 1))
    agent.says(DroppedTasks(client.session, (1,)), AllReported())
    said = agent.says(results(client, (1, 1, Status.CANCELLED)))
    assert statuses(said, client) == ({} if rerun else {1: Status.WORKER_DIED})
    assert handed(said + book.wait(2.0, (agent,)), agent) == ([(1, 2)] if rerun else [])


def test_a_task_that_was_dropped_is_cancelled_if_its_client_asks_for_that_before_it_has_started():
    """The agent has not started it: its result answers the client, which would wait otherwise."""
    book, client, [agent] = restarted("agent")
    agent = book.agent("agent", slots=2, holds=(TaskColumn(client.session, (1, 2), (1, 1)),))
    client.says(Tasks(tasks(client, 1, 2).runs, [definition()], [], True))
    agent.says(DroppedTasks(client.session, (1, 2)), AllReported())
    asked = client.says(Cancel((TaskColumn(client.session, (1, 2)),), unstarted_only=True))
    assert asked == [("agent", Cancel((TaskColumn(client.session, (1, 2), (1, 1)),), unstarted_only=True))]
    agent.says(CancelRefused((TaskColumn(client.session, (2,), (1,)),)))
    said = agent.says(results(client, (1, 1, Status.CANCELLED), (2, 1, Status.CANCELLED)))
    assert statuses(said, client) == {1: Status.CANCELLED}
    assert handed(said + book.wait(2.0, (agent,)), agent) == [(2, 2)]


def test_other_tasks_that_an_agent_dropped_start_again():
    book = Playbook(epoch=2)
    client = book.client(epoch=1, received=7)
    client.says(Tasks(tasks(client, 1, 1).runs, resubmitted=True))
    agent = book.agent("agent")
    agent.says(DroppedTasks(client.session, (1,)), AllReported())
    assert handed(book.wait(2.0, (agent,)), agent) == [(1, 1)]


def test_an_agent_that_has_reported_cannot_add_to_its_report():
    book = Playbook()
    client, agent = book.client(), returned(book, "agent")
    agent.says(DroppedTasks(client.session, below=9))
    assert client.session not in book.core.state.forgotten


def test_agents_are_told_of_a_client_that_was_given_up():
    book = Playbook(client_timeout_seconds=1.0)
    client, agent = book.client(), returned(book, "agent")
    client.says(tasks(client, 1, 1, rerun=False))
    book.lose(client)
    said = [body for name, body in book.wait(2.0, (agent,)) if name == "agent"]
    assert said == [DroppedTasks(client.session, below=2), Cancel((TaskColumn(client.session, (1,), (1,)),))]


def test_agents_are_not_told_of_a_client_that_leaves():
    book = Playbook()
    client = book.client()
    returned(book, "agent")
    client.says(tasks(client, 1, 1, rerun=False))
    assert client.says(Goodbye()) == [("agent", Cancel((TaskColumn(client.session, (1,), (1,)),)))]


def test_a_client_that_was_given_up_does_not_start_its_tasks_again():
    book = Playbook(client_timeout_seconds=1.0)
    client, agent = book.client(), returned(book, "agent")
    assert handed(client.says(tasks(client, 1, 1, rerun=False)), agent) == [(1, 1)]
    book.lose(client)
    book.wait(2.0, (agent,))
    agent.says(results(client, 1))
    known = client.starting_agents
    assert client.connect() == []
    said = client.says(StartingAgents(b"".join(known)), restated(client, 1, 1))
    assert handed(book.wait(12.0, (agent,)), agent) == []
    assert statuses(said, client) == {1: Status.WORKER_DIED}


def test_what_a_client_submits_after_it_was_given_up_starts():
    book = Playbook(client_timeout_seconds=1.0)
    client, agent = book.client(), returned(book, "agent")
    client.says(tasks(client, 1, 1, rerun=False))
    book.lose(client)
    book.wait(2.0, (agent,))
    agent.says(results(client, 1))
    known = client.starting_agents
    client.connect()
    said = client.says(StartingAgents(b"".join(known)), restated(client, 1, 2))
    assert statuses(said, client) == {1: Status.WORKER_DIED}
    assert handed(said + book.wait(12.0, (agent,)), agent) == [(2, 1)]


def test_an_agent_of_an_earlier_version_has_reported_a_second_after_it_has_attached():
    book, client, [agent] = restarted("agent")
    client.says(client.states_agents(agent), restated(client, 1, 1))
    agent = book._peer("agent", 2)
    agent.connect(minor=3)
    agent.says(attach("agent"))
    assert handed(book.wait(0.8, (agent,)), agent) == []
    assert handed(book.wait(0.6, (agent,)), agent) == [(1, 1)]


def test_a_client_that_states_a_million_agents_is_refused():
    book, client, _ = restarted()
    names = b"".join(number.to_bytes(16, "big") for number in range(1, STARTING_AGENTS_LIMIT + 2))
    said = client.says(StartingAgents(names))
    assert any(isinstance(body, Refused) for _, body in said)
    assert client.session not in book.core.state.clients


@pytest.mark.parametrize("sessions", [b"short", b"x" * 17, b""])
def test_incomplete_names_do_not_count(sessions: bytes):
    book, client, _ = restarted()
    client.says(StartingAgents(sessions, sessions))
    assert len(book.core.state.clients[client.session].known_agents) == len(sessions) // 16


def test_a_session_that_begins_again_learns_its_agents_again():
    """The queues of the first client under its id belong to that one."""
    book = Playbook(client_timeout_seconds=1.0)
    client, agent = book.client(), book.agent(slots=2)
    client.says(tasks(client, 1, 1, rerun=False))
    agent.says(results(client, 1))
    book.lose(client)
    book.wait(2.0, (agent,))
    client.starting_agents.clear()
    client.connect()
    assert handed(client.says(tasks(client, 5, 1, rerun=False)), agent) == [(5, 1)]
