"""Clients take profiles of the cluster: the scheduler passes requests and answers on."""

from __future__ import annotations

from scaler_protocol.messages import Goodbye, ProfileReply, ProfileRequest
from scaler_scheduler.core.action_rates import ACTIONS_LIMIT
from scaler_scheduler.core.profile_requests import ANSWER_SECONDS, CLIENT_LIMIT, PROFILES_LIMIT, RENEW_SECONDS
from tests.unit.scheduler.playbook import Playbook
from tests.unit.scheduler.test_control import give_key

ALL = bytes(16)


def begin(client, number=1, interval_us=20_000):
    return client.says(ProfileRequest(number, ALL, interval_us))


def to(name, said):
    return [body for other, body in said if other == name and isinstance(body, (ProfileRequest, ProfileReply))]


def test_a_profile_of_two_agents():
    book = Playbook()
    client, one, two = book.client(), book.agent("one"), book.agent("two")
    said = begin(client)
    assert to("one", said) == to("two", said) == [ProfileRequest(1, ALL, 20_000)]
    assert to("client", said) == [ProfileReply(1, True)]
    said = client.says(ProfileRequest(1, ALL, 0))
    assert to("one", said) == to("two", said) == [ProfileRequest(1, ALL, 0)]
    assert to("client", one.says(ProfileReply(1, True, "", 0, b"samples"))) == [
        ProfileReply(1, True, "", 1, b"samples")
    ]
    assert to("client", one.says(ProfileReply(1, True, "", 0, b"again"))) == []
    assert to("client", two.says(ProfileReply(1, False, "no"))) == [ProfileReply(1, True)]
    assert book.core.state.profiles.running == {}


def test_agents_that_join_are_asked_and_all_are_asked_again():
    book = Playbook()
    client = book.client()
    begin(client)
    agent = book.agent()
    assert to("agent", book.wait(0.5)) == [ProfileRequest(1, ALL, 20_000)]
    assert to("agent", book.wait(0.5)) == []
    assert to("agent", book.wait(RENEW_SECONDS)) == [ProfileRequest(1, ALL, 20_000)]
    assert agent.name == "agent"


def test_an_agent_that_does_not_answer_is_left_out():
    book = Playbook()
    client = book.client()
    book.agent("one")
    begin(client)
    client.says(ProfileRequest(1, ALL, 0))
    assert to("client", book.wait(ANSWER_SECONDS + 1)) == [ProfileReply(1, True)]


def test_without_agents_the_answer_comes_at_once():
    book = Playbook()
    client = book.client()
    begin(client)
    assert to("client", client.says(ProfileRequest(1, ALL, 0))) == [ProfileReply(1, True)]


def test_the_profile_of_a_client_that_leaves_ends():
    book = Playbook()
    client, _ = book.client(), book.agent()
    begin(client)
    client.says(Goodbye())
    assert to("agent", book.wait(0.5)) == [ProfileRequest(1, ALL, 0)]
    assert book.core.state.profiles.running == {}


def test_what_cannot_be_is_refused_with_a_sentence():
    book = Playbook()
    client = book.client()
    (reply,) = to("client", client.says(ProfileRequest(9, ALL, 0)))
    assert not reply.accepted and "has not begun" in reply.text
    (reply,) = to("client", begin(client, interval_us=10))
    assert not reply.accepted and "shorter than a millisecond" in reply.text
    begin(client)
    (reply,) = to("client", begin(client))
    assert not reply.accepted and "with this number" in reply.text


def test_no_client_takes_the_profiles_of_the_others():
    book = Playbook()
    clients = [book.client(f"client {number}") for number in range(PROFILES_LIMIT // CLIENT_LIMIT + 1)]
    for client in clients[:-1]:
        replies = [to(client.name, begin(client, number))[0] for number in range(CLIENT_LIMIT + 1)]
        assert [each.accepted for each in replies] == [True] * CLIENT_LIMIT + [False]
        assert "this client has" in replies[-1].text
    (reply,) = to(clients[-1].name, begin(clients[-1]))
    assert not reply.accepted and f"{PROFILES_LIMIT} profiles are under way" in reply.text


def test_a_client_begins_few_profiles_in_a_second():
    """Each is written to the log, and concerns all agents."""
    book = Playbook()
    client = book.client()
    for number in range(ACTIONS_LIMIT):
        assert to("client", begin(client, number))[0].accepted
        client.says(ProfileRequest(number, ALL, 0))
    (reply,) = to("client", begin(client, ACTIONS_LIMIT))
    assert not reply.accepted and "in a second" in reply.text
    book.wait(1.0)
    assert to("client", begin(client, ACTIONS_LIMIT))[0].accepted


def test_with_keys_a_client_sees_its_own_tasks_only():
    book = Playbook()
    client, other = book.client(), book.client("other")
    book.agent()
    give_key(book, client, b"submit:alice:A")
    give_key(book, other, b"admin:root:R")
    assert to("agent", begin(client))[0].session == client.session
    assert to("agent", begin(other))[0].session == ALL
