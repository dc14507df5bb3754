"""The scheduler's end of one client session, as plain as can be: for tests of the client."""

from __future__ import annotations

import pickle
from typing import Any

from scaler.client.calls import Encoder, FunctionBook, shape_of
from scaler.client.serializer import DefaultSerializer
from scaler.core.effects import Finish, Log, Send
from scaler.core.outcome import Outcome
from scaler.core.session import SCHEDULER, Session
from scaler_protocol.codec import ResultRun, decode, encode
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    PROTOCOL_MINOR,
    Acknowledgement,
    Body,
    Envelope,
    Hello,
    Role,
    Status,
    TaskOptions,
    Tasks,
    Welcome,
)

SESSION = b"s" * 16


class Sink:
    """Remembers how its task ended."""

    task_range: Any = None
    task_index = 0

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def settle(self, outcome: Outcome) -> bool:
        self.outcomes.append(outcome)
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settled quietly")


class SchedulerSide:
    """Drives a :class:`Session` through encoded messages and its own link."""

    def __init__(self, timeout_seconds: float = 60.0, address: str = "", parent: bytes = b"", **session: Any) -> None:
        self.now = 100.0
        self.session = Session(
            Hello(Role.SUBMIT, SESSION, parent_session=parent),
            timeout_seconds=timeout_seconds,
            heartbeat_interval_seconds=2.0,
            serializer=None,
            now=self.now,
            address=address,
            **session,
        )
        self.book = FunctionBook(Encoder(DefaultSerializer))
        self.epoch = 0
        self.link = Link()
        self.hellos: list[Hello] = []
        self.bodies: list[Body] = []
        self.lines: list[str] = []

    # ---- what the client does ------------------------------------------------------------------------------------

    def submit(self, function: Any, *args: Any, options: TaskOptions | None = None) -> Sink:
        sink = Sink()
        shape = shape_of(self.book.find(function), len(args), (), options or TaskOptions())
        slots = [pickle.dumps(value, 5) for value in args]
        self.session.submissions.add(shape, slots, sum(map(len, slots)), sink)
        return sink

    def cancel(self, sink: Sink) -> bool:
        return self.session.endings.cancel(sink.task_range, sink.task_index)

    # ---- the wire ------------------------------------------------------------------------------------------------

    def connect(self, epoch: int = 7, resumed: bool = False, minor: int = PROTOCOL_MINOR) -> None:
        self.session.on_connected(self.now)
        self.exchange()
        self.welcome(epoch, resumed, minor)

    def welcome(self, epoch: int = 7, resumed: bool = False, minor: int = PROTOCOL_MINOR) -> None:
        if not resumed:
            self.link = Link()
        self.epoch = epoch
        number = self.hellos[-1].number
        self.deliver(Envelope(Welcome(b"w" * 16, epoch, self.link.received, resumed, number=number, minor=minor)))

    def exchange(self) -> list[Body]:
        """Take what the session sends now; returns the numbered bodies that are new."""
        new: list[Body] = []
        for effect in self.session.take_effects(self.now):
            assert not isinstance(effect, Finish)
            if isinstance(effect, Log):
                self.lines.append(effect.text)
            if isinstance(effect, Send):
                envelope = decode(encode(effect.envelope))
                if isinstance(envelope.body, Hello):
                    self.hellos.append(envelope.body)
                elif self.link.accept(envelope):
                    new.append(envelope.body)
        self.session.check()
        self.bodies += new
        return new

    def deliver(self, envelope: Envelope) -> None:
        self.session.on_message(SCHEDULER, decode(encode(envelope)), self.now)
        self.session.check()

    def say(self, body: Body) -> None:
        self.deliver(self.link.wrap(body))

    def acknowledge(self) -> list[Body]:
        self.say(Acknowledgement())
        return self.exchange()

    def pass_time(self, seconds: float) -> list[Body]:
        self.now += seconds
        deadline = self.session.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.session.on_deadline(self.now)
        return self.exchange()

    def results(self, *rows: tuple[int, int, bytes]) -> ResultRun:
        return ResultRun(SESSION, [(task, 1, status, payload, 10, 5, 0) for task, status, payload in rows])


def tasks_in(bodies: list[Body]) -> list[int]:
    """The ids of the tasks in these messages."""
    ids: list[int] = []
    for body in bodies:
        if isinstance(body, Tasks):
            for run in body.runs:
                ids.extend(range(run.first_task, run.first_task + run.count))
    return ids


def success(value: Any) -> tuple[int, bytes]:
    return int(Status.SUCCESS), pickle.dumps(value, 5)
