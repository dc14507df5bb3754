"""Checking, serializing and remembering functions and arguments."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import pickle
import re
import threading
from collections.abc import Callable

import cloudpickle
import numpy
import pytest

from scaler import Client
from scaler.client.calls import (
    PLAIN_TYPES,
    Encoder,
    FunctionBook,
    MapCalls,
    shape_of,
)
from scaler.client.serializer import DefaultSerializer, ReusedPickler, Serializer
from scaler.client.signatures import (
    ACTOR_OPTIONS,
    TASK_OPTIONS,
    OptionNames,
    check_call,
    function_module,
    function_name,
    takes_keyword,
)
from scaler_protocol.messages import TaskOptions


def plain(a: int, b: int = 2) -> int:
    return a + b


def with_keywords(a: int, *, step: int = 1, **rest: int) -> int:
    return a + step


def with_variable(*values: int) -> int:
    return sum(values)


# ---- names -----------------------------------------------------------------------------------------------------------


def test_functions_have_the_modules_in_which_they_are_defined() -> None:
    found = [
        function_module(each) for each in (plain, math.sqrt, len, functools.partial(plain, 1), DefaultSerializer())
    ]
    assert found == [__name__, "math", "builtins", "functools", "scaler.client.serializer"]
    assert FunctionBook(Encoder(DefaultSerializer)).find(plain).definition.module == __name__


# ---- binding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (plain, (1,), {}),
        (plain, (1, 2), {}),
        (plain, (), {"a": 1}),
        (with_keywords, (1,), {"step": 2, "other": 3}),
        (with_variable, (1, 2, 3), {}),
        (math.sqrt, (4.0,), {}),
        (max, (1, 2), {"key": None}),
        (dict, (), {"a": 1}),
        (functools.partial(plain, 1), (2,), {}),
        ("text".upper, (), {}),
        (lambda: None, (), {}),
    ],
)
def test_calls_that_fit(function, args, kwargs) -> None:
    check_call(function, args, kwargs)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (plain, (), {}),
        (plain, (1, 2, 3), {}),
        (plain, (1,), {"a": 1}),
        (plain, (1,), {"c": 1}),
        (with_keywords, (1, 2), {}),
        (math.sqrt, (), {}),
        (functools.partial(plain, 1), (2, 3), {}),
        (lambda: None, (1,), {}),
    ],
)
def test_calls_that_do_not_fit(function, args, kwargs) -> None:
    with pytest.raises(TypeError, match=rf"^Cannot call {re.escape(function_name(function))}\(\): "):
        check_call(function, args, kwargs)


def test_the_error_of_a_misplaced_option_says_where_it_belongs() -> None:
    with pytest.raises(TypeError, match=r"'retries'\. Pass the option retries to submit_verbose\(\)\.$"):
        check_call(plain, (1,), {"retries": 3}, TASK_OPTIONS)
    with pytest.raises(TypeError, match=r"'c'\.$"):
        check_call(plain, (1,), {"c": 1}, TASK_OPTIONS)


@pytest.mark.parametrize("options", [TASK_OPTIONS, ACTOR_OPTIONS])
def test_these_are_the_options_of_the_verbose_forms(options: OptionNames) -> None:
    parameters = inspect.signature(getattr(Client, options.method)).parameters.values()
    names = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert names - {"key", "pure"} == options.names  # the plain form takes these two


async def awaited(value: int = 0) -> int:
    return value


@pytest.mark.parametrize("function", [awaited, functools.partial(awaited, 1)])
def test_a_coroutine_function_is_refused(function) -> None:
    with pytest.raises(TypeError, match=r"it is a coroutine function, .* Pass a function that returns asyncio.run\("):
        check_call(function, (), {})


def test_a_keyword_of_the_function_itself() -> None:
    assert takes_keyword(with_keywords, "profiling")
    assert takes_keyword(lambda profiling: None, "profiling")
    assert not takes_keyword(plain, "profiling")
    assert not takes_keyword(max, "profiling")


# ---- functions -------------------------------------------------------------------------------------------------------


def book() -> FunctionBook:
    return FunctionBook(Encoder(DefaultSerializer()))


def test_a_function_of_a_module_is_serialized_once() -> None:
    functions = book()
    assert functions.find(math.sqrt) is functions.find(math.sqrt)
    assert id(math.sqrt) in functions.by_reference


def test_a_closure_is_serialized_each_time() -> None:
    functions = book()
    captured = [1]

    def capture() -> list[int]:
        return captured

    first = functions.find(capture)
    captured.append(2)
    second = functions.find(capture)
    assert first.digest != second.digest
    assert cloudpickle.loads(second.payload)() == [1, 2]
    assert functions.find(capture) is second  # the same content is the same function, so its tasks share runs


def test_bound_methods_of_values_are_not_remembered() -> None:
    functions = book()
    values = [1, 2]
    first = functions.find(values.index)
    values.append(3)
    assert functions.find(values.index).digest != first.digest


def test_what_cannot_be_called_or_pickled_is_an_error_at_once() -> None:
    with pytest.raises(TypeError):
        book().find(3)  # type: ignore[arg-type]
    lock = threading.Lock()
    with pytest.raises((TypeError, pickle.PicklingError)):
        book().find(lambda: lock)


def test_shapes_are_shared() -> None:
    function = book().find(plain)
    options = TaskOptions()
    assert shape_of(function, 1, (), options) is shape_of(function, 1, (), TaskOptions())
    assert shape_of(function, 1, ("a",), options) is not shape_of(function, 1, (), options)


def test_a_large_function_travels_as_an_object() -> None:
    data = b"x" * 100_000
    function = book().find(lambda: data)
    assert function.is_large
    assert (function.definition.payload, function.definition.size) == (b"", len(function.payload))


# ---- serializer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, 2**70, 1.5, "text", b"bytes", True, None, 1j])
def test_plain_types_are_written_as_cloudpickle_writes_them(value) -> None:
    assert type(value) in PLAIN_TYPES
    assert pickle.dumps(value, 5) == cloudpickle.dumps(value, 5)


@pytest.mark.parametrize(
    "value",
    [[1, [2]], {"a": (1, 2)}, numpy.arange(5), plain, int, operator.add, [lambda x: x], range(3), {1, 2}],
)
def test_the_kept_pickler_writes_what_a_fresh_one_would(value) -> None:
    pickler = ReusedPickler()
    for _ in range(2):
        assert pickler.dumps(value) == ReusedPickler().dumps(value)


def test_the_kept_pickler_survives_errors_nesting_and_size() -> None:
    pickler = ReusedPickler()

    class Nested:
        def __reduce__(self):
            return pickle.loads, (pickler.dumps([1, 2]),)

    with pytest.raises(TypeError):
        pickler.dumps([1, threading.Lock()])
    assert pickle.loads(pickler.dumps(Nested())) == [1, 2]
    large = ["x" * 100_000]
    assert pickle.loads(pickler.dumps(large)) == large
    assert pickler.dumps([1]) == cloudpickle.dumps([1], 5)


def test_the_kept_pickler_in_threads() -> None:
    pickler, wrong = ReusedPickler(), []

    def work(number: int) -> None:
        for index in range(300):
            value = [number, index, {"k": [number]}]
            if pickle.loads(pickler.dumps(value)) != value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Reversing(Serializer):
    @staticmethod
    def serialize(obj):
        return bytearray(cloudpickle.dumps(obj)[::-1])

    @staticmethod
    def deserialize(payload):
        assert type(payload) is bytes
        return pickle.loads(payload[::-1])


@pytest.mark.parametrize("serializer", [Reversing, Reversing()])
def test_a_serializer_of_ones_own(serializer) -> None:
    encoder = Encoder(serializer)
    payload = encoder.encode([1, 2])
    assert type(payload) is bytes and encoder.decode(bytearray(payload)) == [1, 2]
    assert encoder.plain_types == frozenset()
    definition = encoder.definition()
    assert definition is not None and definition.name == "Reversing"
    restored = pickle.loads(definition.payload)
    assert restored.deserialize(bytes(restored.serialize(3))) == 3


def test_the_default_serializer_needs_no_definition() -> None:
    assert Encoder(DefaultSerializer()).definition() is None
    assert Encoder(DefaultSerializer).definition() is None


def test_a_serializer_that_gives_no_bytes() -> None:
    class Wrong(Reversing):
        @staticmethod
        def serialize(obj):
            return 3

    with pytest.raises(TypeError, match="not bytes"):
        Encoder(Wrong()).encode(1)


def test_names_that_cannot_be_sent() -> None:
    def named() -> None: ...

    named.__qualname__ = "\udc80" + "n" * 100_000
    function = book().find(named)
    assert function.definition.name == "?" + "n" * 999
    named.__qualname__ = " "
    assert book().find(named).definition.name == "function"
    named.__qualname__ = "宽" * 10_000
    assert book().find(named).definition.name == "宽" * 333
    with pytest.raises(ValueError, match="cannot be encoded as UTF-8"):
        shape_of(function, 1, ("\udc80",), TaskOptions())
    with pytest.raises(ValueError, match="The names of the keyword arguments have 300000 bytes"):
        shape_of(function, 1, ("k" * 300_000,), TaskOptions())
    with pytest.raises(ValueError, match="The name of a keyword argument has 1026 bytes"):
        shape_of(function, 1, ("宽" * 342, "k" * 1024), TaskOptions())


def test_a_map_does_not_keep_large_functions() -> None:
    def with_data(data: bytes) -> Callable[[], int]:
        return lambda: len(data)

    book, calls = FunctionBook(Encoder(DefaultSerializer)), MapCalls(TaskOptions(), 1, 0)
    small, large = book.find(with_data(b"x")), book.find(with_data(b"x" * 100_000))
    shapes = {function: calls.add(function, 0, 0, ()) for function in (small, large)}
    assert (calls.find(small, 0), calls.find(large, 0)) == (shapes[small], None)
