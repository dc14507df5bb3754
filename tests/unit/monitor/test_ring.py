from __future__ import annotations

import array

import pytest

from scaler_protocol.codec import ResultRun, decode, encode, split_results
from scaler_protocol.messages import Envelope, Results, Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.records import AGAIN, NONE, Kind
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingReader, RingWriter, failed_rows

SESSION = b"s" * 16
LEFT_OUT = 0xFF


def ring(size: int = 64 * 1024) -> tuple[RingWriter, RingReader]:
    memory = bytearray(RING_HEADER_BYTES + size)
    return RingWriter(memory), RingReader(memory)


def handed(first: int) -> bytes:
    return records.record(Kind.HANDED, time=1, first=first, count=1)


def result_run(count: int, statuses: dict[int, int] | None = None) -> ResultRun:
    kinds = statuses or {}
    rows = [(100 + row, 1, kinds.get(row, Status.SUCCESS), b"x" * row, 10 + row, 5, 0) for row in range(count)]
    return ResultRun(SESSION, rows)


def test_what_is_written_is_read_once_and_in_order() -> None:
    writer, reader = ring(1024)
    seen: list[int] = []
    for number in range(500):
        assert writer.write(handed(number))
        data, count, first = reader.take(1 << 20)
        assert count == 1 and first == number
        seen += [record.first for record in records.records(data)]
    assert seen == list(range(500))
    assert reader.take(1 << 20) == (b"", 0, 500)


def test_a_batch_ends_where_the_memory_ends_with_a_record() -> None:
    writer, reader = ring(10 * 48)
    for number in range(5):
        writer.write(handed(number))
    assert reader.take(1 << 20)[1] == 5
    for number in range(5, 15):
        assert writer.write(handed(number))
    batches = [reader.take(1 << 20) for _ in range(3)]
    assert [(count, first) for _, count, first in batches] == [(5, 5), (5, 10), (0, 15)]
    assert [each.first for data, _, _ in batches for each in records.records(data)] == list(range(5, 15))


def test_a_full_ring_drops_and_says_how_many() -> None:
    writer, reader = ring(480)
    kept = [number for number in range(30) if writer.write(handed(number))]
    assert kept == list(range(10)) and (writer.recorded, writer.dropped) == (10, 20)
    assert len(list(records.records(reader.take(1 << 20)[0]))) == 10
    assert writer.write(handed(30))
    data, count, first = reader.take(1 << 20)
    assert [record.first for record in records.records(data)] == [30]
    assert (count, first, reader.dropped) == (1, 30, 20)


def test_batches_are_of_the_size_asked_for_and_numbered() -> None:
    writer, reader = ring()
    for number in range(100):
        writer.write(handed(number))
    batches = []
    while (batch := reader.take(10 * 48))[1]:
        batches.append(batch)
    assert [(count, first) for _, count, first in batches] == [(10, first) for first in range(0, 100, 10)]


def test_a_record_larger_than_the_ring_is_dropped() -> None:
    writer, reader = ring(1024)
    assert not writer.write(records.record(Kind.NAME, time=0, body=b"x" * 4096))
    assert writer.write(handed(1))
    assert reader.take(1 << 20)[2] == 1


@pytest.mark.parametrize("damage", [0, 8, 0x7FFFFFF8])
def test_damaged_memory_is_not_followed(damage: int) -> None:
    memory = bytearray(RING_HEADER_BYTES + 1024)
    RingWriter(memory).write(handed(1))
    memory[RING_HEADER_BYTES + 8 : RING_HEADER_BYTES + 12] = damage.to_bytes(4, "little")
    with pytest.raises(ValueError, match="damaged"):
        RingReader(memory).take(1 << 20)


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("segments", [[(0, 3)], [(0, 3), (2, 4), (5, 3)]])
@pytest.mark.parametrize("fates", [None, {1: LEFT_OUT, 4: LEFT_OUT, 3: Status.EXCEPTION | AGAIN}])
def test_results_become_one_record(placed: bool, segments: list[tuple[int, int]], fates: dict[int, int] | None) -> None:
    writer, reader = ring()
    run = result_run(6)
    ages = [60, 50, 40, 30, 20, 10]
    if placed:
        run.set_place(7, array.array("I", ages).tobytes())
    codes = None if fates is None else bytearray(fates.get(row, 0) for row in range(6))
    writer.write_ended(run, 99, 1, 2, segments, codes)
    (record,) = records.records(reader.take(1 << 20)[0])
    kept = [row for row in range(6) if codes is None or codes[row] != LEFT_OUT]
    columns = records.ended_columns(record)
    alike = placed and fates is None and len(segments) == 1
    assert record.kind == (Kind.RAN if alike else Kind.ENDED)
    assert (record.count, record.time, record.session, record.agent) == (len(kept), 99, 1, 2)
    assert (record.worker, columns.workers) == (7 if placed else NONE, None)
    assert columns.tasks.tolist() == [100 + row for row in kept]
    assert columns.durations.tolist() == [10 + row for row in kept]
    assert columns.statuses.tolist() == [0 if codes is None else codes[row] for row in kept]
    assert (None if columns.ages is None else columns.ages.tolist()) == (
        [ages[row] for row in kept] if placed else None
    )
    functions = [record.function] * len(kept) if columns.functions is None else columns.functions.tolist()
    assert functions == [[number for first, number in segments if first <= row][-1] for row in kept]


def placed_run(rows: list[tuple[int, int, int, int]], ages: list[int]) -> ResultRun:
    """Rows: task, attempt, status, duration."""
    run = ResultRun(SESSION, [(task, attempt, status, b"", duration, 5, 0) for task, attempt, status, duration in rows])
    run.set_place(3, array.array("I", ages).tobytes())
    return run


def written(run: ResultRun) -> list[records.Record]:
    writer, reader = ring()
    writer.write_ended(run, 99, 1, 2, [(0, 5)], None)
    return list(records.records(reader.take(1 << 20)[0]))


def executions(found: list[records.Record]) -> list[tuple[int, ...]]:
    """Task, attempt, status, duration and age of each."""
    rows: list[tuple[int, ...]] = []
    for record in found:
        columns = records.ended_columns(record)
        assert columns.ages is not None
        rows += zip(columns.tasks, columns.attempts, columns.statuses, columns.durations, columns.ages, strict=True)
    return rows


@pytest.mark.parametrize(
    ("longest", "oldest", "kind", "size"),
    [(0xFFFF, 0xFFFF, Kind.RAN, 4), (0x10000, 0, Kind.RAN, 8), (0, 0x10000, Kind.RAN, 8), (1 << 32, 0, Kind.ENDED, 25)],
)
def test_durations_and_ages_are_exact_however_long(longest: int, oldest: int, kind: Kind, size: int) -> None:
    rows = [(task, 1, 0, duration) for task, duration in enumerate([*range(30), longest, 0])]
    ages = [oldest, *range(30)] + [31]  # not in order: no steps
    (record,) = found = written(placed_run(rows, ages))
    assert (record.kind, record.function, record.worker) == (kind, 5, 3)
    assert len(record.body) == size * len(rows)
    assert executions(found) == [(*row, age) for row, age in zip(rows, ages, strict=True)]


def test_what_did_not_end_alike_is_a_record_of_its_own() -> None:
    rows = [(task, 1, 0, 10) for task in range(40)] + [(task, 2, 0, 10) for task in range(40, 60)]
    rows += [(60, 2, Status.EXCEPTION, 10)] + [(task, 2, 0, 10) for task in range(80, 99)]
    found = written(placed_run(rows, [1] * len(rows)))
    assert [(each.kind, each.first, each.count) for each in found] == [
        (Kind.RAN, 0, 40), (Kind.RAN, 40, 20), (Kind.RAN, 60, 1), (Kind.RAN, 80, 19),
    ]  # fmt: skip
    assert executions(found) == [(*row, 1) for row in rows]


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.EXCEPTION])
@pytest.mark.parametrize("longest", [254, 255, 0xFFFFFFFF])
@pytest.mark.parametrize("pause", [254, 255, 0xFFFFFF00])
def test_short_tasks_soon_after_one_another_take_two_bytes_each(longest: int, pause: int, status: Status) -> None:
    rows = [(task, 4, int(status), duration) for task, duration in enumerate([*range(20), longest, *range(20)], 10)]
    ages = [pause + 42, *range(42, 2, -1)]
    run = placed_run(rows, ages)
    (record,) = found = written(run)
    assert (record.kind, record.flags, record.function, record.worker) == (Kind.STEPPED, status, 5, 3)
    exceptions = (longest >= 255) + (pause >= 255)
    assert len(record.body) == (8 + 2 * 41 + 4 * exceptions + 7) // 8 * 8
    assert executions(found) == [(*row, age) for row, age in zip(rows, ages, strict=True)]
    assert run.age_column is not None and run.age_column.tolist() == ages


def test_steps_travel_and_are_spelled_out_where_a_record_needs_columns() -> None:
    rows = [(task, 1, 0, 10) for task in range(1000)]
    ages = list(range(1000, 0, -1))
    frames = encode(Envelope(Results([placed_run(rows, ages), result_run(2)])))
    assert len(frames[0]) < 1000 * (41 + 3)
    for fates, segments in [(bytearray(b"\0" * 999 + b"\xff"), [(0, 5)]), (None, [(0, 5), (500, 6)])]:
        run = decode(frames).body.runs[0]
        writer, reader = ring()
        writer.write_ended(run, 99, 1, 2, segments, fates)
        found = list(records.records(reader.take(1 << 20)[0]))
        assert [record.kind for record in found] == [Kind.ENDED]
        kept = 1000 if fates is None else 999
        assert executions(found) == [(*row, age) for row, age in zip(rows[:kept], ages[:kept], strict=True)]
    run = decode(frames).body.runs[0]
    pieces = [piece for runs in split_results([run], 16 * 1024) for piece in runs]
    assert len(pieces) > 1
    assert [age for piece in pieces for age in piece.age_column or ()] == ages


def test_tasks_that_lie_apart_share_a_record() -> None:
    rows = [(task, 1, 0, 10) for task in range(0, 200, 2)]
    (record,) = found = written(placed_run(rows, [1] * len(rows)))
    assert record.kind == Kind.ENDED
    assert executions(found) == [(*row, 1) for row in rows]


def test_a_ring_that_is_read_in_time_goes_on_at_its_start() -> None:
    memory = bytearray(RING_HEADER_BYTES + 64 * 1024 * 1024)
    writer, reader = RingWriter(memory), RingReader(memory)
    body = b"x" * 100_000
    for number in range(3000):
        writer.write(records.record(Kind.NAME, time=1, first=number, body=body))
        data, count, first = reader.take(1 << 20)
        assert (count, first) == (1, number)
        assert [record.first for record in records.records(data)] == [number]
    assert not any(memory[RING_HEADER_BYTES + 2 * 1024 * 1024 :: 4096])


def test_a_record_of_nothing_is_not_written() -> None:
    writer, reader = ring()
    writer.write_ended(result_run(2), 1, 0, 0, [(0, 0)], bytearray([LEFT_OUT, LEFT_OUT]))
    assert reader.take(1 << 20)[1] == 0


def test_rows_that_failed() -> None:
    run = result_run(6, {1: Status.EXCEPTION, 2: Status.CANCELLED, 3: Status.SUCCESS_LARGE, 5: Status.TIMED_OUT})
    assert failed_rows(run, bytes([100] * 16)) == [1, 5]
    assert failed_rows(run, bytes([0] * Status.TIMED_OUT) + b"\1") == [5]
    assert failed_rows(run, b"") == []
    assert failed_rows(result_run(9, dict.fromkeys(range(9), Status.EXCEPTION)), b"\0\0\3") == [0, 1, 2]


def test_where_and_when_results_were_made_travels_with_them() -> None:
    run = result_run(1000)
    run.set_place(0, array.array("I", range(1000)).tobytes())
    plain = result_run(3)
    frames = encode(Envelope(Results([plain, run]), 1, 2))
    first, second = decode(frames).body.runs
    assert (first.worker, first.age_column) == (0xFFFF, None)
    assert (second.worker, second.age_column.tolist()) == (0, list(range(1000)))
    assert first == plain and second == run
    pieces = [piece for runs in split_results([second], 16 * 1024) for piece in runs]
    assert len(pieces) > 1
    assert [age for piece in pieces for age in piece.age_column or ()] == list(range(1000))
    second.forget_place()
    assert encode(Envelope(Results([second]))) == encode(Envelope(Results([result_run(1000)])))


@pytest.mark.parametrize("head", [2**64 - 48, 2**64 - 1])
def test_counters_at_the_end_of_64_bits_are_damage(head: int) -> None:
    """The reader must not go round and round the ring to get there."""
    memory = bytearray(RING_HEADER_BYTES + 480)
    for place, value in ((64, head), (128, head - 96)):
        memory[place : place + 8] = value.to_bytes(8, "little")
    with pytest.raises(ValueError, match="damaged"):
        RingReader(memory).take(1 << 20)
