"""Whoever listens in place of the scheduler learns nothing, and is believed nothing; and peers that prove who they are
start in any order."""

from __future__ import annotations

import encodings.idna  # noqa: F401  a child that has become another user cannot import it any more
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler import Client
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol.codec import decode, encode
from scaler_protocol.messages import Challenge, Envelope, Hello, Welcome
from tests.support.commands import (
    Command,
    child_environment,
    command_line,
    run_command,
    run_python,
    start_cluster,
    start_scheduler,
)
from tests.support.ports import free_address
from tests.support.routers import OpenRouter
from tests.support.users import NOBODY, needs_root
from tests.support.waiting import wait_until

# ---- another user listens --------------------------------------------------------------------------------------------


@contextmanager
def listening_as_nobody(address: str) -> Iterator[Callable[[], bytes]]:
    """A process of another user at this address. What it was told so far."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            listen_and_tell(address, tell)
        finally:
            os._exit(1)
    try:
        os.close(tell)
        assert os.read(told, 1) == b"."
        os.set_blocking(told, False)
        yield lambda: read_all(told)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)


def listen_and_tell(address: str, tell: int) -> None:
    """Every connection, and all that is said there."""
    if address.startswith("ipc://"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address.removeprefix("ipc://"))
        os.chmod(address.removeprefix("ipc://"), 0o777)
        listener.listen()
    else:
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        listener = socket.create_server((host, int(port)))
    os.write(tell, b".")
    connections = [listener]
    while True:
        for each in select.select(connections, [], [])[0]:
            if each is listener:
                connections.append(listener.accept()[0])
                os.write(tell, b"connected;")
                continue
            data = each.recv(65536)
            os.write(tell, data)
            if not data:
                connections.remove(each)


def read_all(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""


@needs_root
def test_another_user_at_the_port_is_told_nothing() -> None:
    """Before the scheduler listens there. When it does, all goes on."""
    address = free_address()
    with listening_as_nobody(address) as heard:
        with Command(command_line("scaler_cluster", address, "-n", 1)) as cluster:
            cluster.wait_for_output("belongs to user nobody, not to this user")
            client = Client(address, timeout_seconds=1)
            with pytest.raises(DisconnectedError, match="out of reach for 1 seconds. .*belongs to user nobody"):
                client.submit(math.sqrt, 4).result()
            assert heard() == b""
            client.disconnect()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        assert client.submit(math.sqrt, 4).result() == 2.0


@needs_root
def test_another_user_at_the_path_is_told_nothing() -> None:
    folder = Path("/tmp") / f"scaler-test-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o777)
    try:
        address = f"ipc://{folder}/socket"
        with listening_as_nobody(address) as heard, Client(address, timeout_seconds=1) as client:
            with pytest.raises(DisconnectedError, match="belongs to user nobody"):
                client.submit(math.sqrt, 4).result()
            assert set(heard().split(b";")) <= {b"", b"connected"}
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


@needs_root
def test_peers_come_back_to_their_scheduler_after_another_user_was_there() -> None:
    """Who took the port between its end and its next start."""
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1) as cluster, Client(address) as client:
        assert client.submit(math.sqrt, 4).result() == 2.0
        first.kill()
        with listening_as_nobody(address) as heard:
            future = client.submit(math.sqrt, 9)
            cluster.wait_for_output("belongs to user nobody")
            assert heard() == b"" and not future.done()
        with start_scheduler(address):
            assert future.result(timeout=60) == 3.0


# ---- somebody listens whose owner cannot be seen, or who is of this user ---------------------------------------------


class Impostor:
    """Speaks the protocol, but does not know the token. ``proof`` is what it shows."""

    def __init__(self, proof: bytes, asks: bool = True) -> None:
        self._proof, self._asks = proof, asks
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = OpenRouter(self._context)
        self.address = self._router.bind("tcp://127.0.0.1:0")
        self.heard: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            select.select([self._router.fd], [], [], 0.01)
            while message := self._router.receive():
                peer, frames = message
                self.heard.append(decode(frames).body)
                self._router.send(peer, encode(Envelope(self._answer(self.heard[-1]))))

    def _answer(self, body: Any) -> Any:
        number = body.number if isinstance(body, Hello) else 0
        if self._asks and isinstance(body, Hello) and not body.proof:
            return Challenge(bytes(32), number)
        return Welcome(b"w" * 16, 1, number=number, cluster=b"c" * 16, proof=self._proof)

    def __enter__(self) -> Impostor:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._router.close()
        self._context.term()


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("proof", [b"", bytes(32)])
def test_a_scheduler_that_proves_nothing_gets_no_tasks(
    proof: bytes, asks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Impostor(proof, asks) as impostor, Client(impostor.address, timeout_seconds=2) as client:
        with pytest.raises(DisconnectedError, match="did not prove that it knows this user's token"):
            client.submit(math.sqrt, 4).result()
        assert impostor.heard and all(type(body) is Hello and body.token == b"" for body in impostor.heard)
        assert caplog.text.count("did not prove") == 1, "and it says so once"


def test_a_worker_gives_nothing_to_a_scheduler_that_proves_nothing() -> None:
    with Impostor(bytes(32)) as impostor, Command(command_line("scaler_cluster", impostor.address, "-n", 1)) as cluster:
        cluster.wait_for_output("did not prove that it knows this user's token")
        heard = len(impostor.heard)
        wait_until(lambda: len(impostor.heard) > heard)
        assert all(type(body) is Hello for body in impostor.heard)
        assert cluster.process.poll() is None, "its scheduler may come yet"


def test_an_impostor_cannot_pass_messages_on() -> None:
    """It listens at another port, and has no more to do than to copy bytes."""
    address, other = free_address(), free_address()
    with start_scheduler(address), relay(other, address):
        with pytest.raises(DisconnectedError, match="forward a port to the same number"):
            Client(other, timeout_seconds=3).submit(math.sqrt, 4).result()


RELAY = """
import socket, sys, threading
def pump(one, other):
    while data := one.recv(65536):
        other.sendall(data)
    other.close()
here, there = ((host, int(port)) for host, port in (each.removeprefix("tcp://").split(":") for each in sys.argv[1:]))
listener = socket.create_server(here)
print("ready", flush=True)
while True:
    one, other = listener.accept()[0], socket.create_connection(there)
    for pair in ((one, other), (other, one)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""


@contextmanager
def relay(here: str, there: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", RELAY, here, there], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


# ---- the token -------------------------------------------------------------------------------------------------------


WAITING = """
import math, sys
from scaler import Client
with Client(sys.argv[1]) as client:
    print("waiting", flush=True)
    print(client.submit(math.sqrt, 4).result(), flush=True)
"""


@pytest.mark.parametrize("order", ["client agent scheduler", "agent client scheduler", "agent scheduler client"])
def test_the_first_ones_start_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """There is no ~/.scaler yet: whoever comes first makes the token."""
    monkeypatch.setenv("SCALER_HOME", str(tmp_path / "not yet" / "there"))
    address = free_address()
    start: dict[str, Callable[[], Command]] = {
        "agent": lambda: Command(command_line("scaler_cluster", address, "-n", 1)),
        "scheduler": lambda: start_scheduler(address),
        "client": lambda: Command([sys.executable, "-c", WAITING, address]),
    }
    running: list[Command] = []
    try:
        for name in order.split():
            running.append(start[name]())
            if name == "client" and order.index("client") < order.index("scheduler"):
                running[-1].wait_for_output("waiting")
        client = running[order.split().index("client")]
        client.wait_for_output("2.0")
    finally:
        for command in reversed(running):
            command.__exit__()


@pytest.mark.parametrize("home", ["/proc/scaler", "/dev/null/scaler"])
def test_a_home_that_cannot_be_written_is_said_at_once(home: str) -> None:
    address = free_address()
    for name in ("scaler_cluster", "scaler_scheduler"):
        done = run_command(name, address, timeout_seconds=60, SCALER_HOME=home)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert f"Cannot keep the token of this user in {home}" in done.stderr and "Set SCALER_HOME" in done.stderr
    done = run_python(f"from scaler import Client\nClient({address!r})\n", timeout_seconds=60, SCALER_HOME=home)
    assert "ValueError: Cannot keep the token of this user" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("content", ["", "0" * 63, "g" * 64])
def test_a_damaged_token_lets_nobody_in(tmp_path: Path, content: str) -> None:
    """An empty file, which a power loss may leave, once meant that nothing was checked."""
    (tmp_path / "token").write_text(content)
    (tmp_path / "token").chmod(0o600)
    address, sentence = free_address(), f"Cannot use the token in {tmp_path}/token: it is not 64 hexadecimal characters"
    for name in ("scaler_scheduler", "scaler_cluster"):
        done = run_command(name, address, timeout_seconds=60, SCALER_HOME=str(tmp_path))
        assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("\n") == 1, done.stderr
    done = run_python(f"from scaler import Client\nClient({address!r})\n", SCALER_HOME=str(tmp_path))
    assert sentence in done.stderr.splitlines()[-1]


def test_a_new_token_is_read_by_those_who_wait(tmp_path: Path) -> None:
    """The scheduler's home was removed while it was not running."""
    address = free_address()
    environment = {"SCALER_HOME": str(tmp_path / "home")}
    with Command(command_line("scaler_cluster", address, "-n", 1), child_environment(**environment)) as cluster:
        wait_until((tmp_path / "home" / "token").exists)
        (tmp_path / "home" / "token").unlink()
        with start_scheduler(address, **environment):
            cluster.wait_for_output(r"Worker\[0\] started")
            source = (
                f"import math\nfrom scaler import Client\nprint(Client({address!r}).submit(math.sqrt, 4).result())\n"
            )
            assert run_python(source, **environment).stdout == "2.0\n"
