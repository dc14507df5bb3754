"""Locks: who holds one, who is next, and what ends a request."""

from __future__ import annotations

import random

import pytest

from scaler_protocol.messages import (
    ACTOR_NAME_PREFIX,
    Blocked,
    Cancel,
    CoordinationKind,
    ExplainRequest,
    Goodbye,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
    RefusalReason,
    Refused,
    RelayClosed,
    Status,
    TaskColumn,
)
from scaler_scheduler.core import lock_requests, lock_table, locks
from tests.unit.scheduler.playbook import Peer, Playbook, handed, results, tasks


def request(number: int, action: LockAction = LockAction.ACQUIRE, name: str = "lock", task=None) -> LockRequest:
    session, *execution = task or (b"", 0, 0)
    return LockRequest(CoordinationKind.LOCK, action, number, name, session, *execution)


def release(number: int) -> LockRequest:
    return LockRequest(CoordinationKind.LOCK, LockAction.RELEASE, number)


def replies(said: list) -> list[tuple[str, int, LockState]]:
    return [(name, body.number, body.state) for name, body in said if isinstance(body, LockReply)]


def opened(**settings) -> Playbook:
    """A scheduler that has run for a while."""
    book = Playbook(**settings)
    book.core.on_deadline(book.now)
    first = book.client("first of all")
    book.wait(1.5)
    first.says(Goodbye())
    return book


def pair() -> tuple[Playbook, Peer, Peer]:
    book = opened()
    return book, book.client("one"), book.client("two")


# ---- one after the other ---------------------------------------------------------------------------------------------


def test_requests_are_granted_in_their_order():
    book, one, two = pair()
    three = book.client("three")
    assert replies(one.says(request(1))) == [("one", 1, LockState.GRANTED)]
    assert replies(two.says(request(1))) == [("two", 1, LockState.WAITING)]
    assert replies(three.says(request(1))) == [("three", 1, LockState.WAITING)]
    assert replies(one.says(request(2))) == [("one", 2, LockState.WAITING)]
    assert replies(one.says(release(1))) == [("two", 1, LockState.GRANTED), ("one", 1, LockState.RELEASED)]
    assert replies(two.says(release(1))) == [("three", 1, LockState.GRANTED), ("two", 1, LockState.RELEASED)]
    assert replies(three.says(release(1))) == [("one", 2, LockState.GRANTED), ("three", 1, LockState.RELEASED)]
    assert replies(one.says(release(2))) == [("one", 2, LockState.RELEASED)]
    assert not book.core.state.locks.locks


def test_locks_with_other_names_are_other_locks():
    _, one, two = pair()
    one.says(request(1, name="a"))
    assert replies(two.says(request(1, name="b"))) == [("two", 1, LockState.GRANTED)]


def test_trying_does_not_wait_and_asking_takes_nothing():
    _, one, two = pair()
    assert replies(one.says(request(1, LockAction.ASK))) == [("one", 1, LockState.FREE)]
    assert replies(one.says(request(2, LockAction.TRY))) == [("one", 2, LockState.GRANTED)]
    assert replies(two.says(request(1, LockAction.TRY))) == [("two", 1, LockState.DENIED)]
    assert replies(two.says(request(2, LockAction.ASK))) == [("two", 2, LockState.HELD)]
    assert replies(one.says(release(2))) == [("one", 2, LockState.RELEASED)]


def test_a_request_that_gave_up_is_passed_over():
    book, one, two = pair()
    three = book.client("three")
    one.says(request(1))
    two.says(request(1))
    three.says(request(1))
    assert replies(two.says(release(1))) == [("two", 1, LockState.RELEASED)]
    assert replies(one.says(release(1))) == [("three", 1, LockState.GRANTED), ("one", 1, LockState.RELEASED)]


def test_what_is_not_held_cannot_be_released():
    _, one, two = pair()
    one.says(request(1))
    assert replies(one.says(release(7))) == [("one", 7, LockState.LOST)]
    assert replies(two.says(release(1))) == [("two", 1, LockState.LOST)]
    assert replies(two.says(request(2, LockAction.ASK))) == [("two", 2, LockState.HELD)]


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_a_client_that_leaves_releases_its_locks_and_a_line_says_so():
    book, one, two = pair()
    one.says(request(1))
    one.says(request(2))
    two.says(request(1))
    assert replies(one.says(Goodbye())) == [("two", 1, LockState.GRANTED)]
    assert any("The lock 'lock' is released: client" in text for text in book.logs)


def test_names_of_actors_end_with_their_client_and_no_line_says_so():
    book, one, two = pair()
    one.says(request(1, name=f"{ACTOR_NAME_PREFIX}bob"))
    two.says(request(1, name=f"{ACTOR_NAME_PREFIX}bob"))
    assert replies(one.says(Goodbye())) == [("two", 1, LockState.GRANTED)]
    assert not any("bob" in text for text in book.logs)


def test_a_client_that_is_given_up_releases_its_locks():
    book = opened(client_timeout_seconds=3)
    one, two = book.client("one"), book.client("two")
    one.says(request(1))
    two.says(request(1))
    book.lose(one)
    assert replies(book.wait(2.5)) == []
    assert replies(book.wait(1.0)) == [("two", 1, LockState.GRANTED)]


def test_a_client_that_is_away_for_a_moment_keeps_its_lock():
    book, one, two = pair()
    one.says(request(1))
    two.says(request(1))
    book.lose(one)
    book.wait(1.0)
    assert replies(one.connect()) == []
    assert replies(one.says(release(1))) == [("two", 1, LockState.GRANTED), ("one", 1, LockState.RELEASED)]


def test_a_lock_passes_by_a_client_whose_connection_has_ended():
    book, one, two = pair()
    three = book.client("three")
    one.says(request(1))
    two.says(request(1))
    three.says(request(1))
    book.lose(two)
    assert replies(one.says(release(1))) == [("three", 1, LockState.GRANTED), ("one", 1, LockState.RELEASED)]
    assert replies(two.connect()) == []
    assert replies(three.says(release(1))) == [("two", 1, LockState.GRANTED), ("three", 1, LockState.RELEASED)]


def test_a_client_that_comes_back_gets_a_lock_that_is_free():
    book, one, two = pair()
    one.says(request(1))
    two.says(request(1), request(2))
    book.lose(two)
    assert replies(one.says(release(1))) == [("one", 1, LockState.RELEASED)]
    assert replies(one.says(request(2, LockAction.ASK))) == [("one", 2, LockState.FREE)]
    assert replies(one.says(request(3, LockAction.TRY), release(3))) == [
        ("one", 3, LockState.GRANTED),
        ("one", 3, LockState.RELEASED),
    ]
    assert replies(two.connect()) == [("two", 1, LockState.GRANTED)]


def test_a_client_that_does_not_come_back_gets_no_lock():
    book, one, two = pair()
    one.says(request(1))
    two.says(request(1))
    book.lose(two)
    one.says(release(1))
    book.wait(book.core.state.settings.client_timeout_seconds + 1)
    assert two.session not in book.core.state.clients and not book.core.state.locks.away
    assert not book.core.state.locks.locks and not any("is released" in text for text in book.logs)


def test_a_client_that_was_given_up_is_told_that_it_lost_its_lock():
    book = opened(client_timeout_seconds=3)
    one, two = book.client("one"), book.client("two")
    one.says(request(1))
    two.says(request(1))
    book.lose(one)
    book.wait(4.0)
    two.says(release(1))
    one.connect()
    assert not one.welcome.resumed
    assert replies(one.says(request(1, LockAction.RESTATE))) == [("one", 1, LockState.LOST)]


def nested(book: Playbook, agent: Peer, client: Peer, task: int, name: str) -> Peer:
    return book.client(name, via=agent, parent_session=client.session, parent_task=task, parent_attempt=1)


def with_tasks() -> tuple[Playbook, Peer, Peer, Peer, Peer]:
    """Two tasks at one agent, a session in each."""
    book = opened()
    client, agent = book.client(), book.agent(slots=2)
    client.says(tasks(client, 1, 2))
    children = [nested(book, agent, client, task, f"child {task}") for task in (1, 2)]
    for task, child in enumerate(children, 1):
        child.says(request(1, task=(client.session, task, 1)))
    return book, client, agent, *children


def test_a_task_that_ends_without_releasing_loses_its_lock():
    book, client, agent, _, _ = with_tasks()
    said = agent.says(results(client, 1))
    assert replies(said) == [("child 2", 1, LockState.GRANTED), ("child 1", 1, LockState.LOST)]
    assert any(text.endswith("ended without releasing it.") for text in book.logs)
    assert replies(agent.says(results(client, 2))) == [("child 2", 1, LockState.LOST)]
    assert not book.core.state.locks.by_task


def test_a_request_ends_with_the_execution_that_made_it_and_not_with_another():
    _, client, agent, _, two = with_tasks()
    assert replies(agent.says(results(client, (1, 2, Status.SUCCESS)))) == []
    assert replies(agent.says(results(client, (1, 1, Status.CANCELLED)))) != []
    assert replies(two.says(release(1))) == [("child 2", 1, LockState.RELEASED)]


@pytest.mark.parametrize("status", [Status.EXCEPTION, Status.PROCESSOR_DIED, Status.TIMED_OUT, Status.CANCELLED])
def test_a_lock_is_released_however_its_task_ends(status: Status):
    _, client, agent, _, _ = with_tasks()
    assert ("child 2", 1, LockState.GRANTED) in replies(agent.says(results(client, (1, 1, status, b"{}"))))


def test_a_lock_is_kept_while_its_cancelled_task_still_runs():
    _, client, agent, _, _ = with_tasks()
    assert replies(client.says(Cancel((TaskColumn(client.session, (1,)),)))) == []
    assert ("child 2", 1, LockState.GRANTED) in replies(agent.says(results(client, (1, 1, Status.CANCELLED))))


def test_a_lock_is_released_with_the_connection_of_its_process():
    _, _, agent, one, _ = with_tasks()
    assert replies(agent.says(RelayClosed(one.session))) == [("child 2", 1, LockState.GRANTED)]


def test_locks_of_a_lost_agent_are_released():
    book = opened(worker_timeout_seconds=3)
    client, agent, other = book.client(), book.agent("first"), book.agent("second")
    client.says(tasks(client, 1, 2))
    child = nested(book, agent, client, 1, "child 1")
    child.says(request(1, task=(client.session, 1, 1)))
    another = nested(book, other, client, 2, "child 2")
    another.says(request(1, task=(client.session, 2, 1)))
    book.lose(agent)
    assert ("child 2", 1, LockState.GRANTED) in replies(book.wait(5.0, (other,)))


def test_a_task_whose_client_has_left_keeps_its_lock_until_it_ends():
    book, client, agent, _, _ = with_tasks()
    assert replies(client.says(Goodbye())) == []
    assert ("child 2", 1, LockState.GRANTED) in replies(agent.says(results(client, (1, 1, Status.CANCELLED))))


# ---- restarts --------------------------------------------------------------------------------------------------------


def restarted() -> tuple[Playbook, Peer, Peer]:
    book = Playbook(epoch=2)
    return book, book.client("one", epoch=1, received=7), book.client("two", epoch=1, received=7)


def test_after_a_restart_nothing_is_granted_before_holders_had_time_to_return():
    book, one, two = restarted()
    assert replies(two.says(request(5))) == [("two", 5, LockState.WAITING)]
    assert replies(two.says(request(6, LockAction.TRY))) == [("two", 6, LockState.DENIED)]
    book.wait(0.5)
    assert replies(one.says(request(3, LockAction.RESTATE))) == [("one", 3, LockState.GRANTED)]
    assert replies(book.wait(2.0)) == []
    assert replies(one.says(release(3))) == [("two", 5, LockState.GRANTED), ("one", 3, LockState.RELEASED)]


def test_after_a_restart_the_first_that_waits_gets_what_nobody_holds():
    book, one, two = restarted()
    one.says(request(5))
    two.says(request(5))
    assert replies(book.wait(0.9)) == []
    assert replies(book.wait(0.5)) == [("one", 5, LockState.GRANTED)]


def test_while_sessions_return_the_wait_goes_on_but_not_for_ever():
    book, one, _ = restarted()
    one.says(request(5))
    for number in range(int(locks.RETURN_LIMIT_SECONDS / 0.5) - 1):
        assert replies(book.wait(0.5)) == []
        book.client(f"late {number}", epoch=1, received=7)
    assert replies(book.wait(0.9)) == [("one", 5, LockState.GRANTED)]


def test_a_question_is_answered_when_holders_had_time_to_return():
    book, one, two = restarted()
    questions = [request(number, LockAction.ASK, name=name) for number, name in ((5, "lock"), (6, "other"))]
    assert replies(two.says(*questions)) == []
    one.says(request(3, LockAction.RESTATE))
    assert replies(two.says(request(7, LockAction.ASK))) == [("two", 7, LockState.HELD)]
    assert replies(book.wait(2.0)) == [("two", 5, LockState.HELD), ("two", 6, LockState.FREE)]


def test_questions_that_wait_for_holders_are_limited_and_end_with_their_session(monkeypatch):
    monkeypatch.setattr(lock_requests, "REQUESTS_LIMIT", 2)
    book, one, two = restarted()
    assert replies(one.says(*(request(number, LockAction.ASK) for number in (1, 2, 3)))) == [("one", 3, LockState.FREE)]
    two.says(request(1, LockAction.ASK))
    one.says(Goodbye())
    assert replies(book.wait(2.0)) == [("two", 1, LockState.FREE)]
    assert not book.core.state.locks.questions


def test_of_two_that_claim_a_lock_the_second_has_lost_it():
    _, one, two = restarted()
    one.says(request(3, LockAction.RESTATE))
    assert replies(two.says(request(3, LockAction.RESTATE))) == [("two", 3, LockState.LOST)]


def test_a_holder_that_returns_late_keeps_a_lock_that_nobody_else_had():
    book, one, two = restarted()
    book.wait(3.0)
    assert replies(one.says(request(3, LockAction.RESTATE))) == [("one", 3, LockState.GRANTED)]
    one.says(release(3))
    assert replies(two.says(request(3, LockAction.RESTATE))) == [("two", 3, LockState.LOST)]


# ---- limits and lies -------------------------------------------------------------------------------------------------


def test_one_client_has_a_limited_number_of_requests(monkeypatch):
    monkeypatch.setattr(lock_requests, "REQUESTS_LIMIT", 2)
    _, one, _ = pair()
    one.says(request(1, name="a"), request(2, name="b"))
    said = one.says(request(3, name="c"))
    assert replies(said) == [("one", 3, LockState.REFUSED)] and "release some" in said[0][1].text
    one.says(release(1))
    assert replies(one.says(request(4, name="c"))) == [("one", 4, LockState.GRANTED)]


def test_remembered_names_are_limited(monkeypatch):
    monkeypatch.setattr(lock_table, "REMEMBERED_LIMIT", 3)
    book, one, _ = pair()
    for number in range(1, 10):
        one.says(request(number, name=str(number)), release(number))
    assert len(book.core.state.locks.granted) == 3
    assert replies(one.says(request(10, LockAction.RESTATE, name="new"))) == [("one", 10, LockState.LOST)]


def test_a_long_name_is_refused():
    _, one, _ = pair()
    assert replies(one.says(request(1, name="é" * 513))) == [("one", 1, LockState.REFUSED)]
    assert replies(one.says(request(2, name="é" * 512))) == [("one", 2, LockState.GRANTED)]


def test_a_request_that_is_said_twice_is_one():
    _, one, two = pair()
    assert replies(one.says(request(3))) == replies(one.says(request(3))) == [("one", 3, LockState.GRANTED)]
    assert replies(two.says(request(3))) == replies(two.says(request(3))) == [("two", 3, LockState.WAITING)]
    one.says(release(3))
    assert replies(one.says(request(3))) == [("one", 3, LockState.LOST)]
    assert replies(one.says(request(2))) == [("one", 2, LockState.LOST)]
    assert replies(two.says(release(3))) == [("two", 3, LockState.RELEASED)]


@pytest.mark.parametrize("bad", [request(9, task=(b"short", 1, 1)), request(9, task=(b"x" * 99, 1, 1))])
def test_a_task_whose_session_cannot_be_costs_the_session(bad: LockRequest):
    book, one, two = pair()
    one.says(request(3))
    two.says(request(1))
    said = one.says(bad)
    assert [body.reason for _, body in said if isinstance(body, Refused)] == [RefusalReason.MALFORMED]
    assert replies(said) == [("two", 1, LockState.GRANTED)]
    assert one.session not in book.core.state.clients


def test_names_cannot_write_lines_into_the_log():
    book, one, _ = pair()
    one.says(request(1, name="a\nb\x1b[31m" + "x" * 500))
    one.says(Goodbye())
    text = next(text for text in book.logs if "is released" in text)
    assert text.isprintable() and len(text) < 300


# ---- in words --------------------------------------------------------------------------------------------------------


def explained(client: Peer, task: int) -> str:
    return client.says(ExplainRequest(task))[0][1].text


def test_explain_says_which_lock_a_task_waits_for():
    book, client, _, one, _ = with_tasks()
    assert "lock" not in explained(client, 1)
    assert f"waits for the lock 'lock', which task 1 of client {client.session.hex()[:8]} holds." in explained(
        client, 2
    )
    one.says(release(1))
    assert "lock" not in explained(client, 2)


def test_explain_names_a_client_that_holds_a_lock():
    book = opened()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1), request(1))
    nested(book, agent, client, 1, "child").says(request(1, task=(client.session, 1, 1)))
    assert f"which client {client.session.hex()[:8]} holds." in explained(client, 1)


def test_where_nothing_runs_because_of_locks_other_tasks_are_sent():
    book = opened()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 300))
    agent.says(results(client, (1,), duration_us=10_000_000))  # they are long: only the next one is sent ahead
    before = handed(agent.says(Blocked(1, 0)), agent)
    after = handed(agent.says(Blocked(1, 0, True)), agent)
    assert not before and after


# ---- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_two_never_hold_a_lock_at_the_same_time(seed: int):
    """Random requests over connections that are cut: what the scheduler grants, a client releases before the next."""
    chance = random.Random(seed)
    book = opened()
    clients = [book.client(f"client {index}") for index in range(4)]
    numbers = {client.name: 0 for client in clients}
    open_requests: set[tuple[str, int]] = set()
    holders: list[tuple[str, int]] = []

    def hear(said: list) -> None:
        for name, number, state in replies(said):
            if state == LockState.GRANTED and (name, number) in open_requests:
                holders.append((name, number))
            assert len(holders) <= 1
            if state == LockState.DENIED:
                open_requests.discard((name, number))

    away: set[str] = set()
    for _ in range(300):
        client = chance.choice(clients)
        mine = [each for each in open_requests if each[0] == client.name]
        if client.name in away:
            away.discard(client.name)
            hear(client.connect())
        elif chance.random() < 0.1:
            away.add(client.name)
            hear(book.lose(client))
        elif mine and chance.random() < 0.5:
            chosen = chance.choice(sorted(mine))
            open_requests.discard(chosen)
            holders[:] = [each for each in holders if each != chosen]
            hear(client.says(release(chosen[1])))
        else:
            numbers[client.name] += 1
            open_requests.add((client.name, numbers[client.name]))
            action = chance.choice([LockAction.ACQUIRE, LockAction.ACQUIRE, LockAction.TRY])
            hear(client.says(request(numbers[client.name], action)))
        table = book.core.state.locks
        assert holders or not [lock for lock in table.locks.values() if lock_table.next_request(table, lock)]
