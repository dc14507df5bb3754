"""Numbers that no honest peer sends, and a message that the core stumbles over."""

from __future__ import annotations

import asyncio
import os
import re

import pytest

from scaler_protocol.codec import TaskRun, decode, encode
from scaler_protocol.ids import digest
from scaler_protocol.messages import (
    MESSAGE_LIMIT_BYTES,
    Blocked,
    Envelope,
    FunctionDefinition,
    Hello,
    Ping,
    Refused,
    Role,
    TaskOptions,
    Tasks,
    Welcome,
)
from scaler_scheduler.core import recording
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.shell import gateway as gateway_module
from scaler_scheduler.shell.gateway import Gateway
from tests.unit.scheduler.playbook import FUNCTION, Playbook, attach, handed, results, statuses, tasks


@pytest.mark.parametrize("options", [{"priority": 2**63 - 1}, {"priority": -(2**63)}, {"retries": 2**32 - 1}])
def test_extreme_options_do_not_lose_a_task(options):
    book = Playbook()
    client, agent = book.client(), book.agent()
    assert handed(client.says(tasks(client, 1, 1, **options)), agent) == [(1, 1)]
    assert statuses(agent.says(results(client, 1)), client) == {1: 0}


@pytest.mark.parametrize("known", [True, False])
def test_a_client_nested_deeper_than_there_are_numbers(known):
    """Its tasks could not be put into a message to an agent, nor could anything behind them."""
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    client.says(tasks(client, 1, 1, depth=2**32 - 1))
    parent = {"parent_session": client.session if known else b"p" * 16, "parent_task": 1, "parent_attempt": 1}
    deep = book.client("deep", **parent, parent_depth=2**32 - 1)
    assert handed(deep.says(tasks(deep, 1, 1)), agent) == [(1, 1)]


def test_an_agent_that_says_it_has_lent_more_slots_than_there_are_numbers():
    book = Playbook()
    client, agent = book.client(), book.agent()
    agent.says(Blocked(2**32 - 1, 2**32 - 1))
    assert handed(client.says(tasks(client, 1, 1)), agent) == [(1, 1)]


def test_an_agent_that_attaches_twice_keeps_what_it_has():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    agent.says(attach("agent", 5))
    assert statuses(agent.says(results(client, 1)), client) == {1: 0}


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each peer have a turn for all that it has sent, however busy the machine is."""
    monkeypatch.setattr(gateway_module, "TURN_SECONDS", 60.0)


class FakeRouter:
    """Hands over the messages it was given, and keeps those it is to send."""

    def __init__(self, *messages):
        self.fd, self.monitor_fd = os.pipe()
        self.waiting = [list(messages)]
        self.sent = []
        self.gone = []

    def receive_many(self, limit):
        return self.waiting.pop() if self.waiting else []

    def send(self, peer, frames):
        self.sent.append(peer)
        return "sent"

    def answer(self, peer, frames):
        return self.send(peer, frames)

    def admit(self, peer):
        pass

    def unauthenticated_messages(self, has_work):
        return iter(())

    def probe(self, peer):
        return peer not in self.gone

    def close(self):
        os.close(self.fd)
        os.close(self.monitor_fd)


class KeylessRouter(FakeRouter):
    """Its keys cannot be read for the given reasons, one after the other; None: they can."""

    reasons = ("full", "full", None, "full", "gone")
    looks = 0

    def users(self):
        reason = self.reasons[self.looks]
        self.looks += 1
        if reason is not None:
            raise OSError(reason)
        return frozenset()


def test_keys_that_cannot_be_read_are_told_once(caplog):
    router = KeylessRouter()
    loop = asyncio.new_event_loop()
    gateway = Gateway(loop, router, Settings(address="tcp://0.0.0.0:1", session=b"s" * 16, epoch=1))
    for _ in router.reasons:
        gateway._look_at_keys()
    router.close()
    loop.close()
    assert [re.findall("keys: ([a-z]+)", message) for message in caplog.messages] == [["full"], ["full"], ["gone"]]


def test_a_message_that_the_core_stumbles_over_costs_only_its_sender(monkeypatch):
    bad, good = b"b" * 16, b"g" * 16
    hellos = [(peer, encode(Envelope(Hello(Role.SUBMIT, peer))), b"") for peer in (bad, good)]
    pings = [(peer, encode(Envelope(Ping())), b"") for peer in (bad, good)]
    router = FakeRouter(*hellos, *pings)
    loop = asyncio.new_event_loop()
    gateway = Gateway(loop, router, Settings(address="tcp://0.0.0.0:1", session=b"s" * 16, epoch=1))
    take, answered = gateway.core.on_message, []

    def stumble(peer, envelope, now):
        if peer == bad:
            raise OverflowError("too large")
        take(peer, envelope, now)

    monkeypatch.setattr(gateway.core, "on_message", stumble)
    monkeypatch.setattr(router, "send", lambda peer, frames: answered.append((peer, type(decode(frames).body))))
    gateway._turn(0.0)
    router.close()
    loop.close()
    assert answered[-1] == (bad, Refused) and [peer for peer, _ in answered].count(bad) == 2
    assert list(gateway.core.state.clients) == [good]


def test_a_hello_that_the_core_stumbles_over_leaves_no_session(monkeypatch):
    bad, good = b"b" * 16, b"g" * 16
    router = FakeRouter(*((peer, encode(Envelope(Hello(Role.SUBMIT, peer))), b"") for peer in (bad, good)))
    loop = asyncio.new_event_loop()
    gateway = Gateway(loop, router, Settings(address="tcp://0.0.0.0:1", session=b"s" * 16, epoch=1))
    take, answered = recording.note_client_joined, []

    def stumble(state, client):
        take(state, client)
        if client.session == bad:
            raise OverflowError("too large")

    monkeypatch.setattr(recording, "note_client_joined", stumble)
    monkeypatch.setattr(router, "send", lambda peer, frames: answered.append((peer, type(decode(frames).body))))
    gateway._turn(0.0)
    router.close()
    loop.close()
    assert answered == [(bad, Refused), (good, Welcome)]
    assert list(gateway.core.state.clients) == [good]


def test_an_effect_that_cannot_be_carried_out_does_not_take_the_others_with_it(monkeypatch):
    ping = encode(Envelope(Ping()))
    router = FakeRouter((b"b" * 16, ping, b""), (b"g" * 16, ping, b""))
    loop = asyncio.new_event_loop()
    gateway = Gateway(loop, router, Settings(address="tcp://127.0.0.1:1", session=b"s" * 16, epoch=1))
    send = router.send

    def stumble(peer, frames):
        if peer == b"b" * 16:
            raise OverflowError("too large")
        return send(peer, frames)

    monkeypatch.setattr(router, "send", stumble)
    gateway._on_readable()
    router.close()
    loop.close()
    assert router.sent == [b"g" * 16]


def test_who_was_refused_is_missed_all_the_same_when_it_goes():
    """Otherwise a session whose client says one more Hello, a bad one, and leaves, stays for ever with its tasks."""
    client, stranger = b"c" * 16, b"s" * 16
    good, bad = (encode(Envelope(Hello(role, client))) for role in (Role.SUBMIT, Role.OBSERVE))
    unknown = encode(Envelope(Hello(Role.SUBMIT, stranger)))
    router = FakeRouter((client, good, b"submit::A"), (client, bad, b"submit::A"), (stranger, unknown, b"submit::B"))
    loop = asyncio.new_event_loop()
    gateway = Gateway(loop, router, Settings(address="tcp://0.0.0.0:1", session=b"s" * 16, epoch=1))
    gateway._on_readable()
    assert not gateway.core.state.clients[client].gone_at
    router.gone = [client, stranger]
    gateway._probe()
    router.close()
    loop.close()
    assert gateway.core.state.clients[client].gone_at


def test_tasks_that_would_not_fit_a_message_to_an_agent_are_refused():
    """It could not be sent, nor could anything behind it."""
    client = b"c" * 16
    run = TaskRun(client, FUNCTION, "f", b"", 1, 1, (), TaskOptions(), [[bytes(MESSAGE_LIMIT_BYTES * 7 // 4)]])
    hello, large = Hello(Role.SUBMIT, client), Tasks([run])
    router = FakeRouter((client, encode(Envelope(hello)), b""), (client, encode(Envelope(large, sequence=1)), b""))
    loop = asyncio.new_event_loop()
    gateway = Gateway(loop, router, Settings(address="tcp://0.0.0.0:1", session=b"s" * 16, epoch=1))
    gateway._on_readable()
    router.close()
    loop.close()
    assert not gateway.core.state.clients


def test_a_large_function_is_no_part_of_a_message():
    book = Playbook()
    client, pickle = book.client(), bytes(MESSAGE_LIMIT_BYTES)
    [(_, refused)] = client.says(Tasks([], [FunctionDefinition(digest(pickle), "f", pickle, len(pickle))]))
    assert isinstance(refused, Refused)
