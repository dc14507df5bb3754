"""Runs of tasks, valid or changed on their way: slices, options, references, inputs and uploads.

Every view of a run must agree with its slots, a bad index is an IndexError, and what is written reads as the same.
"""

from __future__ import annotations

from fuzz.choices import Choices
from fuzz.messages import a_task_run, check_written_again, decoded, examine_tasks, overwrite
from scaler_protocol.codec import TaskRun, encode, split
from scaler_protocol.messages import Envelope, TaskOptions, Tasks

MOST = 64


def one_input(data: bytes) -> None:
    choices = Choices(data)
    runs = [a_task_run(choices) for _ in range(1 + choices.below(3))]
    head, payload = encode(Envelope(Tasks(runs)))
    envelope = decoded([overwrite(head, choices), payload])
    if envelope is None or not isinstance(envelope.body, Tasks):
        return
    for run in envelope.body.runs:
        examine_tasks(run, MOST)
        for _ in range(choices.below(6)):
            run = changed(run, choices)
            examine_tasks(run, MOST)
    check_split(envelope.body.runs, 200 + choices.number(2))
    check_written_again(envelope)


def changed(run: TaskRun, choices: Choices) -> TaskRun:
    kind = choices.below(4)
    if kind == 0:
        return run.with_attempt(choices.number(4))
    if kind == 1:
        return run.with_options(TaskOptions(depth=choices.byte()))
    if kind == 2:
        check_indices(run, choices.number(8) - 2**63, choices.number(4))
        return run
    start, stop = choices.below(256) - 5, choices.below(256) - 5
    if not 0 <= start < stop <= run.count:
        refuses(lambda: run.slice(start, stop))
        return run
    part = run.slice(start, stop)
    assert part.first_task == run.first_task + start and part.count == stop - start
    assert part.slots(0) == run.slots(start)
    return part


def check_indices(run: TaskRun, task: int, slot: int) -> None:
    if not 0 <= task < run.count:
        refuses(lambda: run.slots(task))
        refuses(lambda: run.slot_bytes(task))
    if not (0 <= task < run.count and slot < run.arity):
        refuses(lambda: run.slot(task, slot))


def refuses(call: object) -> None:
    try:
        call()  # type: ignore[operator]
    except IndexError:
        return
    raise AssertionError("A bad index is accepted.")


def check_split(runs: list[TaskRun], limit_bytes: int) -> None:
    """Nothing is lost or turned round on the way into several messages."""
    if sum(run.count for run in runs) > MOST:
        return
    pieces = [run for group in split(runs, limit_bytes) for run in group]
    before = [(run.first_task + index, run.slots(index)) for run in runs for index in range(run.count)]
    assert [(run.first_task + index, run.slots(index)) for run in pieces for index in range(run.count)] == before
