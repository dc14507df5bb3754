"""Durations and ends of tasks in two bytes each: they are spelled out, or refused with ValueError."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from scaler_protocol.codec import ResultRun
from scaler_protocol.steps import spelled_out
from tests.unit.protocol import samples


def one_input(data: bytes) -> None:
    """Two bytes for the number of tasks, then the packed columns."""
    count = int.from_bytes(data[:2], "little")
    try:
        durations, ages = spelled_out(data[2:], count)
    except ValueError:
        return
    assert len(durations) == len(ages) == count
    assert sorted(ages, reverse=True) == list(ages)
    check_packed_again(durations, ages)


def check_packed_again(durations: array[int], ages: array[int]) -> None:
    rows = [(index, 1, 0, b"", duration, 0, 0) for index, duration in enumerate(durations)]
    run = ResultRun(samples.SESSION, rows)
    run.set_place(0, ages.tobytes())
    column = run.age_column
    assert column is not None and column.tolist() == list(ages)


def seeds() -> Iterator[bytes]:
    yield b"\x03\x00" + b"\x10\x27\0\0" + bytes(4) + b"\x05\x06\x07" + b"\x00\x01\x02"
    yield b"\x02\x00" + b"\x10\x27\0\0" + b"\x02\0\0\0" + b"\xff\x06\x00\xff" + b"\x00\x10\0\0" + b"\xff\x01\0\0"
