"""Results that raise something when they are loaded, and Ctrl-C meanwhile."""

from __future__ import annotations

import functools
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler import Client
from scaler.client.outcomes import failure_of
from scaler.core.outcome import Outcome
from scaler.utility.exceptions import DeserializeObjectError
from scaler_protocol.messages import Status
from tests.unit.client.fake_scheduler import FakeScheduler
from tests.unit.client.graph_scheduler import GraphScheduler


class Odd(BaseException):
    pass


class Raises:
    """Raises an exception when it is loaded."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return fail, (self.kind,)


def fail(kind: type[BaseException]) -> None:
    raise kind("while loading")


class RaisesWithoutFrame(Raises):
    """As a builtin does."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exit_quietly, ()) if self.kind is SystemExit else (signal.default_int_handler, (2, None))


exit_quietly = __import__("sys").exit
KINDS = [SystemExit, KeyboardInterrupt, GeneratorExit, Odd, ValueError]


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with GraphScheduler() as running:
        yield running


def make(kind: type[BaseException]) -> Raises:
    return Raises(kind)


def make_without_frame(kind: type[BaseException]) -> Raises:
    return RaisesWithoutFrame(kind)


def make_one(value: int, kind: type[BaseException]) -> Any:
    return Raises(kind) if value == 3 else value


CALLS: list[Callable[[Client, type[BaseException]], object]] = [
    lambda client, kind: client.submit(make, kind).result(10),
    lambda client, kind: client.map(make, [kind]),
    lambda client, kind: client.map(make_one, range(10), [kind] * 10),
    lambda client, kind: list(client.imap(make, [kind])),
    lambda client, kind: list(client.imap_unordered(make, [kind])),
    lambda client, kind: client.get({"kind": kind, "made": (make, "kind")}, ["made"]),
]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_it_raises_the_result_could_not_be_loaded(client: Client, kind: type[BaseException]) -> None:
    for call in CALLS:
        with pytest.raises(
            DeserializeObjectError, match=f"could not be loaded: {kind.__name__}: while loading"
        ) as caught:
            call(client, kind)
        assert type(caught.value.__cause__) is kind
    assert type(client.submit(make, kind).exception(10)) is DeserializeObjectError
    assert client.map(abs, [-1, -2]) == [1, 2]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_a_builtin_raises(client: Client, kind: type[BaseException]) -> None:
    with pytest.raises(DeserializeObjectError, match=kind.__name__):
        client.submit(make_without_frame, kind).result(10)


def test_in_another_thread(client: Client) -> None:
    caught: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: caught.append(client.submit(make, KeyboardInterrupt).exception(10)))
    thread.start()
    thread.join()
    assert [type(error) for error in caught] == [DeserializeObjectError]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_that_raises_when_it_is_loaded(kind: type[BaseException]) -> None:
    report = (pickle.dumps(Raises(kind)), "ValueError", "of the task", "")
    failure = failure_of(Outcome(Status.EXCEPTION, pickle.dumps(report)))
    assert type(failure) is DeserializeObjectError and "ValueError: of the task" in str(failure)


# ---- signals ---------------------------------------------------------------------------------------------------------


interruptions: list[int] = []
"""Signals that the next loads meet, once."""


class Interrupted:
    """A signal arrives while it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return meet_signal, ()


def meet_signal() -> str:
    if interruptions:
        signal.raise_signal(interruptions.pop())
    return "loaded"


def make_interrupted(_: Any = None) -> Interrupted:
    return Interrupted()


class Handlers:
    def method(self, *_: object) -> None:
        raise Odd

    def __call__(self, *_: object) -> None:
        raise Odd


def handle(text: str, *_: object) -> None:
    raise Odd(text)


@pytest.fixture
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)
    interruptions.clear()


HANDLERS = [lambda *_: handle("lambda"), Handlers().method, Handlers(), functools.partial(handle, "partial")]


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handler_interrupts_the_load(client: Client, handler: Any) -> None:
    signal.signal(signal.SIGUSR1, handler)
    future = client.submit(make_interrupted)
    interruptions.append(signal.SIGUSR1)
    with pytest.raises(Odd):
        future.result(10)
    assert future.result(10) == "loaded"
    interruptions.append(signal.SIGUSR1)
    with pytest.raises(Odd):
        client.map(make_interrupted, range(5))


@pytest.mark.usefixtures("restored")
def test_ctrl_c_interrupts_the_load(client: Client) -> None:
    future = client.submit(make_interrupted)
    interruptions.append(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        future.result(10)
    assert future.result(10) == "loaded"
    interruptions.append(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        client.map(make_interrupted, range(5))
    assert client.map(make_interrupted, range(2)) == ["loaded"] * 2
