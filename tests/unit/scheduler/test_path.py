"""The path of a task: submitted, handed out, done."""

from __future__ import annotations

from scaler_protocol.messages import (
    Acknowledgement,
    ResultsReleased,
    Status,
    TaskColumn,
    Tasks,
    Withdraw,
    Withdrawn,
)
from tests.unit.scheduler import playbook
from tests.unit.scheduler.playbook import Playbook, definition, handed, results, run, statuses, tasks


def test_a_task_goes_to_an_idle_agent_with_its_function_and_its_result_comes_back():
    book = Playbook()
    client, agent = book.client(), book.agent()
    submitted = Tasks([run(client, 1, 1)], [definition()])
    assert client.says(submitted) == [("agent", submitted)]
    done = results(client, 1)
    assert agent.says(done) == [("client", done)]


def test_a_function_is_sent_to_an_agent_once():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(Tasks([run(client, 1, 1)], [definition()]))
    agent.says(results(client, 1))
    assert client.says(tasks(client, 2, 1)) == [("agent", tasks(client, 2, 1))]


def test_two_tasks_use_two_idle_agents():
    book = Playbook()
    client, first, second = book.client(), book.agent("first"), book.agent("second")
    said = client.says(tasks(client, 1, 2))
    assert handed(said, first) == [(1, 1)]
    assert handed(said, second) == [(2, 1)]


def test_while_durations_are_unknown_one_more_task_per_slot_is_handed_out():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    said = client.says(tasks(client, 1, 100))
    assert len(handed(said, agent)) == 4


def test_short_tasks_are_handed_out_as_many_as_last_the_horizon():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 1000))
    said = agent.says(results(client, 1, 2, duration_us=100))
    assert 95 <= len(handed(said, agent)) <= 105


def test_long_tasks_stay_in_the_scheduler():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    client.says(tasks(client, 1, 100))
    assert handed(agent.says(results(client, 1, 2, 3, duration_us=1_000_000)), agent) == [(5, 1)]


def test_the_ceiling_bounds_what_waits_at_an_agent():
    book = Playbook(per_worker_queue_size=3)
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 1000))
    agent.says(results(client, 1, 2, duration_us=1))
    assert book.core.state.agents[agent.session].load.outstanding == 3


def test_a_drain_that_sends_nothing_else_acknowledges():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    book.wait(0.002)
    assert client.link.in_flight == 0
    agent.says(results(client, 1))
    book.wait(0.2)
    assert agent.link.in_flight == 0


def test_results_are_released_when_their_client_has_them(monkeypatch):
    monkeypatch.setattr(playbook, "ROUTINE", (Acknowledgement,))
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    agent.says(results(client, 1))
    client.says(Acknowledgement())
    assert book.wait(0.2) == [("agent", ResultsReleased((2,)))]


def test_releases_go_with_tasks_if_they_have_waited_for_a_moment(monkeypatch):
    monkeypatch.setattr(playbook, "ROUTINE", (Acknowledgement,))
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    agent.says(results(client, 1))
    client.says(Acknowledgement())
    assert ("agent", ResultsReleased((2,))) not in client.says(tasks(client, 2, 1))
    agent.says(results(client, 2))
    assert book.wait(0.02) == []
    assert ("agent", ResultsReleased((2, 3))) in client.says(tasks(client, 3, 1))
    assert book.wait(0.2) == []


def test_a_result_repeated_or_of_an_old_attempt_or_of_another_agent_is_dropped():
    book = Playbook()
    client, agent, other = book.client(), book.agent(), book.agent("other")
    client.says(tasks(client, 1, 1))
    assert other.says(results(client, 1)) == []
    assert agent.says(results(client, (1, 7))) == []
    assert statuses(agent.says(results(client, 1, 1)), client) == {1: Status.SUCCESS}
    assert agent.says(results(client, 1)) == []


def test_withdrawn_tasks_are_queued_again_with_the_next_attempt_before_the_others():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 4))
    said = agent.says(Withdrawn((TaskColumn(client.session, (2,), (1,)),)))
    assert handed(said, agent) == [(2, 2)]
    assert statuses(agent.says(results(client, (2, 1))), client) == {}
    assert statuses(agent.says(results(client, (2, 2))), client) == {2: Status.SUCCESS}


def test_an_idle_agent_gets_what_a_busy_one_has_not_started():
    book = Playbook()
    client, busy = book.client(), book.agent("busy")
    client.says(tasks(client, 1, 2))
    idle = book.agent("idle")
    assert idle.joined == [("busy", Withdraw(1))]
    said = busy.says(Withdrawn((TaskColumn(client.session, (2,), (1,)),)))
    assert handed(said, idle) == [(2, 2)]


def test_balancing_ends_when_there_is_nothing_to_give_back():
    book = Playbook(load_balance_seconds=5, load_balance_trigger_times=2)
    client, busy = book.client(), book.agent("busy")
    client.says(tasks(client, 1, 2))
    book.agent("idle")
    asked = 1
    for _ in range(20):
        busy.says(Withdrawn(()))
        asked += book.wait(0.1, (busy, book.peers[b"idle............"])).count(("busy", Withdraw(1)))
    assert asked == 2


def test_higher_priority_goes_first():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 1), tasks(client, 2, 1, priority=5), tasks(client, 3, 1, priority=9))
    agent = book.agent()
    assert handed(agent.joined, agent) == [(3, 1), (2, 1)]


def test_clients_of_equal_priority_take_turns():
    book = Playbook()
    first, second = book.client("first"), book.client("second")
    first.says(tasks(first, 1, 5000))
    second.says(tasks(second, 1, 5000))
    agent = book.agent(slots=1)
    agent.says(results(first, 1, 2, duration_us=1))
    assert [body.runs[0].session for _, body in agent.joined] == [first.session]
    counts = book.core.snapshot(book.now).clients
    assert all(client.running for client in counts)


def test_a_task_nobody_can_serve_holds_nobody_up_and_explain_says_why():
    from scaler_protocol.messages import Capability

    book = Playbook()
    client, agent = book.client(), book.agent()
    said = client.says(tasks(client, 1, 1, capabilities=(Capability("gpu"),)), tasks(client, 2, 1))
    assert handed(said, agent) == [(2, 1)]
    assert "gpu=1" in book.core.explain(client.session, 1)
    gpu = book.agent("gpu", capabilities={"gpu": 1})
    assert handed(gpu.joined, gpu) == [(1, 1)]


def test_capabilities_are_counted():
    from scaler_protocol.messages import Capability

    book = Playbook()
    client, agent = book.client(), book.agent(slots=2, capabilities={"gpu": 1})
    said = client.says(tasks(client, 1, 9, capabilities=(Capability("gpu"),)))
    assert len(handed(said, agent)) == 2
    said = agent.says(results(client, 1))
    assert len(handed(said, agent)) == 1


def test_beyond_the_bound_tasks_wait_outside_the_queue_and_the_client_is_not_told_that_they_arrived():
    book = Playbook(max_number_of_tasks_waiting=2)
    client = book.client()
    client.says(tasks(client, 1, 2))
    book.wait(0.002)
    assert client.link.in_flight == 0
    client.says(tasks(client, 3, 3))
    book.wait(0.002)
    assert client.link.in_flight == 1
    assert book.core.state.placement.queued == 2
    agent = book.agent()
    agent.says(results(client, 1, 2, duration_us=10_000_000))
    agent.says(results(client, 3, duration_us=10_000_000))
    assert client.link.in_flight == 0
