"""Sessions with Symphony as threads see them: answers at any time, in any order, from any thread."""

from __future__ import annotations

import pickle
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from scaler_protocol.command import BadInput
from scaler_worker.symphony import shim
from scaler_worker.symphony.core.effects import Call, OpenSession, SendInput
from scaler_worker.symphony.session import (
    Answered,
    Ended,
    Event,
    ExecutionFailed,
    Noted,
    NotTaken,
    Opened,
    SymphonyGateway,
    Taken,
)
from tests.support.symphony import FOLDER
from tests.support.waiting import wait_until

CALL = Call(b"f", "square", None, (), (), b"C" * 16, 1, 1, 0, False, False)


class FakeSession:
    """``on_send(session, number)`` acts before the id is returned."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.sent = 0
        self.on_send: Callable[[FakeSession, int], None] = lambda session, number: None

    def send_task_input(self, attributes: Any) -> Any:
        self.sent += 1
        number = self.sent
        self.on_send(self, number)
        return SimpleNamespace(get_id=lambda: number)

    def answer(self, number: int, output: bytes | None = None) -> None:
        self.callback.on_response(Handle(number, output if output is not None else output_of(number)))


class Handle:
    def __init__(self, number: int, output: bytes, error: Any = None) -> None:
        self._number = number
        self._output = output
        self._error = error
        self.reason = error

    def get_id(self) -> int:
        return self._number

    def is_successful(self) -> bool:
        return self._error is None

    def populate_task_output(self, message: Any) -> None:
        message.payload = self._output

    def get_exception(self) -> Any:
        return self.reason


def output_of(number: int, payload: bytes = b"r") -> bytes:
    """As the service would pickle the shim's answer; executions and ids have the same numbers here."""
    return pickle.dumps(struct.pack(shim.HEADER, shim.MAGIC, number, 0, 0, 0, 0, 0, 0) + payload)


class Api:
    """``soamapi``, made of the stand-in's classes, with sessions that the test drives."""

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []
        self.on_send: Callable[[FakeSession, int], None] = lambda session, number: None
        self.failures: list[Exception] = []
        self.connections = 0

    def connect(self, service: str, security: Any) -> Any:
        self.connections += 1
        return SimpleNamespace(create_session=self._create)

    def _create(self, attributes: Any) -> FakeSession:
        if self.failures:
            raise self.failures.pop(0)
        session = FakeSession(attributes._values["callback"])
        session.on_send = self.on_send
        self.sessions.append(session)
        return session


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.syspath_prepend(str(FOLDER / "api"))
    import soamapi

    made = Api()
    monkeypatch.setattr(soamapi, "connect", made.connect)
    yield made
    sys.modules.pop("soamapi", None)


class Posted:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type, count: int = 1) -> list[Any]:
        return wait_until(lambda: self.of(kind) if len(self.of(kind)) >= count else None, 5, kind.__name__)


@pytest.fixture
def posted() -> Posted:
    return Posted()


@pytest.fixture
def gateway(api: Api, posted: Posted) -> Iterator[SymphonyGateway]:
    made = SymphonyGateway("ScalerService", "tcp://127.0.0.1:1", "w", posted.events.append)
    made.connect()
    made.start()
    made.request(OpenSession(1))
    posted.wait_for(Opened)
    yield made
    made.stop()
    made._thread.join(5)
    assert not made._thread.is_alive()


def send(gateway: SymphonyGateway, *numbers: int, session: int = 1) -> None:
    for number in numbers:
        gateway.request(SendInput(number, session, CALL))


def test_an_answer_before_the_id_is_known(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    api.sessions[0].on_send = lambda session, number: session.answer(number)
    send(gateway, 1, 2, 3)
    assert [event.number for event in posted.wait_for(Answered, 3)] == [1, 2, 3]
    assert [type(event) for event in posted.events[1:]] == [Taken, Answered] * 3


def test_an_answer_from_another_thread_before_the_id_is_known(
    api: Api, gateway: SymphonyGateway, posted: Posted
) -> None:
    def answer(session: FakeSession, number: int) -> None:
        thread = threading.Thread(target=session.answer, args=(number,))
        thread.start()
        thread.join()

    api.sessions[0].on_send = answer
    send(gateway, 1)
    assert posted.wait_for(Answered)[0].answer.payload == b"r"


def test_answers_in_reverse_order(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    send(gateway, *range(1, 6))
    posted.wait_for(Taken, 5)
    for number in reversed(range(1, 6)):
        api.sessions[0].answer(number)
    assert [event.number for event in posted.of(Answered)] == [5, 4, 3, 2, 1]


def test_answers_to_nothing_and_to_the_same_again(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    send(gateway, 1)
    posted.wait_for(Taken)
    for number in (7, 1, 1):
        api.sessions[0].answer(number)
    assert len(posted.of(Answered)) == 1 and len(posted.of(Noted)) == 2
    api.sessions[0].on_send = lambda session, number: session.answer(99)
    send(gateway, 2)
    posted.wait_for(Noted, 3)
    api.sessions[0].answer(2)
    assert [event.number for event in posted.of(Answered)] == [1, 2]


def test_the_end_is_told_once_and_nothing_counts_after_it(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    send(gateway, 1)
    posted.wait_for(Taken)
    first = api.sessions[0]
    first.callback.on_exception(RuntimeError("first"))
    first.callback.on_exception(RuntimeError("second"))
    first.answer(1)
    assert posted.of(Ended) == [Ended(1, "RuntimeError: first")] and not posted.of(Answered)
    send(gateway, 2)  # meant for the dead one
    gateway.request(OpenSession(2))
    posted.wait_for(Opened, 2)
    send(gateway, 1, session=2)
    posted.wait_for(Taken, 2)
    first.answer(1)
    assert not posted.of(Answered) and first.sent == 1
    api.sessions[1].answer(1)
    assert len(posted.of(Answered)) == 1


def test_a_session_that_ends_while_it_is_opened(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    create = api._create

    def create_and_end(attributes: Any) -> FakeSession:
        session = create(attributes)
        session.callback.on_exception(RuntimeError("at once"))
        return session

    api.sessions[0].callback.on_exception(RuntimeError("gone"))
    api._create = create_and_end  # type: ignore[method-assign]
    gateway.request(OpenSession(2))
    assert "at once" in posted.wait_for(Ended, 2)[1].text and len(posted.of(Opened)) == 1
    api._create = create  # type: ignore[method-assign]
    gateway.request(OpenSession(3))
    posted.wait_for(Opened, 2)
    assert api.connections == 3, "each session has a connection of its own"


def test_an_input_that_is_not_taken(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    def refuse(session: FakeSession, number: int) -> None:
        raise ValueError("too\nlarge")

    api.sessions[0].on_send = refuse
    send(gateway, 1)
    assert posted.wait_for(NotTaken) == [NotTaken(1, "ValueError: too large")]


class Strange(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SimpleNamespace(get_embedded_exception=lambda: ValueError("inner {task}")), "ValueError: inner (task)"),
        (SimpleNamespace(get_embedded_exception=lambda: Strange()), "Strange"),
        (SimpleNamespace(get_embedded_exception=lambda: None), "SimpleNamespace"),
        (ValueError("without"), "ValueError: without"),
    ],
)
def test_a_task_that_failed(api: Api, gateway: SymphonyGateway, posted: Posted, error: Any, text: str) -> None:
    send(gateway, 1)
    posted.wait_for(Taken)
    api.sessions[0].callback.on_response(Handle(1, b"", error))
    assert f"Symphony: the service ScalerService could not run {{task}}: {text}" in posted.of(ExecutionFailed)[0].text


class Unpicklable(ValueError):
    def __reduce__(self) -> Any:
        raise TypeError


def fail_with(embedded: Any, api: Api, gateway: SymphonyGateway, posted: Posted) -> bytes:
    """What is said about the exception."""
    send(gateway, 1)
    posted.wait_for(Taken)
    error = SimpleNamespace(get_embedded_exception=lambda: embedded)
    api.sessions[0].callback.on_response(Handle(1, b"", error))
    return posted.of(ExecutionFailed)[0].report


def test_an_embedded_exception_is_the_exception_of_the_task(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    data, name, message, text = pickle.loads(fail_with(KeyError("inner\ntext"), api, gateway, posted))
    error = pickle.loads(data)
    assert type(error) is KeyError and error.args == ("inner\ntext",) and name == "KeyError"
    assert text.startswith("Symphony: the service ScalerService could not run the task: KeyError: ")


@pytest.mark.parametrize("kind", ["of soamapi", "unpicklable", "no exception"])
def test_an_embedded_exception_that_a_client_cannot_have(
    api: Api, gateway: SymphonyGateway, posted: Posted, kind: str
) -> None:
    import soamapi

    embedded = {"of soamapi": soamapi.SoamException("a"), "unpicklable": Unpicklable(), "no exception": "text"}[kind]
    assert fail_with(embedded, api, gateway, posted) == b""


def test_a_reason_that_cannot_be_read_leaves_no_task_without_an_end(
    api: Api, gateway: SymphonyGateway, posted: Posted
) -> None:
    send(gateway, 1, 2)
    posted.wait_for(Taken, 2)
    first, second = Handle(1, b"", error="failed"), Handle(2, b"")
    first.get_exception = None  # type: ignore[assignment, method-assign]
    second.is_successful = None  # type: ignore[assignment, method-assign]
    for handle in (first, second):
        api.sessions[0].callback.on_response(handle)
    assert [event.number for event in posted.of(ExecutionFailed)] == [1, 2] and not posted.of(ExecutionFailed)[0].report


def test_a_task_that_failed_without_a_reason(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    send(gateway, 1)
    posted.wait_for(Taken)
    handle = Handle(1, b"", error="failed")
    handle.reason = None
    api.sessions[0].callback.on_response(handle)
    assert "could not run {task}: Symphony gives no reason." in posted.of(ExecutionFailed)[0].text


def test_handles_that_raise(api: Api, gateway: SymphonyGateway, posted: Posted) -> None:
    send(gateway, 1, 2)
    posted.wait_for(Taken, 2)
    broken = Handle(1, b"")
    broken.get_id = None  # type: ignore[assignment, method-assign]
    api.sessions[0].callback.on_response(broken)
    assert "cannot be read" in posted.of(Noted)[0].text
    unreadable = Handle(2, b"")
    unreadable.populate_task_output = None  # type: ignore[assignment, method-assign]
    api.sessions[0].callback.on_response(unreadable)
    assert "the output of {task} cannot be read" in posted.of(ExecutionFailed)[0].text


@pytest.mark.parametrize("where", ["initialize", "connect", "session"])
def test_what_fails_at_the_beginning_is_bad_input(api: Api, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    import soamapi

    def fail(*_: Any) -> None:
        raise RuntimeError("no\nlogin")

    if where == "session":
        api.failures = [RuntimeError("no\nlogin")]
    else:
        monkeypatch.setattr(soamapi, where, fail)
    with pytest.raises(BadInput, match="RuntimeError: no login. (Set up|Check)"):
        SymphonyGateway("ScalerService", "tcp://127.0.0.1:1", "w", lambda event: None).connect()
