"""A value behaves as a frozen dataclass, before and after its first instance has compiled ``__init__``."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from scaler_protocol.value import value


@value(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    name: str = ""


@value(frozen=True, slots=True)
class Nothing:
    """Has no fields."""


def test_arguments_are_those_of_a_dataclass() -> None:
    for made in (Point(1), Point(1, 2), Point(x=1, y=2), Point(1, name=""), dataclasses.replace(Point(5), x=1)):
        assert made == Point(1, 2, "") and hash(made) == hash(Point(1))
    assert repr(Point(1)) == "Point(x=1, y=2, name='')"
    assert Point(1) != Point(2) and Point(1) != (1, 2, "")
    assert Nothing() == Nothing() and repr(Nothing()) == "Nothing()"


def test_the_first_instance_is_like_the_others() -> None:
    @value(frozen=True, slots=True)
    class Local:
        x: int
        y: int = 2

    first, second = Local(1), Local(1)
    assert first == second and (first.x, first.y) == (1, 2)


@pytest.mark.parametrize("earlier", [0, 1])
def test_wrong_arguments_are_named(earlier: int) -> None:
    @value(frozen=True, slots=True)
    class Local:
        x: int

    for _ in range(earlier):
        Local(1)
    with pytest.raises(TypeError, match=r"Local.__init__\(\) missing 1 required positional argument: 'x'"):
        Local()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Local.__init__\(\) got an unexpected keyword argument 'z'"):
        Local(1, z=1)  # type: ignore[call-arg]


def test_values_are_pickled_and_copied() -> None:
    point = Point(1, name="p")
    assert pickle.loads(pickle.dumps(point)) == point == copy.copy(point)


def test_a_value_matches_by_position() -> None:
    match Point(1):
        case Point(x, y, _):
            assert (x, y) == (1, 2)
