"""Semaphores: how many hold one, who is next, and what a restart keeps."""

from __future__ import annotations

import random

import pytest

from scaler_protocol.messages import (
    CoordinationKind,
    ExplainRequest,
    Goodbye,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
    RelayClosed,
)
from scaler_scheduler.core import lock_table
from tests.unit.scheduler.playbook import Peer, Playbook, results
from tests.unit.scheduler.test_locks import nested, opened, release, replies, tasks
from tests.unit.scheduler.test_locks import request as lock_request

KIND = CoordinationKind.SEMAPHORE


def request(
    number: int, action: LockAction = LockAction.ACQUIRE, limit: int = 2, name: str = "s", task=(b"", 0, 0)
) -> LockRequest:
    return LockRequest(KIND, action, number, name, *task, limit)


def clients(book: Playbook, count: int = 4) -> list[Peer]:
    return [book.client(f"client {index}") for index in range(count)]


# ---- one after the other ---------------------------------------------------------------------------------------------


def test_as_many_hold_it_as_may_and_the_others_follow_in_their_order():
    book = opened()
    one, two, three, four = clients(book)
    assert replies(one.says(request(1))) == [("client 0", 1, LockState.GRANTED)]
    assert replies(two.says(request(1))) == [("client 1", 1, LockState.GRANTED)]
    assert replies(three.says(request(1))) == [("client 2", 1, LockState.WAITING)]
    assert replies(four.says(request(1))) == [("client 3", 1, LockState.WAITING)]
    assert replies(two.says(release(1))) == [("client 2", 1, LockState.GRANTED), ("client 1", 1, LockState.RELEASED)]
    assert replies(one.says(release(1))) == [("client 3", 1, LockState.GRANTED), ("client 0", 1, LockState.RELEASED)]
    three.says(release(1))
    four.says(release(1))
    assert not book.core.state.locks.locks


def test_replies_name_the_kind():
    one = clients(opened())[0]
    said = one.says(request(1), lock_request(2), request(3, LockAction.ASK))
    assert [body.kind for _, body in said if isinstance(body, LockReply)] == [KIND, CoordinationKind.LOCK, KIND]


def test_a_lock_of_the_same_name_is_another_thing():
    one, two, *_ = clients(opened())
    one.says(request(1, limit=1))
    assert replies(two.says(lock_request(1, name="s"))) == [("client 1", 1, LockState.GRANTED)]
    assert replies(two.says(request(2, limit=1))) == [("client 1", 2, LockState.WAITING)]


def test_one_session_may_hold_it_more_than_once():
    one, two, *_ = clients(opened())
    assert replies(one.says(request(1), request(2)))[-1] == ("client 0", 2, LockState.GRANTED)
    assert replies(two.says(request(1, LockAction.TRY))) == [("client 1", 1, LockState.DENIED)]
    assert replies(two.says(request(2, LockAction.ASK))) == [("client 1", 2, LockState.HELD)]
    one.says(release(1))
    assert replies(two.says(request(3, LockAction.ASK))) == [("client 1", 3, LockState.FREE)]
    assert replies(two.says(request(4, LockAction.TRY))) == [("client 1", 4, LockState.GRANTED)]


def test_several_are_granted_when_a_session_with_several_ends():
    one, two, three, _ = clients(opened())
    one.says(request(1), request(2), request(3))
    two.says(request(1))
    three.says(request(1))
    assert replies(one.says(Goodbye())) == [("client 1", 1, LockState.GRANTED), ("client 2", 1, LockState.GRANTED)]


def test_a_semaphore_passes_by_clients_whose_connection_has_ended():
    book = opened()
    one, two, three, four = clients(book)
    one.says(request(1), request(2))
    for each in (two, three, four):
        each.says(request(1))
    book.lose(two)
    book.lose(three)
    assert replies(one.says(release(1))) == [("client 3", 1, LockState.GRANTED), ("client 0", 1, LockState.RELEASED)]
    assert replies(one.says(release(2))) == [("client 0", 2, LockState.RELEASED)]
    assert replies(three.connect()) == [("client 2", 1, LockState.GRANTED)]
    assert replies(two.connect()) == []


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [LockAction.ACQUIRE, LockAction.TRY, LockAction.ASK])
def test_two_limits_for_one_semaphore_are_refused(action: LockAction):
    one, two, *_ = clients(opened())
    one.says(request(1))
    said = two.says(request(1, action, limit=3))
    assert replies(said) == [("client 1", 1, LockState.REFUSED)]
    assert said[0][1].text == "Others use it with the limit 2, not 3. Use one limit for all."
    one.says(release(1))
    assert replies(two.says(request(2, limit=3))) == [("client 1", 2, LockState.GRANTED)]


def test_a_limit_of_zero_is_refused():
    one, *_ = clients(opened())
    said = one.says(request(1, limit=0))
    assert replies(said) == [("client 0", 1, LockState.REFUSED)] and "at least 1" in said[0][1].text


def test_a_lock_has_no_limit_whatever_a_peer_says():
    one, two, *_ = clients(opened())
    one.says(LockRequest(CoordinationKind.LOCK, LockAction.ACQUIRE, 1, "l", limit=5))
    assert replies(two.says(lock_request(1, name="l"))) == [("client 1", 1, LockState.WAITING)]


# ---- ends of tasks ---------------------------------------------------------------------------------------------------


def with_tasks(count: int = 3) -> tuple[Playbook, Peer, Peer, list[Peer]]:
    """Tasks at one agent, a session in each; two of them hold the semaphore."""
    book = opened()
    client, agent = book.client(), book.agent(slots=count)
    client.says(tasks(client, 1, count))
    children = [nested(book, agent, client, task, f"child {task}") for task in range(1, count + 1)]
    for task, child in enumerate(children, 1):
        child.says(request(1, task=(client.session, task, 1)))
    return book, client, agent, children


def test_a_task_that_ends_without_releasing_loses_it():
    book, client, agent, _ = with_tasks()
    said = agent.says(results(client, 1))
    assert replies(said) == [("child 3", 1, LockState.GRANTED), ("child 1", 1, LockState.LOST)]
    text = next(body.text for _, body in said if isinstance(body, LockReply) and body.text)
    assert text == "The task that used this semaphore has ended."
    assert any(line.startswith("The semaphore 's' is released: task 1 of client") for line in book.logs)


def test_it_is_released_with_the_connection_of_its_process():
    _, _, agent, children = with_tasks()
    assert replies(agent.says(RelayClosed(children[0].session))) == [("child 3", 1, LockState.GRANTED)]


def test_explain_says_who_holds_it():
    _, client, _, _ = with_tasks()
    text = client.says(ExplainRequest(3))[0][1].text
    name = client.session.hex()[:8]
    assert f"It waits for the semaphore 's', which task 1 of client {name} and 1 more hold." in text


# ---- restarts --------------------------------------------------------------------------------------------------------


def restarted(count: int = 4) -> tuple[Playbook, list[Peer]]:
    book = Playbook(epoch=2)
    return book, [book.client(f"client {index}", epoch=1, received=7) for index in range(count)]


def test_holders_state_it_again_and_the_others_get_what_is_left():
    book, (one, two, three, four) = restarted()
    assert replies(three.says(request(1))) == [("client 2", 1, LockState.WAITING)]
    assert replies(four.says(request(1))) == [("client 3", 1, LockState.WAITING)]
    assert replies(one.says(request(5, LockAction.RESTATE))) == [("client 0", 5, LockState.GRANTED)]
    assert replies(book.wait(2.0)) == [("client 2", 1, LockState.GRANTED)]
    assert replies(two.says(request(5, LockAction.RESTATE))) == [("client 1", 5, LockState.LOST)]


def test_a_late_holder_keeps_it_only_if_there_was_room_all_the_time():
    book, (one, two, three, four) = restarted()
    book.wait(2.0)
    three.says(request(1), release(1))
    assert replies(one.says(request(5, LockAction.RESTATE))) == [("client 0", 5, LockState.GRANTED)]
    one.says(release(5))  # the third held it together with the first, which nothing here knew of
    assert replies(two.says(request(5, LockAction.RESTATE))) == [("client 1", 5, LockState.LOST)]
    assert replies(four.says(request(1))) == [("client 3", 1, LockState.GRANTED)]


def test_a_holder_with_another_limit_has_lost_it():
    _, (one, two, *_) = restarted()
    one.says(request(5, LockAction.RESTATE))
    said = two.says(request(5, LockAction.RESTATE, limit=9))
    assert replies(said) == [("client 1", 5, LockState.LOST)] and "limit 2" in said[0][1].text


def test_unknown_names_count_as_granted_to_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lock_table, "REMEMBERED_LIMIT", 1)
    _, (one, *_) = book_and_peers = restarted()
    book_and_peers[0].wait(2.0)
    one.says(request(1, name="a"), request(2, name="b"))
    assert replies(one.says(request(3, LockAction.RESTATE, name="c"))) == [("client 0", 3, LockState.LOST)]


# ---- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_there_are_never_more_holders_than_the_limit(seed: int):
    """Random requests over connections that are cut; the core checks its invariants after each of them."""
    chance = random.Random(seed)
    book = opened()
    peers = clients(book)
    limit = chance.randint(1, 3)
    numbers = {peer.name: 0 for peer in peers}
    asked: set[tuple[str, int]] = set()
    holders: set[tuple[str, int]] = set()

    def hear(said: list) -> None:
        for name, number, state in replies(said):
            if state == LockState.GRANTED and (name, number) in asked:
                holders.add((name, number))
            assert len(holders) <= limit
            if state == LockState.DENIED:
                asked.discard((name, number))

    for _ in range(200):
        peer = chance.choice(peers)
        mine = sorted(each for each in asked if each[0] == peer.name)
        if chance.random() < 0.1:
            book.lose(peer)
            hear(peer.connect())
        elif mine and chance.random() < 0.5:
            chosen = chance.choice(mine)
            asked.discard(chosen)
            holders.discard(chosen)
            hear(peer.says(release(chosen[1])))
        else:
            numbers[peer.name] += 1
            asked.add((peer.name, numbers[peer.name]))
            hear(peer.says(request(numbers[peer.name], chance.choice([LockAction.ACQUIRE, LockAction.TRY]), limit)))
        assert len(holders) == min(limit, len(asked))
