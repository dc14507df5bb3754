"""Running tasks, from heartbeats of agents to snapshots for monitors."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.messages import ActorsReady, Heartbeat, RunningTask, TaskColumn, WorkerStatus
from scaler_protocol.monitor.messages import RunningTaskStatus
from scaler_scheduler.core.snapshot import snapshot_of
from tests.unit.scheduler.playbook import Playbook, results, tasks

ROW = RunningTask(b"", 0, 1, 0, 4242, 46.0, 48.0, 1.5, 2**20, False)


def beat(*rows: RunningTask) -> Heartbeat:
    """On a clock that shows 50."""
    return Heartbeat(50.0, 0.0, 0.0, 0, 0, 0, (), rows)


def running(book: Playbook) -> list[RunningTaskStatus]:
    return [task for agent in snapshot_of(book.core.state, book.now).agents for task in agent.running]


def busy() -> tuple[Playbook, RunningTask]:
    """A client has two tasks at an agent."""
    book = Playbook()
    agent, client = book.agent("agent", 2), book.client()
    client.says(tasks(client, 0, 2))
    row = replace(ROW, session=client.session)
    agent.says(beat(row))
    return book, row


def test_a_row_gets_the_name_of_its_function_and_grows_older() -> None:
    book, row = busy()
    (shown,) = running(book)
    assert (shown.task, shown.attempt, shown.pid, shown.cpu_percent, shown.rss_bytes) == (0, 1, 4242, 1.5, 2**20)
    assert (shown.seconds, shown.idle_seconds, shown.usual_seconds) == (4.0, 2.0, 0.0)
    assert shown.session[:4] == row.session[:4] and shown.session != row.session
    assert shown.function
    book.now += 1.5
    assert [each.seconds for each in running(book)] == [5.5]


def test_rows_name_the_map_and_the_graph_of_their_tasks() -> None:
    book = Playbook()
    agent, client = book.agent("agent", 3), book.client()
    client.says(tasks(client, 0, 1))
    client.says(tasks(client, 1, 1, map_number=5))
    client.says(tasks(client, 2, 1, graph=2))
    agent.says(beat(*(replace(ROW, session=client.session, task=task) for task in range(3))))
    assert [(each.map_number, each.graph) for each in running(book)] == [(0, 0), (5, 0), (0, 2)]


def test_rows_have_the_priority_of_their_tasks_and_the_names_of_their_actors() -> None:
    book = Playbook()
    agent, client, other = book.agent("agent", 3), book.client(), book.client("other")
    client.says(tasks(client, 1, 1, hosts_actor=True, rerun=False, actor_name="ledger"))
    agent.says(ActorsReady((TaskColumn(client.session, (1,), (1,)),)))
    client.says(tasks(client, 2, 1, priority=-7))
    other.says(tasks(other, 1, 1, actor=1, actor_session=client.session, rerun=False))
    rows = (client.session, 1), (client.session, 2), (other.session, 1)
    agent.says(beat(*(replace(ROW, session=session, task=task) for session, task in rows)))
    found = [(each.actor_name, each.priority, each.actor) for each in running(book)]
    assert found == [("ledger", 0, True), ("", -7, False), ("ledger", 0, False)]


def test_actors_are_marked_and_have_no_usual_duration() -> None:
    book = Playbook()
    agent, client = book.agent("agent", 2), book.client()
    client.says(tasks(client, 0, 1, hosts_actor=True, rerun=False))
    agent.says(results(client, 0, duration_us=1000))
    client.says(tasks(client, 1, 1, hosts_actor=True, rerun=False))
    client.says(tasks(client, 2, 1))
    agent.says(beat(*(replace(ROW, session=client.session, task=task) for task in (1, 2))))
    actor, task = running(book)
    assert (actor.actor, actor.usual_seconds, task.actor) == (True, 0.0, False)
    assert task.usual_seconds > 0


def test_only_unfinished_tasks_of_that_agent_and_attempt_are_shown() -> None:
    book, row = busy()
    agent, client = (next(peer for peer in book.peers.values() if peer.name == name) for name in ("agent", "client"))
    agent.says(beat(row, replace(row, task=1), replace(row, task=2), replace(row, attempt=2)))
    assert [task.task for task in running(book)] == [0, 1]
    agent.says(results(client, 0))
    assert [task.task for task in running(book)] == [1]
    agent.says(beat(replace(row, session=b"x" * 16)))
    assert running(book) == []
    other = book.agent("other", 1)
    other.says(beat(replace(row, task=1)))
    assert running(book) == []


def test_explain_names_the_worker_and_says_how_long_the_task_has_run() -> None:
    book, row = busy()
    agent, client = (next(peer for peer in book.peers.values() if peer.name == name) for name in ("agent", "client"))
    name = snapshot_of(book.core.state, book.now).agents[0].workers[0].name
    explained = book.core.explain(client.session, 0)
    assert f"is running in worker {name} (pid 4242) at agent " in explained
    assert explained.endswith(", for 4 s when the agent last reported.")
    assert "is running at agent " in book.core.explain(client.session, 1)
    agent.says(beat(replace(row, worker=7)))
    assert "is running in a process for nested tasks (pid 4242) at agent " in book.core.explain(client.session, 0)
    agent.says(beat(replace(row, attempt=2)))
    assert "is running at agent " in book.core.explain(client.session, 0)


def test_explain_knows_what_runs_although_more_tasks_are_there_than_workers() -> None:
    book, _ = busy()
    client = next(peer for peer in book.peers.values() if peer.name == "client")
    client.says(tasks(client, 2, 1))
    assert "is running in worker " in book.core.explain(client.session, 0)
    assert "running or next to run" in book.core.explain(client.session, 1)


def test_workers_stay_as_the_last_report_with_rows_said() -> None:
    book = Playbook()
    agent = book.agent("agent", 2)
    rows = tuple(
        WorkerStatus(name, 4242, 1.5, 2**20, True, False, False)
        for name in next(iter(book.core.state.agents.values())).worker_names
    )
    agent.says(replace(beat(), workers=rows))
    agent.says(replace(beat(), cpu_percent=7.0, workers_unchanged=True))
    (shown,) = snapshot_of(book.core.state, book.now).agents
    assert (shown.workers, shown.cpu_percent) == (rows, 7.0)


def test_workers_that_no_report_has_described_are_starting() -> None:
    book = Playbook()
    book.agent("agent", 1).says(replace(beat(), workers_unchanged=True))
    (shown,) = snapshot_of(book.core.state, book.now).agents
    assert [worker.initialized for worker in shown.workers] == [False]
