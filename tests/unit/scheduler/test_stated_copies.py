"""Copies of results that agents have since before a restart of the scheduler."""

from __future__ import annotations

from scaler_protocol.messages import ObjectKey, ObjectRelease, ObjectStored, Status, Tasks
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks

SIZE = (50_000).to_bytes(8, "little")
NO_STORE = bytes(16)


def copy_of(client: Peer, task: int = 1) -> ObjectStored:
    return ObjectStored(ObjectKey(client.session, task), 50_000, NO_STORE)


def released(said: list) -> list[tuple[str, tuple[ObjectKey, ...]]]:
    return [(name, body.keys) for name, body in said if isinstance(body, ObjectRelease)]


def restarted() -> tuple[Playbook, Peer, Peer, Peer]:
    """The client has stated task 1, whose result is at the maker; the reader has said that it has a copy."""
    book = Playbook(epoch=2)
    maker, reader = book.agent("maker"), book.agent("reader")
    client = book.client()
    assert reader.says(copy_of(client)) == []
    client.says(Tasks(tasks(client, 1, 1).runs, resubmitted=True))
    maker.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    return book, client, maker, reader


def test_a_copy_is_released_with_its_result():
    book, client, maker, reader = restarted()
    key = ObjectKey(client.session, 1)
    assert released(book.wait(2.0, (maker, reader))) == []
    assert not book.core.state.stated_copies
    assert sorted(released(client.says(ObjectRelease((key,))))) == [("maker", (key,)), ("reader", (key,))]


def test_a_copy_is_released_later_if_its_result_was_released_before():
    book, client, maker, reader = restarted()
    key = ObjectKey(client.session, 1)
    assert released(client.says(ObjectRelease((key,)))) == [("maker", (key,))]
    assert released(book.wait(2.0, (maker, reader))) == [("reader", (key,))]
    assert not book.core.state.stated_copies


def test_a_copy_of_a_result_whose_client_does_not_come_back_is_released():
    book = Playbook(epoch=2)
    reader = book.agent("reader")
    key = ObjectKey(b"gone".ljust(16, b"."), 1)
    assert reader.says(ObjectStored(key, 50_000, NO_STORE)) == []
    assert released(book.wait(2.0, (reader,))) == [("reader", (key,))]
    assert not book.core.state.stated_copies and not book.core.state.objects.objects


def test_a_copy_waits_until_its_result_has_been_made_again():
    book = Playbook(epoch=2)
    reader = book.agent("reader")
    client = book.client()
    client.says(Tasks(tasks(client, 1, 1).runs, resubmitted=True))
    reader.says(copy_of(client))
    assert released(book.wait(2.0, (reader,))) == []
    assert book.core.state.stated_copies
    reader.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    assert released(book.wait(1.0, (reader,))) == []
    assert not book.core.state.stated_copies


def test_a_copy_that_the_table_knows_is_not_looked_at():
    book, client, maker, reader = restarted()
    book.wait(2.0, (maker, reader))
    reader.says(copy_of(client))
    assert not book.core.state.stated_copies


def test_nothing_is_left_of_an_agent_that_has_gone():
    book, client, maker, reader = restarted()
    book.lose(reader)
    book.wait(2.0, (maker,))
    assert not book.core.state.stated_copies
