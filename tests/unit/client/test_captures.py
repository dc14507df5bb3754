"""Functions that are pickled by value are serialized again when what they capture has changed, and only then."""

from __future__ import annotations

import gc
import math
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy
import pytest

from scaler.client.calls import Encoder, FunctionBook
from scaler.client.captures import take_snapshot
from scaler.client.serializer import DefaultSerializer

SOURCE = """
import math
import numpy
step = 2
table = []
def helper(value, scale=1):
    return value * scale
def task(value):
    return helper(value) + step
def even(value):
    return value == 0 or odd(value - 1)
def odd(value):
    return value != 0 and even(value - 1)
def appended(value):
    return table + [value]
def early(value):
    return later
def root(value):
    return math.sqrt(value)
def added(value):
    return numpy.add(value, 1)
"""


TWICE = 2
"""A function is serialized before and after the snapshot of what it captures."""


class Counted:
    """A book of functions, and how often it has serialized one."""

    def __init__(self) -> None:
        encoder = Encoder(DefaultSerializer())
        encode = encoder.encode
        self.count = 0

        def counting(value: Any) -> bytes:
            self.count += 1
            return encode(value)

        encoder.encode = counting
        self.find = FunctionBook(encoder).find


@pytest.fixture
def script() -> types.SimpleNamespace:
    """The names of a program, as they are in ``__main__``."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(SOURCE, namespace)
    return types.SimpleNamespace(names=namespace, book=Counted())


@pytest.mark.parametrize("name", ["helper", "task", "even", "early", "root", "added"])
def test_an_unchanged_function_is_serialized_once(script: types.SimpleNamespace, name: str) -> None:
    function = script.names[name]
    assert script.book.find(function) is script.book.find(function)
    assert script.book.count == TWICE


def set_global(names: dict[str, Any]) -> None:
    names["step"] = 3


def redefine_helper(names: dict[str, Any]) -> None:
    exec("def helper(value):\n    return -value", names)


def replace_default_of_helper(names: dict[str, Any]) -> None:
    names["helper"].__defaults__ = (5,)


def replace_code_of_helper(names: dict[str, Any]) -> None:
    names["helper"].__code__ = (lambda value, scale=1: value - scale).__code__


def replace_default(names: dict[str, Any]) -> None:
    names["task"].__defaults__ = (5,)


def rename(names: dict[str, Any]) -> None:
    names["task"].__name__ = "other"


def set_attribute(names: dict[str, Any]) -> None:
    names["task"].kind = "slow"


def set_keyword_default(names: dict[str, Any]) -> None:
    names["helper"].__kwdefaults__ = {"scale": 2}


def document(names: dict[str, Any]) -> None:
    names["task"].__doc__ = "Documented."


def annotate(names: dict[str, Any]) -> None:
    names["task"].__annotations__["value"] = int


def move(names: dict[str, Any]) -> None:
    names["__file__"] = "elsewhere.py"


@pytest.mark.parametrize(
    "change",
    [
        document,
        annotate,
        move,
        set_global,
        redefine_helper,
        replace_default_of_helper,
        replace_code_of_helper,
        replace_default,
        rename,
        set_attribute,
        set_keyword_default,
    ],
)
def test_a_change_is_seen(script: types.SimpleNamespace, change: Callable[[dict[str, Any]], None]) -> None:
    function = script.names["task"]
    script.book.find(function)
    change(script.names)
    found = script.book.find(function)
    assert script.book.count > TWICE
    assert found.payload == DefaultSerializer.serialize(function)


def test_a_global_that_is_defined_later(script: types.SimpleNamespace) -> None:
    script.book.find(script.names["early"])
    script.names["later"] = 7
    found = script.book.find(script.names["early"])
    assert cloudpickle.loads(found.payload)(0) == 7


def test_what_can_change_in_place_is_serialized_each_time(script: types.SimpleNamespace) -> None:
    appended = script.names["appended"]
    script.book.find(appended)
    script.names["table"].append(1)
    assert cloudpickle.loads(script.book.find(appended).payload)(2) == [1, 2]


@pytest.mark.parametrize(
    "captured", [[1], {"a": 1}, ([1],), bytearray(b"a"), numpy.zeros(3), object(), type("Local", (), {})]
)
def test_values_without_a_snapshot(captured: Any) -> None:
    assert take_snapshot(lambda: captured) is None


@pytest.mark.parametrize("captured", [1, 2.5, "text", b"bytes", None, True, (1, ("a", None)), math, math.sqrt, dict])
def test_values_with_a_snapshot(captured: Any) -> None:
    function = lambda: captured  # noqa: E731
    snapshot = take_snapshot(function)
    assert snapshot is not None
    assert snapshot.is_of(function)


def test_a_lambda_in_a_loop_is_serialized_once() -> None:
    book = Counted()
    found = {id(book.find(lambda value: value + 1)) for _ in range(10)}
    assert (len(found), book.count) == (1, TWICE)


def test_closures_of_one_code_are_told_apart_by_their_contents() -> None:
    book = Counted()

    def adder(step: int) -> Callable[[int], int]:
        return lambda value: value + step

    results = [cloudpickle.loads(book.find(adder(step)).payload)(1) for step in (1, 1, 2, 2)]
    assert (results, book.count) == ([2, 2, 3, 3], 2 * TWICE)


def test_a_closure_without_a_value_yet() -> None:
    def capture() -> int:
        return later

    assert take_snapshot(capture) is None
    later = 1
    assert take_snapshot(capture) is not None


def test_a_closure_that_has_lost_its_value() -> None:
    book = Counted()
    later = 1

    def capture() -> int:
        return later  # noqa: F821

    book.find(capture)
    del later
    with pytest.raises(NameError, match="later"):
        cloudpickle.loads(book.find(capture).payload)()


def test_a_change_by_another_thread_between_pickle_and_snapshot(script: types.SimpleNamespace) -> None:
    """The change comes with the serialization, after what it captures was read."""
    encoder = Encoder(DefaultSerializer())
    encode = encoder.encode

    def changing(value: Any) -> bytes:
        payload = encode(value)
        script.names["step"] += 1
        return payload

    encoder.encode = changing
    book = FunctionBook(encoder)
    for _ in range(3):
        book.find(script.names["task"])
    encoder.encode = encode
    assert cloudpickle.loads(book.find(script.names["task"]).payload)(0) == script.names["step"]


def test_a_namespace_is_not_kept() -> None:
    book = Counted()

    class Large:
        pass

    namespace: dict[str, Any] = {"__name__": "__main__", "large": Large()}
    exec("def task(value):\n    return value", namespace)
    book.find(namespace["task"])
    large = weakref.ref(namespace["large"])
    namespace.clear()
    gc.collect()
    assert large() is None


def test_a_function_that_changes_often_loses_its_snapshots() -> None:
    book = Counted()
    for step in range(100):
        assert cloudpickle.loads(book.find(lambda value, step=step: value + step).payload)(0) == step
    assert 100 < book.count < 2 * 100


def test_a_large_function_is_not_kept() -> None:
    book = Counted()
    text = "large" * 20_000

    def capture() -> str:
        return text

    before = sys.getrefcount(text)
    assert book.find(capture) is not book.find(capture)
    assert (book.count, sys.getrefcount(text)) == (2, before)


def test_modules_that_are_imported_later_travel_with_their_package(
    script: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = script.names["added"]
    script.book.find(added)
    monkeypatch.setitem(sys.modules, "numpy.scaler_test", types.ModuleType("numpy.scaler_test"))
    script.book.find(added)
    assert script.book.count == 2 * TWICE


def test_modules_that_are_pickled_by_value_have_no_snapshot(script: types.SimpleNamespace) -> None:
    script.book.find(script.names["root"])
    cloudpickle.register_pickle_by_value(math)
    try:
        assert take_snapshot(script.names["root"]) is None
        script.book.find(script.names["root"])
        assert script.book.count > TWICE
    finally:
        cloudpickle.unregister_pickle_by_value(math)
