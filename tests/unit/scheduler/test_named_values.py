"""Events and variables: who reads what, who is told, and what ends a request or a name."""

from __future__ import annotations

import random

import pytest

from scaler_protocol.messages import (
    ACTOR_NAME_PREFIX,
    CoordinationKind,
    ExplainRequest,
    Goodbye,
    LockAction,
    LockRequest,
    NamedAction,
    NamedReply,
    NamedRequest,
    NamedState,
    RefusalReason,
    Refused,
    RelayClosed,
)
from scaler_scheduler.core import named_requests, named_table
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks
from tests.unit.scheduler.test_locks import nested, opened

DONE, WAITING, ABSENT, REFUSED, ENDED = (
    NamedState.DONE,
    NamedState.WAITING,
    NamedState.ABSENT,
    NamedState.REFUSED,
    NamedState.ENDED,
)


def request(
    number: int,
    action: NamedAction,
    value: bytes = b"",
    name: str = "name",
    kind: CoordinationKind = CoordinationKind.VARIABLE,
    task: tuple[bytes, int, int] = (b"", 0, 0),
    version: int = 0,
) -> NamedRequest:
    return NamedRequest(kind, action, number, name, value, version, *task)


def set_to(number: int, value: bytes, **changes) -> NamedRequest:
    return request(number, NamedAction.SET, value, **changes)


def read(number: int, **changes) -> NamedRequest:
    return request(number, NamedAction.READ, **changes)


def peek(number: int, **changes) -> NamedRequest:
    return request(number, NamedAction.PEEK, **changes)


def clear(number: int, **changes) -> NamedRequest:
    return request(number, NamedAction.CLEAR, **changes)


def withdraw(number: int) -> NamedRequest:
    return NamedRequest(CoordinationKind.VARIABLE, NamedAction.WITHDRAW, number)


def replies(said: list) -> list[tuple[str, int, NamedState, bytes]]:
    return [
        (name, body.number, body.named_state, bytes(body.value)) for name, body in said if isinstance(body, NamedReply)
    ]


def pair() -> tuple[Playbook, Peer, Peer]:
    book = opened()
    return book, book.client("one"), book.client("two")


# ---- values ----------------------------------------------------------------------------------------------------------


def test_a_value_is_read_by_all_and_replaced():
    _, one, two = pair()
    assert replies(two.says(peek(1))) == [("two", 1, ABSENT, b"")]
    assert replies(one.says(set_to(1, b"a"))) == [("one", 1, DONE, b"")]
    assert replies(two.says(peek(2), read(3))) == [("two", 2, DONE, b"a"), ("two", 3, DONE, b"a")]
    one.says(set_to(2, b"b"))
    assert replies(two.says(peek(4))) == [("two", 4, DONE, b"b")]
    assert replies(two.says(clear(5))) == [("two", 5, DONE, b"")]
    assert replies(one.says(peek(3))) == [("one", 3, ABSENT, b"")]


def test_readers_wait_for_the_first_value_and_are_served_in_their_order():
    _, one, two = pair()
    assert replies(two.says(read(1))) == [("two", 1, WAITING, b"")]
    assert replies(one.says(read(1))) == [("one", 1, WAITING, b"")]
    assert replies(one.says(set_to(2, b"a"))) == [("one", 2, DONE, b""), ("two", 1, DONE, b"a"), ("one", 1, DONE, b"a")]


def test_changes_have_increasing_versions():
    _, one, two = pair()
    said = [*one.says(set_to(1, b"a"), clear(2)), *two.says(set_to(1, b"a"))]
    versions = [body.version for _, body in said if isinstance(body, NamedReply)]
    assert versions == sorted({*versions}) and versions[0] > 0


def test_kinds_and_names_are_apart():
    _, one, two = pair()
    one.says(set_to(1, b"a"))
    event = CoordinationKind.EVENT
    assert replies(two.says(peek(1, name="other"), peek(2, kind=event))) == [
        ("two", 1, ABSENT, b""),
        ("two", 2, ABSENT, b""),
    ]
    said = two.says(request(3, NamedAction.SET, kind=event))
    assert [body.kind for _, body in said if isinstance(body, NamedReply)] == [event]


def test_a_reader_that_gave_up_is_not_told():
    _, one, two = pair()
    two.says(read(1))
    assert replies(two.says(withdraw(1))) == [("two", 1, ENDED, b"")]
    assert replies(one.says(set_to(1, b"a"))) == [("one", 1, DONE, b"")]


def test_giving_up_after_the_answer_is_not_answered():
    _, one, _ = pair()
    one.says(set_to(1, b"a"), read(2))
    assert replies(one.says(withdraw(2), withdraw(1))) == []


def test_a_request_that_was_given_up_before_it_was_sent_is_not_done():
    _, one, _ = pair()
    assert replies(one.says(withdraw(5))) == [("one", 5, ENDED, b"")]
    assert replies(one.says(set_to(5, b"a"), peek(6))) == [("one", 6, ABSENT, b"")]


def test_a_request_that_is_said_twice_is_done_once():
    _, one, two = pair()
    assert len(replies(one.says(read(1), read(1)))) == 1
    assert replies(two.says(set_to(1, b"a"), set_to(1, b"b"))) == [("two", 1, DONE, b""), ("one", 1, DONE, b"a")]
    assert replies(two.says(peek(2))) == [("two", 2, DONE, b"a")]


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_a_name_lives_as_long_as_a_client_that_has_used_it():
    book, one, two = pair()
    one.says(set_to(1, b"a"))
    two.says(peek(1))
    one.says(Goodbye())
    assert replies(two.says(peek(2))) == [("two", 2, DONE, b"a")]
    two.says(Goodbye())
    assert not book.core.state.named.names and not book.core.state.named.size_bytes
    assert replies(book.client("three").says(peek(1))) == [("three", 1, ABSENT, b"")]


def test_the_readers_of_a_client_that_leaves_are_forgotten():
    book, one, two = pair()
    one.says(read(1))
    one.says(Goodbye())
    assert replies(two.says(set_to(1, b"a"))) == [("two", 1, DONE, b"")]
    assert not book.core.state.named.waiting


def test_a_client_that_is_away_for_a_moment_is_answered_when_it_is_back():
    book, one, two = pair()
    one.says(read(1))
    book.lose(one)
    two.says(set_to(1, b"a"))
    assert replies(one.connect()) == [("one", 1, DONE, b"a")]


def with_task() -> tuple[Playbook, Peer, Peer, Peer]:
    """A task of a client at an agent, and a session in it."""
    book = opened()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    return book, client, agent, nested(book, agent, client, 1, "child")


def test_a_task_sets_a_value_for_its_client():
    book, client, agent, child = with_task()
    child.says(set_to(1, b"a"))
    agent.says(RelayClosed(child.session), results(client, 1))
    assert replies(client.says(peek(1))) == [("client", 1, DONE, b"a")]
    client.says(Goodbye())
    assert not book.core.state.named.names


def test_a_session_that_has_passed_to_a_task_of_another_client_acts_for_that_client():
    book, client, agent, child = with_task()
    other = book.client("other")
    other.says(tasks(other, 1, 1))
    child.says(set_to(1, b"a", task=(other.session, 1, 1)))
    agent.says(RelayClosed(child.session))
    client.says(Goodbye())
    assert replies(other.says(peek(1))) == [("other", 1, DONE, b"a")]


def test_a_request_ends_with_the_execution_that_made_it():
    book, client, agent, child = with_task()
    child.says(read(1, task=(client.session, 1, 1)))
    said = agent.says(results(client, 1))
    assert replies(said) == [("child", 1, ENDED, b"")]
    assert "has ended" in next(body.text for _, body in said if isinstance(body, NamedReply))
    assert not book.core.state.named.by_task
    assert replies(client.says(set_to(1, b"a"))) == [("client", 1, DONE, b"")]


def test_a_request_ends_with_the_connection_of_its_process():
    book, client, agent, child = with_task()
    child.says(read(1, task=(client.session, 1, 1)))
    agent.says(RelayClosed(child.session))
    assert not book.core.state.named.waiting and not book.core.state.named.by_task


def test_explain_says_what_a_task_waits_for():
    _, client, _, child = with_task()
    child.says(read(1, task=(client.session, 1, 1), kind=CoordinationKind.EVENT))
    assert "It waits for the event 'name'." in client.says(ExplainRequest(1))[0][1].text
    child.says(withdraw(1))
    assert "event" not in client.says(ExplainRequest(1))[0][1].text


# ---- restarts --------------------------------------------------------------------------------------------------------


def restarted() -> tuple[Playbook, Peer, Peer]:
    book = Playbook(epoch=2)
    return book, book.client("one", epoch=1, received=7), book.client("two", epoch=1, received=7)


def restate(number: int, value: bytes, version: int, **changes) -> NamedRequest:
    return request(number, NamedAction.RESTATE, value, version=version, **changes)


def test_requests_are_held_until_all_had_time_to_state_what_they_have_set():
    book, one, two = restarted()
    assert replies(two.says(peek(1), read(2))) == [("two", 1, WAITING, b""), ("two", 2, WAITING, b"")]
    assert replies(one.says(restate(9, b"a", 5))) == [("one", 9, DONE, b"")]
    assert replies(book.wait(2.0)) == [("two", 1, DONE, b"a"), ("two", 2, DONE, b"a")]


def test_the_highest_version_counts():
    book, one, two = restarted()
    one.says(restate(9, b"new", 7))
    assert replies(two.says(restate(9, b"old", 6))) == [("two", 9, ENDED, b"")]
    said = book.wait(2.0) + two.says(peek(10), set_to(11, b"newer"))
    assert replies(said)[0] == ("two", 10, DONE, b"new")
    assert said[-1][1].version > 7


def test_a_value_that_was_cleared_stays_cleared():
    book, one, two = restarted()
    one.says(request(9, NamedAction.RESTATE_CLEARED, version=7))
    two.says(restate(9, b"old", 6))
    book.wait(2.0)
    assert replies(two.says(peek(10))) == [("two", 10, ABSENT, b"")]


def test_a_late_session_changes_nothing_that_was_changed_meanwhile():
    book, one, two = restarted()
    book.wait(2.0)
    one.says(set_to(1, b"new"))
    assert replies(two.says(restate(9, b"old", 1000))) == [("two", 9, ENDED, b"")]
    assert replies(two.says(peek(10))) == [("two", 10, DONE, b"new")]


def test_a_late_session_serves_those_that_wait():
    book, one, two = restarted()
    book.wait(2.0)
    one.says(read(1))
    assert replies(two.says(restate(9, b"a", 5))) == [("two", 9, DONE, b""), ("one", 1, DONE, b"a")]


def test_a_held_request_can_be_withdrawn_and_ends_with_its_session():
    book, one, two = restarted()
    one.says(set_to(1, b"a"), read(2))
    assert replies(one.says(withdraw(1))) == [("one", 1, ENDED, b"")]
    two.says(set_to(1, b"b"))
    two.says(Goodbye())
    assert replies(book.wait(2.0)) == [("one", 2, WAITING, b"")]


# ---- names of actors ------------------------------------------------------------------------------------------------

ACTOR = f"{ACTOR_NAME_PREFIX}bob"


def lock(number: int, action: LockAction = LockAction.ACQUIRE) -> LockRequest:
    return LockRequest(CoordinationKind.LOCK, action, number, ACTOR)


def test_only_the_client_that_has_the_name_of_an_actor_changes_its_handle():
    _, one, two = pair()
    assert replies(one.says(set_to(1, b"early", name=ACTOR))) == [("one", 1, REFUSED, b"")]
    one.says(lock(1), set_to(2, b"bob", name=ACTOR))
    two.says(lock(1))
    said = two.says(set_to(1, b"two", name=ACTOR), clear(2, name=ACTOR), peek(3, name=ACTOR))
    assert replies(said) == [("two", 1, REFUSED, b""), ("two", 2, REFUSED, b""), ("two", 3, DONE, b"bob")]


def test_the_handle_of_an_actor_ends_with_its_name_even_if_the_name_is_taken_at_once():
    book, one, two = pair()
    three = book.client("three")
    one.says(lock(1), set_to(1, b"bob", name=ACTOR))
    two.says(lock(1))
    three.says(peek(1, name=ACTOR))
    one.says(Goodbye())
    assert replies(three.says(peek(2, name=ACTOR))) == [("three", 2, ABSENT, b"")]
    two.says(set_to(1, b"another bob", name=ACTOR), lock(1, LockAction.RELEASE))
    assert replies(three.says(peek(3, name=ACTOR))) == [("three", 3, ABSENT, b"")]


def test_after_a_restart_the_handle_is_that_of_the_client_that_has_the_name():
    book, one, two = restarted()
    one.says(lock(1, LockAction.RESTATE), restate(1, b"bob", 5, name=ACTOR))
    two.says(lock(1, LockAction.RESTATE))
    assert replies(two.says(restate(1, b"another bob", 6, name=ACTOR))) == [("two", 1, REFUSED, b"")]
    assert replies(book.wait(2.0)) == []
    assert replies(two.says(peek(2, name=ACTOR))) == [("two", 2, DONE, b"bob")]


# ---- limits and lies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_stated_version_leaves_room_for_the_changes_of_others(version: int):
    book, liar, one = restarted()
    liar.says(restate(1, b"lie", version, name="other"))
    book.wait(2.0)
    changed = one.says(set_to(1, b"a"))[-1][1].version
    book, one, _ = restarted()
    assert replies(one.says(restate(9, b"a", changed))) == [("one", 9, DONE, b"")]
    book.wait(2.0)
    assert replies(one.says(peek(10))) == [("one", 10, DONE, b"a")]


def test_a_long_name_and_a_large_value_are_refused():
    _, one, _ = pair()
    said = one.says(
        set_to(1, b"", name="é" * 513),
        set_to(2, bytes(named_requests.NAMED_VALUE_LIMIT_BYTES + 1)),
        set_to(3, bytes(named_requests.NAMED_VALUE_LIMIT_BYTES), name="é" * 512),
    )
    assert [(number, state) for _, number, state, _ in replies(said)] == [(1, REFUSED), (2, REFUSED), (3, DONE)]


def test_all_values_together_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_table, "TOTAL_LIMIT_BYTES", 10_000)
    _, one, two = pair()
    one.says(set_to(1, bytes(7_000)))
    said = two.says(set_to(1, bytes(2_000)), peek(2, name="other"), peek(3, name="x" * 1000), clear(4))
    assert [(number, state) for _, number, state, _ in replies(said)] == [
        (1, REFUSED),
        (2, ABSENT),
        (3, REFUSED),
        (4, DONE),
    ]
    assert replies(two.says(set_to(5, bytes(7_000)))) == [("two", 5, DONE, b"")]


def test_what_one_client_shares_leaves_room_for_the_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_table, "CLIENT_LIMIT_BYTES", 10_000)
    _, one, two = pair()
    said = one.says(set_to(1, bytes(7_000)), set_to(2, bytes(7_000), name="other"), set_to(3, bytes(1_000)))
    assert [state for _, _, state, _ in replies(said)] == [DONE, REFUSED, DONE]
    assert replies(two.says(set_to(1, bytes(7_000), name="other"))) == [("two", 1, DONE, b"")]
    said = two.says(set_to(2, bytes(9_000)))
    assert replies(said) == [("two", 2, REFUSED, b"")]
    assert said[0][1].text == (
        "The values that one client shares by name take 0 MiB, which is the limit. Delete some first."
    )


def test_when_a_client_leaves_the_next_user_of_a_name_pays_for_it():
    book, one, two = pair()
    one.says(set_to(1, bytes(7_000)))
    two.says(peek(1))
    assert book.core.state.named.charged.keys() == {one.session}
    one.says(Goodbye())
    assert book.core.state.named.charged.keys() == {two.session}
    two.says(Goodbye())
    assert not book.core.state.named.charged


def test_one_client_has_a_limited_number_of_requests_that_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_requests, "REQUESTS_LIMIT", 2)
    _, one, two = pair()
    said = one.says(read(1), read(2), read(3))
    assert [state for _, _, state, _ in replies(said)] == [WAITING, WAITING, REFUSED]
    assert replies(one.says(set_to(4, b"a")))[0] == ("one", 4, DONE, b"")


@pytest.mark.parametrize(
    "bad",
    [
        peek(1, task=(b"short", 1, 1)),
        peek(1, kind=CoordinationKind.LOCK),
        LockRequest(CoordinationKind.EVENT, LockAction.ACQUIRE, 1, "name"),
    ],
)
def test_what_cannot_be_meant_costs_the_session(bad: NamedRequest):
    book, one, _ = pair()
    said = one.says(bad)
    assert [body.reason for _, body in said if isinstance(body, Refused)] == [RefusalReason.MALFORMED]
    assert one.session not in book.core.state.clients


# ---- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_every_request_is_answered_once(seed: int):
    """Random requests over connections that are cut; the core checks its invariants after each of them."""
    chance = random.Random(seed)
    book = opened()
    clients = [book.client(f"client {index}") for index in range(3)]
    numbers = {client.name: 0 for client in clients}
    open_requests: set[tuple[str, int]] = set()
    values: dict[str, bytes] = {}

    def hear(said: list) -> None:
        for name, number, state, _ in replies(said):
            if state != WAITING:
                open_requests.remove((name, number))

    for _ in range(200):
        client = chance.choice(clients)
        if chance.random() < 0.1:
            book.lose(client)
            hear(client.connect())
            continue
        numbers[client.name] += 1
        number, name = numbers[client.name], chance.choice("ab")
        open_requests.add((client.name, number))
        action = chance.choice([NamedAction.SET, NamedAction.CLEAR, NamedAction.READ, NamedAction.PEEK])
        value = bytes([number % 256]) if action == NamedAction.SET else b""
        hear(client.says(request(number, action, value, name)))
        if action == NamedAction.SET:
            values[name] = value
        elif action == NamedAction.CLEAR:
            values.pop(name, None)
        assert bool(open_requests) == bool(book.core.state.named.waiting)
    found = {name: found.values[0] for (_, name), found in book.core.state.named.names.items() if found.values}
    assert found == values
