"""A call that is left by an exception cancels exactly what it has submitted, wherever it is interrupted."""

from __future__ import annotations

import operator
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from scaler.core.session import Session
from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import Cancel, Envelope, Results, Tasks
from tests.support.functions import increment
from tests.support.waiting import wait_until
from tests.unit.client.fake_scheduler import ReplayingScheduler
from tests.unit.client.interrupter import Interruption, interrupted

BLOCKED_SECONDS = 0.15
AGAIN_SECONDS = 10.0
"""Python ignores the exception of an alarm that strikes inside ``__del__``; the next alarm ends the wait then."""
ENDING = 3
LARGE = bytes(100_000)
GRAPH = {"a": 2, "sum": (operator.add, "a", "a"), "next": (increment, "sum")}


class SlowScheduler(ReplayingScheduler):
    """Tasks with one argument below ENDING end, all others never do. ``wanted`` has the tasks that have neither ended
    nor been cancelled."""

    def __init__(self) -> None:
        self.wanted: set[int] = set()
        super().__init__()

    def _take(self, peer: bytes, envelope: Envelope) -> None:
        body = envelope.body
        is_new = peer in self._links and envelope.sequence > self._links[peer].received
        super()._take(peer, envelope)
        if is_new and isinstance(body, Tasks):
            self.wanted.update(task for run in body.runs for task in range(run.first_task, run.first_task + run.count))
        elif is_new and isinstance(body, Cancel):
            self.wanted.difference_update(task for column in body.columns for task in column.tasks)

    def _run_tasks(self, peer: bytes, run: TaskRun) -> None:
        rows = [
            (run.first_task + index, 1, *self._run_task(run, index), 7, 3, 11)
            for index in range(run.count)
            if run.arity == 1 and not run.has_references and pickle.loads(run.slots(index)[0]) < ENDING
        ]
        if rows:
            self.wanted.difference_update(row[0] for row in rows)
            self._say(peer, Results([ResultRun(run.session, rows)]))


@pytest.fixture
def scheduler() -> Iterator[SlowScheduler]:
    with SlowScheduler() as running:
        yield running


class Alarm:
    is_set = False
    """A signal that another thread received may be handled after its timer was switched off."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """Interrupts a call that only waits, which ends a test: what is behind that is reached by being interrupted."""

    def interrupt(*_: object) -> None:
        if Alarm.is_set:
            sys.settrace(None)
            raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def take_all(results: Iterator[Any]) -> None:
    for _ in results:
        pass


CALLS: dict[str, Callable[[Client], object]] = {
    "submit": lambda client: client.submit(operator.neg, 7),
    "submit with keywords": lambda client: client.submit(sorted, [7], reverse=True),
    "submit of a large argument": lambda client: client.submit(operator.add, LARGE, LARGE),
    "send_object": lambda client: client.send_object(LARGE),
    "map": lambda client: client.map(operator.neg, range(300)),
    "map of several iterables": lambda client: client.map(operator.add, range(5), range(5)),
    "map of large arguments": lambda client: client.map(operator.add, [LARGE] * 3, [b"x"] * 3),
    "starmap": lambda client: client.starmap(operator.add, [(1, 2), (3, 4)]),
    "imap": lambda client: take_all(client.imap(operator.neg, range(8), buffer_size=4)),
    "imap_unordered": lambda client: take_all(client.imap_unordered(operator.neg, range(8), buffer_size=4)),
    "get": lambda client: client.get(GRAPH, ["next", "sum"]),
}


@pytest.mark.timeout(170)
@pytest.mark.usefixtures("alarm")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # interruptions in __del__
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_interrupted_leaves_no_task(scheduler: SlowScheduler, name: str) -> None:
    call = CALLS[name]
    with Client(scheduler.address) as client:
        kept = client.submit(operator.neg, 9)
        wait_until(lambda: kept.task_id)
        session = client._client_io.session
        for at in range(1, 5000):
            where = interrupted(lambda: with_alarm(call, client), at)
            wait_until(lambda: not left_in(session, kept.task_id), what=f"{where}: {left_in(session, kept.task_id)}")
            if not where:
                break
        wait_until(lambda: scheduler.wanted == {kept.task_id}, what=f"{scheduler.wanted}")
        assert client.submit(operator.neg, 1).result(10) == -1 and not kept.done()


@pytest.mark.usefixtures("alarm")
def test_a_map_that_is_interrupted_again_while_it_leaves_leaves_no_task(
    scheduler: SlowScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C is raised when the turn that it interrupts has ended."""
    with Client(scheduler.address) as client:
        take_turn = client._client_io.take_turn_shielded

        def take_turn_and_raise(change: Callable[[Session], object]) -> None:
            take_turn(change)
            raise Interruption

        with monkeypatch.context() as patch:
            patch.setattr(client._client_io, "take_turn_shielded", take_turn_and_raise)
            with pytest.raises(Interruption):
                with_alarm(CALLS["map"], client)
        wait_until(lambda: not left_in(client._client_io.session, 0))
        assert client.submit(operator.neg, 1).result(10) == -1


def with_alarm(call: Callable[[Client], object], client: Client) -> None:
    try:
        given = call_until_alarm(call, client)
    finally:
        Alarm.is_set = False
        signal.setitimer(signal.ITIMER_REAL, 0)  # the alarm may have struck just before it was switched off
    if isinstance(given, ScalerFuture):
        sys.settrace(None)
        given.cancel()


def call_until_alarm(call: Callable[[Client], object], client: Client) -> object:
    Alarm.is_set = True
    signal.setitimer(signal.ITIMER_REAL, BLOCKED_SECONDS, AGAIN_SECONDS)
    try:
        return call(client)
    finally:
        Alarm.is_set = False
        signal.setitimer(signal.ITIMER_REAL, 0)


def left_in(session: Session, kept_task: int) -> list[object]:
    closed = [entry.first + index for entry in session.ranges.values() for index in entry.unfinished()]
    opened = [entry for entry in session.submissions.open_runs if entry.remaining]
    return [*(task for task in closed if task != kept_task), *opened]
