"""Bytes above the inline limit: uploads, fetches, large results."""

from __future__ import annotations

import pytest

from scaler_protocol.ids import digest
from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    CREDIT_WITHOUT_END,
    OBJECT_WINDOW_BYTES,
    OWNER_SOURCE,
    Cancel,
    DroppedTasks,
    FunctionDefinition,
    Goodbye,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectsStored,
    ObjectStored,
    Refused,
    Status,
    StoreAttached,
    TaskColumn,
    Tasks,
    Withdrawn,
)
from scaler_scheduler.core.objects import GONE_TEXT, SENDER_SECONDS, SENDERS_AT_ONCE, SILENT_TEXT, ObjectStore
from scaler_scheduler.core.transfers import Transfers
from tests.unit.scheduler.playbook import Playbook, handed, results, run, statuses, tasks
from tests.unit.scheduler.test_graphs import done, nodes

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
    book.wait(1.1, (agent,))
    said = agent.says(ObjectRequest(ObjectKey(b"x" * 16, 0)))
    assert [type(body) for _, body in said] == [ObjectMissing]


def test_an_object_that_its_living_owner_has_dropped_is_missing():
    book = Playbook()
    client, agent = book.client(), book.agent()
    key = ObjectKey(client.session, 2**64 - 1)
    client.says(upload(key, 10, 0, 10))
    client.says(ObjectRelease((key,)))
    book.wait(1.1, (agent,))
    assert agent.says(ObjectRequest(key)) == [("agent", ObjectMissing(key, GONE_TEXT))]
    assert not book.core.state.objects.objects


def test_who_asks_before_an_owner_has_said_what_it_has_is_told_when_it_has():
    book = Playbook()
    client, agent = book.client(), book.agent()
    keys = [ObjectKey(client.session, 2**64 - number) for number in (1, 2, 3)]
    agent.says(*[ObjectRequest(key) for key in keys])
    book.wait(0.8, (agent,))
    assert client.says(upload(keys[0], 10, 0, 10)) == [("agent", upload(keys[0], 10, 0, 10))]
    assert book.wait(0.8, (agent,)) == [], "there may be more to come"
    assert client.says(upload(keys[1], 10, 0, 10)) == [("agent", upload(keys[1], 10, 0, 10))]
    assert book.wait(1.3, (agent,)) == [("agent", ObjectMissing(keys[2], GONE_TEXT))]
    assert list(book.core.state.objects.objects) == keys[:2]


def test_after_a_restart_an_agent_may_ask_before_the_owner_is_back():
    book = Playbook()
    agent = book.agent()
    session = b"client".ljust(16, b".")
    key, other = ObjectKey(session, 2**64 - 1), ObjectKey(b"gone".ljust(16, b"."), 2**64 - 1)
    assert agent.says(ObjectRequest(key), ObjectRequest(other)) == []
    client = book.client()
    assert client.says(upload(key, 10, 0, 10)) == [("agent", upload(key, 10, 0, 10))]
    assert book.wait(1.3, (agent,)) == [("agent", ObjectMissing(other, GONE_TEXT))]
    assert agent.says(ObjectRequest(other)) == [("agent", ObjectMissing(other, GONE_TEXT))], "at once from now on"


def test_nobody_sends_or_drops_what_is_another_clients_even_before_that_is_back():
    book = Playbook()
    agent, thief, other = book.agent(), book.client("thief"), book.client("other")
    key = ObjectKey(b"client".ljust(16, b"."), 2**64 - 1)
    assert agent.says(ObjectRequest(key)) == []
    [(name, refused)] = thief.says(upload(key, 5, 0, 5))
    assert name == "thief" and isinstance(refused, Refused)
    assert other.says(ObjectRelease((key,))) == []
    client = book.client()
    assert client.says(upload(key, 10, 0, 10)) == [("agent", upload(key, 10, 0, 10))]


def test_a_released_object_is_freed_at_the_agents_that_fetched_it():
    book = Playbook()
    client, agent = book.client(), book.agent()
    key = ObjectKey(client.session, 2**64 - 1)
    client.says(upload(key, 10, 0, 10))
    agent.says(ObjectRequest(key))
    assert client.says(ObjectRelease((key,))) == [("agent", ObjectRelease((key,)))]
    assert not book.core.state.objects.objects


def test_agents_are_told_once_of_all_objects_that_are_released():
    book = Playbook()
    client, one, other = book.client(), book.agent("one"), book.agent("other")
    first, second, third = (ObjectKey(client.session, 2**64 - number) for number in (1, 2, 3))
    for key in (first, second, third):
        client.says(upload(key, 10, 0, 10))
    one.says(ObjectRequest(first), ObjectRequest(second))
    other.says(ObjectRequest(second))
    said = client.says(ObjectRelease((first, second, second, third)))
    assert said == [("one", ObjectRelease((first, second))), ("other", ObjectRelease((second,)))]
    assert not book.core.state.objects.objects


PICKLE = bytes(range(200)) * 5
BY_DIGEST = ObjectKey(digest(PICKLE), 0)


def part(offset: int, stop: int, pickle: bytes = PICKLE) -> ObjectChunk:
    """Of a function."""
    return ObjectChunk(BY_DIGEST, len(pickle), offset, pickle[offset:stop])


def test_objects_of_a_client_end_with_it_but_one_function_may_have_two_owners():
    book = Playbook()
    client, other = book.client(), book.client("other")
    client.says(part(0, 10))
    other.says(part(0, 5))
    client.says(Goodbye())
    assert BY_DIGEST in book.core.state.objects.objects
    other.says(Goodbye())
    assert not book.core.state.objects.objects


def test_what_is_there_already_need_not_be_uploaded():
    book = Playbook()
    client, other = book.client(), book.client("other")
    client.says(part(0, 1000))
    assert other.says(part(0, 10)) == [("other", ObjectCredit(BY_DIGEST, CREDIT_WITHOUT_END))]


def large(book):
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    said = agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    assert statuses(said, client) == {1: Status.SUCCESS_LARGE}
    return client, agent, ObjectKey(client.session, 1)


def test_objects_that_are_stated_together_are_known_like_others():
    book = Playbook()
    client, agent = book.client(), book.agent()
    keys = [ObjectKey(client.session, 2**64 - number) for number in (1, 2)]
    client.says(ObjectsStored(client.session, tuple(key.number for key in keys), (40_000, 50_000), b"s" * 16))
    assert [book.core.state.objects.objects[key].size for key in keys] == [40_000, 50_000]
    assert agent.says(ObjectRequest(keys[1])) == [("client", ObjectRequest(keys[1]))]


@pytest.mark.parametrize("numbers, sizes, is_own", [((2**64 - 1,), (), True), ((2**64 - 1,), (1,), False)])
def test_a_client_states_only_objects_of_its_own_each_with_a_size(numbers, sizes, is_own):
    book = Playbook()
    client = book.client()
    owner = client.session if is_own else b"o" * 16
    said = client.says(ObjectsStored(owner, numbers, sizes, b"s" * 16))
    assert [type(body) for _, body in said] == [Refused]
    assert not book.core.state.objects.objects


def test_a_large_result_is_relayed_and_released():
    book = Playbook()
    client, agent, key = large(book)
    assert client.says(ObjectRequest(key)) == [("agent", ObjectRequest(key, relayed=True))]
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
    assert ("other", ObjectRequest(key, relayed=True)) in said


def test_a_large_result_that_nobody_fetches_is_freed_after_its_retention():
    book = Playbook(object_retention_seconds=5)
    client, agent, key = large(book)
    assert book.wait(4.0, (agent,)) == []
    assert book.wait(2.0, (agent,)) == [("agent", ObjectRelease((key,)))]


def test_a_cancelled_task_with_a_large_result_frees_it():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    said = agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    assert ("agent", ObjectRelease((ObjectKey(client.session, 1),))) in said
    assert statuses(said, client) == {1: Status.CANCELLED}


# ---- stores of hosts -------------------------------------------------------------------------------------------------

STORE = b"store of client."


def stored(book: Playbook):
    """A client whose object is in the store of its host."""
    client = book.client()
    key = ObjectKey(client.session, 2**64 - 1)
    assert client.says(ObjectStored(key, 1000, STORE)) == []
    return client, key


def attached(book: Playbook, name: str, store: bytes = b"", endpoint: str = ""):
    agent = book.agent(name)
    agent.says(StoreAttached(store or name.encode().ljust(16, b"."), endpoint))
    return agent


def test_the_owner_sends_what_no_store_can_be_asked_for():
    book = Playbook()
    client, key = stored(book)
    agent = book.agent()
    assert agent.says(ObjectRequest(key)) == [("client", ObjectRequest(key))]
    chunk = upload(key, 1000, 0, 1000)
    assert client.says(chunk) == [("agent", chunk)]
    assert book.agent("other").says(ObjectRequest(key)) == [("other", chunk)], "the scheduler has it now"


def test_an_object_whose_store_has_died_is_missing():
    book = Playbook()
    client, key = stored(book)
    agent = book.agent()
    agent.says(ObjectRequest(key))
    assert [(name, type(body)) for name, body in client.says(ObjectMissing(key, ""))] == [("agent", ObjectMissing)]
    assert [type(body) for _, body in agent.says(ObjectRequest(key))] == [ObjectMissing]


JUNK = bytes(1000)


def sent_by_two(book: Playbook):
    """Two clients have begun to send a function; the first one lies. An agent waits for it."""
    liar, client, agent = book.client("liar"), book.client(), book.agent()
    liar.says(part(0, 10, JUNK))
    client.says(part(0, 10))
    assert agent.says(ObjectRequest(BY_DIGEST)) == []
    return liar, client, agent


def received(said: list, name: str = "agent") -> bytes:
    return b"".join(body.data for who, body in said if who == name and isinstance(body, ObjectChunk))


def test_bytes_that_are_not_the_functions_cost_their_sender_its_session_and_reach_nobody():
    book = Playbook()
    liar, client, agent = sent_by_two(book)
    said = liar.says(part(10, 1000, JUNK))
    assert [(name, type(body)) for name, body in said] == [("liar", Refused)]
    assert received(client.says(part(10, 1000))) == PICKLE
    other = book.agent("other")
    assert received(other.says(ObjectRequest(BY_DIGEST)), "other") == PICKLE


def test_who_was_first_with_right_bytes_is_taken_at_its_word_whatever_others_have_begun():
    book = Playbook()
    liar, client, agent = sent_by_two(book)
    said = client.says(part(10, 1000))
    assert received(said) == PICKLE
    assert ("liar", ObjectCredit(BY_DIGEST, CREDIT_WITHOUT_END)) in said
    assert liar.says(part(10, 1000, JUNK)) == []
    assert book.core.state.objects.held_bytes == {liar.session: 1024, client.session: 1024 + 1000}


def test_a_function_is_nobodys_before_all_of_it_was_looked_at():
    book = Playbook()
    liar, client, agent = sent_by_two(book)
    assert received(liar.says(part(10, 900, JUNK))) == b""
    assert received(client.says(part(10, 999))) == b""
    assert received(client.says(part(999, 1000))) == PICKLE


def test_a_function_is_in_no_store():
    """Agents would fetch it from there, and nobody would compare it with its digest."""
    book = Playbook()
    liar, client, agent = sent_by_two(book)
    said = liar.says(ObjectStored(BY_DIGEST, 1000, STORE))
    assert [(name, type(body)) for name, body in said] == [("liar", Refused)]
    agent.says(ObjectStored(BY_DIGEST, 1000, STORE))
    assert received(client.says(part(10, 1000))) == PICKLE
    assert received(book.agent("other").says(ObjectRequest(BY_DIGEST)), "other") == PICKLE


def test_chunks_that_disagree_about_the_size_cost_the_session():
    book = Playbook()
    client = book.client()
    key = ObjectKey(client.session, 2**64 - 1)
    client.says(upload(key, 100, 0, 10))
    assert [type(body) for _, body in client.says(upload(key, 200, 10, 10))] == [Refused]


def test_an_object_is_missing_when_no_owner_has_it():
    book = Playbook()
    liar, client, agent = sent_by_two(book)
    assert liar.says(ObjectMissing(BY_DIGEST, "")) == []
    assert [(name, type(body)) for name, body in client.says(ObjectMissing(BY_DIGEST, ""))] == [
        ("agent", ObjectMissing)
    ]
    later = book.client("later")
    later.says(part(0, 1000))
    assert received(agent.says(ObjectRequest(BY_DIGEST))) == PICKLE


def test_what_one_owner_has_sent_stays_for_the_others():
    book = Playbook()
    client, other, agent = book.client(), book.client("other"), book.agent()
    client.says(part(0, 1000))
    other.says(part(0, 10))
    client.says(Goodbye())
    assert received(agent.says(ObjectRequest(BY_DIGEST))) == PICKLE
    assert book.core.state.objects.held_bytes == {other.session: 1024 + 1000}
    other.says(Goodbye())
    assert not book.core.state.objects.held_bytes


def test_many_slow_senders_of_a_function_do_not_keep_others_waiting():
    """Only a few may send at a time, and the slowest makes room for who waits."""
    book = Playbook()
    liars = [book.client(f"liar{index}") for index in range(2 * SENDERS_AT_ONCE)]
    for liar in liars:
        liar.says(part(0, 10, JUNK))
    client, agent = book.client(), book.agent()
    assert client.says(part(0, 10)) == [], "no credit yet"
    agent.says(ObjectRequest(BY_DIGEST))
    said = book.wait((len(liars) + 1) * SENDER_SECONDS + 1, (agent,))
    assert ("client", ObjectCredit(BY_DIGEST, 10)) in said
    assert len(book.core.state.objects.objects[BY_DIGEST].senders) == SENDERS_AT_ONCE
    assert received(client.says(part(10, 1000))) == PICKLE


def test_a_sender_that_goes_on_is_not_replaced():
    book = Playbook(client_timeout_seconds=8)
    client, agent = book.client(), book.agent()
    client.says(part(0, 10))
    agent.says(ObjectRequest(BY_DIGEST))
    for index in range(SENDERS_AT_ONCE):
        book.client(f"liar{index}").says(part(0, 10, JUNK))
    for offset in range(10, 910, 90):
        client.says(part(offset, offset + 90))
        book.wait(SENDER_SECONDS, (agent,))
        assert client.session in book.core.state.objects.objects[BY_DIGEST].senders
    assert received(client.says(part(910, 1000))) == PICKLE


def said_missing(said: list) -> list:
    return [(name, body.text) for name, body in said if isinstance(body, ObjectMissing)]


def test_readers_are_told_when_no_owner_goes_on():
    book = Playbook(client_timeout_seconds=20)
    _, client, agent = sent_by_two(book)
    assert said_missing(book.wait(25, (agent,))) == [("agent", SILENT_TEXT)]
    assert agent.says(ObjectRequest(BY_DIGEST)) == [], "who asks later may have better luck"
    assert received(client.says(part(10, 1000))) == PICKLE


def test_readers_are_told_of_a_function_of_which_its_client_sends_nothing():
    """It said that it has it, in its first tasks."""
    book = Playbook(client_timeout_seconds=20)
    client, agent = book.client(), book.agent()
    name = b"digest.........."
    definition = FunctionDefinition(name, "f", b"", 100_000)
    client.says(Tasks([run(client, 1, 1, function=name)], [definition]))
    assert agent.says(ObjectRequest(ObjectKey(name, 0))) == []
    assert said_missing(book.wait(19, (agent,))) == []
    assert said_missing(book.wait(2, (agent,))) == [("agent", SILENT_TEXT)]


def test_an_object_is_released_at_every_host_that_has_it():
    book = Playbook()
    client, key = stored(book)
    attached(book, "here", STORE)
    attached(book, "elsewhere")
    assert client.says(ObjectRelease((key,))) == [("here", ObjectRelease((key,)))]


def test_a_broadcast_grows_as_a_tree():
    book = Playbook()
    _, key = stored(book)
    attached(book, "source", STORE, "tcp://source")
    others = {name: attached(book, name, endpoint=f"tcp://{name}") for name in ("a", "b", "c", "d", "e")}
    answers = [others[name].says(ObjectRequest(key)) for name in others]
    first = [(name, ObjectLocations(key, 1000, ("tcp://source",))) for name in "ab"]
    assert answers == [[first[0]], [first[1]], [], [], []], "a store serves two at a time"
    said = others["a"].says(ObjectStored(key, 1000, b"a".ljust(16, b".")))
    assert [(name, body.sources) for name, body in said] == [
        ("c", ("tcp://a", "tcp://source")), ("d", ("tcp://source", "tcp://a")), ("e", ("tcp://a", "tcp://source")),
    ], "the other one in case the first is gone"  # fmt: skip


def wanted_by_three(book):
    """An object in the store of one agent: two others fetch it, a third waits for its turn."""
    client, key = stored(book)
    attached(book, "source", STORE, "tcp://source")
    others = {name: attached(book, name, endpoint=f"tcp://{name}") for name in ("a", "b", "c")}
    for other in others.values():
        other.says(ObjectRequest(key))
    return client, key, others


def test_who_cannot_reach_a_store_gets_the_bytes_and_so_do_those_behind():
    book = Playbook()
    client, key, others = wanted_by_three(book)
    assert others["a"].says(ObjectRequest(key, relayed=True)) == [("client", ObjectRequest(key))]
    chunk = upload(key, 1000, 0, 1000)
    assert client.says(chunk) == [("a", chunk), ("c", chunk)]


def test_what_is_dropped_is_missing_for_those_who_wait_their_turn_as_well():
    book = Playbook()
    client, key, _ = wanted_by_three(book)
    said = client.says(ObjectRelease((key,)))
    assert [name for name, body in said if isinstance(body, ObjectMissing)] == ["c"], "others hear it from a store"


def test_the_owner_is_asked_for_what_was_in_a_store_that_has_died():
    book = Playbook()
    client, key = stored(book)
    source, other = attached(book, "source", STORE, "tcp://source"), attached(book, "other", endpoint="tcp://other")
    source.says(StoreAttached(b"another store...", "tcp://another"))
    assert other.says(ObjectRequest(key)) == [("client", ObjectRequest(key))]


def test_a_value_is_fetched_from_the_store_of_its_holder():
    book = Playbook()
    client, agent, key = large(book)
    other, third = (attached(book, name, endpoint=f"tcp://{name}") for name in ("other", "third"))
    assert other.says(ObjectRequest(key)) == [("agent", ObjectRequest(key))]
    where = ObjectLocations(key, 1000, ("tcp://agent",))
    assert agent.says(where) == [("other", where)]
    third.says(ObjectRequest(key))
    assert agent.says(where) == [("third", ObjectLocations(key, 1000, ("tcp://agent", "tcp://other")))]
    assert client.says(ObjectRequest(key)) == [("agent", ObjectRequest(key, relayed=True))], "its turn is over"


def test_a_client_that_can_have_a_result_fetched_is_told_where_it_is():
    book = Playbook()
    client, agent, key = large(book)
    assert client.says(ObjectRequest(key, direct=True)) == [("agent", ObjectRequest(key))]
    where = ObjectLocations(key, 1000, ("tcp://agent",))
    assert agent.says(where) == [("client", where)]
    assert client.says(ObjectRequest(key)) == [("agent", ObjectRequest(key, relayed=True))], "it could not be"


def test_results_that_a_store_has_lost_are_made_again():
    book = Playbook()
    client, agent, key = large(book)
    client.says(ObjectRequest(key))
    said = agent.says(ObjectsLost((key,)))
    assert handed(said, agent) == [(1, 2)], "and the client waits"
    assert not [body for name, body in said if name == "client" and isinstance(body, ObjectMissing)]
    said = agent.says(results(client, (1, 2, Status.SUCCESS_LARGE, SIZE)))
    assert statuses(said, client) == {1: Status.SUCCESS_LARGE} and ("agent", ObjectRequest(key, relayed=True)) in said


def test_a_lost_result_of_a_task_that_must_not_run_again_is_missing():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1, rerun=False))
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    assert statuses(agent.says(ObjectsLost((ObjectKey(client.session, 1),))), client) == {1: Status.OBJECT_MISSING}


# ---- after a restart of the scheduler --------------------------------------------------------------------------------


def test_a_large_result_from_before_a_restart_is_claimed_and_its_task_does_not_run_again():
    book = Playbook()
    agent = book.agent()
    client = book.client()
    assert agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE))) == []
    said = client.says(Tasks([run(client, 1, 1)], resubmitted=True))
    assert statuses(said, client) == {1: Status.SUCCESS_LARGE}
    assert not handed(book.wait(1.5, (agent,)), agent)
    key = ObjectKey(client.session, 1)
    assert client.says(ObjectRequest(key)) == [("agent", ObjectRequest(key, relayed=True))]


def test_a_large_result_that_nobody_claims_is_released():
    book = Playbook()
    agent, client = book.agent(), book.client()
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, SIZE)))
    said = book.wait(1.5, (agent,))
    assert ("agent", ObjectRelease((ObjectKey(client.session, 1),))) in said
    said = agent.says(results(client, (2, 1, Status.SUCCESS_LARGE, SIZE)))
    freed = [
        ("agent", DroppedTasks(client.session, (2,))),
        ("agent", ObjectRelease((ObjectKey(client.session, 2),))),
        ("agent", Cancel((TaskColumn(client.session, (2,), (1,)),))),
    ]
    assert said == freed, "at once from now on; it may be the value of a node, too"


def test_a_large_result_of_an_attempt_that_does_not_count_is_released():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    other = book.agent("other")
    book.wait(1.5, (agent, other))
    said = other.says(results(client, (1, 7, Status.SUCCESS_LARGE, SIZE)))
    assert said == [("other", ObjectRelease((ObjectKey(client.session, 1),)))]


def test_what_an_agent_has_of_an_owner_that_does_not_come_back_is_released():
    book = Playbook()
    agent = book.agent()
    here, gone = ObjectKey(b"client".ljust(16, b"."), 2**64 - 1), ObjectKey(b"gone".ljust(16, b"."), 2**64 - 1)
    assert agent.says(ObjectStored(here, 10, bytes(16)), ObjectStored(gone, 10, bytes(16))) == []
    client = book.client()
    client.says(upload(here, 10, 0, 10))
    assert book.wait(1.5, (agent,)) == [("agent", ObjectRelease((), gone.owner))]
    assert client.says(ObjectRelease((here,))) == [("agent", ObjectRelease((here,)))]
    assert agent.says(ObjectStored(here, 10, bytes(16))) == [("agent", ObjectRelease((here,)))]


def test_a_value_that_its_holder_asks_for_is_made_again():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]], 2), nodes(client, 2, [[1]], 2, True))
    agent.says(done(client, 1))
    said = agent.says(ObjectRequest(ObjectKey(client.session, 1)), Withdrawn((TaskColumn(client.session, (2,), (1,)),)))
    assert (1, 2) in handed(said, agent)


def test_what_only_a_lost_agent_asked_for_is_forgotten() -> None:
    """Also while its owner may still speak of it."""
    store, key = ObjectStore(Transfers(1e9)), ObjectKey(b"o" * 16, 0)
    store.on_request(b"agent", key, 1.0, {})
    store.expire(2.0, lambda _, now: now + 1)
    assert key in store.objects
    store.forget_agent(b"agent")
    assert store.expire(4.0, lambda _, now: now + 1) == []
    assert not store.objects and not store.unstated
    store.check()


def kept(book: Playbook):
    """An object that its owner keeps itself."""
    client = book.client()
    key = ObjectKey(client.session, 2**64 - 1)
    assert client.says(ObjectStored(key, 5_000_000, b"")) == []
    return client, key


def test_an_owner_pushes_what_it_keeps_to_the_store_that_needs_it():
    book = Playbook()
    client, key = kept(book)
    agent = attached(book, "agent", endpoint="tcp://agent")
    assert agent.says(ObjectRequest(key)) == [
        ("agent", ObjectLocations(key, 5_000_000, (OWNER_SOURCE,))),
        ("client", ObjectLocations(key, 5_000_000, ("tcp://agent",))),
    ]


def test_an_object_is_pushed_to_few_stores_and_spreads_from_these():
    book = Playbook()
    client, key = kept(book)
    agents = [attached(book, f"agent{index}", endpoint=f"tcp://{index}") for index in range(5)]
    said = [each for agent in agents for each in agent.says(ObjectRequest(key))]
    assert [to for to, _ in said] == ["agent0", "client", "agent1", "client"]
    said = agents[0].says(ObjectStored(key, 5_000_000, b"agent0".ljust(16, b".")))
    sources = [body.sources for to, body in said if to != "client"]
    assert sources == [("tcp://0",), ("tcp://0",), (OWNER_SOURCE, "tcp://0")]


def test_what_cannot_be_pushed_comes_by_the_scheduler():
    book = Playbook()
    client, key = kept(book)
    agent = attached(book, "agent", endpoint="tcp://agent")
    agent.says(ObjectRequest(key))
    assert agent.says(ObjectRequest(key, True)) == [("client", ObjectRequest(key))]
    chunk = upload(key, 300, 0, 300)
    assert client.says(chunk) == [("agent", chunk)]


def test_nothing_is_pushed_to_an_agent_whose_store_has_no_endpoint():
    book = Playbook()
    client, key = kept(book)
    agent = book.agent()
    assert agent.says(ObjectRequest(key)) == [("client", ObjectRequest(key))]


def test_an_owner_pushes_from_a_store_that_has_no_agent():
    """Its agent has left, and the store lives on with the client."""
    book = Playbook()
    client = book.client()
    key = ObjectKey(client.session, 2**64 - 1)
    client.says(ObjectStored(key, 5_000_000, STORE))
    agent = attached(book, "agent", endpoint="tcp://agent")
    assert agent.says(ObjectRequest(key)) == [
        ("agent", ObjectLocations(key, 5_000_000, (OWNER_SOURCE,))),
        ("client", ObjectLocations(key, 5_000_000, ("tcp://agent",))),
    ]
