"""Messages as fuzz inputs, and what must hold of whatever was decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuzz.choices import Choices
from scaler_protocol.codec import MalformedMessage, ResultRun, TaskRun, decode, encode
from scaler_protocol.messages import Envelope, ObjectKey, Results, Tasks
from tests.unit.protocol import samples

UPLOADS = 1 << 63
"""Numbers of objects from here on name no task."""


def frames_of(data: bytes) -> list[bytes]:
    """The last byte says how many frames follow the first one, the two bytes before it how long they are together."""
    extra = data[-1] % 4 if data else 0
    payload_size = int.from_bytes(data[-3:-1], "little")
    content = data[:-3]
    head = content[: max(0, len(content) - payload_size)] if extra else content
    payload = content[len(head) :]
    if not extra:
        return [head]
    cut = len(payload) // extra
    starts = [index * cut for index in range(extra)]
    return [head, *(payload[start:end] for start, end in zip(starts, [*starts[1:], len(payload)], strict=True))]


def data_of(frames: Sequence[bytes]) -> bytes:
    """Return data of which ``frames_of`` makes these frames (or, with several payload frames, similar ones)."""
    payload = b"".join(frames[1:])
    return b"".join(frames) + len(payload).to_bytes(2, "little") + bytes([len(frames) - 1])


def sample_envelopes() -> Iterator[Envelope]:
    """One of each body, those with values in every field, and runs that say when their tasks ended."""
    yield from samples.all_envelopes()
    yield from (Envelope(body, 5, 6) for body in samples.full_bodies())
    yield Envelope(Tasks([samples.plain_run().with_options(samples.FULL_OPTIONS)]), 5, 6)
    yield Envelope(Results(samples.timed_runs()), 5, 6)


def decoded(frames: Sequence[bytes]) -> Envelope | None:
    try:
        return decode(frames)
    except MalformedMessage:
        return None


def check_written_again(envelope: Envelope) -> None:
    """A message that was read can be written, unless it has become too large, and reading that gives the same."""
    try:
        frames = encode(envelope)
    except ValueError as error:
        assert "limit" in str(error), error
        return
    again = decode(frames)
    if isinstance(envelope.body, (Tasks, Results)):
        assert again.body.runs == envelope.body.runs
    else:
        assert encode(again) == frames


def examine(envelope: Envelope) -> None:
    """Look at all of it, so that a bad pointer shows."""
    repr(envelope)
    body = envelope.body
    if isinstance(body, Tasks):
        for run in body.runs:
            examine_tasks(run)
    elif isinstance(body, Results):
        for result_run in body.runs:
            examine_results(result_run)


def examine_tasks(run: TaskRun, most: int = 64) -> None:
    """``most`` tasks of it: a message may say that it has a million, none of which has an argument."""
    count = min(run.count, most)
    rows = [run.slots(index) for index in range(count)]
    assert [run.slot_bytes(index) for index in range(count)] == [[copied(slot) for slot in row] for row in rows]
    references = run.references()
    if run.count <= most:
        named = [
            (run.first_task + at, slot) for at, row in enumerate(rows) for slot in row if isinstance(slot, ObjectKey)
        ]
        inputs = [pair for pair in named if pair[1].owner == run.session and pair[1].number < UPLOADS]
        assert references == [slot for _, slot in named]
        assert run.uploads() == [pair[1] for pair in named if pair not in inputs]
        assert run.inputs().tolist() == [number for task, slot in inputs for number in (task, slot.number)]
    assert run.slice(0, run.count) == run


def examine_results(run: ResultRun) -> None:
    rows = list(run.rows())
    assert len(rows) == run.count
    assert [row[0] for row in rows] == run.task_column.tolist()
    assert [row[1] for row in rows] == run.attempt_column.tolist()
    assert [row[2] for row in rows] == run.status_column.tolist()
    assert [row[4] for row in rows] == run.duration_column.tolist()
    copies = [(task, status, bytes(payload), *times) for task, _, status, payload, *times in rows]
    assert [tuple(row) for row in run.copied_rows()] == copies
    ages = run.age_column
    assert ages is None or len(ages) == run.count
    assert run.parts is None or (len(run.parts) % 16 == 0 and len(run.parts) <= 16 * run.count)


def copied(slot: object) -> object:
    return slot if isinstance(slot, ObjectKey) else bytes(slot)  # type: ignore[call-overload]


def a_task_run(choices: Choices) -> TaskRun:
    """A valid one."""
    arity = choices.below(4)
    count = 1 + choices.below(8)
    keywords = tuple(f"k{number}" for number in range(choices.below(arity + 1)))
    tasks = [[_slot(choices) for _ in range(arity)] for _ in range(count)]
    serializer = choices.pick([b"", samples.SERIALIZER])
    options = choices.pick([samples.TaskOptions(), samples.OPTIONS, samples.FULL_OPTIONS])
    first = choices.pick([1, 7, 2**40, 2**62])
    return TaskRun(samples.SESSION, samples.FUNCTION, "f", serializer, first, 1, keywords, options, tasks)


def _slot(choices: Choices) -> bytes | ObjectKey:
    kind = choices.below(8)
    if kind < 5:
        return choices.take(kind)
    owner = samples.SESSION if kind < 7 else samples.FUNCTION
    return ObjectKey(owner, choices.pick([0, 1, 5, 2**63 - 1, 2**63, 2**64 - 1]))


def a_result_run(choices: Choices) -> ResultRun:
    """A valid one, perhaps with the times at which its tasks ended."""
    first, step, peak = choices.below(256), choices.pick([1, 1, 2, 0]), choices.below(2)
    count = choices.below(40)
    rows = []
    for index in range(count):
        status, payload = choices.pick([0, 0, 0, 1, 2]), choices.take(choices.below(4))
        rows.append((first + step * index, 1, status, payload, choices.number(2), 3, index * peak))
    run = ResultRun(samples.SESSION, rows)
    if choices.flag():
        ages = sorted((choices.number(2) for _ in range(count)), reverse=True)
        run.set_place(choices.below(4), b"".join(age.to_bytes(4, "little") for age in ages))
    return run


def overwrite(data: bytes, choices: Choices) -> bytes:
    """Up to seven words or bytes of it replaced."""
    changed = bytearray(data)
    for _ in range(choices.below(8)):
        at = choices.number(2) % len(changed)
        new = choices.take(choices.pick([1, 2, 4, 8]))
        changed[at : at + len(new)] = new
    return bytes(changed[: len(data)])
