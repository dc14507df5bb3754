"""Definitions of functions: kept while somebody may need them, not for ever."""

from __future__ import annotations

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import FunctionDefinition, Goodbye, ObjectKey, ObjectRelease, Refused, TaskOptions, Tasks
from tests.unit.scheduler.playbook import FUNCTION, OTHER_FUNCTION, Playbook, definition, handed, results, run

RELEASED = ObjectRelease((ObjectKey(FUNCTION, 0),))


def submit(client, first):
    return client.says(Tasks([run(client, first, 1)], [definition()]))


def test_a_function_that_its_client_lets_go_of_is_forgotten_by_all_and_may_come_again():
    book = Playbook()
    client, agent = book.client(), book.agent()
    submit(client, 1)
    agent.says(results(client, 1))
    assert client.says(RELEASED) == [("agent", RELEASED)]
    assert not book.core.state.functions and not book.core.state.function_loads
    said = submit(client, 2)
    assert handed(said, agent) == [(2, 1)]
    assert [body.functions for _, body in said] == [[definition()]]


def test_a_function_whose_tasks_may_yet_run_is_kept_until_they_have():
    book = Playbook()
    client, agent = book.client(), book.agent()
    submit(client, 1)
    assert client.says(RELEASED) == []
    agent.says(results(client, 1))
    assert book.wait(0.5) == [("agent", RELEASED)]
    assert not book.core.state.functions


def test_a_function_that_comes_again_before_it_was_dropped_stays():
    book = Playbook()
    client, agent = book.client(), book.agent()
    submit(client, 1)
    client.says(RELEASED)
    submit(client, 2)
    agent.says(results(client, 1, 2))
    assert book.wait(0.5) == []
    assert FUNCTION in book.core.state.functions


def test_a_function_of_two_clients_stays_for_the_other():
    book = Playbook()
    client, other, agent = book.client(), book.client("other"), book.agent(slots=2)
    submit(client, 1)
    submit(other, 1)
    agent.says(results(client, 1), results(other, 1))
    assert client.says(RELEASED) == []
    assert other.says(RELEASED) == [("agent", RELEASED)]


def test_nobody_gives_another_pickle_the_name_of_a_function_that_others_use():
    book = Playbook()
    thief, client = book.client("thief"), book.client()
    false = FunctionDefinition(FUNCTION, "f", b"another pickle", 14)
    [(name, refused)] = thief.says(Tasks([run(thief, 1, 1)], [false]))
    assert name == "thief" and isinstance(refused, Refused) and "digest" in refused.text
    submit(client, 1)
    assert [body.functions for _, body in book.agent().joined] == [[definition()]]


SERIALIZER = OTHER_FUNCTION
SERIALIZER_RELEASED = ObjectRelease((ObjectKey(SERIALIZER, 0),))


def submit_serialized(client, first):
    task = TaskRun(client.session, FUNCTION, "f", SERIALIZER, first, 1, (), TaskOptions(), [[b"1"]])
    return client.says(Tasks([task], [definition()], [definition(SERIALIZER)]))


def test_a_serializer_is_forgotten_by_all_when_its_last_client_has_left_and_may_come_again():
    book = Playbook()
    client, other, agent = book.client(), book.client("other"), book.agent(slots=2)
    for each in (client, other):
        submit_serialized(each, 1)
        agent.says(results(each, 1))
    assert ("agent", SERIALIZER_RELEASED) not in client.says(Goodbye())
    assert SERIALIZER in book.core.state.serializers
    assert ("agent", SERIALIZER_RELEASED) in other.says(Goodbye())
    assert not book.core.state.serializers
    [(_, again)] = submit_serialized(book.client("third"), 1)
    assert again.serializers == [definition(SERIALIZER)]


def test_what_is_a_function_of_others_as_well_stays_at_agents():
    book = Playbook()
    client, other, agent = book.client(), book.client("other"), book.agent(slots=2)
    submit_serialized(client, 1)
    other.says(Tasks([run(other, 1, 1, function=SERIALIZER)], [definition(SERIALIZER)]))
    agent.says(results(client, 1), results(other, 1))
    assert ("agent", SERIALIZER_RELEASED) not in client.says(Goodbye())
    assert ("agent", SERIALIZER_RELEASED) in other.says(Goodbye())
