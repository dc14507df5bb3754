from __future__ import annotations

import struct

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.payloads import FAILURE_LIMIT_BYTES
from scaler_protocol.monitor.records import NONE, BadRecord, Kind, Naming


def test_records_are_read_as_they_were_written() -> None:
    name = records.name_record(Naming.FUNCTION, 3, {"digest": "ab" * 16, "name": "f"}, time=5)
    handed = records.record(Kind.HANDED, time=6, count=10, session=1, first=100, agent=2, function=3, attempt=1)
    read = list(records.records(name + handed))
    assert [each.kind for each in read] == [Kind.NAME, Kind.HANDED]
    assert (read[0].flags, read[0].first, records.name_of(read[0])["name"]) == (Naming.FUNCTION, 3, "f")
    assert read[1][:10] == (Kind.HANDED, 0, 10, 1, 6, 100, 2, 3, 1, NONE)


@pytest.mark.parametrize("functions", [None, [7, 8, 7]])
@pytest.mark.parametrize("ages", [None, [20, 10, 0]])
@pytest.mark.parametrize("workers", [None, [0, 1, 0xFFFF]])
def test_an_ended_record_has_the_columns_it_was_given(
    functions: list[int] | None, ages: list[int] | None, workers: list[int] | None
) -> None:
    data = records.ended_record(
        [4, 5, 6], [1, 2, 3], [1, 1, 2], [0, 2, 4],
        time=9, session=0, agent=1, functions=functions, ages=ages, workers=workers,
    )  # fmt: skip
    (record,) = records.records(data)
    columns = [None if column is None else column.tolist() for column in records.ended_columns(record)]
    assert columns == [[4, 5, 6], [1, 2, 3], [1, 1, 2], functions, ages, workers, [0, 2, 4]]


@pytest.mark.parametrize("longest", [9, 70_000])
def test_executions_in_a_row_are_spelled_out(longest: int) -> None:
    data = records.ran_record(
        100, [1, 2, longest], [30, 20, 10], time=9, session=0, status=4, agent=1, function=7, attempt=3, worker=2
    )
    (record,) = records.records(data)
    columns = [None if column is None else column.tolist() for column in records.ended_columns(record)]
    assert columns == [[100, 101, 102], [1, 2, longest], [3, 3, 3], None, [30, 20, 10], None, [4, 4, 4]]


def stepped(durations: list[int], steps: list[int], exceptions: list[int], **header: int) -> bytes:
    body = struct.pack("<II", 1000, len(exceptions)) + bytes(durations) + bytes(steps)
    body += struct.pack(f"<{len(exceptions)}I", *exceptions)
    return records.record(Kind.STEPPED, time=9, count=len(durations), body=body, **header)


def test_steps_are_spelled_out() -> None:
    data = stepped([1, 255, 3, 254], [0, 255, 7, 255], [300, 400, 255], first=100, flags=4, attempt=3)
    (record,) = records.records(data)
    columns = [None if column is None else column.tolist() for column in records.ended_columns(record)]
    expected = [[100, 101, 102, 103], [1, 300, 3, 254], [3] * 4, None, [1000, 600, 593, 338], None, [4] * 4]
    assert columns == expected


@pytest.mark.parametrize(
    ("durations", "steps", "exceptions"), [([255, 1], [0, 0], []), ([1, 1], [0, 255], [1001]), ([255], [255], [1])]
)
def test_steps_that_cannot_be_are_bad(durations: list[int], steps: list[int], exceptions: list[int]) -> None:
    (record,) = records.records(stepped(durations, steps, exceptions))
    with pytest.raises(BadRecord, match="cut off"):
        records.ended_columns(record)


def test_the_bytes_of_a_nested_client_stay_as_they_are() -> None:
    data = records.nested_record(3, 0x1122, (2, 7, 1), time=5)
    assert data.hex(" ", 8).split() == [
        "1000000000000000", "4000000003000000", "0500000000000000", "0700000000000000", "ffffffffffffffff",
        "01000000ffffffff", "2211000000000000", "0200000000000000",
    ]  # fmt: skip
    (record,) = records.records(data)
    assert (record.session, record.first, record.attempt, *records.nested_of(record)) == (3, 7, 1, 0x1122, 2)


def test_a_long_failure_keeps_its_ends_and_its_size() -> None:
    payload = b"first" + b"x" * 100_000 + b"last"
    (record,) = records.records(records.failed_record(Status.TIMED_OUT, payload, time=1, session=0, task=77, attempt=1))
    size, kept = records.failure_of(record)
    assert (record.first, record.flags, size) == (77, Status.TIMED_OUT, len(payload))
    assert len(kept) <= FAILURE_LIMIT_BYTES
    assert kept.startswith(b"first") and kept.endswith(b"last") and b"bytes are left out" in kept


def test_any_cut_of_records_is_records_or_bad() -> None:
    whole = records.ended_record([1, 2], [3, 4], [1, 1], [0, 0], time=1, session=0)
    data = whole + records.name_record(Naming.SESSION, 0, {"session": "00"})
    for length in range(len(data)):
        if length in (0, len(whole)):
            continue
        with pytest.raises(BadRecord):
            list(records.records(data[:length]))


@pytest.mark.parametrize(
    "whole",
    [
        records.ended_record([1, 2], [3, 4], [1, 1], [0, 0], time=1, session=0),
        records.ran_record(1, [3, 4], [1, 0], time=1, session=0),
        stepped([1, 255, 3], [0, 255, 7], [300, 400]),
    ],
    ids=["ended", "ran", "stepped"],
)
def test_any_damaged_byte_is_records_or_bad(whole: bytes) -> None:
    data = bytearray(whole)
    for position in range(len(data)):
        damaged = bytes(data[:position]) + bytes([data[position] ^ 0xFF]) + bytes(data[position + 1 :])
        try:
            for record in records.records(damaged):
                records.ended_columns(record)
        except BadRecord:
            pass


def test_tasks_beyond_64_bits_are_bad() -> None:
    (record,) = records.records(records.ran_record(2**64 - 1, [3, 4], [1, 0], time=1, session=0))
    with pytest.raises(BadRecord):
        records.ended_columns(record)
