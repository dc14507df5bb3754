"""What no message may hold: numbers that are none, texts and lists without end, and pieces that do not fit."""

from __future__ import annotations

import math
import struct
from dataclasses import fields, replace

import pytest

from scaler_protocol import limits
from scaler_protocol.codec import MalformedMessage, ResultRun, TaskRun, decode, encode
from scaler_protocol.messages import (
    AgentAttach,
    Body,
    Capability,
    Envelope,
    Heartbeat,
    Hello,
    ObjectChunk,
    ObjectKey,
    Results,
    Role,
    RunningTask,
    TaskOptions,
    Tasks,
    WorkerStatus,
)
from tests.unit.protocol import samples

BAD_NUMBERS = (math.nan, math.inf, -math.inf, 1e300, -1e300, 1.1 * limits.REAL_LIMIT)
PROBE = 987654.25
"""A number that a message has nowhere else."""


def refused(body: Body) -> str:
    frames = encode(Envelope(body, 1))
    with pytest.raises(MalformedMessage) as caught:
        decode(frames)
    return str(caught.value)


def real_fields() -> list[tuple[Body, str]]:
    """Each real number of each body, also of the values inside bodies; options of tasks are tested apart."""
    found = []
    for body in samples.all_bodies():
        if isinstance(body, (Tasks, Results)):
            continue
        found += [(body, field.name) for field in fields(body) if field.type == "float"]
        for field in fields(body):
            items = getattr(body, field.name)
            if isinstance(items, tuple) and items and hasattr(items[0], "__dataclass_fields__"):
                found += [(body, f"{field.name}.{inner.name}") for inner in fields(items[0]) if inner.type == "float"]
    return found


def with_number(body: Body, name: str, number: float) -> Body:
    name, _, inner = name.partition(".")
    if not inner:
        return replace(body, **{name: number})
    first, *others = getattr(body, name)
    return replace(body, **{name: (replace(first, **{inner: number}), *others)})


def test_there_are_real_numbers_to_test() -> None:
    assert {name for _, name in real_fields()} == {
        "weight",
        "sent_at",
        "lag_seconds",
        "cpu_percent",
        "workers.cpu_percent",
        "cost_per_worker_hour",
        "target_seconds",
        "cool_down_seconds",
        "value",
        "lines.time",
    }


@pytest.mark.parametrize(("body", "name"), real_fields(), ids=str)
@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_a_real_number_is_finite_and_within_its_range(body: Body, name: str, number: float) -> None:
    """Both ends refuse it: the sender learns of its mistake, the receiver need not trust the sender."""
    with pytest.raises(ValueError, match="is not a number between"):
        encode(Envelope(with_number(body, name, number), 1))
    frames = [bytes(frame) for frame in encode(Envelope(with_number(body, name, PROBE), 1))]
    assert frames[0].count(struct.pack("<d", PROBE)) == 1
    frames[0] = frames[0].replace(struct.pack("<d", PROBE), struct.pack("<d", number))
    with pytest.raises(MalformedMessage, match="is not a number between"):
        decode(frames)


@pytest.mark.parametrize("name", ["timeout_seconds", "submitted_at", "ready_at"])
@pytest.mark.parametrize("number", [*BAD_NUMBERS, -1.0])
def test_the_times_of_a_task_are_numbers(number: float, name: str) -> None:
    run = samples.plain_run()
    options = replace(TaskOptions(submitted_at=1.0, ready_at=1.0), **{name: number})
    with pytest.raises(ValueError, match="is not a number between"):
        encode(Envelope(Tasks([run.with_options(options)]), 1))
    frames = encode(Envelope(Tasks([run.with_options(replace(options, **{name: PROBE}))]), 1))
    assert frames[0].count(struct.pack("<d", PROBE)) == 1
    frames[0] = frames[0].replace(struct.pack("<d", PROBE), struct.pack("<d", number))
    with pytest.raises(MalformedMessage, match="is not a number between"):
        decode(frames)


LONG_NAME = "n" * (limits.NAME_LIMIT_BYTES + 1)
RUNNING = RunningTask(b"s" * 16, 1, 1, 0, 1, 0.0, 0.0, 0.0, 0, False)
WORKER = WorkerStatus("worker", 1, 0.0, 0, True, False, False)


@pytest.mark.parametrize(
    "body",
    [
        AgentAttach(LONG_NAME, "host", 1, ("worker",)),
        AgentAttach("name", LONG_NAME, 1, ("worker",)),
        AgentAttach("name", "host", 1, (LONG_NAME,)),
        AgentAttach("name", "host", 1, ("worker",), (Capability(LONG_NAME),)),
        AgentAttach("name", "host", 1, ("worker",) * (limits.WORKERS_LIMIT + 1)),
        AgentAttach("name", "host", 1, ("worker",), (Capability("gpu"),) * (limits.CAPABILITIES_LIMIT + 1)),
        Heartbeat(1.0, 0.0, 0.0, 0, 0, 0, (WORKER,) * (limits.WORKERS_LIMIT + 1)),
        Heartbeat(1.0, 0.0, 0.0, 0, 0, 0, (WORKER,), (RUNNING,) * (limits.WORKERS_LIMIT + 1)),
        Hello(Role.SUBMIT, b"s" * 16, host=LONG_NAME),
        Hello(Role.SUBMIT, b"s" * 16, features=("f",) * (limits.SOURCES_LIMIT + 1)),
    ],
    ids=lambda body: type(body).__name__,
)
def test_names_and_lists_have_an_end(body: Body) -> None:
    assert "are allowed" in refused(body)


def test_a_task_has_few_capabilities_with_short_names() -> None:
    run = samples.plain_run()
    for capabilities in ((Capability(LONG_NAME),), (Capability("gpu"),) * (limits.CAPABILITIES_LIMIT + 1)):
        assert "are allowed" in refused(Tasks([run.with_options(TaskOptions(capabilities=capabilities))]))


def test_an_environment_is_short() -> None:
    environment = "n" * (limits.ENVIRONMENT_LIMIT_BYTES + 1)
    assert "are allowed" in refused(Tasks([], [], [samples.function("Serializer", environment)]))


@pytest.mark.parametrize(("size", "offset"), [(10, 1), (10, 2**64 - 1), (9, 0), (0, 0)])
def test_a_chunk_is_inside_its_object(size: int, offset: int) -> None:
    assert "A chunk ends at" in refused(ObjectChunk(ObjectKey(b"o" * 16, 1), size, offset, bytes(10)))


def test_a_run_has_a_result() -> None:
    assert "at least one result" in refused(Results([ResultRun(b"s" * 16, [])]))


@pytest.mark.parametrize("task", [0, 3, 2**64 - 1])
def test_a_result_without_a_place_is_not_written_anywhere(task: int) -> None:
    run = ResultRun(b"s" * 16, [(task, 1, 0, b"payload", 0, 0, 0)])
    results: list[object] = [None, None]
    with pytest.raises(IndexError, match="is not among 2 results"):
        run.load_into(results, 1, bytes)
    assert results == [None, None]


def test_an_object_has_no_more_bytes_than_a_file_can_have() -> None:
    assert "are allowed" in refused(ObjectChunk(ObjectKey(b"o" * 16, 1), limits.OBJECT_LIMIT_BYTES + 1, 0, b"x"))


def test_runs_do_not_share_the_payload() -> None:
    """Each is sent on by itself: many that share much would be a message without end."""
    payload = b"p" * 1000
    run = ResultRun(b"s" * 16, [(1, 1, 0, payload, 0, 0, 0)])
    frames = [bytes(frame) for frame in encode(Envelope(Results([run, run]), 1))]
    assert frames[0].count((1000).to_bytes(8, "little") * 2) == 1, "the second run's bytes begin where the first's end"
    frames[0] = frames[0].replace((1000).to_bytes(8, "little") * 2, bytes(8) + (1000).to_bytes(8, "little"))
    assert len(decode(frames).body.runs) == 2, "they may begin at the same byte while the payload has room for both"
    with pytest.raises(MalformedMessage, match="more bytes than its payload"):
        decode([frames[0], payload])


def test_the_names_of_a_run_are_short() -> None:
    slots = [[b""] * 100]
    keywords = tuple(f"{index:04}" + "k" * 600 for index in range(100))
    run = TaskRun(b"s" * 16, b"f" * 16, "f", b"", 1, 1, keywords, TaskOptions(), slots)
    assert "The names of a run take more" in refused(Tasks([run]))
