"""What users read when something cannot be sent or a task fails: who is to blame, and none of our own frames."""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import scaler
from scaler import Client, Serializer
from scaler.client.argument_lists import groups_of_lists
from scaler.client.map_items import ItemFailure
from scaler.utility.exceptions import MissingObjects
from tests.support.functions import add, fail, increment
from tests.unit.client.fake_scheduler import FakeScheduler
from tests.unit.client.graph_scheduler import GraphScheduler

LOCK = threading.Lock()
PACKAGE = str(Path(scaler.__file__).parent)
LOCK_REASON = (
    "cannot pickle a 'lock' of threading, which excludes threads of one process only. Use client.lock(name), whose "
    "locks exclude one another in the whole cluster."
)
REASON = f"attribute 'lock' of Settings: {LOCK_REASON}"


class Settings:
    def __init__(self) -> None:
        self.lock = LOCK


class Refusing:
    def __getstate__(self) -> Any:
        raise ArithmeticError("no state")


def train(config: Any, *more: Any, steps: Any = 1) -> Any:
    return config


def locked() -> Any:
    return LOCK


locked.__module__ = "__main__"  # so that it travels by value


def fail_at_three(value: int, extra: Any = None) -> int:
    if value == 3:
        raise ValueError("three")
    return value


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with GraphScheduler() as running:
        yield running


def failure_of(call: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call()
    return caught.value


CALL = "Cannot send a call of train(): argument"

UNSENDABLE: list[tuple[Callable[[Client], object], str, list[str]]] = [
    (lambda client: client.submit(train, Settings()), f"{CALL} 'config': {REASON}", []),
    (lambda client: client.submit(train, 1, 2, [Settings()]), f"{CALL} 3: item 0 of list: {REASON}", []),
    (lambda client: client.submit(train, 1, steps=Settings()), f"{CALL} 'steps': {REASON}", []),
    (lambda client: client.submit_verbose(train, (1,), {"steps": Settings()}), f"{CALL} 'steps': {REASON}", []),
    (
        lambda client: client.submit(max, 1, Settings()),
        f"Cannot send a call of max(): argument 2: {REASON}",
        [],
    ),
    (
        lambda client: client.submit(functools.partial(train, Settings())),
        f"Cannot send the function partial(): argument 1 of partial: {REASON}",
        [],
    ),
    (
        lambda client: client.submit(locked),
        f"Cannot send the function locked(): global variable 'LOCK': {LOCK_REASON}",
        [],
    ),
    (lambda client: client.send_object([Settings()]), f"Cannot send the object: item 0 of list: {REASON}", []),
    (
        lambda client: client.map(train, [*range(500), Settings()]),
        f"{CALL} 'config': {REASON}",
        ["Raised by item 500 of map(), counting from 0: train(<Settings object>)"],
    ),
    (
        lambda client: client.starmap(train, [(1, 2), (3, 4), (5, Settings())]),
        f"{CALL} 2: {REASON}",
        ["Raised by item 2 of starmap(), counting from 0: train(5, <Settings object>)"],
    ),
    (lambda client: list(client.imap(train, [Settings()])), f"{CALL} 'config': {REASON}", []),
    (lambda client: list(client.imap_unordered(train, [Settings()])), f"{CALL} 'config': {REASON}", []),
    (
        lambda client: client.get({"settings": Settings(), "one": 1, "made": (add, "one", "settings")}, ["made"]),
        f"Cannot send a call of add(): argument 'right': {REASON}",
        ["Raised by an argument of node 'made' of the graph."],
    ),
]


@pytest.mark.parametrize(("call", "text", "notes"), UNSENDABLE)
def test_what_cannot_be_sent_is_named(
    client: Client, call: Callable[[Client], object], text: str, notes: list[str]
) -> None:
    error = failure_of(lambda: call(client))
    assert (type(error), str(error), getattr(error, "__notes__", [])) == (TypeError, text, notes)
    assert PACKAGE not in "".join(traceback.format_exception(error))
    assert client.submit(increment, 1).result(10) == 2


def test_the_users_own_frames_stay(client: Client) -> None:
    error = failure_of(lambda: client.submit(train, Refusing()))
    text = "".join(traceback.format_exception(error))
    assert type(error) is ArithmeticError and "in __getstate__" in text and PACKAGE not in text
    assert "argument 'config': ArithmeticError: no state (while pickling Refusing)" in text


def test_an_iterable_that_fails_shows_where(client: Client) -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise LookupError("no more input")

    for call in (client.map, client.imap, client.imap_unordered):
        error = failure_of(lambda call=call: list(call(increment, numbers())))  # type: ignore[misc]
        text = "".join(traceback.format_exception(error))
        assert "in numbers" in text and PACKAGE not in text


def test_a_custom_serializer_is_not_asked_for_parts(scheduler: FakeScheduler) -> None:
    asked: list[Any] = []

    class Text(Serializer):
        @staticmethod
        def serialize(obj: Any) -> bytes:
            asked.append(obj)
            raise ValueError("only text")

        @staticmethod
        def deserialize(payload: bytes) -> Any: ...

    with Client(scheduler.address, serializer=Text()) as client:
        with pytest.raises(ValueError, match=r"^Cannot send the object: only text$"):
            client.send_object([1, 2])
    assert asked == [[1, 2]]


# ---- tasks that fail -------------------------------------------------------------------------------------------------


def test_the_item_of_a_map_is_named(client: Client) -> None:
    error = failure_of(lambda: client.map(fail_at_three, range(1000), ["x" * 1000] * 1000))
    assert type(error) is ValueError and str(error) == "three"
    (note,) = error.__notes__
    assert note.startswith("Raised by item 3 of map(), counting from 0: fail_at_three(3, 'xxx") and len(note) < 200
    error = failure_of(lambda: client.starmap(fail_at_three, [(1,), (2, 5), (3, 7)]))
    assert error.__notes__ == ["Raised by item 2 of starmap(), counting from 0: fail_at_three(3, 7)"]
    error = failure_of(lambda: client.map(fail_at_three, [3]))
    assert error.__notes__ == ["Raised by item 0 of map(), counting from 0: fail_at_three(3)"]
    error = failure_of(lambda: list(client.imap(fail_at_three, range(10))))
    assert error.__notes__ == ["Raised by item 3 of imap(), counting from 0."]


def test_items_are_shown_without_asking_what_they_are() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("asked")

    failure = ItemFailure(1, ValueError("x"))
    failure.name_item("map", train, groups_of_lists([(0,), (Loud(), {"a": Loud()}, [1] * 100)]))
    assert failure.error.__notes__ == [
        "Raised by item 1 of map(), counting from 0: train(<test_items_are_shown_without_asking_what_they_are.<locals>"
        ".Loud object>, {'a': <test_items_are_shown_without_asking_what_they_are.<locals>.Loud object>}, "
        "[1, 1, 1, 1, 1, 1, ...])"
    ]


def test_what_ends_a_whole_map_names_no_item(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    timer = threading.Timer(0.1, client.clear)
    timer.start()
    error = failure_of(lambda: client.map(increment, range(10)))
    timer.join()
    assert not hasattr(error, "__notes__")


def test_the_traceback_of_a_task_appears_once_and_without_our_frames(client: Client) -> None:
    future = client.submit(fail, 1)
    graph = {"one": 1, "failed": (fail, "one")}
    calls: list[Callable[[], object]] = [
        future.result,
        future.result,
        lambda: client.map(fail, [1]),
        lambda: list(client.imap(fail, [1])),
        lambda: list(client.imap_unordered(fail, [1])),
        lambda: client.get(graph, ["failed"]),
    ]
    for call in calls:
        text = "".join(traceback.format_exception(failure_of(call)))
        assert text.count("Traceback of the worker") == 1 and text.count("ValueError: no 1") == 1
        assert PACKAGE not in text


def test_errors_of_scaler_show_no_frames_of_it(client: Client) -> None:
    other = client.send_object([1])
    client.clear()
    calls: list[Callable[[], object]] = [
        lambda: client.submit(len, other),
        lambda: client.submit(increment),
        lambda: client.map(increment, [1], [2]),
        lambda: client.imap(increment, [1], buffer_size=0),
        lambda: client.submit_verbose(increment, (1,), priority=10**30),
        lambda: client.get({}, ["x"]),
    ]
    for call in calls:
        assert PACKAGE not in "".join(traceback.format_exception(failure_of(call)))
    assert type(failure_of(calls[0])) is MissingObjects


def test_a_failure_of_our_own_shows_where(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client._client_io.session.submissions, "add", None)
    text = "".join(traceback.format_exception(failure_of(lambda: client.submit(increment, 1))))
    assert PACKAGE in text and "NoneType" in text
    monkeypatch.undo()
