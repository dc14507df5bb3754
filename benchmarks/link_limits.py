"""The limits of the links between hosts: raw TCP, and a bare ZeroMQ ping-pong over the two hops of a task.

``python -m benchmarks.link_limits ROLE ADDRESS [KEYS]``, where ROLE is one of the functions below.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import zmq

from benchmarks.hosts import ROOT, Host, running

_STREAM_PORT, _CLIENT_PORT, _WORKER_PORT = 2346, 2347, 2348
_BLOCK_BYTES = 1 << 20
_BLOCKS = 1000
_PINGS = 2000
_START_SECONDS = 1.0
_PAYLOAD = b"x" * 64
_CLIENT, _WORKER = b"client", b"worker"


def tcp_server(address: str, keys: str) -> None:
    """Answers a payload, and the last one after many blocks."""
    listening = socket.create_server((address, _STREAM_PORT))
    while True:
        connected, _ = listening.accept()
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connected.recv(_BLOCK_BYTES):
            if data.endswith(_PAYLOAD):
                connected.sendall(_PAYLOAD)


def tcp_client(address: str, keys: str) -> None:
    with socket.create_connection((address, _STREAM_PORT)) as connected:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ping() -> None:
            connected.sendall(_PAYLOAD)
            connected.recv(_BLOCK_BYTES)

        p50 = _p50_us(ping)
        block = bytes(_BLOCK_BYTES)
        started = time.perf_counter()
        for _ in range(_BLOCKS):
            connected.sendall(block)
        ping()
        elapsed = time.perf_counter() - started
    _tell({"mb_per_second": _BLOCKS * _BLOCK_BYTES / 1e6 / elapsed, "tcp_ping_pong_us": p50})


def zeromq_router(address: str, keys: str) -> None:
    """Passes each message on, from the client to the worker and back."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    if keys:
        router.curve_server = True
        router.curve_secretkey = (Path(keys) / "scheduler.key").read_bytes().split()[-1]
    router.bind(f"tcp://{address}:{_CLIENT_PORT}")
    while True:
        peer, payload = router.recv_multipart()
        router.send_multipart([_WORKER if peer == _CLIENT else _CLIENT, payload])


def zeromq_worker(address: str, keys: str) -> None:
    dealer = _dealer(_WORKER, address, keys)
    while True:
        dealer.send(dealer.recv())


def zeromq_client(address: str, keys: str) -> None:
    dealer = _dealer(_CLIENT, address, keys)

    def ping() -> None:
        dealer.send(_PAYLOAD)
        dealer.recv()

    time.sleep(1.0)  # the worker has connected
    _tell({"p50_us": _p50_us(ping)})


def _dealer(identity: bytes, address: str, keys: str) -> zmq.Socket[bytes]:
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    dealer.setsockopt(zmq.ROUTING_ID, identity)
    dealer.setsockopt(zmq.LINGER, 0)
    if keys:
        dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
        dealer.curve_serverkey = (Path(keys) / "scheduler.pub").read_bytes().split()[-1]
    dealer.connect(f"tcp://{address}:{_CLIENT_PORT}")
    return dealer


def _p50_us(ping: Callable[[], None]) -> float:
    samples = []
    for _ in range(_PINGS):
        started = time.perf_counter()
        ping()
        samples.append((time.perf_counter() - started) * 1e6)
    return sorted(samples)[_PINGS // 2]


def _tell(figures: dict[str, float]) -> None:
    print(json.dumps(figures), flush=True)


ROLES = {role.__name__: role for role in (tcp_server, tcp_client, zeromq_router, zeromq_worker, zeromq_client)}


def measure(hosts: list[Host]) -> dict[str, dict[str, float]]:
    """Return the measurements by the name of the limit: scheduler, workers and client are on these hosts."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([Path(sys.executable).parent / "scaler_keygen", folder], check=True, capture_output=True)
        return {
            "tcp": _measure([(hosts[1], "tcp_server")], (hosts[2], "tcp_client"), hosts[1].address, ""),
            "zeromq": _measure_zeromq(hosts, ""),
            "zeromq_keys": _measure_zeromq(hosts, folder),
        }


def _measure_zeromq(hosts: list[Host], keys: str) -> dict[str, float]:
    servers = [(hosts[0], "zeromq_router"), (hosts[1], "zeromq_worker")]
    return _measure(servers, (hosts[2], "zeromq_client"), hosts[0].address, keys)


def _measure(servers: list[tuple[Host, str]], client: tuple[Host, str], address: str, keys: str) -> dict[str, float]:
    def command(role: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "benchmarks.link_limits", role, address, keys)

    with ExitStack() as stack:
        for host, role in servers:
            stack.enter_context(running(host, *command(role)))
        time.sleep(_START_SECONDS)
        answer: dict[str, float] = json.loads(client[0].run(*command(client[1]), cwd=ROOT).stdout)
        return answer


if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
