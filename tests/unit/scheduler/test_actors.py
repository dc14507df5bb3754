"""Actors: the task that makes one, and the calls, which follow it to its agent."""

from __future__ import annotations

from typing import Any

import pytest

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import (
    ActorsReady,
    AllReported,
    Blocked,
    Cancel,
    DroppedTasks,
    Goodbye,
    Heartbeat,
    Refused,
    Results,
    RunningTask,
    Status,
    TaskColumn,
    Tasks,
    Withdraw,
    Withdrawn,
)
from scaler_protocol.monitor.messages import ActorStatus
from scaler_scheduler.core import actor_reports, explanation
from scaler_scheduler.core.count_check import RECOUNT_SECONDS
from scaler_scheduler.core.settings import HOLD_ONCE_SECONDS, HOLD_SECONDS
from scaler_scheduler.core.snapshot import snapshot_of

from .playbook import Peer, Playbook, results, run, statuses, tasks

ANCHOR = {"hosts_actor": True, "rerun": False}
CALL = {"actor": 1, "rerun": False}


def ready(client: Peer, task: int = 1, attempt: int = 1) -> ActorsReady:
    return ActorsReady((TaskColumn(client.session, (task,), (attempt,)),))


def numbers(said: list, peer: Peer) -> list[int]:
    """The tasks that the peer was sent, in order."""
    bodies = [body for name, body in said if name == peer.name and isinstance(body, Tasks)]
    return [each.first_task + index for body in bodies for each in body.runs for index in range(each.count)]


def with_actor(**settings) -> tuple[Playbook, Peer, Peer]:
    """A client whose task 1 is an actor that takes calls."""
    book = Playbook(**settings)
    agent, client = book.agent(slots=2), book.client()
    assert numbers(client.says(tasks(client, 1, 1, **ANCHOR)), agent) == [1]
    agent.says(ready(client))
    return book, agent, client


def test_calls_wait_until_the_actor_is_ready_and_follow_it_in_order():
    book = Playbook()
    one, two, client = book.agent("one"), book.agent("two"), book.client()
    said = client.says(tasks(client, 1, 1, **ANCHOR), tasks(client, 2, 3, **CALL))
    [host] = [peer for peer in (one, two) if numbers(said, peer)]
    assert numbers(said, host) == [1]
    assert client.says(tasks(client, 5, 1, **CALL)) == []
    assert numbers(host.says(ready(client)), host) == [2, 3, 4, 5]
    assert numbers(client.says(tasks(client, 6, 1, **CALL)), host) == [6]
    assert statuses(host.says(results(client, 2)), client) == {2: Status.SUCCESS}


def test_a_waiting_call_is_explained():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 1, **ANCHOR), tasks(client, 2, 1, **CALL))
    assert explanation.explain(book.core.state, client.session, 2) == (
        "Task 2 (f) is a call that waits until its actor is made. Task 1 (f) is queued: no worker is connected."
    )


def test_calls_take_no_slot():
    book, agent, client = with_actor()
    client.says(tasks(client, 2, 10_000, **CALL))
    assert numbers(client.says(tasks(client, 10_002, 1)), agent) == [10_002]
    assert book.core.state.agents[agent.session].load.outstanding == 2


def test_tasks_of_a_group_whose_workers_are_held_by_actors_say_so():
    book, agent, client = with_actor(group_limits="default=1")
    assert numbers(client.says(tasks(client, 2, 3)), agent) == []
    text = "actors hold the workers that its group may use: 1 in 'default'."
    assert text in explanation.explain(book.core.state, client.session, 2)
    reasons = {(each.reason, each.count) for each in snapshot_of(book.core.state, book.now).waits}
    assert reasons == {(text.capitalize(), 3)}


def test_an_actor_does_not_hold_all_workers_of_a_larger_limit():
    book, agent, client = with_actor(group_limits="default=2")
    assert numbers(client.says(tasks(client, 2, 3)), agent) == [2]
    text = "its group 'default' uses the 2 workers that it may use."
    assert text in explanation.explain(book.core.state, client.session, 3)


def test_an_actor_keeps_its_slot_and_is_not_given_another_agent():
    book = Playbook()
    agent, client = book.agent(), book.client()
    client.says(tasks(client, 1, 1, **ANCHOR))
    agent.says(ready(client))
    other = book.agent("other")
    assert numbers(client.says(tasks(client, 2, 1)), other) == [2]


def test_calls_fail_when_the_constructor_has_failed():
    book = Playbook()
    agent, client = book.agent(), book.client()
    client.says(tasks(client, 1, 1, **ANCHOR), tasks(client, 2, 2, **CALL))
    assert statuses(agent.says(results(client, (1, 1, Status.EXCEPTION))), client) == {1: Status.EXCEPTION}
    assert statuses(book.wait(0.5, (agent,)), client) == {2: Status.WORKER_DIED, 3: Status.WORKER_DIED}
    assert statuses(client.says(tasks(client, 4, 1, **CALL)), client) == {4: Status.WORKER_DIED}
    assert book.core.state.clients[client.session].table.columns.unfinished == 0


def test_calls_of_what_is_no_actor_fail():
    book = Playbook()
    client = book.client()
    book.agent()
    client.says(tasks(client, 1, 1))
    assert statuses(client.says(tasks(client, 2, 1, actor=1), tasks(client, 3, 1, actor=77)), client) == {
        2: Status.WORKER_DIED,
        3: Status.WORKER_DIED,
    }
    other = book.client("other")
    assert statuses(other.says(tasks(other, 1, 1, actor=1)), other) == {1: Status.WORKER_DIED}


def test_a_lost_agent_ends_the_actor_and_its_calls_once():
    book, agent, client = with_actor()
    client.says(tasks(client, 2, 2, **CALL))
    spare = book.agent("spare")
    said = book.lose(agent) + book.wait(20, (spare,))
    assert statuses(said, client) == dict.fromkeys((1, 2, 3), Status.WORKER_DIED)
    assert numbers(said, spare) == []
    assert statuses(client.says(tasks(client, 4, 1, **CALL)), client) == {4: Status.WORKER_DIED}


def test_an_agent_that_leaves_ends_the_actor_which_is_not_made_again():
    book, agent, client = with_actor()
    client.says(tasks(client, 2, 1, **CALL))
    spare = book.agent("spare")
    said = agent.says(Goodbye()) + book.wait(1, (spare,))
    assert statuses(said, client)[1] == Status.WORKER_DIED
    assert statuses(said, client)[2] == Status.WORKER_DIED
    assert numbers(said, spare) == []


def test_an_actor_that_was_not_made_yet_moves_and_its_calls_follow():
    book = Playbook()
    agent, client = book.agent(), book.client()
    client.says(tasks(client, 1, 1, **ANCHOR), tasks(client, 2, 1, **CALL))
    other = book.agent("other")
    said = agent.says(Withdrawn((TaskColumn(client.session, (1,), (1,)),), leaving=True))
    assert numbers(said + book.wait(0.5, (agent, other)), other) == [1]
    assert numbers(agent.says(ready(client)), agent) == []
    assert numbers(other.says(ready(client, attempt=2)), other) == [2]


def test_a_cancelled_actor_ends_when_its_agent_says_so():
    book, agent, client = with_actor()
    said = client.says(Cancel((TaskColumn(client.session, (1,)),)), tasks(client, 2, 1, **CALL))
    assert numbers(said, agent) == []
    said = agent.says(results(client, (1, 1, Status.CANCELLED))) + book.wait(0.5, (agent,))
    assert statuses(said, client) == {1: Status.CANCELLED, 2: Status.WORKER_DIED}


def test_calls_that_wait_can_be_cancelled():
    book = Playbook()
    agent, client = book.agent(), book.client()
    client.says(tasks(client, 1, 1, **ANCHOR), tasks(client, 2, 2, **CALL))
    said = client.says(Cancel((TaskColumn(client.session, (2,)),)))
    assert statuses(said, client) == {2: Status.CANCELLED}
    assert numbers(agent.says(ready(client)), agent) == [3]


# ---- calls of other clients ------------------------------------------------------------------------------------------


def borrowed(client: Peer, actor: int = 1) -> dict[str, Any]:
    return {**CALL, "actor": actor, "actor_session": client.session}


def test_other_clients_call_the_actor_and_get_the_results():
    book, agent, client = with_actor()
    other = book.client("other")
    assert numbers(other.says(tasks(other, 5, 2, **borrowed(client))), agent) == [5, 6]
    assert statuses(agent.says(results(other, 5, 6)), other) == {5: Status.SUCCESS, 6: Status.SUCCESS}


def test_calls_of_other_clients_fail_with_the_actor():
    book, agent, client = with_actor()
    other = book.client("other")
    other.says(tasks(other, 5, 1, **borrowed(client)))
    said = client.says(Goodbye()) + agent.says(results(client, (1, 1, Status.CANCELLED)))
    said += other.says(tasks(other, 6, 1, **borrowed(client))) + book.wait(6, (agent,))
    assert statuses(said, other) == {6: Status.NOT_FOUND}
    assert statuses(agent.says(results(other, (5, 1, Status.PROCESSOR_DIED))), other) == {5: Status.PROCESSOR_DIED}


def test_a_call_of_an_actor_of_another_cluster_says_so():
    book = Playbook()
    agent, client = book.agent(), book.client()
    elsewhere = {**CALL, "actor_session": b"elsewhere".ljust(16, b".")}
    assert client.says(tasks(client, 1, 1, **elsewhere)) == []  # this may be a restart, and the owner still come
    said = book.wait(6, (agent, client))
    said += client.says(tasks(client, 2, 1, **elsewhere))
    assert statuses(said, client) == dict.fromkeys((1, 2), Status.NOT_FOUND)


def test_a_call_of_another_client_may_overtake_the_actor():
    book = Playbook()
    agent, client, other = book.agent(), book.client(), book.client("other")
    assert other.says(tasks(other, 1, 1, **borrowed(client))) == []
    said = client.says(tasks(client, 1, 1, **ANCHOR))
    assert numbers(said, agent) == [1]
    assert numbers(agent.says(ready(client)), agent) == [1]


def test_a_call_of_another_client_waits_for_an_owner_that_is_away_and_has_the_actor():
    book = Playbook(client_timeout_seconds=60.0)
    agent, client, other = book.agent(), book.client(), book.client("other")
    book.lose(client)
    said = other.says(tasks(other, 1, 1, **borrowed(client))) + book.wait(20, (agent, other))
    assert statuses(said, other) == {}
    client.connect()
    client.says(tasks(client, 1, 1, **ANCHOR))
    assert numbers(agent.says(ready(client)), agent) == [1]


def test_a_call_of_an_actor_that_never_comes_fails():
    book = Playbook()
    agent, client, other = book.agent(), book.client(), book.client("other")
    said = other.says(tasks(other, 1, 1, **borrowed(client, 77))) + book.wait(6, (agent, client, other))
    assert statuses(said, other) == {1: Status.WORKER_DIED}
    assert statuses(client.says(tasks(client, 1, 1), tasks(client, 2, 1)), client) == {}
    assert statuses(other.says(tasks(other, 2, 1, **borrowed(client, 2))), other) == {2: Status.WORKER_DIED}


def test_after_a_restart_a_caller_may_come_before_the_client_of_the_actor():
    book = Playbook(epoch=2)
    name = b"client".ljust(16, b".")
    agent = book.agent(holds=(TaskColumn(name, (1,), (1,)),))
    agent.says(ActorsReady((TaskColumn(name, (1,), (1,)),)))
    other = book.client("other")
    assert other.says(tasks(other, 1, 1, **CALL, actor_session=name)) == []
    client = book.client()
    client.says(Tasks(tasks(client, 1, 1, **ANCHOR).runs, resubmitted=True))
    assert numbers(book.wait(0.5, (agent,)), agent) == [1]


# ---- actors that have not started when tasks wait for them -----------------------------------------------------------


def with_waiting_task() -> tuple[Playbook, Peer, Peer, Peer]:
    """Task 1 of a client has the only slot, and a client of its own."""
    book = Playbook()
    agent, client = book.agent(slots=1), book.client()
    client.says(tasks(client, 1, 1))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=1, parent_attempt=1)
    return book, agent, client, child


def depths(said: list, peer: Peer) -> list[int]:
    """The depths of the runs that the peer was sent."""
    bodies = [body for name, body in said if name == peer.name and isinstance(body, Tasks)]
    return [each.options.depth for body in bodies for each in body.runs]


def test_a_queued_actor_becomes_as_deep_as_the_calls_that_wait_for_it():
    book, agent, client, child = with_waiting_task()
    assert 1002 not in numbers(client.says(tasks(client, 2, 1000), tasks(client, 1002, 3, **ANCHOR)), agent)
    agent.says(Blocked(1, 0))
    said = child.says(tasks(child, 1, 2, **borrowed(client, 1003)))
    assert (numbers(said, agent), depths(said, agent)) == ([1003], [1])
    assert numbers(agent.says(ready(client, 1003)), agent) == [1, 2]
    columns = book.core.state.clients[client.session].table.columns
    assert [columns.record(task).depth for task in (1002, 1003, 1004)] == [0, 1, 0]
    said = client.says(Cancel((TaskColumn(client.session, (1002, 1004)),)))
    assert statuses(said, client) == dict.fromkeys((1002, 1004), Status.CANCELLED)


def test_an_actor_that_an_agent_has_not_started_comes_back_for_the_calls_that_wait_for_it():
    book, agent, client, child = with_waiting_task()
    client.says(tasks(client, 2, 1, **ANCHOR))
    agent.says(Blocked(1, 0))
    said = child.says(tasks(child, 1, 1, **borrowed(client, 2)))
    assert said == [("agent", Withdraw(0x7FFFFFFF))]
    said = agent.says(Withdrawn((TaskColumn(client.session, (2,), (1,)),)))
    assert (numbers(said, agent), depths(said, agent)) == ([2], [1])
    assert numbers(agent.says(ready(client, 2, attempt=2)), agent) == [1]


def test_an_agent_is_asked_once_to_return_an_actor_that_may_be_starting():
    book, agent, client, child = with_waiting_task()
    client.says(tasks(client, 2, 1, **ANCHOR))
    agent.says(Blocked(1, 0))
    assert child.says(tasks(child, 1, 1, **borrowed(client, 2))) == [("agent", Withdraw(0x7FFFFFFF))]
    assert agent.says(Withdrawn(())) == []
    assert [body for _, body in book.wait(2, (agent,)) if isinstance(body, Withdraw)] == []
    assert numbers(agent.says(ready(client, 2)), agent) == [1]


def test_a_started_actor_stays_as_deep_as_it_is():
    book, agent, client = with_actor()
    client.says(tasks(client, 2, 1))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=2, parent_attempt=1)
    agent.says(Blocked(1, 0))
    assert numbers(child.says(tasks(child, 1, 1, **borrowed(client))), agent) == [1]
    assert book.core.state.clients[client.session].table.columns.record(1).depth == 0


# ---- restarts ------------------------------------------------------------------------------------------------------


def restarted(agent_holds: tuple[int, ...], is_live: bool = True) -> tuple[Playbook, Peer, Peer]:
    """A scheduler after a restart: the client has stated an actor and the calls 2 to 6; the agent has some of them."""
    book = Playbook(epoch=2)
    client = book.client()
    body = tasks(client, 1, 1, **ANCHOR)
    client.says(Tasks(body.runs, resubmitted=True))
    client.says(Tasks([run(client, 2, 5, **CALL)], resubmitted=True))
    attempts = (1,) * len(agent_holds)
    agent = book.agent(holds=(TaskColumn(client.session, agent_holds, attempts),) if agent_holds else ())
    agent.says(*([ready(client)] if is_live else []), AllReported())
    return book, agent, client


def test_after_a_restart_calls_that_the_agent_lacks_follow_the_claimed_actor():
    book, agent, client = restarted((1, 2, 3))
    assert numbers(client.says(tasks(client, 7, 1, **CALL)), agent) == []  # not before the earlier ones
    said = book.wait(HOLD_SECONDS + 0.5, (agent,))
    assert numbers(said, agent) == [4, 5, 6, 7]
    assert statuses(agent.says(results(client, *range(2, 8))), client) == dict.fromkeys(range(2, 8), Status.SUCCESS)


def test_after_a_restart_calls_of_an_actor_that_has_ended_fail():
    book = Playbook(epoch=2)
    client, agent = book.client(), book.agent()
    client.says(Tasks([run(client, 2, 5, **CALL)], resubmitted=True))  # the client knows that the actor has ended
    assert statuses(book.wait(HOLD_SECONDS + 0.5, (agent,)), client) == dict.fromkeys(range(2, 7), Status.WORKER_DIED)


def test_after_a_restart_an_agent_may_come_before_the_client():
    book = Playbook(epoch=2)
    name = b"client".ljust(16, b".")
    agent = book.agent(holds=(TaskColumn(name, (1, 2), (1, 1)),))
    agent.says(ActorsReady((TaskColumn(name, (1,), (1,)),)), AllReported())
    client = book.client()
    client.says(Tasks(tasks(client, 1, 1, **ANCHOR).runs, resubmitted=True))
    client.says(Tasks([run(client, 2, 2, **CALL)], resubmitted=True))
    assert numbers(book.wait(HOLD_SECONDS + 0.5, (agent,)), agent) == [3]


def test_after_a_restart_without_its_agent_nothing_waits_forever():
    book, agent, client = restarted((), is_live=False)
    said = book.wait(HOLD_SECONDS + 0.5, (agent,))
    assert numbers(said, agent) == [1]  # made anew, as far as the scheduler can know
    assert numbers(agent.says(ready(client)), agent) == [2, 3, 4, 5, 6]


def test_after_a_restart_an_actor_that_died_meanwhile_fails_its_calls():
    book, agent, client = restarted((1, 2))
    said = agent.says(results(client, (1, 1, Status.PROCESSOR_DIED), (2, 1, Status.PROCESSOR_DIED)))
    said += book.wait(HOLD_SECONDS + 0.5, (agent,))
    assert statuses(said, client) == {
        **dict.fromkeys((1, 2), Status.PROCESSOR_DIED),
        **dict.fromkeys((3, 4, 5, 6), Status.WORKER_DIED),
    }


# ---- hostile peers ---------------------------------------------------------------------------------------------------


def test_impossible_options_end_the_session():
    for options in ({"actor": 1, "graph": 9}, {"hosts_actor": True, "graph": 9}, {"actor": 1, "hosts_actor": True}):
        book = Playbook()
        client = book.client()
        book.agent()
        [(_, refused)] = client.says(tasks(client, 1, 1, **options))
        assert isinstance(refused, Refused)


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        (1, "worker that could run it is busy ({} are queued). It has an actor, and keeps it until it ends."),
        (
            2,
            "workers that could run it are busy ({} are queued). 1 of them has an actor, and keeps it until it ends.",
        ),
        (
            3,
            "workers that could run it are busy ({} are queued). 2 of them have actors, and keep them until they end.",
        ),
    ],
)
def test_a_task_that_waits_for_workers_with_actors_is_explained(slots, reason):
    book = Playbook()
    agent, client = book.agent(slots=slots), book.client()
    for number in range(1, max(2, slots)):
        client.says(tasks(client, number, 1, **ANCHOR))
        agent.says(ready(client, number))
    client.says(tasks(client, 10, 20))
    text = explanation.explain(book.core.state, client.session, 29)
    assert reason.format(f"{book.core.state.placement.queued} tasks") in text


def test_a_call_of_itself_is_explained():
    """Until the end of the turn nothing has looked whether there is such an actor."""
    book = Playbook()
    client, _ = book.client(), book.agent()
    book.deliver(client, client.link.wrap(tasks(client, 1, 1, actor=1)))
    text = explanation.explain(book.core.state, client.session, 1)
    assert text.endswith("is a call that waits until its actor is made.")


def test_a_call_of_itself_and_of_the_largest_number_fail():
    book = Playbook()
    client, _ = book.client(), book.agent()
    assert statuses(client.says(tasks(client, 1, 1, actor=1)), client) == {1: Status.WORKER_DIED}
    assert statuses(client.says(tasks(client, 2, 1, actor=2**64 - 1)), client) == {2: Status.WORKER_DIED}


def test_agents_that_name_actors_of_others_change_nothing():
    book, agent, client = with_actor()
    liar = book.agent("liar")
    liar.says(ready(client), ActorsReady((TaskColumn(b"x" * 16, tuple(range(1000)), (1,) * 1000),)))
    assert numbers(client.says(tasks(client, 2, 1, **CALL)), agent) == [2]
    book.wait(HOLD_SECONDS + 0.5, (agent, liar))
    assert not book.core.state.agents[liar.session].actors


def test_calls_of_ever_new_actors_leave_nothing_at_once():
    book = Playbook()
    client, _ = book.client(), book.agent()
    for task in range(1, 100):
        assert statuses(client.says(tasks(client, task, 1, actor=task + 1)), client) == {task: Status.WORKER_DIED}
    assert not book.core.state.actors


def test_nothing_is_left_of_ended_actors():
    book, agent, client = with_actor()
    client.says(tasks(client, 2, 1, **CALL))
    agent.says(results(client, 2))
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    agent.says(results(client, (1, 1, Status.CANCELLED)))
    book.wait(RECOUNT_SECONDS + 0.5, (agent,))
    assert not book.core.state.actors and not book.core.state.actors.waiting
    assert not book.core.state.agents[agent.session].actors


# ---- restarts --------------------------------------------------------------------------------------------------------


def test_an_actor_survives_as_many_lost_hosts_as_it_may_be_made_again():
    book = Playbook()
    client, made = book.client(), []
    client.says(tasks(client, 1, 1, hosts_actor=True, retries=2))
    for attempt in range(1, 4):
        host = book.agent(f"host {attempt}")
        made += numbers(host.joined, host)
        host.says(ready(client, attempt=attempt))
        ended = statuses(book.lose(host) + book.wait(20), client)
        assert ended == ({} if attempt < 3 else {1: Status.WORKER_DIED})
    assert made == [1, 1, 1]


# ---- restarts of the scheduler to which the host of an actor comes late ----------------------------------------------


def awaited(**options) -> tuple[Playbook, Peer, bytes]:
    """The client has stated an actor and the calls 2 to 4, and knows the session of the host, which is away."""
    book = Playbook(epoch=2)
    client, host = book.client(epoch=1, received=7), Peer(book, "host", 2)
    client.says(client.states_agents(host), Tasks(tasks(client, 1, 1, **{**ANCHOR, **options}).runs, resubmitted=True))
    client.says(Tasks([run(client, 2, 3, **CALL)], resubmitted=True))
    return book, client, host.session


def test_an_actor_and_its_calls_wait_for_their_host():
    book, client, _ = awaited()
    other = book.agent("other")
    assert numbers(client.says(tasks(client, 5, 1, **CALL)) + book.wait(4.0, (other,)), other) == []
    host = book.agent("host", slots=2, holds=(TaskColumn(client.session, (1, 2), (1, 1)),), reports_all=True)
    assert not [body for body in host.joined if isinstance(body, Cancel)]
    said = host.says(ready(client)) + book.wait(2.5, (host, other))
    assert numbers(said, host) == [3, 4, 5] and numbers(said, other) == []
    assert statuses(host.says(results(client, 2, 3, 4, 5)), client) == dict.fromkeys(range(2, 6), Status.SUCCESS)


def test_calls_of_others_wait_for_the_host_of_their_actor():
    book, client, _ = awaited()
    caller = book.client("caller")
    caller.says(Tasks([run(caller, 1, 2, **borrowed(client))], resubmitted=True))
    book.wait(4.0)
    host = book.agent("host", slots=2, holds=(TaskColumn(client.session, (1,), (1,)),), reports_all=True)
    host.says(ready(client))
    assert numbers(book.wait(2.5, (host,)), host).count(1) == 1


def test_an_actor_whose_host_does_not_come_back_is_not_made_again():
    book, client, _ = awaited()
    other = book.agent("other")
    said = book.wait(HOLD_ONCE_SECONDS + 3.0, (other,))
    assert numbers(said, other) == []
    assert statuses(said, client) == dict.fromkeys((1, 2, 3, 4), Status.WORKER_DIED)


def test_an_actor_that_may_be_made_again_does_not_wait_for_its_host():
    book, client, _ = awaited(rerun=True, retries=1)
    other = book.agent("other")
    assert numbers(book.wait(HOLD_SECONDS + 1.5, (other,)), other) == [1]


def test_an_actor_that_its_host_was_told_to_end_is_not_made_again():
    """Its client came back too late."""
    book = Playbook(epoch=2)
    name = b"client".ljust(16, b".")
    agent = book.agent(slots=2, holds=(TaskColumn(name, (1,), (1,)),), reports_all=True)
    agent.says(ActorsReady((TaskColumn(name, (1,), (1,)),)))
    book.wait(HOLD_SECONDS + 0.5, (agent,))
    client = book.client()
    said = client.says(Tasks(tasks(client, 1, 1, **ANCHOR).runs, resubmitted=True))
    client.says(Tasks([run(client, 2, 1, **CALL)], resubmitted=True))
    said += book.wait(HOLD_SECONDS + 2.5, (agent,))
    assert numbers(said, agent) == []
    assert statuses(said, client) == dict.fromkeys((1, 2), Status.WORKER_DIED)


def test_calls_that_the_lost_instance_may_have_had_do_not_reach_the_next_one():
    book, client, _ = awaited(rerun=True, retries=1)
    caller = book.client("caller")
    caller.says(Tasks([run(caller, 1, 2, **borrowed(client))], resubmitted=True))
    other = book.agent("other")
    said = book.wait(HOLD_SECONDS + 3.5, (other,))
    assert statuses(said, client) == dict.fromkeys((2, 3, 4), Status.WORKER_DIED)
    assert statuses(said, caller) == dict.fromkeys((1, 2), Status.WORKER_DIED)
    assert numbers(other.says(ready(client)), other) == []
    assert numbers(client.says(tasks(client, 5, 1, **CALL)), other) == [5]


def test_all_agents_are_told_that_an_actor_is_made_again():
    """One of them gets it, and the next scheduler must know, too, that there was an instance before."""
    book, client, _ = awaited(rerun=True, retries=1)
    agents = [book.agent("first"), book.agent("second")]
    said = book.wait(HOLD_SECONDS + 1.5, tuple(agents))
    told = [name for name, body in said if body == DroppedTasks(client.session, (1,))]
    assert told == ["first", "second"]


def test_an_agent_is_told_that_its_actor_was_lost_before():
    book = Playbook()
    client, host = book.client(), book.agent("host")
    client.says(tasks(client, 1, 1, hosts_actor=True, retries=1))
    assert host.says(ready(client)) == []
    book.lose(host)
    book.wait(20)
    other = book.agent("other")
    assert other.says(ready(client, attempt=2)) == [("other", DroppedTasks(client.session, (1,)))]


def test_calls_from_before_do_not_reach_an_instance_that_an_earlier_scheduler_had_made_again():
    """The caller was away while the actor was made again."""
    book = Playbook(epoch=3)
    client, caller = book.client(), book.client("caller")
    agent = book.agent(slots=2, holds=(TaskColumn(client.session, (1,), (1,)),))
    agent.says(DroppedTasks(client.session, (1,)), ready(client), AllReported())
    client.says(Tasks(tasks(client, 1, 1, hosts_actor=True, retries=1).runs, resubmitted=True))
    caller.says(Tasks([run(caller, 1, 2, **borrowed(client))], resubmitted=True))
    said = book.wait(HOLD_SECONDS + 0.5, (agent,))
    assert (numbers(said, agent), statuses(said, caller)) == ([], dict.fromkeys((1, 2), Status.WORKER_DIED))
    assert numbers(caller.says(tasks(caller, 3, 1, **borrowed(client))), agent) == [3]


@pytest.mark.parametrize("has_ended", [False, True])
def test_calls_that_an_agent_was_told_to_drop_do_not_run_again(has_ended: bool):
    """The client that has called came back too late. It is told at once: another restart would forget why."""
    book = Playbook(epoch=2)
    client, name = book.client(), b"caller".ljust(16, b".")
    client.says(Tasks(tasks(client, 1, 1, **ANCHOR).runs, resubmitted=True))
    called = () if has_ended else (TaskColumn(name, (1,), (1,)),)
    agent = book.agent(slots=2, holds=(TaskColumn(client.session, (1,), (1,)), *called))
    result = [Results([ResultRun(name, [(1, 1, 0, b"result", 0, 0, 0)])])] if has_ended else []
    agent.says(ready(client), *result, AllReported())
    book.wait(HOLD_SECONDS + 0.5, (agent,))
    caller = book.client("caller")
    said = caller.says(Tasks([run(caller, 1, 2, **borrowed(client))], resubmitted=True))
    assert statuses(said, caller) == {1: Status.WORKER_DIED}
    assert numbers(book.wait(HOLD_SECONDS + 0.5, (agent,)), agent) == [2]


def test_calls_that_an_earlier_scheduler_had_an_agent_drop_do_not_run_again():
    book = Playbook(epoch=2)
    client, caller = book.client(), book.client("caller")
    client.says(Tasks(tasks(client, 1, 1, **ANCHOR).runs, resubmitted=True))
    caller.says(Tasks([run(caller, 1, 2, **borrowed(client))], resubmitted=True))
    agent = book.agent(slots=2, holds=(TaskColumn(client.session, (1,), (1,)),))
    said = agent.says(DroppedTasks(caller.session, (1,)), ready(client), AllReported())
    assert statuses(said, caller) == {1: Status.WORKER_DIED}
    assert numbers(book.wait(HOLD_SECONDS + 0.5, (agent,)), agent) == [2]


def test_calls_wait_until_the_agent_of_the_actor_has_said_which_results_it_has():
    """It has attached, but its results were still under way: it has run the first call."""
    book = Playbook(epoch=2)
    client = book.client()
    client.says(Tasks(tasks(client, 1, 1, **ANCHOR).runs, resubmitted=True))
    client.says(Tasks(tasks(client, 2, 2, **CALL).runs, resubmitted=True))
    agent = book.agent(slots=2, holds=(TaskColumn(client.session, (1,), (1,)),))
    agent.says(ready(client))
    assert numbers(book.wait(HOLD_SECONDS + 1.0, (agent,)), agent) == []
    said = agent.says(results(client, 2), AllReported())
    assert statuses(said, client) == {2: Status.SUCCESS}
    assert numbers(book.wait(0.5, (agent,)), agent) == [3]


def test_calls_of_a_client_that_was_given_up_do_not_run_again():
    book, agent, client = with_actor(client_timeout_seconds=1.0)
    caller = book.client("caller")
    assert numbers(caller.says(tasks(caller, 1, 1, **borrowed(client))), agent) == [1]
    book.lose(caller)
    book.wait(2.0, (agent,))
    agent.says(results(caller, 1))
    assert caller.connect() == []
    said = caller.says(Tasks([run(caller, 1, 1, **borrowed(client))], resubmitted=True))
    assert numbers(said + book.wait(HOLD_SECONDS + 0.5, (agent,)), agent) == []
    assert statuses(said, caller) == {1: Status.WORKER_DIED}


def test_calls_that_an_agent_had_when_it_left_do_not_reach_the_next_instance():
    book = Playbook()
    agent, client = book.agent(), book.client()
    client.says(tasks(client, 1, 1, hosts_actor=True, retries=1))
    agent.says(ready(client))
    assert numbers(client.says(tasks(client, 2, 1, **CALL)), agent) == [2]
    other = book.agent("other")
    said = agent.says(Goodbye())
    assert numbers(said, other) == [1] and statuses(said, client) == {2: Status.WORKER_DIED}
    assert numbers(other.says(ready(client, attempt=2)), other) == []


# ---- agents all of whose workers are actors ------------------------------------------------------------------------


def test_no_task_waits_behind_an_actor_that_has_the_only_worker():
    book, agent, client = with_actor()
    client.says(tasks(client, 2, 1, **ANCHOR))
    agent.says(ready(client, 2))
    parent = book.agent("parent")
    assert numbers(client.says(tasks(client, 3, 1)), parent) == [3]
    child = book.client("child", via=parent, parent_session=client.session, parent_task=3, parent_attempt=1)
    parent.says(Blocked(1, 0))
    said = child.says(tasks(child, 1, 3))
    assert numbers(said, agent) == []
    assert numbers(said, parent)[:1] == [1]


def test_tasks_return_when_a_call_of_the_actor_that_has_the_only_worker_goes_on():
    book = Playbook()
    agent, client = book.agent(slots=1), book.client()
    client.says(tasks(client, 1, 1, **ANCHOR))
    agent.says(ready(client))
    client.says(tasks(client, 2, 1, **CALL))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=2, parent_attempt=1)
    agent.says(Blocked(1, 0, lent_by_actors=1))
    assert numbers(child.says(tasks(child, 1, 1)), agent) == [1]
    assert [body for _, body in book.wait(1.0, (agent,)) if isinstance(body, Withdraw)] == []
    agent.says(Blocked(0, 0))
    assert ("agent", Withdraw(0x7FFFFFFF)) in book.wait(1.0, (agent,))
    other = book.agent("other", slots=1)
    said = agent.says(Withdrawn((TaskColumn(child.session, (1,), (1,)),)))
    assert numbers(said, other) == [1] and numbers(said, agent) == []


def test_tasks_return_when_an_actor_has_the_slot_that_a_task_has_lent():
    book = Playbook()
    agent, client = book.agent(slots=1), book.client()
    client.says(tasks(client, 1, 1))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=1, parent_attempt=1)
    agent.says(Blocked(1, 0))
    said = child.says(tasks(child, 1, 1, **ANCHOR), tasks(child, 2, 1))
    assert sorted(numbers(said, agent)) == [1, 2]
    agent.says(ready(child))
    assert ("agent", Withdraw(0x7FFFFFFF)) in book.wait(1.0, (agent,))
    other = book.agent("other", slots=1)
    said = agent.says(Withdrawn((TaskColumn(child.session, (2,), (1,)),)))
    assert numbers(said, other) == [2] and numbers(said, agent) == []


def test_an_actor_that_waits_on_a_host_keeps_no_deeper_task_from_it():
    book = Playbook()
    agent, client = book.agent(slots=1), book.client()
    client.says(tasks(client, 1, 1), tasks(client, 2, 1, **ANCHOR))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=1, parent_attempt=1)
    agent.says(Blocked(1, 0))
    assert numbers(child.says(tasks(child, 1, 1)), agent) == [1]


def shown_actors(book: Playbook) -> list[ActorStatus]:
    snapshot = snapshot_of(book.core.state, book.now)
    assert snapshot.actor_count == len(snapshot.actors)
    return list(snapshot.actors)


def test_monitors_see_actors_their_calls_and_where_they_are():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 1, hosts_actor=True, retries=3), tasks(client, 2, 4, **CALL))
    book.now += 5
    [waiting] = shown_actors(book)
    assert (waiting.task, waiting.function, waiting.host, waiting.is_made) == (1, "f", "", False)
    assert (waiting.running, waiting.waiting, waiting.restarts, waiting.restarts_limit) == (0, 4, 0, 3)
    assert waiting.session[:4] == client.session[:4] and waiting.seconds == 5.0
    agent = book.agent(slots=2)
    [making] = shown_actors(book)
    assert (making.host, making.is_made, making.running, making.waiting) == ("host", False, 0, 4)
    agent.says(ready(client))
    call = RunningTask(client.session, 2, 1, 1, 7, 48.0, 48.0, 0.0, 0, False)
    agent.says(Heartbeat(50.0, 0.0, 0.0, 0, 0, 0, (), (call,)))
    [made] = shown_actors(book)
    assert (made.is_made, made.worker, made.running, made.waiting) == (True, "agent-1", 1, 3)
    agent.says(results(client, 2), results(client, 3))
    assert [(each.running, each.waiting) for each in shown_actors(book)] == [(1, 1)]
    agent.says(results(client, 4), results(client, 5))
    assert [(each.is_made, each.running, each.waiting) for each in shown_actors(book)] == [(True, 0, 0)]
    book.core.check()


def test_monitors_see_actors_that_wait_without_calls_and_their_names():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 1, actor_name="ledger", **ANCHOR), tasks(client, 2, 1, **ANCHOR), tasks(client, 3, 1))
    shown = [(each.task, each.name, each.host, each.waiting) for each in shown_actors(book)]
    assert shown == [(1, "ledger", "", 0), (2, "", "", 0)]
    assert "Task 1 (f, actor 'ledger') is queued" in book.core.explain(client.session, 1)
    agent = book.agent(slots=3)
    assert [(each.task, each.name, each.host) for each in shown_actors(book)] == [
        (1, "ledger", "host"),
        (2, "", "host"),
    ]
    agent.says(results(client, 1))
    assert [each.task for each in shown_actors(book)] == [2]
    client.says(Cancel((TaskColumn(client.session, (2,)),)))
    agent.says(results(client, (2, 1, Status.CANCELLED, b"")))
    assert shown_actors(book) == []
    book.wait(RECOUNT_SECONDS + 1.0)
    assert book.core.state.actors.made == {}
    book.core.check()


def test_actors_wait_outside_a_full_queue_and_for_reports_after_a_restart():
    book = Playbook(max_number_of_tasks_waiting=1)
    client = book.client()
    client.says(tasks(client, 1, 1))
    client.says(tasks(client, 2, 1, **ANCHOR))
    assert "outside the queue" in book.core.explain(client.session, 2)
    book = Playbook()
    client = book.client()
    client.says(Tasks([run(client, 1, 1, hosts_actor=True, retries=2)], resubmitted=True))
    assert "after the scheduler's restart" in book.core.explain(client.session, 1)
    assert [each.task for each in shown_actors(book)] == [1]


def test_monitors_see_how_often_an_actor_was_made_again():
    book = Playbook()
    agent, client = book.agent(), book.client()
    client.says(tasks(client, 1, 1, hosts_actor=True, retries=2))
    agent.says(ready(client))
    agent.says(results(client, (1, 1, Status.PROCESSOR_DIED, b"{}")))
    agent.says(ready(client, attempt=2))
    assert [(each.is_made, each.restarts, each.restarts_limit) for each in shown_actors(book)] == [(True, 1, 2)]


def test_several_calls_of_an_actor_may_run_and_those_of_other_clients_count():
    book = Playbook()
    agent, client, other = book.agent(), book.client(), book.client("other")
    client.says(tasks(client, 1, 1, max_concurrency=3, **ANCHOR), tasks(client, 2, 2, **CALL))
    agent.says(ready(client))
    other.says(tasks(other, 1, 5, actor_session=client.session, **CALL))
    assert [(each.running, each.waiting) for each in shown_actors(book)] == [(3, 4)]


def test_monitors_see_no_actors_that_calls_only_name():
    book = Playbook()
    client, _ = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(tasks(client, 2, 3, **CALL))
    other = book.client("other")
    other.says(tasks(other, 1, 1, actor=77, actor_session=client.session, rerun=False))
    assert shown_actors(book) == []


def test_monitors_get_the_actors_with_most_unfinished_calls(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(actor_reports, "ROWS_LIMIT", 2)
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 3, **ANCHOR))
    for first, actor, calls in ((11, 1, 1), (21, 2, 5), (31, 3, 3)):
        client.says(tasks(client, first, calls, actor=actor, rerun=False))
    snapshot = snapshot_of(book.core.state, book.now)
    assert ([each.task for each in snapshot.actors], snapshot.actor_count) == ([2, 3], 3)
