"""Runs of results, valid or changed on their way: slices, selections, marks, times, and loading into a list.

Every view of a run must agree with its rows, a bad index is an IndexError, and what is written reads as the same.
"""

from __future__ import annotations

from fuzz.choices import Choices
from fuzz.messages import a_result_run, check_written_again, decoded, examine_results, overwrite
from scaler_protocol.codec import ResultRun, encode, split_results
from scaler_protocol.messages import Envelope, Results

LARGEST_SHIFT = 2**62
"""A client gives its own first task."""


def one_input(data: bytes) -> None:
    choices = Choices(data)
    runs = [a_result_run(choices) for _ in range(1 + choices.below(3))]
    head, payload = encode(Envelope(Results(runs)))
    envelope = decoded([overwrite(head, choices), payload])
    if envelope is None or not isinstance(envelope.body, Results):
        return
    for run in envelope.body.runs:
        for _ in range(choices.below(6)):
            run = changed(run, choices)
            examine_results(run)
        examine_results(run)
    check_split(envelope.body.runs, 200 + choices.number(2))
    check_written_again(envelope)


def changed(run: ResultRun, choices: Choices) -> ResultRun:
    kind = choices.below(6)
    if kind == 0:
        return sliced(run, choices.below(64) - 5, choices.below(64) - 5)
    if kind == 1:
        return selected(run, [choices.below(64) - 2 for _ in range(choices.below(8))])
    if kind == 2:
        run.set_place(choices.below(256), choices.take(4 * run.count).ljust(4 * run.count, b"\0"))
    elif kind == 3:
        run.forget_place()
    elif kind == 4:
        check_mark(run, first_task(run) - choices.below(3), bytearray(choices.below(64)))
    else:
        check_load(run, min(first_task(run), LARGEST_SHIFT) - choices.below(3), choices.below(64))
    return run


def first_task(run: ResultRun) -> int:
    return run.task(0) if run.count else 0


def sliced(run: ResultRun, start: int, stop: int) -> ResultRun:
    try:
        part = run.slice(start, stop)
    except IndexError:
        assert not 0 <= start < stop <= run.count
        return run
    assert list(part.rows()) == list(run.rows())[start:stop]
    return part


def selected(run: ResultRun, indices: list[int]) -> ResultRun:
    try:
        part = run.select(indices)
    except IndexError:
        assert not all(0 <= index < run.count for index in indices)
        return run
    rows = list(run.rows())
    assert list(part.rows()) == [rows[index] for index in indices]
    return part


def check_mark(run: ResultRun, first: int, states: bytearray) -> None:
    if first < 0:
        return
    places = [task - first for task in run.task_column.tolist()]
    succeeded = not any(run.status_column)
    fits = succeeded and len(set(places)) == len(places) and all(0 <= place < len(states) for place in places)
    marked = run.mark(first, states)
    assert marked == (run.count if fits else 0)
    assert [place for place, state in enumerate(states) if state] == (sorted(places) if fits else [])


def check_load(run: ResultRun, shift: int, size: int) -> None:
    """Results for tasks that are not among those of the list must not be written behind it."""
    results: list[object] = [None] * size
    places = [task - shift for task in run.task_column.tolist()]
    try:
        run.load_into(results, shift, bytes)
    except IndexError:
        assert not all(0 <= place < size for place in places)
        return
    assert all(0 <= place < size for place in places)
    for place, row in zip(places, run.rows(), strict=True):
        assert results[place] is not None and (places.count(place) > 1 or results[place] == bytes(row[3]))


def check_split(runs: list[ResultRun], limit_bytes: int) -> None:
    pieces = [run for group in split_results(runs, limit_bytes) for run in group]
    assert [row for run in pieces for row in run.rows()] == [row for run in runs for row in run.rows()]
