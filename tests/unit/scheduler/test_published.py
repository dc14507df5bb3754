"""Published values: they stay when their publisher leaves, until they are cleared."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import CoordinationKind, Goodbye, NamedAction, NamedReply, NamedRequest
from scaler_scheduler.core import named_table
from tests.unit.scheduler.test_named_values import ABSENT, DONE, ENDED, REFUSED, pair, replies, restarted


def request(number: int, action: NamedAction, value: bytes = b"", name: str = "name", version: int = 0) -> NamedRequest:
    return NamedRequest(CoordinationKind.PUBLISHED, action, number, name, value, version)


def publish(number: int, value: bytes = b"a", **changes) -> NamedRequest:
    return request(number, NamedAction.TRY_SET, value, **changes)


def read(number: int, **changes) -> NamedRequest:
    return request(number, NamedAction.PEEK, **changes)


def listed(number: int) -> NamedRequest:
    return request(number, NamedAction.LIST)


def test_a_published_value_outlives_every_client():
    book, one, two = pair()
    assert replies(one.says(publish(1))) == [("one", 1, DONE, b"")]
    one.says(Goodbye())
    two.says(Goodbye())
    three = book.client("three")
    assert replies(three.says(read(1))) == [("three", 1, DONE, b"a")]
    said = three.says(request(2, NamedAction.CLEAR), request(3, NamedAction.CLEAR))
    assert [body.count for _, body in said if isinstance(body, NamedReply)] == [1, 0]
    three.says(Goodbye())
    assert not book.core.state.named.names and not book.core.state.named.size_bytes


def test_a_name_is_taken_once():
    _, one, two = pair()
    one.says(publish(1))
    assert replies(two.says(publish(1, b"b"), read(2))) == [("two", 1, ABSENT, b""), ("two", 2, DONE, b"a")]


def test_names_are_listed():
    _, one, _ = pair()
    assert replies(one.says(listed(1))) == [("one", 1, DONE, b"")]
    one.says(publish(2), publish(3, name="größe"), read(4, name="absent"))
    assert replies(one.says(listed(5))) == [("one", 5, DONE, "name\0größe".encode())]


def test_a_variable_of_the_same_name_is_not_published():
    _, one, _ = pair()
    one.says(NamedRequest(CoordinationKind.VARIABLE, NamedAction.SET, 1, "name", b"a"))
    assert replies(one.says(read(2), listed(3))) == [("one", 2, ABSENT, b""), ("one", 3, DONE, b"")]


def test_after_a_restart_the_publisher_publishes_again():
    book, one, two = restarted()
    one.says(request(5, NamedAction.RESTATE, b"a", version=3))
    assert replies(two.says(request(5, NamedAction.RESTATE, b"old", version=2))) == [("two", 5, ENDED, b"")]
    book.wait(2.0)
    assert replies(two.says(read(6), listed(7))) == [("two", 6, DONE, b"a"), ("two", 7, DONE, b"name")]


def test_one_client_leaves_room_for_the_published_values_of_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_table, "CLIENT_PUBLISHED_LIMIT", 1)
    _, one, two = pair()
    assert [state for _, _, state, _ in replies(one.says(publish(1), publish(2, name="b")))] == [DONE, REFUSED]
    assert replies(two.says(publish(1, name="b"))) == [("two", 1, DONE, b"")]


def test_there_are_limits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_table, "PUBLISHED_LIMIT", 2)
    _, one, _ = pair()
    said = one.says(publish(1), publish(2, name="zero\0"), publish(3, name="b"), publish(4, name="c"))
    assert [state for _, _, state, _ in replies(said)] == [DONE, REFUSED, DONE, REFUSED]
    one.says(request(5, NamedAction.CLEAR))
    assert replies(one.says(publish(6, name="c"))) == [("one", 6, DONE, b"")]
