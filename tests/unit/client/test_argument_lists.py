"""Which tuples of a map are argument lists: a table of functions and items."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import pytest

from scaler import Client
from scaler.client.argument_lists import AMBIGUOUS, groups_of_items
from tests.unit.client.fake_scheduler import FakeScheduler


class Point(NamedTuple):
    x: int
    y: int


class Pair(tuple):
    pass


def one(value: Any) -> Any:
    return value


def two(left: Any, right: Any) -> Any:
    return left, right


def one_or_two(left: Any, right: Any = 0) -> Any:
    return left, right


def any_number(*values: Any) -> Any:
    return values


def needs_keyword(value: Any, *, key: Any) -> Any:
    return value, key


def with_keyword(value: Any, *, key: Any = None) -> Any:
    return value, key


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def narrowed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A wrapper that takes one argument, around a function that takes two."""

    @functools.wraps(function)
    def wrapper(value: Any) -> Any:
        return function(value, value)

    return wrapper


@dataclass
class LogProbability:
    """As emcee's ``_FunctionWrapper``."""

    function: Callable[[Any], Any]

    def __call__(self, position: Any) -> Any:
        return self.function(position)

    def evaluate(self, left: Any, right: Any) -> Any:
        return left, right

    @staticmethod
    def of_one(value: Any) -> Any:
        return value

    @classmethod
    def of_two(cls, left: Any, right: Any) -> Any:
        return left, right


LISTS, VALUES = "argument lists", "single arguments"
PAIRS = [(1, 2), (3, 4)]
SINGLES = [(1,), (2,)]

TABLE: list[tuple[Callable[..., Any], list[Any], str, bool]] = [
    # function, items, what they are, whether a warning says that the choice could have been the other
    (one, PAIRS, VALUES, False),
    (two, PAIRS, LISTS, False),
    (one_or_two, PAIRS, LISTS, True),
    (any_number, PAIRS, LISTS, True),
    (with_keyword, PAIRS, VALUES, False),
    (lambda item: item, PAIRS, VALUES, False),
    (lambda left, right: left, PAIRS, LISTS, False),
    # one-tuples are argument lists, whatever else they could be
    (one, SINGLES, LISTS, False),
    (one_or_two, SINGLES, LISTS, False),
    (any_number, SINGLES, LISTS, False),
    (math.sqrt, SINGLES, LISTS, False),
    # of several lengths
    (any_number, [(1,), (2, 3), (4, 5, 6)], LISTS, True),
    (one_or_two, [(1,), (2, 3)], LISTS, True),
    (one_or_two, [(1, 2), (3, 4, 5)], VALUES, False),
    (one, [(), (1, 2)], VALUES, False),
    (one, [()], VALUES, False),
    (lambda: None, [()], LISTS, False),
    (two, [(1, 2)] * 3, LISTS, False),
    # only exact tuples
    (two, [Point(1, 2)], VALUES, False),
    (one, [Point(1, 2)], VALUES, False),
    (two, [Pair((1, 2))], VALUES, False),
    (two, [(1, 2), Point(1, 2)], VALUES, False),
    (two, [(1, 2), [1, 2]], VALUES, False),
    (one, [(1,), 2], VALUES, False),
    # sources of tuples
    (two, list({"a": 1, "b": 2}.items()), LISTS, False),
    (one, list({"a": 1, "b": 2}.items()), VALUES, False),
    (two, list(zip("ab", [1, 2], strict=True)), LISTS, False),
    (one, list(enumerate("ab")), VALUES, False),
    (one, list(itertools.combinations(range(4), 3)), VALUES, False),
    # builtins, with a signature and without one
    (len, PAIRS, VALUES, False),
    (sorted, PAIRS, VALUES, False),
    (pow, PAIRS, LISTS, False),
    (operator.add, PAIRS, LISTS, False),
    (math.hypot, PAIRS, LISTS, True),
    (max, PAIRS, LISTS, True),
    (int, [("11", 2)], LISTS, True),
    (dict.fromkeys, PAIRS, LISTS, True),
    (str.upper, PAIRS, VALUES, False),
    # callables of all kinds
    (functools.partial(two, 1), PAIRS, VALUES, False),
    (functools.partial(two), PAIRS, LISTS, False),
    (functools.partial(one_or_two, right=1), PAIRS, VALUES, False),
    (LogProbability(sum), PAIRS, VALUES, False),
    (LogProbability(sum).evaluate, PAIRS, LISTS, False),
    (LogProbability.of_one, PAIRS, VALUES, False),
    (LogProbability.of_two, PAIRS, LISTS, False),
    (Point, PAIRS, LISTS, False),
    (LogProbability, PAIRS, VALUES, False),
    (functools.lru_cache(one), PAIRS, VALUES, False),
    (functools.lru_cache(two), PAIRS, LISTS, False),
    (passing_on(one), PAIRS, VALUES, False),
    (passing_on(two), PAIRS, LISTS, False),
    (narrowed(two), PAIRS, VALUES, False),
    (numpy.vectorize(two), PAIRS, LISTS, True),
]


@pytest.mark.parametrize(("function", "items", "meaning", "warns"), TABLE)
def test_table(function: Callable[..., Any], items: list[Any], meaning: str, warns: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        groups = groups_of_items(function, items)
    read = [arguments for length, part in groups for arguments in (part if length != 1 else [(item,) for item in part])]
    assert read == (items if meaning == LISTS else [(item,) for item in items])
    assert [str(warning.message) for warning in caught] == [AMBIGUOUS] * warns
    assert "starmap" in AMBIGUOUS and "imap" in AMBIGUOUS


@pytest.mark.parametrize(
    ("function", "items", "sizes"),
    [
        (two, [(1, 2, 3)], "3"),
        (two, [(1, 2), (1, 2, 3)], "2 or 3"),
        (two, SINGLES, "1"),
        (lambda: None, PAIRS, "2"),
        (needs_keyword, PAIRS, "2"),
        (needs_keyword, SINGLES, "1"),
        (one, [(1,), (1, 2)], "1 or 2"),
        (two, [tuple(range(length)) for length in (2, 3, 5, 7)], "2 to 7"),
    ],
)
def test_what_fits_in_no_way_names_the_function_and_the_rule(
    function: Callable[..., Any], items: list[Any], sizes: str
) -> None:
    with pytest.raises(TypeError) as caught:
        groups_of_items(function, items)
    text = str(caught.value)
    assert text.startswith(f"Cannot map {function.__qualname__}() over tuples of {sizes} items: ")
    assert "argument lists if the function's signature" in text and "starmap()" in text and "imap()" in text


# ---- through the client ----------------------------------------------------------------------------------------------


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with FakeScheduler() as running:
        yield running


def test_calls_that_libraries_make(client: Client) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client.map(one, iter([Point(1, 2)])) == [Point(1, 2)]  # as dynesty's SamplerArgument
        positions = numpy.arange(6.0).reshape(3, 2)
        assert client.map(LogProbability(numpy.sum), (positions[i] for i in range(3))) == [1.0, 5.0, 9.0]
        assert client.map(two, {"a": 1}.items()) == [("a", 1)]
        assert client.map(lambda item: item[0], {"a": 1}.items()) == ["a"]
        assert client.map(one, zip([1, 2], [3, 4], strict=True)) == [(1, 3), (2, 4)]
        assert client.map(math.sqrt, [(value,) for value in range(4)]) == [math.sqrt(value) for value in range(4)]
        assert list(client.imap(one_or_two, PAIRS)) == [((1, 2), 0), ((3, 4), 0)]
        assert client.starmap(one_or_two, PAIRS) == PAIRS


def test_one_warning_for_each_line_that_calls(client: Client) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        for function in (one_or_two, any_number, any_number):
            client.map(function, PAIRS)
        client.map(one_or_two, PAIRS)
    assert len(caught) == 2
    assert {warning.filename for warning in caught} == {__file__}
    assert caught[0].lineno == caught[1].lineno - 1


def test_a_type_error_of_a_map_names_the_function(client: Client) -> None:
    with pytest.raises(TypeError, match=r"^Cannot call two\(\): missing a required argument: 'right'\."):
        client.map(two, [1, 2])
    with pytest.raises(TypeError, match=r"^Cannot call one\(\): too many positional arguments\."):
        client.map(one, [1], [2])
    with pytest.raises(TypeError, match=r"^Cannot call two\(\)"):
        client.starmap(two, [(1, 2), (1, 2, 3)])
