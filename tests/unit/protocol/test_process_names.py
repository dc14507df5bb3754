"""Names of processes that run nested tasks."""

from __future__ import annotations

import pytest

from scaler_protocol.process_names import nested_name, nested_number


@pytest.mark.parametrize("number", [1, 12, 65_000])
def test_a_number_is_read_back(number: int) -> None:
    assert nested_number("vm 3", nested_name("vm 3", number)) == number


@pytest.mark.parametrize(
    "name", ["", "vm 3", "vm 3 nested", "vm 3 nested ", "vm 3 nested 01", "vm 3 nested 0", "vm 3 nested -1",
             "vm 3 nested 1 2", "vm nested 1", "vm 3 nested ²", "vm 3 nested " + "1" * 5000]
)  # fmt: skip
def test_other_names_have_no_number(name: str) -> None:
    assert nested_number("vm 3", name) is None
