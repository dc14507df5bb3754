"""What raises in the middle of something costs one peer its session or link, and no task of anybody else."""

from __future__ import annotations

from types import ModuleType

import pytest

from scaler_protocol.messages import Refused, Status, WhoAreYou
from scaler_scheduler.core import cancellation, claims, task_entry
from scaler_scheduler.core import results as results_rules
from tests.unit.scheduler.playbook import Peer, Playbook, handed, results, statuses, tasks


def says_what_raises(book: Playbook, peer: Peer, body) -> list:
    """As the gateway does it."""
    envelope = peer.link.wrap(body)
    try:
        book.core.on_message(peer.session, envelope, book.now)
    except Exception as error:
        book.core.on_fault(peer.session, type(body).__name__, error, book.now)
    return book.run()


def breaks(monkeypatch: pytest.MonkeyPatch, rules: ModuleType, name: str) -> None:
    def raises(*arguments):
        raise RuntimeError("broken")

    monkeypatch.setattr(rules, name, raises)


def test_tasks_that_a_fault_left_undecided_run_again_elsewhere(monkeypatch):
    """Their agent has given them up, and what follows of that was never worked out."""
    book = Playbook()
    client, bad = book.client(), book.agent("bad")
    client.says(tasks(client, 1, 1))
    other = book.client("other")
    other.says(tasks(other, 1, 3))
    with monkeypatch.context() as patch:
        breaks(patch, results_rules, "accept_others")
        said = says_what_raises(book, bad, results(client, (1, 1, Status.PROCESSOR_DIED, b"{}")))
    assert ("bad", Refused) in [(name, type(body)) for name, body in said]
    assert "Results" in book.troubles[0].text and isinstance(book.troubles[0].error, RuntimeError)
    good = book.agent("good", slots=9)
    assert len(handed(good.joined, good)) == 4
    assert statuses(good.says(results(client, (1, 2))), client) == {1: Status.SUCCESS}
    assert len(statuses(good.says(results(other, (1, 2), 2, 3)), other)) == 3


def test_a_message_of_a_client_that_raises_costs_only_its_session(monkeypatch):
    book = Playbook()
    bad, good, agent = book.client("bad"), book.client("good"), book.agent(slots=4)
    good.says(tasks(good, 1, 2))
    with monkeypatch.context() as patch:
        breaks(patch, task_entry, "define_all")
        said = says_what_raises(book, bad, tasks(bad, 1, 1))
        assert ("bad", Refused) not in said
    with monkeypatch.context() as patch:
        breaks(patch, task_entry, "queue_for")
        said = says_what_raises(book, bad, tasks(bad, 2, 1, priority=7))
    assert [name for name, body in said if isinstance(body, Refused)] == ["bad"]
    assert bad.session not in book.core.state.clients or book.core.state.clients[bad.session].is_broken
    assert statuses(agent.says(results(good, 1, 2)), good) == {1: 0, 2: 0}


def test_a_client_of_which_not_even_the_end_can_be_worked_out_is_removed(monkeypatch):
    book = Playbook()
    bad, good, agent = book.client("bad"), book.client("good"), book.agent()
    good.says(tasks(good, 1, 1))
    with monkeypatch.context() as patch:
        breaks(patch, task_entry, "queue_for")
        breaks(patch, cancellation, "end_client")
        says_what_raises(book, bad, tasks(bad, 1, 1, priority=7))
    assert bad.session not in book.core.state.clients
    assert statuses(agent.says(results(good, 1)), good) == {1: 0}


def test_who_cannot_be_sent_something_says_hello_again():
    book = Playbook()
    client, bad = book.client(), book.agent("bad")
    client.says(tasks(client, 1, 1))
    book.core.on_unsendable(bad.session, ValueError("too large"), book.now)
    said = book.run()
    assert [name for name, body in said if isinstance(body, WhoAreYou)] == ["bad"]
    good = book.agent("good")
    assert handed(good.joined, good) == [(1, 2)]


def test_a_tick_that_fails_is_followed_by_another(monkeypatch):
    book = Playbook()
    client = book.client()
    with monkeypatch.context() as patch:
        breaks(patch, claims, "expire")
        with pytest.raises(RuntimeError):
            book.wait(0.5)
    book.lose(client)
    book.wait(61.0)
    assert not book.core.state.clients


@pytest.mark.parametrize("what", ["client", "agent"])
def test_a_sender_whose_message_finds_no_memory_begins_a_new_session(monkeypatch, what):
    """It is not to blame, so it is not refused."""

    def raises(*arguments):
        raise MemoryError

    book = Playbook()
    client, agent = book.client(), book.agent()
    with monkeypatch.context() as patch:
        if what == "client":
            patch.setattr(task_entry, "queue_for", raises)
            said = says_what_raises(book, client, tasks(client, 1, 1, priority=7))
        else:
            client.says(tasks(client, 1, 1))
            patch.setattr(results_rules, "accept_others", raises)
            said = says_what_raises(book, agent, results(client, (1, 1, Status.PROCESSOR_DIED, b"{}")))
    assert (what, WhoAreYou) in [(name, type(body)) for name, body in said]
    assert not [name for name, body in said if isinstance(body, Refused)]
    assert isinstance(book.troubles[0].error, MemoryError)
