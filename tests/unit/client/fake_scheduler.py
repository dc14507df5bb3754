"""A scheduler in a thread that runs tasks itself: real sockets and messages, no cluster."""

from __future__ import annotations

import pickle
import select
import threading
from typing import Any

import zmq

from scaler_protocol.codec import ResultRun, TaskRun, decode, encode
from scaler_protocol.ids import new_session
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Acknowledgement,
    Body,
    Cancel,
    Envelope,
    Goodbye,
    Hello,
    RefusalReason,
    Refused,
    Results,
    Status,
    Tasks,
    Welcome,
)
from tests.support.routers import Greeter, OpenRouter


class FakeScheduler:
    """``hold``: while set, tasks are collected in ``held`` and not run. ``refuse``: say so to each Hello."""

    def __init__(self, address: str = "tcp://127.0.0.1:0", epoch: int = 1, refuse: str = "") -> None:
        self.epoch = epoch
        self.hold = threading.Event()
        self.held: list[tuple[bytes, TaskRun]] = []
        self.seen: list[Body] = []
        self._refuse = refuse
        self._functions: dict[bytes, Any] = {}
        self._links: dict[bytes, Link] = {}
        self._stop = threading.Event()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = OpenRouter(self._context)
        self.address = self._socket.bind(address)
        self._greeter = Greeter(self._socket, self.address)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()
        self._context.term()

    def __enter__(self) -> FakeScheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._socket.fd, select.POLLIN)
        while not self._stop.is_set():
            poll.poll(2)
            while (message := self._socket.receive()) is not None:
                self._take(message[0], decode(message[1]))
            if not self.hold.is_set():
                held, self.held = self.held, []
                for peer, run in held:
                    self._run_tasks(peer, run)

    def _take(self, peer: bytes, envelope: Envelope) -> None:
        body = envelope.body
        if isinstance(body, Hello):
            self._greet(peer, body)
        elif peer in self._links and self._links[peer].accept(envelope):
            self.seen.append(body)
            if isinstance(body, Tasks):
                self._functions.update((entry.digest, pickle.loads(entry.payload)) for entry in body.functions)
                self.held.extend((peer, run) for run in body.runs)
            elif isinstance(body, Cancel):
                pass  # what is cancelled may still end: its result is dropped
            if not isinstance(body, Goodbye):
                self._say(peer, Acknowledgement())

    def _greet(self, peer: bytes, hello: Hello) -> None:
        if self._refuse:
            refused = Refused(RefusalReason.OTHER, self._refuse)
            self._socket.send(peer, encode(Envelope(refused)))
            return
        resumed = hello.epoch == self.epoch and peer in self._links
        link = self._links[peer] if resumed else Link()
        welcome = Welcome(new_session(), self.epoch, link.received, resumed, number=hello.number)
        if self._greeter.greet(peer, hello, welcome):
            self._links[peer] = link

    def _run_tasks(self, peer: bytes, run: TaskRun) -> None:
        rows = []
        for index in range(run.count):
            status, payload = self._run_task(run, index)
            rows.append((run.first_task + index, 1, status, payload, 7, 3, 11))
        self._say(peer, Results([ResultRun(run.session, rows)]))

    def _run_task(self, run: TaskRun, index: int) -> tuple[int, bytes]:
        values = [pickle.loads(slot) for slot in run.slots(index)]
        count = len(values) - len(run.keywords)
        keywords = dict(zip(run.keywords, values[count:], strict=True))
        try:
            return int(Status.SUCCESS), pickle.dumps(self._functions[run.function](*values[:count], **keywords))
        except Exception as error:
            report = (pickle.dumps(error), type(error).__name__, str(error), "Traceback of the worker")
            return int(Status.EXCEPTION), pickle.dumps(report)

    def _say(self, peer: bytes, body: Body) -> None:
        self._socket.send(peer, encode(self._links[peer].wrap(body)))


class ReplayingScheduler(FakeScheduler):
    def _greet(self, peer: bytes, hello: Hello) -> None:
        resumed = hello.epoch == self.epoch and peer in self._links
        super()._greet(peer, hello)
        if resumed:
            for envelope in self._links[peer].resume(hello.received):
                self._socket.send(peer, encode(envelope))


class BreakingScheduler(ReplayingScheduler):
    """Ends the connection of each client once, when its first tasks arrive, and replays what was sent since."""

    def __init__(self) -> None:
        self._was_ended: set[bytes] = set()
        super().__init__()

    def _take(self, peer: bytes, envelope: Envelope) -> None:
        super()._take(peer, envelope)
        if isinstance(envelope.body, Tasks) and peer not in self._was_ended:
            self._was_ended.add(peer)
            self._socket.disconnect(peer)
