"""Colours of functions."""

from __future__ import annotations

from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.palette import (
    CANCELED_COLOUR,
    FAILED_COLOUR,
    TERMINAL_COLOURS,
    ColourNumbers,
    function_colour,
)
from scaler_protocol.monitor.records import Naming, name_record


def test_functions_of_one_name_have_one_colour() -> None:
    activity = Activity(10)
    names = ["noop", "hang", "noop", "leaf"]
    data = b"".join(
        name_record(Naming.FUNCTION, index, {"digest": f"{index:02x}" * 16, "name": name})
        for index, name in enumerate(names)
    )
    activity.apply(Events(1.0, 0, data))
    assert [activity.colour_number(index) for index in range(4)] == [0, 1, 0, 2]
    assert activity.colours.number_of("leaf") == 2


def test_many_functions_have_colours_of_their_own() -> None:
    colours = [function_colour(number) for number in range(500)]
    assert len(set(colours)) == len(colours)
    assert not {FAILED_COLOUR, CANCELED_COLOUR} & set(colours)
    assert len(set(TERMINAL_COLOURS)) == len(TERMINAL_COLOURS)


def test_names_are_forgotten_when_there_are_too_many() -> None:
    numbers = ColourNumbers()
    for index in range(50_001):
        numbers.number_of(f"f{index}")
    assert numbers.number_of("f50000") == 50_000
    assert numbers.number_of("f0") == 50_001
