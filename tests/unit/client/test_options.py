"""Options of a task are checked by the call that gives them."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

from scaler.client.options import capabilities_of, duration, whole_number
from scaler_protocol.messages import Capability


def test_capabilities() -> None:
    assert capabilities_of(None) == ()
    assert capabilities_of({"gpu": 2, "arm": 1}) == (Capability("arm", 1), Capability("gpu", 2))
    assert capabilities_of(["linux"]) == (Capability("linux", 1),)


@pytest.mark.parametrize("wanted", ["gpu", b"gpu", [1], {1: 1}, {"gpu": "many"}])
def test_what_names_no_capabilities(wanted: Any) -> None:
    with pytest.raises(TypeError):
        capabilities_of(wanted)


@pytest.mark.parametrize("name", ["", "\udc80", "x" * 2000])
def test_a_capability_whose_name_cannot_be_sent(name: str) -> None:
    with pytest.raises(ValueError, match="The name of a capability"):
        capabilities_of([name])


def test_more_capabilities_than_can_be_sent() -> None:
    with pytest.raises(ValueError, match="at most 64 capabilities, not 65"):
        capabilities_of([f"c{index}" for index in range(65)])


def test_an_amount_out_of_range() -> None:
    with pytest.raises(ValueError, match="'gpu' must be between 0 and"):
        capabilities_of({"gpu": -2})
    assert capabilities_of({"gpu": -1}) == (Capability("gpu", 0, 1),)  # any amount


def test_whole_numbers() -> None:
    assert whole_number("retries", 3, 0, 9) == 3
    assert type(whole_number("retries", numpy.int64(3), 0, 9)) is int
    with pytest.raises(ValueError, match="retries must be between 0 and 9, not -1"):
        whole_number("retries", -1, 0, 9)
    with pytest.raises(TypeError, match="priority must be a whole number, not 1.5"):
        whole_number("priority", 1.5, 0, 9)  # type: ignore[arg-type]


def test_durations() -> None:
    assert duration("timeout_seconds", None) == 0
    assert duration("timeout_seconds", 2) == 2.0
    assert duration("timeout_seconds", math.inf) == 0
    assert duration("timeout_seconds", 1e13) == 0
    for wrong in (-1, math.nan):
        with pytest.raises(ValueError, match="timeout_seconds must not be negative"):
            duration("timeout_seconds", wrong)
    with pytest.raises(TypeError, match="timeout_seconds must be a number"):
        duration("timeout_seconds", "1")  # type: ignore[arg-type]
