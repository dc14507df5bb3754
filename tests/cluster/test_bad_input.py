"""Garbage, strangers and functions that do not travel: a clear error to who caused it, and everything else goes on."""

from __future__ import annotations

import dataclasses
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import DeserializeObjectError, ScalerError
from scaler_protocol.codec import TaskRun, decode, encode
from scaler_protocol.handshake import make_hello
from scaler_protocol.ids import new_session
from scaler_protocol.messages import (
    Envelope,
    FunctionDefinition,
    RefusalReason,
    Refused,
    Results,
    Role,
    Status,
    TaskOptions,
    Tasks,
    Welcome,
)
from scaler_protocol.security import ensure_token
from tests.support import functions
from tests.support.commands import Stopwatch, child_environment, run_python, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.routers import introduce
from tests.support.waiting import wait_until
from tests.support.zmtp import greet, has_ended, send_some


def host_and_port(address: str) -> tuple[str, int]:
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    return host, int(port)


@pytest.fixture
def dealer(combo: SchedulerClusterCombo) -> Iterator[tuple[zmq.Socket, bytes]]:
    """A raw socket of a foreign program, and its routing id."""
    context, session = zmq.Context(), new_session()
    peer = context.socket(zmq.DEALER)
    peer.setsockopt(zmq.ROUTING_ID, session)
    peer.setsockopt(zmq.LINGER, 0)
    peer.connect(combo.get_address())
    yield peer, session
    peer.close()
    context.term()


def receive(peer: zmq.Socket, timeout_seconds: float = 60.0) -> list[bytes]:
    """The next message that is no liveness probe."""
    while peer.poll(int(timeout_seconds * 1000)):
        frames = peer.recv_multipart()
        if frames != [b""]:
            return frames
    raise AssertionError("no answer")


def receive_body(peer: zmq.Socket) -> Any:
    return decode(receive(peer)).body


def expect_all_is_well(client: Client) -> None:
    assert client.map(functions.square, range(100)) == [n * n for n in range(100)]


# ---- packets ---------------------------------------------------------------------------------------------------


def test_garbage_packets(client: Client, dealer: tuple[zmq.Socket, bytes]) -> None:
    peer, _ = dealer
    chance = random.Random(2)
    for size in (0, 1, 7, 8, 64, 1000, 100_000):
        peer.send_multipart([chance.randbytes(size)])
        peer.send_multipart([chance.randbytes(size), b"", chance.randbytes(size)])
    expect_all_is_well(client)


def say_hello(peer: zmq.Socket, address: str, session: bytes, token: bytes | None = None) -> Any:
    """The scheduler's answer."""
    return introduce(peer.send_multipart, lambda: receive(peer), address, session, token=token)


def test_garbage_after_hello_closes_that_session_alone(client: Client, dealer: tuple[zmq.Socket, bytes]) -> None:
    peer, session = dealer
    assert isinstance(say_hello(peer, client.address, session), Welcome)
    peer.send_multipart([b"\x00" * 40, b"garbage"])
    while not isinstance(body := receive_body(peer), Refused):  # the software of a host is told meanwhile
        pass
    assert body.reason == RefusalReason.MALFORMED
    assert body.text
    expect_all_is_well(client)


def test_broken_copies_of_a_true_message(client: Client, dealer: tuple[zmq.Socket, bytes]) -> None:
    peer, session = dealer
    true = encode(Envelope(make_hello(Role.SUBMIT, session)))[0]
    chance = random.Random(3)
    for _ in range(300):
        broken = bytearray(true)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        peer.send_multipart([bytes(broken[: chance.randint(0, len(broken))])])
    expect_all_is_well(client)


def test_a_client_role_must_not_work(client: Client, dealer: tuple[zmq.Socket, bytes]) -> None:
    """What a client says as if it were an agent has no effect: it gets no tasks."""
    from scaler_protocol.messages import AgentAttach, Tasks

    peer, session = dealer
    assert isinstance(say_hello(peer, client.address, session), Welcome)
    peer.send_multipart(encode(Envelope(AgentAttach("a", "h", 1, tuple("abcdefgh")), 1, 0)))
    expect_all_is_well(client)
    while peer.poll(50):
        frames = peer.recv_multipart()
        assert frames == [b""] or not isinstance(decode(frames).body, Tasks)


def test_wrong_protocol_version(dealer: tuple[zmq.Socket, bytes]) -> None:
    peer, session = dealer
    hello = dataclasses.replace(make_hello(Role.SUBMIT, session), major=99)
    peer.send_multipart(encode(Envelope(hello)))
    body = receive_body(peer)
    assert isinstance(body, Refused) and body.reason == RefusalReason.VERSION
    assert "99" in body.text


def test_wrong_token(combo: SchedulerClusterCombo, dealer: tuple[zmq.Socket, bytes]) -> None:
    peer, session = dealer
    body = say_hello(peer, combo.get_address(), session, b"0" * 64)
    assert isinstance(body, Refused) and body.reason == RefusalReason.TOKEN


def test_a_peer_of_an_older_version_is_told_to_upgrade(dealer: tuple[zmq.Socket, bytes]) -> None:
    """It sends the token itself, which nobody does any more."""
    peer, session = dealer
    hello = dataclasses.replace(make_hello(Role.SUBMIT, session), minor=1, token=ensure_token())
    peer.send_multipart(encode(Envelope(hello)))
    body = receive_body(peer)
    assert isinstance(body, Refused) and body.reason == RefusalReason.TOKEN and "Upgrade" in body.text


def test_a_session_that_is_not_the_routing_id(dealer: tuple[zmq.Socket, bytes]) -> None:
    peer, _ = dealer
    peer.send_multipart(encode(Envelope(make_hello(Role.SUBMIT, new_session()))))
    body = receive_body(peer)
    assert isinstance(body, Refused) and body.reason == RefusalReason.SESSION


def test_a_stranger_that_speaks_before_hello_is_asked_who_it_is(dealer: tuple[zmq.Socket, bytes]) -> None:
    from scaler_protocol.messages import ExplainRequest, WhoAreYou

    peer, _ = dealer
    peer.send_multipart(encode(Envelope(ExplainRequest(1), 1, 0)))
    assert isinstance(receive_body(peer), WhoAreYou)


@pytest.mark.parametrize("kind", ["ROUTER", "PUSH", "REQ", "PUB"])
def test_foreign_socket_kinds(client: Client, combo: SchedulerClusterCombo, kind: str) -> None:
    context = zmq.Context()
    peer = context.socket(getattr(zmq, kind))
    peer.setsockopt(zmq.LINGER, 0)
    try:
        peer.connect(combo.get_address())
        for _ in range(10):
            try:
                peer.send_multipart([b"", b"hello"], flags=zmq.DONTWAIT)
            except zmq.ZMQError:
                pass
        expect_all_is_well(client)
    finally:
        peer.close()
        context.term()


def test_what_is_not_zeromq_at_all(client: Client, combo: SchedulerClusterCombo) -> None:
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(1000), b"\xff" * 10_000, b""):
        with socket.create_connection(host_and_port(combo.get_address()), timeout=60) as connection:
            connection.sendall(data)
            expect_all_is_well(client)


def test_a_thousand_connections_that_say_nothing(client: Client, combo: SchedulerClusterCombo) -> None:
    connections = [socket.create_connection(host_and_port(combo.get_address()), timeout=60) for _ in range(300)]
    try:
        expect_all_is_well(client)
    finally:
        for connection in connections:
            # RST instead of FIN: nothing lingers in the system.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


def test_a_message_without_an_end_does_not_fill_the_scheduler() -> None:
    """Its frames are empty, and never the last."""
    address = free_address()
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 1), Client(address) as client:
        expect_all_is_well(client)
        process = psutil.Process(scheduler.pid)
        before = process.memory_info().rss
        with greet(address) as stranger:
            stranger.setblocking(False)
            watch = Stopwatch()
            while not has_ended(stranger):
                send_some(stranger, b"\x01\x00" * 50_000)
                assert process.memory_info().rss < before + 500e6 and watch.seconds < 120
        expect_all_is_well(client)


def test_a_function_that_never_arrives() -> None:
    """A client names it in its tasks and sends nothing of it. Its task fails, and others are not held up meanwhile."""
    address, context = free_address(), zmq.Context()
    flags = ("--client-timeout-seconds", "3")
    with start_scheduler(address, *flags), start_cluster(address, "-n", 1), Client(address) as client:
        with context.socket(zmq.DEALER) as peer:
            peer.linger = 0
            peer.routing_id = session = new_session()
            peer.connect(address)
            assert isinstance(say_hello(peer, address, session), Welcome)
            digest = b"a digest of 16 b"
            run = TaskRun(session, digest, "f", b"", 1, 1, (), TaskOptions(), [[b"1"]])
            body = Tasks([run], [FunctionDefinition(digest, "f", b"", 1_000_000)])
            peer.send_multipart(encode(Envelope(body, 1, 0)))
            expect_all_is_well(client)
            while not isinstance(body := decode(receive(peer)).body, Results):
                pass
            [result] = body.runs
            assert (result.task(0), result.status(0)) == (1, Status.OBJECT_MISSING)
            assert "submit the task again" in result.payload_copy(0).decode()
    context.term()


# ---- addresses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:1", "tcp://127.0.0.1", "tcp://127.0.0.1:port", ""])
def test_unknown_form_of_address(address: str) -> None:
    with pytest.raises(ValueError):
        Client(address)
    if address:
        with pytest.raises(ValueError):
            SchedulerClusterCombo(1, address=address)


def test_a_busy_port_of_a_combo() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        watch = Stopwatch()
        with pytest.raises(Exception, match=address):
            SchedulerClusterCombo(1, address=address)
        assert watch.seconds < 40


def test_a_public_address_of_a_combo_is_refused() -> None:
    with pytest.raises(ValueError, match="insecure"):
        SchedulerClusterCombo(1, address="tcp://0.0.0.0:0")


def test_another_users_token_is_refused_in_words(combo: SchedulerClusterCombo, tmp_path: Path) -> None:
    """A client with another SCALER_HOME stands for another user."""
    source = (
        "from scaler import Client\nimport math\n"
        f"with Client({combo.get_address()!r}, timeout_seconds=5) as client:\n"
        "    client.submit(math.sqrt, 4).result()\n"
    )
    done = run_python(source, SCALER_HOME=str(tmp_path))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "SCALER_HOME" in last or "token" in last, done.stderr


def test_an_agent_with_another_token_says_so(tmp_path: Path) -> None:
    from tests.support.commands import Command, command_line

    address = free_address()
    with start_scheduler(address):
        environment = child_environment(SCALER_HOME=str(tmp_path))
        with Command(command_line("scaler_cluster", address, "-n", 1), environment) as cluster:
            cluster.wait_for_output("SCALER_HOME|token")
            assert cluster.wait(60) != 0


# ---- functions, arguments, results -----------------------------------------------------------------------------


def test_a_function_that_does_not_pickle(client: Client) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match="lock"):
        client.submit(lambda: lock)
    with pytest.raises(TypeError, match="lock"):
        client.map(lambda _: lock, range(3))
    expect_all_is_well(client)


def test_an_argument_that_does_not_pickle(client: Client) -> None:
    with pytest.raises(TypeError, match="lock"):
        client.submit(functions.identity, threading.Lock())
    with pytest.raises(TypeError, match="lock"):
        client.map(functions.identity, [1, threading.Lock(), 2])
    expect_all_is_well(client)


@pytest.mark.parametrize("pure", [False, True])
def test_the_argument_that_does_not_pickle_is_named_also_among_futures(client: Client, pure: bool) -> None:
    future = client.submit(functions.square, 2)
    for first in (future, [future]):
        with pytest.raises(TypeError, match=r"Cannot send a call of max\(\): argument 2: .*lock"):
            client.submit_verbose(max, (first, threading.Lock()), pure=pure)
    expect_all_is_well(client)


def test_a_future_in_the_closure_of_a_function(client: Client) -> None:
    """Only arguments may be futures."""
    waiting = client.submit(functions.sleep_and_return, 0.3, 3)
    with pytest.raises(TypeError, match="future"):
        client.submit(lambda: waiting)
    assert waiting.result(timeout=60) == 3
    expect_all_is_well(client)


class FailsToLoad:
    def __reduce__(self) -> Any:
        return (functions.raise_value_error, ("does not load",))


def test_an_argument_that_does_not_load(client: Client) -> None:
    neighbours = [client.submit(functions.square, number) for number in range(50)]
    with pytest.raises(DeserializeObjectError, match="does not load"):
        client.submit(functions.identity, FailsToLoad()).result(timeout=60)
    assert [future.result(timeout=60) for future in neighbours] == [n * n for n in range(50)]


def test_a_function_that_does_not_load(client: Client) -> None:
    poison = FailsToLoad()
    with pytest.raises(DeserializeObjectError, match="does not load"):
        client.submit(lambda: poison).result(timeout=60)
    with pytest.raises(DeserializeObjectError, match="does not load"):
        client.map(lambda _: poison, range(10))
    expect_all_is_well(client)


def test_a_result_that_does_not_pickle(client: Client) -> None:
    neighbours = [client.submit(functions.square, number) for number in range(50)]
    error = client.submit(threading.Lock).exception(timeout=60)
    assert error is not None and "pickle" in str(error) and "lock" in str(error)
    assert [future.result(timeout=60) for future in neighbours] == [n * n for n in range(50)]


def test_a_module_missing_on_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_at_home.py").write_text("def double(value):\n    return 2 * value\n")
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        monkeypatch.syspath_prepend(str(tmp_path))
        import only_at_home  # type: ignore[import-not-found]

        with pytest.raises(DeserializeObjectError, match="only_at_home") as caught:
            client.submit(only_at_home.double, 2).result(timeout=60)
        assert isinstance(caught.value, ScalerError)
        expect_all_is_well(client)


def test_a_class_that_pickles_but_never_ends_loading_can_be_cancelled(client: Client) -> None:
    class Endless:
        def __reduce__(self) -> Any:
            return (functions.sleep_and_return, (60,))

    future = client.submit(functions.identity, Endless())
    wait_until(future.running)
    assert future.cancel()
    expect_all_is_well(client)


def test_recursion_without_end_is_the_tasks_failure(client: Client) -> None:
    def recurse(value: int) -> int:
        return recurse(value + 1)

    with pytest.raises(RecursionError):
        client.submit(recurse, 0).result(timeout=60)
    expect_all_is_well(client)


def test_closing_the_standard_streams_in_a_task(client: Client) -> None:
    def close() -> None:
        import sys

        sys.stdout.close()
        sys.stderr.close()

    client.submit(close).exception(timeout=60)
    expect_all_is_well(client)


def test_closing_every_descriptor_in_a_task(client: Client) -> None:
    import os

    def close() -> None:
        os.closerange(0, 256)

    client.submit(close).exception(timeout=60)
    expect_all_is_well(client)
