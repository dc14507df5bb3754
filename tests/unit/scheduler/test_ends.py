"""How tasks end otherwise: cancels, deaths, exceptions, lost agents, clients that leave."""

from __future__ import annotations

from scaler_protocol.effects import Log
from scaler_protocol.messages import (
    Cancel,
    Clear,
    Goodbye,
    Output,
    Ping,
    Refused,
    ShutdownReply,
    ShutdownRequest,
    Status,
    Stop,
    TaskColumn,
    WhoAreYou,
    Withdrawn,
)
from scaler_scheduler.core.shutdown import PROTECTED_TEXT
from tests.unit.scheduler.playbook import Playbook, handed, results, statuses, tasks


def cancel(client, *numbers, attempts=()):
    return Cancel((TaskColumn(client.session, numbers, attempts),))


def test_a_queued_task_is_cancelled_at_once_and_never_handed_out():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 3))
    assert statuses(client.says(cancel(client, 2)), client) == {2: Status.CANCELLED}
    agent = book.agent(slots=9)
    assert handed(agent.joined, agent) == [(1, 1), (3, 1)]


def test_an_assigned_task_is_cancelled_by_its_agent():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    assert client.says(cancel(client, 1)) == [("agent", cancel(client, 1, attempts=(1,)))]
    assert client.says(cancel(client, 1)) == []
    said = agent.says(results(client, (1, 1, Status.CANCELLED, b"")))
    assert statuses(said, client) == {1: Status.CANCELLED}


def test_a_result_that_overtakes_its_cancel_ends_the_task():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(cancel(client, 1))
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}


def test_a_withdrawn_task_answers_its_cancel():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 2))
    client.says(cancel(client, 2))
    said = agent.says(Withdrawn((TaskColumn(client.session, (2,), (1,)),)))
    assert statuses(said, client) == {2: Status.CANCELLED}


def test_a_client_cancels_only_its_own_tasks():
    book = Playbook()
    client, other = book.client(), book.client("other")
    client.says(tasks(client, 1, 1))
    assert other.says(cancel(client, 1)) == []
    assert book.core.explain(client.session, 1).endswith("no worker is connected.")


def test_clear_cancels_everything():
    book = Playbook()
    client, _ = book.client(), book.agent()
    client.says(tasks(client, 1, 9))
    said = client.says(Clear())
    assert ("agent", cancel(client, 1, 2, attempts=(1, 1))) in said
    assert statuses(said, client) == dict.fromkeys(range(3, 10), Status.CANCELLED)


def test_a_processor_that_died_costs_its_task_an_attempt_and_three_end_it_with_all_certificates():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    for attempt in (1, 2):
        said = agent.says(results(client, (1, attempt, Status.PROCESSOR_DIED, b'{"n":%d}' % attempt)))
        assert handed(said, agent) == [(1, attempt + 1)]
    said = agent.says(results(client, (1, 3, Status.PROCESSOR_DIED, b'{"n":3}')))
    assert said == [
        ("client", results(client, (1, 3, Status.PROCESSOR_DIED, b'[{"n":1},{"n":2},{"n":3}]'), duration_us=0))
    ]


def test_without_rerun_the_first_death_ends_a_task():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1, rerun=False))
    said = agent.says(results(client, (1, 1, Status.PROCESSOR_DIED, b"{}")))
    assert statuses(said, client) == {1: Status.PROCESSOR_DIED}


def test_retries_are_for_exceptions():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1, retries=1), tasks(client, 2, 1))
    said = agent.says(results(client, (1, 1, Status.EXCEPTION, b"e"), (2, 1, Status.EXCEPTION, b"e")))
    assert statuses(said, client) == {2: Status.EXCEPTION}
    assert handed(said, agent) == [(1, 2)]
    assert statuses(agent.says(results(client, (1, 2, Status.EXCEPTION, b"e"))), client) == {1: Status.EXCEPTION}


def test_tasks_of_a_dead_agent_run_elsewhere_within_a_second():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 2))
    book.lose(agent)
    other = book.agent("other")
    assert other.joined == []
    assert handed(book.wait(1.0, (other,)), other) == [(1, 2), (2, 2)]


def test_a_scheduler_that_stood_still_waits_longer_for_an_agent_that_may_have_stood_still_too():
    book = Playbook()
    client, agent, other = book.client(), book.agent(), book.agent("other")
    assert handed(client.says(tasks(client, 1, 1)), agent) == [(1, 1)]
    book.wait(1.0, (agent, other))
    book.now += 2.0
    for peer in (agent, other):
        peer.says(Ping())  # sent before, read only now
    book.lose(agent)
    assert handed(book.wait(4.0, (other,)), other) == []
    assert handed(book.wait(1.5, (other,)), other) == [(1, 2)]


def test_a_started_task_without_rerun_ends_with_its_agent():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1, rerun=False))
    book.lose(agent)
    assert statuses(book.wait(1.0), client) == {1: Status.WORKER_DIED}


def test_an_agent_that_says_goodbye_costs_its_tasks_nothing():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1, rerun=False))
    agent.says(Goodbye())
    other = book.agent("other")
    assert handed(other.joined, other) == [(1, 2)]


def test_a_task_that_lost_twenty_agents_ends():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 1))
    for index in range(20):
        agent = book.agent(f"agent-{index}")
        assert handed(agent.joined, agent) == [(1, index + 1)]
        book.lose(agent)
        said = book.wait(1.0)
    assert statuses(said, client) == {1: Status.WORKER_DIED}


def test_a_silent_agent_gets_nothing_new_and_is_given_up_after_the_timeout():
    book = Playbook(worker_timeout_seconds=10)
    client, _ = book.client(), book.agent(slots=4)
    client.says(tasks(client, 1, 1))
    book.wait(2.0)
    assert client.says(tasks(client, 2, 1)) == []
    assert "silent" in book.core.explain(client.session, 1)
    other = book.agent("other", slots=4)
    assert handed(other.joined, other) == [(2, 1)]
    assert handed(book.wait(7.0, (other,)), other) == []
    assert handed(book.wait(2.0, (other,)), other) == [(1, 2)]


def test_explain_a_task_that_only_silent_agents_could_run():
    book = Playbook()
    client, _ = book.client(), book.agent()
    book.wait(6.5)
    client.says(tasks(client, 1, 1))
    (host,) = {each.host for each in book.core.state.agents.values()}
    text = f"every worker that could run it is silent (1 on host {host})."
    assert book.core.explain(client.session, 1).endswith(text)


def test_explain_tasks_that_run_and_tasks_behind_them():
    book = Playbook()
    client, _ = book.client(), book.agent(slots=2)
    client.says(tasks(client, 1, 2))
    assert "is running at agent" in book.core.explain(client.session, 2)
    client.says(tasks(client, 3, 1))
    assert book.core.explain(client.session, 1).endswith("running or next to run (3 tasks there for 2 workers).")


def test_a_client_that_takes_in_nothing_is_paused_and_told_what_it_missed(monkeypatch):
    monkeypatch.setattr("scaler_scheduler.core.clients.RESULT_BUDGET_BYTES", 1000)
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 50))
    agent.says(results(client, (1, 1, Status.SUCCESS, bytes(2000)), duration_us=1_000_000))
    agent.says(Output(client.session, 2, 1, b"unseen"))
    assert handed(agent.says(results(client, 2, duration_us=1_000_000)), agent) == []
    assert "its client has too many results under way" in book.core.explain(client.session, 50)
    assert handed(client.says(Ping()), agent)[0] == (3, 1)  # it acknowledges
    said = [body for _, body in book.wait(0.5, (agent,)) if isinstance(body, Output)]
    assert [body.data for body in said] == [b"\n[6 bytes of output were left out: they came too fast]\n"]


def test_a_silent_agent_that_speaks_again_goes_on():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    client.says(tasks(client, 1, 1))
    book.wait(5.0)
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}
    assert handed(client.says(tasks(client, 2, 1)), agent) == [(2, 1)]


def test_a_lost_agent_that_comes_back_is_told_to_stop_what_is_not_its_any_more():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    book.lose(agent)
    book.wait(1.0)
    other = book.agent("other")
    assert handed(other.joined, other) == [(1, 2)]
    assert agent.connect() == []
    from tests.unit.scheduler.playbook import attach

    said = agent.says(attach("agent", holds=(TaskColumn(client.session, (1,), (1,)),)), results(client, (1, 1)))
    assert said == [("agent", cancel(client, 1, attempts=(1,)))]


def test_the_tasks_of_a_client_that_left_are_cancelled_and_those_of_a_gone_one_after_its_timeout():
    book = Playbook(client_timeout_seconds=5)
    leaving, gone, agent = book.client("leaving"), book.client("gone"), book.agent(slots=2)
    leaving.says(tasks(leaving, 1, 1))
    gone.says(tasks(gone, 1, 1))
    assert leaving.says(Goodbye()) == [("agent", cancel(leaving, 1, attempts=(1,)))]
    book.lose(gone)
    assert book.wait(4.0, (agent,)) == []
    assert book.wait(2.0, (agent,)) == [("agent", cancel(gone, 1, attempts=(1,)))]
    agent.says(results(gone, (1, 1, Status.CANCELLED, b"")), results(leaving, (1, 1, Status.CANCELLED, b"")))
    book.wait(1.0, (agent,))
    assert not book.core.state.clients


def test_protected_mode_refuses_a_shutdown():
    book = Playbook()
    client = book.client()
    assert client.says(ShutdownRequest()) == [("client", ShutdownReply(False, PROTECTED_TEXT))]
    assert not book.has_quit


def test_a_shutdown_stops_the_agents_and_then_the_scheduler():
    book = Playbook(protected=False)
    client, agent = book.client(), book.agent()
    assert client.says(ShutdownRequest()) == [("client", ShutdownReply(True)), ("agent", Stop())]
    assert not book.has_quit
    agent.says(Goodbye())
    book.wait(2.0)
    assert book.has_quit


def test_told_to_end_it_waits_for_what_runs():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 3))
    book.core.on_stop(book.now, 10.0)
    book.wait(1.0, (agent,))
    assert not book.has_quit
    assert handed(agent.says(results(client, 1, 2)), agent) == []
    book.wait(2.0, (agent,))
    assert book.has_quit


def test_told_to_end_with_nothing_running_it_ends_at_once():
    book = Playbook()
    book.client(), book.agent()
    book.core.on_stop(book.now, 10.0)
    book.run()
    assert book.has_quit


def test_malformed_messages_end_their_session_only():
    book = Playbook()
    client, other = book.client(), book.client("other")
    other.says(tasks(other, 1, 1))
    client.says(tasks(client, 1, 1))
    book.core.on_malformed(client.session, "nonsense", book.now)
    assert [type(body) for _, body in book.run()] == [Refused]
    assert client.says(tasks(client, 2, 1)) == []
    agent = book.agent(slots=5)
    assert handed(agent.joined, agent) == [(1, 1)]
    assert client.connect() == []
    assert handed(client.says(tasks(client, 1, 1)), agent) == [(1, 1)]


def test_many_malformed_messages_are_one_line_a_second():
    book = Playbook()

    def lines():
        book.core.on_deadline(book.now)
        return [effect.text for effect in book.core.take_effects(book.now) if isinstance(effect, Log)]

    for number in range(1000):
        book.core.on_malformed(number.to_bytes(16, "little"), "nonsense", book.now)
    assert lines() == ["A message from 00000000 is malformed: nonsense"]
    book.now = book.core.next_deadline()
    assert lines() == ["A message from e7030000 is malformed: nonsense (998 more like it)"]
    book.now += 1.5
    book.core.on_malformed(b"x" * 16, "nonsense", book.now)
    assert lines() == ["A message from 78787878 is malformed: nonsense"]


def test_a_client_that_submits_for_another_is_expelled():
    book = Playbook()
    client, other = book.client(), book.client("other")
    assert [type(body) for _, body in other.says(tasks(client, 1, 1))] == [Refused]
    assert client.session in book.core.state.clients


def test_who_has_not_said_hello_is_asked():
    book = Playbook()
    client = book.client()
    book.lose(client)
    assert client.says(tasks(client, 1, 1)) == [("client", WhoAreYou())]
    assert client.connect() == []
    assert client.welcome.resumed
    assert book.core.state.placement.queued == 1


def test_refusals_name_their_reason():
    book = Playbook()
    client = book._peer("client", 1)
    assert "version" in client.connect(major=9)[0][1].text
    assert "routing id" in client.connect(session=b"x" * 16)[0][1].text
