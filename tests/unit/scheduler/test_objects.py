"""Bytes above the inline limit: uploads, fetches, large results."""

from __future__ import annotations

from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    OBJECT_WINDOW_BYTES,
    Goodbye,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    Status,
)
from scaler_scheduler.core.objects import ALL_OF_IT
from tests.unit.scheduler.playbook import Playbook, handed, results, statuses, tasks

SIZE = (1000).to_bytes(8, "little")


def upload(key, total, offset, length):
    return ObjectChunk(key, total, offset, bytes([offset % 251]) * length)


def test_an_upload_gets_credit_and_agents_get_it_even_while_it_arrives():
    book = Playbook()
    client, agent = book.client(), book.agent()
    key = ObjectKey(client.session, 2**64 - 1)
    assert agent.says(ObjectRequest(key)) == []
    chunk = upload(key, 300, 0, 200)
    assert client.says(chunk) == [("client", ObjectCredit(key, 200)), ("agent", chunk)]
    last = upload(key, 300, 200, 100)
    assert client.says(last) == [("agent", last)]
    other = book.agent("other")
    assert other.says(ObjectRequest(key)) == [("other", chunk), ("other", last)]


def test_a_reader_gets_no_more_than_its_window():
    book = Playbook()
    client, agent = book.client(), book.agent()
    key = ObjectKey(client.session, 2**64 - 1)
    total = OBJECT_WINDOW_BYTES + 2 * CHUNK_SIZE_BYTES
    for offset in range(0, total, CHUNK_SIZE_BYTES):
        client.says(upload(key, total, offset, CHUNK_SIZE_BYTES))
    assert len(agent.says(ObjectRequest(key))) == OBJECT_WINDOW_BYTES // CHUNK_SIZE_BYTES
    assert len(agent.says(ObjectCredit(key, CHUNK_SIZE_BYTES))) == 1
    assert agent.says(ObjectCredit(key, CHUNK_SIZE_BYTES)) == []


def test_an_object_of_nobody_is_missing():
    book = Playbook()
    agent = book.agent()
    said = agent.says(ObjectRequest(ObjectKey(b"x" * 16, 0)))
    assert [type(body) for _, body in said] == [ObjectMissing]


def test_a_released_object_is_freed_at_the_agents_that_fetched_it():
    book = Playbook()
    client, agent = book.client(), book.agent()
    key = ObjectKey(client.session, 2**64 - 1)
    client.says(upload(key, 10, 0, 10))
    agent.says(ObjectRequest(key))
    assert client.says(ObjectRelease((key,))) == [("agent", ObjectRelease((key,)))]
    assert not book.core.objects.objects


def test_objects_of_a_client_end_with_it_but_one_function_may_have_two_owners():
    book = Playbook()
    client, other = book.client(), book.client("other")
    key = ObjectKey(b"digest..........", 0)
    client.says(upload(key, 10, 0, 10))
    other.says(upload(key, 10, 0, 5))
    client.says(Goodbye())
    assert key in book.core.objects.objects
    other.says(Goodbye())
    assert not book.core.objects.objects


def test_what_is_there_already_need_not_be_uploaded():
    book = Playbook()
    client, other = book.client(), book.client("other")
    key = ObjectKey(b"digest..........", 0)
    client.says(upload(key, 20, 0, 20))
    assert other.says(upload(key, 20, 0, 10)) == [("other", ObjectCredit(key, ALL_OF_IT))]


def large(book):
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    said = agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    assert statuses(said, client) == {1: Status.SUCCESS_LARGE}
    return client, agent, ObjectKey(client.session, 1)


def test_a_large_result_is_relayed_and_released():
    book = Playbook()
    client, agent, key = large(book)
    assert client.says(ObjectRequest(key)) == [("agent", ObjectRequest(key))]
    chunk = upload(key, 1000, 0, 500)
    assert agent.says(chunk) == [("client", chunk)]
    assert client.says(ObjectCredit(key, 500)) == [("agent", ObjectCredit(key, 500))]
    assert client.says(ObjectRelease((key,))) == [("agent", ObjectRelease((key,)))]
    assert [type(body) for _, body in client.says(ObjectRequest(key))] == [ObjectMissing]


def test_a_large_result_whose_agent_is_lost_is_made_again():
    book = Playbook()
    client, agent, key = large(book)
    client.says(ObjectRequest(key))
    book.lose(agent)
    book.wait(1.0)
    other = book.agent("other")
    assert handed(other.joined, other) == [(1, 2)]
    said = other.says(results(client, (1, 2, Status.SUCCESS_LARGE, SIZE)))
    assert ("other", ObjectRequest(key)) in said


def test_a_large_result_that_nobody_fetches_is_freed_after_its_retention():
    book = Playbook(object_retention_seconds=5)
    client, agent, key = large(book)
    assert book.wait(4.0, (agent,)) == []
    assert book.wait(2.0, (agent,)) == [("agent", ObjectRelease((key,)))]


def test_a_cancelled_task_with_a_large_result_frees_it():
    from scaler_protocol.messages import Cancel, TaskColumn

    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    said = agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    assert ("agent", ObjectRelease((ObjectKey(client.session, 1),))) in said
    assert statuses(said, client) == {1: Status.CANCELLED}
