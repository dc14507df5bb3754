"""Clients that are away while the scheduler is restarted, and come back later than agents."""

from __future__ import annotations

from scaler_protocol.link import Link
from scaler_protocol.messages import (
    UPLOAD_NUMBER,
    ActorsReady,
    Cancel,
    DroppedTasks,
    Goodbye,
    Heartbeat,
    Leaving,
    MayLeave,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    Role,
    RunningTask,
    Status,
    TaskColumn,
    Tasks,
    Withdraw,
    Withdrawn,
)
from scaler_scheduler.core.orphaned_objects import UNKNOWN_SECONDS
from tests.unit.scheduler.playbook import Peer, Playbook, attach, definition, handed, results, run, statuses
from tests.unit.scheduler.test_orphaned_objects import names

TIMEOUT_SECONDS = 20.0
"""``client_timeout_seconds`` in these tests."""


def restarted(task: int = 1, slots: int = 1) -> tuple[Playbook, Peer, Peer]:
    """A restarted scheduler, a client that is away, and an agent that has one of its tasks."""
    book = Playbook(epoch=2, client_timeout_seconds=TIMEOUT_SECONDS)
    client = book._peer("client", Role.SUBMIT)
    return book, client, returned(book, "agent", slots, (TaskColumn(client.session, (task,), (1,)),))


def returned(book: Playbook, name: str, slots: int = 1, holds: tuple[TaskColumn, ...] = ()) -> Peer:
    """An agent that was with the earlier scheduler."""
    agent = book._peer(name, Role.WORK)
    assert agent.connect(epoch=1) == []
    agent.joined = agent.says(attach(name, slots, None, holds))
    return agent


def resubmit(client: Peer, first: int, count: int, **options) -> Tasks:
    return Tasks([run(client, first, count, **options)], [definition()], [], True)


def beat(*rows: RunningTask) -> Heartbeat:
    return Heartbeat(50.0, 0.0, 0.0, 0, 0, 0, (), rows)


def running(client: Peer, task: int) -> RunningTask:
    return RunningTask(client.session, task, 1, 0, 4711, 40.0, 50.0, 100.0, 1024, False)


def test_a_running_task_waits_for_its_client():
    book, client, agent = restarted()
    assert book.wait(TIMEOUT_SECONDS - 1, (agent,)) == []
    client.connect(epoch=1)
    assert client.says(resubmit(client, 1, 1)) == []
    assert book.wait(2.0, (agent,)) == []
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}


def test_a_result_waits_for_its_client():
    book, client, agent = restarted()
    book.wait(10.0, (agent,))
    assert agent.says(results(client, 1)) == []
    assert book.wait(5.0, (agent,)) == []
    client.connect(epoch=1)
    assert statuses(client.says(resubmit(client, 1, 1)), client) == {1: Status.SUCCESS}


def test_a_result_of_an_agent_that_has_announced_none_of_its_tasks_is_dropped():
    book, client, agent = restarted()
    other = book.agent("other")
    book.wait(10.0, (agent, other))
    assert other.says(results(client, 2)) == [
        ("other", DroppedTasks(client.session, (2,))),
        ("other", Cancel((TaskColumn(client.session, (2,), (1,)),))),
    ]


def test_a_client_has_as_long_as_one_whose_connection_ends():
    book, client, agent = restarted()
    assert book.wait(TIMEOUT_SECONDS + 1, (agent,)) == [
        ("agent", DroppedTasks(client.session, (1,))),
        ("agent", Cancel((TaskColumn(client.session, (1,), (1,)),))),
    ]
    assert not book.core.state.unclaimed


def test_the_time_in_which_the_scheduler_did_not_run_does_not_count():
    book, client, agent = restarted()
    book.wait(5.0, (agent,))
    book.now += 30.0
    assert book.wait(TIMEOUT_SECONDS - 7, (agent,)) == []
    assert book.wait(3.0, (agent,)) != []


def test_without_an_earlier_scheduler_nobody_is_awaited():
    book = Playbook(epoch=2, client_timeout_seconds=TIMEOUT_SECONDS)
    session = b"stranger".ljust(16, b".")
    agent = book.agent(holds=(TaskColumn(session, (1,), (1,)),))
    assert ("agent", Cancel((TaskColumn(session, (1,), (1,)),))) in book.wait(2.0, (agent,))


def test_a_client_that_has_left_is_not_awaited():
    book, client, agent = restarted()
    client.connect(epoch=1)
    client.says(Goodbye())
    late = returned(book, "late", holds=(TaskColumn(client.session, (2,), (1,)),))
    said = book.wait(2.0, (agent, late))
    assert ("late", Cancel((TaskColumn(client.session, (2,), (1,)),))) in said


def test_a_client_that_says_nothing_after_its_hello_is_still_away():
    """Its program holds the GIL, and the answer to its Hello waits."""
    book, client, agent = restarted()
    client.connect(epoch=1)
    assert book.wait(10.0, (agent,)) == []
    client.says(resubmit(client, 1, 1))
    assert book.wait(2.0, (agent,)) == []
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}


def test_a_client_that_submits_new_tasks_has_nothing_to_state():
    book, client, agent = restarted()
    client.connect(epoch=1)
    assert handed(client.says(Tasks([run(client, 7, 1)], [definition()])), agent) == [(7, 1)]
    assert ("agent", Cancel((TaskColumn(client.session, (1,), (1,)),))) in book.wait(2.0, (agent,))


def test_what_it_cancels_first_of_all_is_cancelled():
    book, client, agent = restarted()
    client.connect(epoch=1)
    book.wait(10.0, (agent,))
    said = client.says(Cancel((TaskColumn(client.session, (1,)),)))
    assert said == [("agent", Cancel((TaskColumn(client.session, (1,), (1,)),)))]


def test_workers_that_run_its_tasks_are_not_free():
    book, client, agent = restarted()
    free = book.agent("free")
    agent.says(beat(running(client, 1)))
    other = book.client("other")
    said = other.says(Tasks([run(other, 1, 1)], [definition()]))
    assert handed(said, free) == [(1, 1)]
    assert agent_load(book, agent) == (1, 1)


def test_what_waits_behind_its_tasks_moves_to_workers_that_are_free():
    book, client, agent = restarted()
    agent.says(beat(running(client, 1)))
    other = book.client("other")
    assert handed(other.says(Tasks([run(other, 1, 1)], [definition()])), agent) == [(1, 1)]  # prefetched
    free = book.agent("free")
    asked = [*free.joined, *book.wait(1.0, (agent, free))]
    assert [name for name, body in asked if isinstance(body, Withdraw)] == ["agent"]
    moved = agent.says(Withdrawn((TaskColumn(other.session, (1,), (1,)),)))
    assert handed(moved, free) == [(1, 2)]


def test_workers_are_free_when_its_tasks_are_given_up():
    book, client, agent = restarted()
    agent.says(beat(running(client, 1)))
    assert agent_load(book, agent) == (1, 1)
    book.wait(TIMEOUT_SECONDS + 1, (agent,))
    assert agent_load(book, agent) == (0, 0)


def test_its_tasks_count_once_when_it_is_back():
    book, client, agent = restarted()
    agent.says(beat(running(client, 1)))
    client.connect(epoch=1)
    client.says(resubmit(client, 1, 1))
    assert agent_load(book, agent) == (1, 0)
    agent.says(beat(running(client, 1)))
    assert agent_load(book, agent) == (1, 0)


def agent_load(book: Playbook, agent: Peer) -> tuple[int, int]:
    load = book.core.state.agents[agent.session].load
    return load.outstanding, load.unclaimed


def test_an_agent_does_not_leave_with_its_tasks():
    book, client, agent = restarted()
    agent.says(Withdrawn((), leaving=True), Leaving())
    assert ("agent", MayLeave()) not in book.wait(10.0, (agent,))
    client.connect(epoch=1)
    client.says(resubmit(client, 1, 1))
    said = [*agent.says(results(client, 1)), *book.wait(2.0, (agent,))]
    assert ("agent", MayLeave()) in said


def test_an_agent_that_needs_an_object_waits_for_its_owner():
    book, client, agent = restarted()
    key = ObjectKey(client.session, UPLOAD_NUMBER + 1)
    assert agent.says(ObjectRequest(key, False)) == []
    assert book.wait(10.0, (agent,)) == []
    client.connect(epoch=1)
    asked = client.says(resubmit(client, 1, 1), ObjectStored(key, 10, b"\0" * 16))
    assert not [body for _, body in [*asked, *book.wait(2.0, (agent,))] if isinstance(body, ObjectMissing)]


def test_an_agent_does_not_wait_for_an_owner_that_does_not_come():
    book, client, agent = restarted()
    key = ObjectKey(client.session, UPLOAD_NUMBER + 1)
    agent.says(ObjectRequest(key, False))
    missing = [body.key for _, body in book.wait(TIMEOUT_SECONDS + 1, (agent,)) if isinstance(body, ObjectMissing)]
    assert missing == [key]


def test_copies_of_its_results_are_kept():
    book, client, agent = restarted()
    key = ObjectKey(client.session, 2)
    agent.says(ObjectStored(key, 50_000, bytes(16)))
    assert book.wait(TIMEOUT_SECONDS - 1, (agent,)) == []
    assert ("agent", ObjectRelease((key,))) in book.wait(3.0, (agent,))


def test_what_it_has_put_into_a_store_is_kept():
    book, client, agent = restarted()
    names(agent, client.session)
    said = book.wait(TIMEOUT_SECONDS + UNKNOWN_SECONDS - 1, (agent,))
    assert not [body for _, body in said if isinstance(body, ObjectRelease | ObjectCredit)]
    assert book.wait(2.0, (agent,)) == [("agent", ObjectRelease((), client.session))]


def test_its_actor_goes_on_and_the_calls_of_others_wait():
    book, client, agent = restarted()
    agent.says(ActorsReady((TaskColumn(client.session, (1,), (1,)),)))
    caller = book.client("caller", epoch=1)
    caller.says(Tasks([run(caller, 1, 1, actor=1, actor_session=client.session, rerun=False)], [definition()]))
    assert book.wait(10.0, (agent,)) == []
    assert agent_load(book, agent) == (0, 0)
    agent.says(beat())
    assert agent_load(book, agent) == (1, 1)
    client.connect(epoch=1)
    said = client.says(resubmit(client, 1, 1, hosts_actor=True, rerun=False))
    assert handed([*said, *book.wait(1.0, (agent,))], agent) == [(1, 1)]
    assert statuses(agent.says(results(caller, 1)), caller) == {1: Status.SUCCESS}


def test_an_actor_counts_once():
    """Heartbeats name an actor, or the call that it executes."""
    book, client, agent = restarted(slots=2)
    agent.says(ActorsReady((TaskColumn(client.session, (1,), (1,)),)))
    agent.says(beat(running(client, 1)))
    assert agent_load(book, agent) == (1, 1)
    agent.says(beat(running(client, 2)))
    assert agent_load(book, agent) == (1, 1)


def test_an_agent_leaves_when_it_has_returned_its_tasks():
    book, client, agent = restarted()
    agent.says(Withdrawn((TaskColumn(client.session, (1,), (1,)),), leaving=True), Leaving())
    assert ("agent", MayLeave()) in book.wait(3.0, (agent,))


def test_an_agent_leaves_when_its_tasks_are_cancelled():
    book, client, agent = restarted()
    agent.says(beat(running(client, 1)))
    client.connect(epoch=1)
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    assert agent_load(book, agent) == (0, 0)
    agent.says(Withdrawn((), leaving=True), Leaving())
    assert ("agent", MayLeave()) in book.wait(3.0, (agent,))


def test_what_a_client_does_not_claim_that_has_stated_objects_is_dropped():
    book, client, agent = restarted()
    book.wait(5.0, (agent,))
    client.connect(epoch=1)
    client.says(ObjectStored(ObjectKey(client.session, UPLOAD_NUMBER + 1), 10, bytes(16)))
    assert ("agent", Cancel((TaskColumn(client.session, (1,), (1,)),))) in book.wait(2.0, (agent, client))


def test_a_task_whose_result_was_dropped_is_not_awaited():
    """The client has a break of more than a second in what it states."""
    book, client, agent = restarted()
    book.wait(5.0, (agent,))
    client.connect(epoch=1)
    client.says(ObjectStored(ObjectKey(client.session, UPLOAD_NUMBER + 1), 10, bytes(16)))
    agent.says(results(client, 1))
    book.wait(3.0, (agent, client))
    said = [*client.says(resubmit(client, 1, 1)), *book.wait(3.0, (agent, client))]
    assert handed(said, agent) == [(1, 1)]


def test_a_client_that_begins_again_is_still_awaited():
    """Its connection has ended before it has read the answer to its Hello."""
    book, client, agent = restarted()
    book.deaf.add("client")
    client.connect(epoch=1)
    client.says(client.states_agents(agent))
    client.link = Link()
    client.connect(epoch=1)
    book.deaf.clear()
    book.wait(5.0, (agent, client))
    agent.says(results(client, 1))
    book.wait(5.0, (agent,))
    client.link = Link()
    client.connect(epoch=1)
    assert statuses(client.says(resubmit(client, 1, 1)), client) == {1: Status.SUCCESS}
