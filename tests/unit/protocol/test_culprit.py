"""Which part of a value cannot be pickled."""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from scaler_protocol import culprit
from scaler_protocol.culprit import explained

LOCK = threading.Lock()
REASON = "cannot pickle '_thread.lock' object"
READER = io.BufferedReader(io.BytesIO())


def _reason_of(value: object) -> str:
    """What Python says, which differs between its versions."""
    with pytest.raises(TypeError) as caught:
        pickle.dumps(value)
    return str(caught.value)


class Settings:
    def __init__(self) -> None:
        self.name = "x"
        self.lock = LOCK

    def method(self) -> None: ...


class SlottedSettings:
    __slots__ = ("name", "lock")

    def __init__(self) -> None:
        self.name, self.lock = "x", LOCK


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Names(list[Any]):
    pass


class Refusing:
    def __getstate__(self) -> Any:
        raise ValueError("it has no state")


class Odd:
    """Raises what is made of more than a text."""

    def __reduce__(self) -> Any:
        raise UnicodeDecodeError("utf-8", b"x", 0, 1, "odd")


class Silent:
    def __reduce__(self) -> Any:
        raise TypeError


def closure() -> Callable[[], Any]:
    inside = LOCK
    other = 3

    def function() -> Any:
        return other, inside

    return function


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__module__ = "__main__"
    return function


@by_value
def with_default(a: int, b: int = 1, c: Any = LOCK, *, d: int = 3) -> None: ...


@by_value
def with_keyword_default(*, d: Any = LOCK) -> None: ...


@by_value
def with_global() -> Any:
    return [LOCK for _ in range(3)]


def local_class() -> type:
    class Local:
        lock = LOCK

        def __init__(self) -> None:
            self.value = 1

    return Local


TABLE: list[tuple[Any, str]] = [
    (LOCK, REASON),
    (Settings(), f"attribute 'lock' of Settings: {REASON}"),
    (SlottedSettings(), f"attribute 'lock' of SlottedSettings: {REASON}"),
    (Point(1, Settings()), f"attribute 'y' of Point: attribute 'lock' of Settings: {REASON}"),
    ([1, 2, Settings()], f"item 2 of list: attribute 'lock' of Settings: {REASON}"),
    ((1, LOCK), f"item 1 of tuple: {REASON}"),
    ({LOCK}, f"item 0 of set: {REASON}"),
    ({"a": 1, "b": [LOCK]}, f"value of key 'b' of dict: item 0 of list: {REASON}"),
    ({LOCK: 1}, f"key <lock> of dict: {REASON}"),
    ({(1, 2): LOCK}, f"value of key <tuple> of dict: {REASON}"),
    (Names([0, LOCK]), f"item 1 of Names: {REASON}"),
    (functools.partial(print, 1, LOCK), f"argument 2 of partial: {REASON}"),
    (functools.partial(print, end=LOCK), f"argument 'end' of partial: {REASON}"),
    (Settings().method, f"its object: attribute 'lock' of Settings: {REASON}"),
    (closure(), f"closure variable 'inside': {REASON}"),
    (with_default, f"default of parameter 'c': {REASON}"),
    (with_keyword_default, f"default of parameter 'd': {REASON}"),
    (with_global, f"global variable 'LOCK': {REASON}"),
    (local_class(), f"attribute 'lock' of class local_class.<locals>.Local: {REASON}"),
    (local_class()(), f"its class: attribute 'lock' of class local_class.<locals>.Local: {REASON}"),
    ([Refusing()], "item 0 of list: it has no state (while pickling Refusing)"),
    ([Silent()], "item 0 of list: TypeError (while pickling Silent)"),
    ((each for each in ()), "cannot pickle 'generator' object"),
    ([READER], f"item 0 of list: {_reason_of(READER)}"),
]


def failure_of(value: Any) -> Exception:
    with pytest.raises(Exception) as caught:
        cloudpickle.dumps(value)
    return caught.value


@pytest.mark.parametrize(("value", "text"), TABLE, ids=[text for _, text in TABLE])
def test_path(value: Any, text: str) -> None:
    error = failure_of(value)
    told = explained(error, "Cannot send it", value, cloudpickle.dumps)
    assert (type(told), str(told)) == (type(error), f"Cannot send it: {text}")


def test_a_long_path_is_shortened() -> None:
    value = [LOCK]
    for _ in range(20):
        value = [value]
    told = str(explained(failure_of(value), "Cannot send it", value, cloudpickle.dumps))
    assert told == f"Cannot send it: {'item 0 of list: ' * 4}...: {'item 0 of list: ' * 4}{REASON}"


def test_an_exception_that_is_more_than_a_text_gets_a_note() -> None:
    error = failure_of([1, Odd()])
    told = explained(error, "Cannot send it", [1, Odd()], cloudpickle.dumps)
    assert told is error and told.__notes__ == [
        "Cannot send it: item 1 of list: UnicodeDecodeError: 'utf-8' codec can't decode byte 0x78 in position 0: odd "
        "(while pickling Odd)"
    ]


def test_frames_of_the_user_stay() -> None:
    told = explained(failure_of([Refusing()]), "Cannot send it", [Refusing()], cloudpickle.dumps)
    trace = told.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None and trace.tb_frame.f_code.co_name == "__getstate__"


def test_parts_of_a_custom_serializer_are_not_tried() -> None:
    told = explained(ValueError("no"), "Cannot send it", [LOCK], None)
    assert str(told) == "Cannot send it: no"


def test_many_items_are_found_by_halves() -> None:
    tried = 0

    def dumps(value: Any) -> bytes:
        nonlocal tried
        tried += 1
        return cloudpickle.dumps(value)

    value = [*range(100_000), LOCK, *range(100)]
    told = explained(failure_of(value), "Cannot send it", value, dumps)
    assert "item 100000 of list" in str(told) and tried < 60


def test_a_value_that_contains_itself() -> None:
    value: list[Any] = []
    value += [value, LOCK]
    assert REASON in str(explained(failure_of(value), "Cannot send it", value, cloudpickle.dumps))


def test_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(culprit, "SEARCH_SECONDS", 0.05)

    def dumps(value: Any) -> bytes:
        time.sleep(0.02)
        return cloudpickle.dumps(value)

    value = [*range(1000), [LOCK]]
    told = explained(failure_of(value), "Cannot send it", value, dumps)
    assert str(told).startswith("Cannot send it: ") and REASON in str(told)


def test_a_value_that_pickles_the_second_time() -> None:
    assert str(explained(TypeError("once"), "Cannot send it", [1], cloudpickle.dumps)) == (
        "Cannot send it: once (while pickling list)"
    )
