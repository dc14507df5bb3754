"""Queues: which item goes to whom, who waits, and what ends a request."""

from __future__ import annotations

import random

import pytest

from scaler_protocol.messages import (
    CoordinationKind,
    ExplainRequest,
    Goodbye,
    NamedAction,
    NamedReply,
    NamedRequest,
    NamedState,
    RefusalReason,
    Refused,
)
from scaler_scheduler.core import named_table
from tests.unit.scheduler.playbook import Peer, Playbook, results
from tests.unit.scheduler.test_locks import opened
from tests.unit.scheduler.test_named_values import (
    ABSENT,
    DONE,
    ENDED,
    REFUSED,
    WAITING,
    pair,
    replies,
    restarted,
    with_task,
)

KIND = CoordinationKind.QUEUE


def request(
    number: int,
    action: NamedAction,
    value: bytes = b"",
    name: str = "name",
    limit: int = 0,
    task: tuple[bytes, int, int] = (b"", 0, 0),
) -> NamedRequest:
    return NamedRequest(KIND, action, number, name, value, 0, *task, limit)


def put(number: int, value: bytes, **changes) -> NamedRequest:
    return request(number, NamedAction.PUT, value, **changes)


def take(number: int, **changes) -> NamedRequest:
    return request(number, NamedAction.TAKE, **changes)


def withdraw(number: int) -> NamedRequest:
    return NamedRequest(KIND, NamedAction.WITHDRAW, number)


def count(client: Peer, number: int, **changes) -> int:
    return client.says(request(number, NamedAction.COUNT, **changes))[0][1].count


# ---- first in, first out ---------------------------------------------------------------------------------------------


def test_items_are_taken_in_their_order_and_once():
    _, one, two = pair()
    one.says(put(1, b"a"), put(2, b"b"), put(3, b"c"))
    assert count(two, 1) == 3
    assert replies(two.says(take(2))) == [("two", 2, DONE, b"a")]
    assert replies(one.says(take(4))) == [("one", 4, DONE, b"b")]
    assert replies(two.says(take(3), request(4, NamedAction.TRY_TAKE))) == [
        ("two", 3, DONE, b"c"),
        ("two", 4, ABSENT, b""),
    ]


def test_an_item_passes_by_a_client_whose_connection_has_ended():
    book, one, two = pair()
    assert replies(one.says(take(1))) == [("one", 1, WAITING, b"")]
    assert book.lose(one) == []
    assert replies(two.says(put(1, b"a"))) == [("two", 1, DONE, b"")]
    assert replies(two.says(take(2), take(3))) == [("two", 2, DONE, b"a"), ("two", 3, WAITING, b"")]
    assert replies(two.says(put(4, b"b"), put(5, b"c"))) == [
        ("two", 4, DONE, b""),
        ("two", 3, DONE, b"b"),
        ("two", 5, DONE, b""),
    ]
    assert replies(one.connect()) == [("one", 1, DONE, b"c")]


def test_a_client_that_does_not_come_back_takes_nothing():
    book, one, two = pair()
    one.says(take(1))
    book.lose(one)
    two.says(put(1, b"a"))
    book.wait(book.core.state.settings.client_timeout_seconds + 1)
    assert one.session not in book.core.state.clients and not book.core.state.named.away
    assert replies(two.says(take(2))) == [("two", 2, DONE, b"a")]


def test_getters_are_served_in_their_order():
    _, one, two = pair()
    assert replies(two.says(take(1), take(2))) == [("two", 1, WAITING, b""), ("two", 2, WAITING, b"")]
    assert replies(one.says(put(1, b"a"))) == [("one", 1, DONE, b""), ("two", 1, DONE, b"a")]
    assert replies(one.says(put(2, b"b"))) == [("one", 2, DONE, b""), ("two", 2, DONE, b"b")]
    assert count(one, 3) == 0


def test_putters_wait_for_room_and_are_served_in_their_order():
    _, one, two = pair()
    one.says(put(1, b"a", limit=1))
    assert replies(one.says(put(2, b"b", limit=1))) == [("one", 2, WAITING, b"")]
    assert replies(two.says(put(1, b"c", limit=1))) == [("two", 1, WAITING, b"")]
    assert replies(two.says(request(2, NamedAction.TRY_PUT, b"d", limit=1))) == [("two", 2, ABSENT, b"")]
    assert replies(two.says(take(3, limit=1))) == [("two", 3, DONE, b"a"), ("one", 2, DONE, b"")]
    assert replies(two.says(take(4, limit=1))) == [("two", 4, DONE, b"b"), ("two", 1, DONE, b"")]
    assert count(two, 5, limit=1) == 1


def test_an_item_that_returns_is_the_first_one():
    _, one, two = pair()
    one.says(put(1, b"a", limit=2), put(2, b"b", limit=2))
    two.says(take(1, limit=2))
    one.says(put(3, b"c", limit=2))
    assert replies(two.says(request(2, NamedAction.RETURN, b"a", limit=2))) == [("two", 2, DONE, b"")]
    said = one.says(take(4, limit=2), put(5, b"d", limit=2), take(6, limit=2), take(7, limit=2), take(8, limit=2))
    assert [value for *_, value in replies(said) if value] == [b"a", b"b", b"c", b"d"]


def test_an_item_that_returns_goes_to_the_getter_that_waits():
    _, one, two = pair()
    one.says(put(1, b"a"), take(2))
    two.says(take(1))
    assert replies(one.says(request(3, NamedAction.RETURN, b"a"))) == [("one", 3, DONE, b""), ("two", 1, DONE, b"a")]


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_requests_that_are_given_up_take_and_put_nothing():
    book, one, two = pair()
    two.says(take(1, limit=1))
    assert replies(two.says(withdraw(1))) == [("two", 1, ENDED, b"")]
    one.says(put(1, b"a", limit=1), put(2, b"b", limit=1))
    assert replies(one.says(withdraw(2))) == [("one", 2, ENDED, b"")]
    assert replies(two.says(take(2, limit=1), request(3, NamedAction.TRY_TAKE, limit=1))) == [
        ("two", 2, DONE, b"a"),
        ("two", 3, ABSENT, b""),
    ]
    assert book.core.state.named.size_bytes == named_table.NAME_OVERHEAD_BYTES + len("name")


def test_a_client_that_leaves_gives_up_and_its_items_stay():
    book, one, two = pair()
    two.says(put(1, b"a", limit=1))
    one.says(take(1, limit=1), put(2, b"b", limit=1), put(3, b"c", limit=1))
    one.says(Goodbye())
    assert replies(two.says(take(2, limit=1), request(3, NamedAction.TRY_TAKE, limit=1))) == [
        ("two", 2, DONE, b"b"),
        ("two", 3, ABSENT, b""),
    ]
    two.says(Goodbye())
    assert not book.core.state.named.names and not book.core.state.named.size_bytes


def test_a_getter_ends_with_the_execution_that_made_it():
    _, client, agent, child = with_task()
    child.says(take(1, task=(client.session, 1, 1)))
    assert "It waits for the queue 'name'." in client.says(ExplainRequest(1))[0][1].text
    assert replies(agent.says(results(client, 1))) == [("child", 1, ENDED, b"")]
    assert replies(client.says(put(1, b"a"), take(2))) == [("client", 1, DONE, b""), ("client", 2, DONE, b"a")]


def test_after_a_restart_requests_are_done_in_their_order():
    book, one, two = restarted()
    assert replies(two.says(take(1)))[0][2] == replies(one.says(put(1, b"a")))[0][2] == WAITING
    assert sorted(replies(book.wait(2.0))) == [("one", 1, DONE, b""), ("two", 1, WAITING, b""), ("two", 1, DONE, b"a")]


def test_limits_that_differ_are_noticed_when_requests_were_held():
    book, one, two = restarted()
    one.says(put(1, b"a", limit=1))
    two.says(put(1, b"b", limit=2))
    assert replies(book.wait(2.0)) == [("one", 1, DONE, b""), ("two", 1, REFUSED, b"")]


# ---- limits and lies -------------------------------------------------------------------------------------------------


def test_two_limits_for_one_queue_are_refused():
    _, one, two = pair()
    one.says(put(1, b"a", limit=5))
    said = two.says(take(1))
    assert replies(said) == [("two", 1, REFUSED, b"")]
    assert said[0][1].text == "Others use it with the maximum size 5, not 0. Use one for all."


def test_items_that_wait_count_towards_the_limit_of_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_table, "TOTAL_LIMIT_BYTES", 10_000)
    _, one, two = pair()
    one.says(put(1, bytes(4_000), limit=1), put(2, bytes(4_000), limit=1))
    assert replies(two.says(put(1, bytes(2_000), limit=1))) == [("two", 1, REFUSED, b"")]
    two.says(take(2, limit=1))
    assert replies(two.says(put(3, bytes(2_000), limit=1))) == [("two", 3, WAITING, b"")]


def test_empty_items_count_towards_the_limit_of_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_table, "TOTAL_LIMIT_BYTES", 10_000)
    book, one, _ = pair()
    said = one.says(*(put(number, b"") for number in range(1, 100)))
    assert replies(said)[-1] == ("one", 99, REFUSED, b"")
    assert book.core.state.named.size_bytes <= 10_000


@pytest.mark.parametrize(
    "bad", [request(1, NamedAction.SET), NamedRequest(CoordinationKind.EVENT, NamedAction.TAKE, 1, "name")]
)
def test_actions_of_other_kinds_cost_the_session(bad: NamedRequest):
    book, one, _ = pair()
    said = one.says(bad)
    assert [body.reason for _, body in said if isinstance(body, Refused)] == [RefusalReason.MALFORMED]
    assert one.session not in book.core.state.clients


# ---- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_every_item_is_taken_once_and_in_order(seed: int):
    """Random requests over connections that are cut; the core checks its invariants after each of them."""
    chance = random.Random(seed)
    book: Playbook = opened()
    clients = [book.client(f"client {index}") for index in range(3)]
    limit = chance.choice([0, 1, 3])
    numbers = {client.name: 0 for client in clients}
    accepted: dict[tuple[str, int], bytes] = {}
    order: list[bytes] = []
    taken: list[bytes] = []
    waiting: set[tuple[str, int]] = set()

    def hear(said: list) -> None:
        for name, body in said:
            if not isinstance(body, NamedReply):
                continue
            key = (name, body.number)
            (waiting.add if body.named_state == NamedState.WAITING else waiting.discard)(key)
            if body.named_state == NamedState.DONE and key in accepted:
                order.append(accepted[key])
            elif body.named_state == NamedState.DONE:
                taken.append(bytes(body.value))

    away: set[str] = set()
    for step in range(300):
        client = chance.choice(clients)
        mine = sorted(each for each in waiting if each[0] == client.name)
        if client.name in away:
            away.discard(client.name)
            hear(client.connect())
        elif chance.random() < 0.05:
            away.add(client.name)
            hear(book.lose(client))
        elif mine and chance.random() < 0.2:
            hear(client.says(withdraw(mine[0][1])))
        else:
            numbers[client.name] += 1
            number = numbers[client.name]
            if chance.random() < 0.5:
                value = step.to_bytes(2, "big")
                accepted[client.name, number] = value
                hear(client.says(put(number, value, limit=limit)))
            else:
                hear(client.says(take(number, limit=limit)))
    left = [value for found in book.core.state.named.names.values() for value in found.values]
    assert sorted(taken + left) == sorted(order)
