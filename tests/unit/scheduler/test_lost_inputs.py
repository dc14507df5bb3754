"""Tasks whose inputs, large results of earlier tasks, are lost before they are read."""

from __future__ import annotations

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    ActorsReady,
    Blocked,
    Cancel,
    Goodbye,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    Status,
    TaskColumn,
    TaskOptions,
    Tasks,
    Withdraw,
    Withdrawn,
)
from scaler_scheduler.core import waits
from scaler_scheduler.core.states import LOSSES_LIMIT
from tests.unit.scheduler.playbook import FUNCTION, Peer, Playbook, handed, results, statuses, tasks

SIZE = (1000).to_bytes(8, "little")
MISSING = Status.OBJECT_MISSING
LARGE = Status.SUCCESS_LARGE


def readers(client: Peer, first: int, inputs: list[int], count: int = 1, **options) -> Tasks:
    """Tasks that name results of other tasks, and are no nodes."""
    slots = [[ObjectKey(client.session, each) for each in inputs] for _ in range(count)]
    return Tasks([TaskRun(client.session, FUNCTION, "f", b"", first, 1, (), TaskOptions(**options), slots)])


def finished(book: Playbook, count: int = 1, **options) -> tuple[Peer, Peer]:
    """A client, and the agent that has its large results of tasks 1 to ``count``."""
    client, agent = book.client(), book.agent(slots=4)
    client.says(tasks(client, 1, count, **options))
    agent.says(results(client, *[(task, 1, LARGE, SIZE) for task in range(1, count + 1)]))
    return client, agent


def lose(client: Peer, agent: Peer, *numbers: int) -> list:
    return agent.says(ObjectsLost(tuple(ObjectKey(client.session, number) for number in numbers)))


def fails_to_read(client: Peer, agent: Peer, task: int, attempt: int = 1, text: bytes = b"It is gone.") -> list:
    return agent.says(results(client, (task, attempt, MISSING, text)))


def lost_while_read(book: Playbook, **options) -> tuple[Peer, Peer]:
    """Task 2 needs the result of task 1, which is lost and is being made again."""
    client, agent = finished(book)
    client.says(readers(client, 2, [1], **options))
    assert handed(lose(client, agent, 1), agent) == [(1, 2)]
    assert fails_to_read(client, agent, 2) == []
    return client, agent


def test_a_task_waits_until_its_lost_input_is_made_again():
    book = Playbook()
    client, agent = lost_while_read(book)
    assert book.wait(1.0, (agent,)) == []
    agent.says(results(client, (1, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == [(2, 2)]
    assert statuses(agent.says(results(client, (2, 2))), client) == {2: Status.SUCCESS}
    assert not book.core.state.lost_inputs


def test_a_task_that_must_not_start_twice_has_not_started():
    book = Playbook()
    client, agent = lost_while_read(book, rerun=False)
    agent.says(results(client, (1, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == [(2, 2)]


def test_a_task_that_reads_too_early_is_given_out_again():
    """The agent says that the task could not be given its input before it says that the store has died."""
    book = Playbook()
    client, agent = finished(book)
    client.says(readers(client, 2, [1]))
    assert handed(fails_to_read(client, agent, 2), agent) == [(2, 2)]
    said = agent.says(ObjectRequest(ObjectKey(client.session, 1)))
    assert handed(said, agent) == [(1, 2)]
    assert [type(body) for _, body in said if not isinstance(body, Tasks)] == [ObjectMissing]
    assert fails_to_read(client, agent, 2, 2) == []
    agent.says(results(client, (1, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == [(2, 3)]


def test_a_task_that_never_gets_what_is_said_to_be_there_fails_in_the_end():
    book = Playbook()
    client, agent = finished(book)
    client.says(readers(client, 2, [1]))
    for attempt in range(1, LOSSES_LIMIT):
        assert handed(fails_to_read(client, agent, 2, attempt), agent) == [(2, attempt + 1)]
    assert statuses(fails_to_read(client, agent, 2, LOSSES_LIMIT), client) == {2: MISSING}


def test_a_task_waits_for_all_its_inputs():
    book = Playbook()
    client, agent = finished(book, 3)
    client.says(readers(client, 4, [1, 2, 3]))
    assert sorted(handed(lose(client, agent, 1, 3), agent)) == [(1, 2), (3, 2)]
    fails_to_read(client, agent, 4)
    agent.says(results(client, (3, 2, LARGE, SIZE)))
    assert book.wait(0.5, (agent,)) == []
    assert "waits for 1 of the 3 results it needs (tasks 1)" in book.core.explain(client.session, 4)
    lose(client, agent, 2)
    agent.says(results(client, (1, 2, LARGE, SIZE)))
    assert book.wait(0.5, (agent,)) == []
    agent.says(results(client, (2, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == [(4, 2)]


def test_tasks_that_need_the_same_input_run_again_in_their_order():
    book = Playbook()
    client, agent = finished(book)
    client.says(readers(client, 2, [1], count=3))
    lose(client, agent, 1)
    agent.says(results(client, *[(task, 1, MISSING, b"") for task in (2, 3, 4)]))
    agent.says(results(client, (1, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == [(2, 2), (3, 2), (4, 2)]


def test_readers_of_high_priority_do_not_keep_the_workers_from_making_their_input():
    book = Playbook()
    client, agent = finished(book)
    given = handed(client.says(readers(client, 2, [1], count=1000, priority=9)), agent)
    lose(client, agent, 1)
    tried: list[tuple[int, int]] = []
    while (1, 2) not in given:
        assert given, "the input is not made, and no reader is left to try"
        tried += given
        given = handed(agent.says(results(client, *[(*each, MISSING, b"") for each in given])), agent)
    assert len(set(tried)) == len(tried), "a reader was tried twice"


def test_a_task_fails_if_its_input_cannot_be_made_again():
    book = Playbook()
    client, agent = lost_while_read(book)
    agent.says(results(client, (1, 2, Status.EXCEPTION, b"e")))
    assert statuses(book.wait(0.3, (agent,)), client) == {2: MISSING}
    assert not book.core.state.lost_inputs


def test_a_task_fails_if_its_input_is_small_now():
    """Its client has it, and no agent keeps it."""
    book = Playbook()
    client, agent = lost_while_read(book)
    agent.says(results(client, (1, 2)))
    assert statuses(book.wait(0.3, (agent,)), client) == {2: MISSING}


def test_a_task_fails_at_once_if_its_input_must_not_be_made_again():
    book = Playbook()
    client, agent = finished(book, rerun=False)
    client.says(readers(client, 2, [1]))
    assert statuses(lose(client, agent, 1), client) == {1: MISSING}
    assert statuses(fails_to_read(client, agent, 2), client) == {2: MISSING}


def test_a_task_fails_if_its_client_has_released_the_input():
    book = Playbook()
    client, agent = lost_while_read(book)
    client.says(ObjectRelease((ObjectKey(client.session, 1),)))
    agent.says(results(client, (1, 2, Status.CANCELLED, b"")))
    assert statuses(book.wait(0.3, (agent,)), client) == {2: MISSING}


def test_a_task_that_waits_for_a_lost_input_is_cancelled_at_once():
    for unstarted_only in (False, True):
        book = Playbook()
        client, agent = lost_while_read(book)
        cancel = Cancel((TaskColumn(client.session, (2,), ()),), unstarted_only=unstarted_only)
        assert statuses(client.says(cancel), client) == {2: Status.CANCELLED}
        agent.says(results(client, (1, 2, LARGE, SIZE)))
        assert handed(book.wait(0.3, (agent,)), agent) == []
        assert not book.core.state.lost_inputs


def test_a_client_that_leaves_leaves_nothing_that_waits():
    book = Playbook()
    client, agent = lost_while_read(book)
    client.says(Goodbye())
    book.wait(1.0, (agent,))
    assert not book.core.state.lost_inputs


def test_a_task_whose_host_is_lost_with_its_input_waits_like_any_other():
    book = Playbook()
    client, agent = finished(book)
    client.says(readers(client, 2, [1]))
    book.lose(agent)
    book.wait(1.0)
    other = book.agent("other", slots=4)
    assert sorted(handed(other.joined, other)) == [(1, 2), (2, 2)]
    assert fails_to_read(client, other, 2, 2) == []
    other.says(results(client, (1, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (other,)), other) == [(2, 3)]


def test_a_task_that_a_client_makes_wait_for_itself_or_a_later_one_fails():
    book = Playbook()
    client, agent = finished(book)
    client.says(readers(client, 2, [2]), readers(client, 3, [4]), tasks(client, 4, 1))
    assert statuses(fails_to_read(client, agent, 2), client) == {2: MISSING}
    assert statuses(fails_to_read(client, agent, 3), client) == {3: MISSING}


def test_monitors_say_why_it_waits():
    book = Playbook()
    client, agent = lost_while_read(book)
    groups, _ = waits.waits_of(book.core.state, book.now, 10)
    assert [(each.reason, each.count, each.task) for each in groups] == [("Waits for results of other tasks.", 1, 2)]


def test_a_call_without_inputs_fails_as_before():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    assert statuses(fails_to_read(client, agent, 1), client) == {1: MISSING}


def test_a_restarted_scheduler_lets_a_task_wait_for_an_input_that_is_lost():
    book = Playbook(epoch=2)
    client = book.client()
    restated = tasks(client, 1, 1).runs + readers(client, 2, [1]).runs
    agent = book.agent(slots=4)
    client.says(Tasks(restated, resubmitted=True))
    assert handed(book.wait(1.5, (agent,)), agent) == [(1, 1), (2, 1)]
    assert fails_to_read(client, agent, 2) == []
    agent.says(results(client, (1, 1, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == [(2, 2)]


# ---- actors ----------------------------------------------------------------------------------------------------------

ANCHOR = {"hosts_actor": True, "rerun": False}


def ready(client: Peer, attempt: int) -> ActorsReady:
    return ActorsReady((TaskColumn(client.session, (2,), (attempt,)),))


def test_an_actor_is_made_when_its_lost_input_is_made_again_and_its_calls_wait():
    book = Playbook()
    client, agent = lost_while_read(book, **ANCHOR)
    assert handed(client.says(tasks(client, 3, 2, actor=2, rerun=False)), agent) == []
    assert "waits for 1 of the 1 results it needs (tasks 1)" in book.core.explain(client.session, 3)
    agent.says(results(client, (1, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == [(2, 2)]
    assert handed(agent.says(ready(client, 2)), agent) == [(3, 1), (4, 1)]


def test_calls_fail_with_an_actor_whose_input_cannot_be_made_again():
    book = Playbook()
    client, agent = lost_while_read(book, **ANCHOR)
    client.says(tasks(client, 3, 1, actor=2, rerun=False))
    agent.says(results(client, (1, 2, Status.EXCEPTION, b"e")))
    ended = statuses(book.wait(0.3, (agent,)) + book.wait(0.3, (agent,)), client)
    assert ended == {2: MISSING, 3: Status.WORKER_DIED}


def test_an_actor_that_waits_for_a_lost_input_can_be_killed():
    book = Playbook()
    client, agent = lost_while_read(book, **ANCHOR)
    assert statuses(client.says(Cancel((TaskColumn(client.session, (2,), ()),))), client) == {2: Status.CANCELLED}
    agent.says(results(client, (1, 2, LARGE, SIZE)))
    assert handed(book.wait(0.3, (agent,)), agent) == []


def test_lost_inputs_do_not_use_up_the_restarts_of_an_actor():
    book = Playbook()
    client, agent = finished(book)
    client.says(readers(client, 2, [1], hosts_actor=True, retries=1))
    for attempt in range(1, 4):
        assert handed(fails_to_read(client, agent, 2, attempt), agent) == [(2, attempt + 1)]
    assert "0 of its worker processes died, 3 of its workers or inputs" in book.core.explain(client.session, 2)
    agent.says(ready(client, 4))
    other = book.agent("other", slots=4)
    assert (2, 5) in handed(book.lose(agent) + book.wait(1.0, (other,)), other)


def test_an_actor_that_never_gets_what_is_said_to_be_there_fails_in_the_end():
    book = Playbook()
    client, agent = finished(book)
    client.says(readers(client, 2, [1], **ANCHOR))
    for attempt in range(1, LOSSES_LIMIT):
        assert handed(fails_to_read(client, agent, 2, attempt), agent) == [(2, attempt + 1)]
    assert statuses(fails_to_read(client, agent, 2, LOSSES_LIMIT), client) == {2: MISSING}
    assert not book.core.state.clients[client.session].failures


def waits_for_actor(book: Playbook, **options) -> tuple[Peer, Peer]:
    """The only worker has task 2, which waits for the actor of task 3, whose constructor is to read the result of
    task 1."""
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 1, **options))
    agent.says(results(client, (1, 1, LARGE, SIZE)))
    client.says(tasks(client, 2, 1))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=2, parent_attempt=1)
    client.says(readers(client, 3, [1], **ANCHOR))
    agent.says(Blocked(1, 0))
    said = child.says(tasks(child, 1, 1, actor=3, actor_session=client.session, rerun=False))
    if ("agent", Withdraw(0x7FFFFFFF)) in said:
        said = agent.says(Withdrawn((TaskColumn(client.session, (3,), (1,)),)))
    assert [task for task, _ in handed(said, agent)] == [3]
    return client, agent


def test_the_lost_input_of_an_actor_is_made_before_the_tasks_that_wait_for_the_actor():
    book = Playbook()
    client, agent = waits_for_actor(book)
    known = book.core.state.clients[client.session].table.columns.describe(3)
    lose(client, agent, 1)
    said = fails_to_read(client, agent, 3, known.attempt) + book.wait(0.3, (agent,))
    if ("agent", Withdraw(0x7FFFFFFF)) in said:
        said = agent.says(Withdrawn((TaskColumn(client.session, (1,), (2,)),)))
    runs = [run for _, body in said if isinstance(body, Tasks) for run in body.runs if run.first_task == 1]
    assert [run.options.depth for run in runs][-1] == 1
    agent.says(results(client, (1, runs[-1].attempt, LARGE, SIZE)))
    assert [task for task, _ in handed(book.wait(0.3, (agent,)), agent)] == [3]


# ---- calls of actors -------------------------------------------------------------------------------------------------

INPUT = 2


def with_call(book: Playbook) -> tuple[Peer, Peer, Peer]:
    """Task 1 of the client has made an actor at a host, and call 3 is to read there the result of task 2, which has
    been lost and is being made again elsewhere."""
    client, host = book.client(), book.agent("host", slots=1)
    client.says(tasks(client, 1, 1, **ANCHOR))
    host.says(ActorsReady((TaskColumn(client.session, (1,), (1,)),)))
    maker = book.agent("maker", slots=1)
    client.says(tasks(client, INPUT, 1))
    maker.says(results(client, (INPUT, 1, LARGE, SIZE)))
    assert handed(client.says(readers(client, 3, [INPUT], actor=1, rerun=False)), host) == [(3, 1)]
    assert handed(lose(client, maker, INPUT), maker) == [(INPUT, 2)]
    key = ObjectKey(client.session, INPUT)
    [(_, answer)] = host.says(ObjectRequest(key))
    assert isinstance(answer, ObjectMissing) and answer.is_made_again
    assert host.says(ObjectRequest(key, waits=True)) == []
    return client, host, maker


def answers(said: list, peer: Peer) -> list[ObjectMissing]:
    return [body for name, body in said if name == peer.name and isinstance(body, ObjectMissing)]


def test_the_agent_of_a_call_waits_until_its_lost_input_is_made_again():
    book = Playbook()
    client, host, maker = with_call(book)
    assert book.wait(1.0, (host, maker)) == []
    maker.says(results(client, (INPUT, 2, LARGE, SIZE)))
    key = ObjectKey(client.session, INPUT)
    assert book.wait(0.3, (host, maker)) == [("maker", ObjectRequest(key))]
    assert not book.core.state.awaited_values
    assert statuses(host.says(results(client, (3, 1))), client) == {3: Status.SUCCESS}


def test_the_agent_of_a_call_learns_that_its_input_is_not_made_again():
    for status in (Status.EXCEPTION, Status.SUCCESS):  # a small result is with its client only
        book = Playbook()
        client, host, maker = with_call(book)
        maker.says(results(client, (INPUT, 2, status, b"")))
        [answer] = answers(book.wait(0.3, (host, maker)), host)
        assert not answer.is_made_again
        assert not book.core.state.awaited_values


def test_a_call_does_not_wait_for_an_input_that_must_not_be_made_again():
    book = Playbook()
    client, agent = finished(book, rerun=False)
    lose(client, agent, 1)
    [answer] = answers(agent.says(ObjectRequest(ObjectKey(client.session, 1))), agent)
    assert not answer.is_made_again


def test_the_input_of_a_call_is_lost_again_while_its_agent_fetches_it():
    book = Playbook()
    client, host, maker = with_call(book)
    maker.says(results(client, (INPUT, 2, LARGE, SIZE)))
    book.wait(0.3, (host, maker))
    said = lose(client, maker, INPUT)
    [answer] = answers(said, host)
    assert answer.is_made_again and handed(said, maker) == [(INPUT, 3)]


def test_the_input_of_a_call_is_lost_again_with_its_host():
    book = Playbook()
    client, host, maker = with_call(book)
    maker.says(results(client, (INPUT, 2, LARGE, SIZE)))
    book.wait(0.3, (host, maker))
    [answer] = answers(book.lose(maker) + book.wait(1.0, (host,)), host)
    assert answer.is_made_again


def test_an_agent_that_made_the_input_of_its_call_itself_is_told_in_case_it_is_small():
    book = Playbook()
    client, host, maker = with_call(book)
    book.core.state.awaited_values[ObjectKey(client.session, INPUT)] = {maker.session: False}
    maker.says(results(client, (INPUT, 2, LARGE, SIZE)))
    [answer] = answers(book.wait(0.3, (host, maker)), maker)
    assert not answer.is_made_again
    assert book.core.state.clients[client.session].table.nodes.value_holder(INPUT) is not None


def test_an_agent_asks_for_a_value_again_for_a_task_that_does_not_wait():
    book = Playbook()
    client, host, _ = with_call(book)
    [answer] = answers(host.says(ObjectRequest(ObjectKey(client.session, INPUT))), host)
    assert answer.is_made_again


def test_nothing_waits_for_inputs_of_a_client_that_has_left():
    book = Playbook()
    client, host, maker = with_call(book)
    client.says(Goodbye())
    book.wait(1.0, (host, maker))
    assert not book.core.state.awaited_values
