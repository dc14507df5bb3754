"""Colours of functions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.messages import Events, FunctionStatus
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.palette import (
    CANCELED_COLOUR,
    FAILED_COLOUR,
    TERMINAL_COLOURS,
    ColourNumbers,
    contrast,
    function_colour,
    text_colour,
)
from scaler_protocol.monitor.records import Naming, name_record
from tests.support.monitoring import snapshot


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


def test_the_number_of_the_scheduler_replaces_a_number_of_ones_own() -> None:
    numbers = ColourNumbers()
    assert [numbers.number_of(name) for name in "abc"] == [0, 1, 2]
    numbers.learn("b", 0)
    assert numbers.number_of("b") == 0 and numbers.number_of("a") == 3
    numbers.learn("a", 7)
    numbers.learn("b", 0)
    assert [numbers.number_of(name) for name in "abcd"] == [7, 0, 2, 8]


def test_no_two_names_share_a_number_whatever_comes() -> None:
    chance, numbers = Random(3), ColourNumbers()
    for _ in range(3000):
        name = f"f{chance.randrange(40)}"
        if chance.random() < 0.5:
            numbers.learn(name, chance.randrange(60))
        else:
            numbers.number_of(name)
        shown = [numbers.number_of(f"f{index}") for index in range(40)]
        assert len(set(shown)) == len(shown)
    numbers.learn("nonsense", 2**64 - 2)
    assert numbers.number_of("nonsense") < 2**40


def test_monitors_that_begin_at_different_times_paint_alike() -> None:
    """One has seen names in another order, the other only the snapshot."""
    early, late = Model(0.0), Model(0.0)
    names = ["report", "simulate", "noop"]
    data = b"".join(
        name_record(Naming.FUNCTION, index, {"digest": f"{index:02x}" * 16, "name": name})
        for index, name in enumerate(names)
    )
    early.apply(Events(1.0, 0, data, epoch=7), 0.0)
    functions = tuple(FunctionStatus(bytes([each]) * 16, name, number=5 - each) for each, name in enumerate(names))
    said = feed.decode(feed.encode(replace(snapshot(), functions=functions))).message
    for model in (early, late):
        model.apply(said, 1.0)
    found = [[model.activity.colours.number_of(name) for name in names] for model in (early, late)]
    assert found == [[4, 3, 2]] * 2 and [early.activity.colour_number(index) for index in range(3)] == [4, 3, 2]


def test_contrasts_are_those_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_a_name_is_readable_in_a_bar_of_any_colour() -> None:
    grounds = [*map(function_colour, range(1000)), FAILED_COLOUR, CANCELED_COLOUR]
    assert min(contrast(text_colour(ground), ground) for ground in grounds) >= 4.5
    assert {text_colour(ground) for ground in grounds} == {"#000000", "#ffffff"}
