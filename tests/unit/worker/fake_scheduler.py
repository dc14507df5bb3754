"""A scheduler as small as can be, for tests of a real agent: it welcomes whoever comes and releases every result."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import cloudpickle
import zmq

from scaler_protocol.codec import TaskRun, decode, encode, split
from scaler_protocol.ids import digest, new_session
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Acknowledgement,
    AgentAttach,
    Envelope,
    FunctionDefinition,
    Heartbeat,
    HeartbeatEcho,
    Hello,
    ObjectKey,
    Ping,
    Results,
    ResultsReleased,
    TaskOptions,
    Tasks,
    Welcome,
)
from tests.support.routers import Greeter, OpenRouter
from tests.unit.worker.playbook import CLIENT


class FakeScheduler:
    """``results``: status, payload, duration, cpu time, memory peak by task; ``others``: all other numbered bodies."""

    def __init__(self, address: str = "tcp://127.0.0.1:0") -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = OpenRouter(self._context)
        self.address = self._router.bind(address)
        self._greeter = Greeter(self._router, self.address)
        self.epoch = 1
        self.results: dict[int, tuple[int, bytes, int, int, int]] = {}
        self.others: list[Any] = []
        self.heartbeats: list[Heartbeat] = []
        self.on_body: Callable[[Any], None] = lambda body: None
        self._session = new_session()
        self._peer = b""
        self._link: Link | None = None
        self._sent_at = 0.0

    def __enter__(self) -> FakeScheduler:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._router.close()
        self._context.term()

    def send(self, body: Any) -> None:
        assert self._link is not None
        self._sent_at = time.monotonic()
        self._router.send(self._peer, encode(self._link.wrap(body)))

    def submit(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Sequence[Any]],
        *,
        first: int = 0,
        options: TaskOptions | None = None,
        keywords: tuple[str, ...] = (),
        serializer: Any = None,
    ) -> None:
        """Tasks ``first`` and following, one per item of ``arguments``. An agent connects again if this scheduler was
        silent while a test did something else, and does not get what was sent before."""
        self._catch_up()
        dumps = serializer.serialize if serializer is not None else cloudpickle.dumps
        data = dumps(function)
        known = FunctionDefinition(digest(data), function.__qualname__, data, len(data))
        serializers = []
        if serializer is not None:
            pickled = cloudpickle.dumps(serializer)
            serializers = [FunctionDefinition(digest(pickled), "serializer", pickled, len(pickled))]
        slots = [[each if isinstance(each, ObjectKey) else dumps(each) for each in task] for task in arguments]
        run = TaskRun(
            CLIENT, known.digest, known.name, serializers[0].digest if serializers else b"", first, 1, keywords,
            options or TaskOptions(), slots,
        )  # fmt: skip
        for runs in split([run]):
            self.send(Tasks(runs, [known], serializers))

    def serve(self, until: Callable[[], Any], timeout_seconds: float = 30.0) -> None:
        """Handle messages until the condition holds; AssertionError when it does not in time."""
        deadline = time.monotonic() + timeout_seconds
        while not until():
            assert time.monotonic() < deadline, f"not within {timeout_seconds} s; {self.results} {self.others}"
            if not self._catch_up():
                self._pause()

    def serve_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.serve(lambda: time.monotonic() >= end, seconds + 5)

    def wait_for_agent(self) -> AgentAttach:
        self.serve(lambda: any(isinstance(each, AgentAttach) for each in self.others))
        return next(each for each in self.others if isinstance(each, AgentAttach))

    def wait_for_results(
        self, count: int, timeout_seconds: float = 30.0
    ) -> dict[int, tuple[int, bytes, int, int, int]]:
        self.serve(lambda: len(self.results) >= count, timeout_seconds)
        return self.results

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.others if isinstance(each, kind)]

    def _catch_up(self) -> int:
        """Handle what waits; return how many messages."""
        count = 0
        while (message := self._router.receive()) is not None:
            self._handle(message[0], decode(message[1]))
            count += 1
        return count

    def _pause(self) -> None:
        if self._link is not None and self._link.owes_acknowledgement:
            self.send(Acknowledgement())
        if self._link is not None and time.monotonic() - self._sent_at > 0.4:
            self.send(Ping())
        select.select([self._router.fd], [], [], 0.01)

    def _handle(self, peer: bytes, envelope: Envelope) -> None:
        body = envelope.body
        if isinstance(body, Hello):
            if self._greeter.greet(peer, body, Welcome(self._session, self.epoch, number=body.number)):
                self._peer, self._link = peer, Link()
            return
        if self._link is None or not self._link.accept(envelope):
            return
        if isinstance(body, Results):
            for run in body.runs:
                self.results.update({row[0]: (row[2], bytes(row[3]), *row[4:]) for row in run.rows()})
            self.send(ResultsReleased((envelope.sequence,)))
        elif isinstance(body, Heartbeat):
            self.heartbeats.append(body)
            self.send(HeartbeatEcho(body.sent_at))
        elif not isinstance(body, (Ping, Acknowledgement)):
            self.others.append(body)
            self.on_body(body)
