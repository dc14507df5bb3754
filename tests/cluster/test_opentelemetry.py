"""Spans inside tasks continue the trace of the client, with the real SDK and an exporter in memory."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider

from scaler import Client
from scaler.integrations.opentelemetry import traced
from tests.support import tracing
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address


def test_spans_of_tasks_are_children_of_the_clients_span() -> None:
    address = free_address()
    preload = ("--preload", "tests.support.tracing:set_up")
    with start_scheduler(address), start_cluster(address, "-n", 1, *preload), Client(address) as client:
        with TracerProvider().get_tracer("test").start_as_current_span("job") as job:
            function = traced(tracing.inner)
            future = client.submit(function, 1)
            assert "function=inner" in repr(future) and future.result(60) == 2
            assert client.map(function, [2, 3]) == [3, 4]
            with pytest.raises(ValueError, match="negative"):
                client.submit(function, -1).result(60)
        spans = client.submit(tracing.finished_spans).result(60)
    context = job.get_span_context()
    assert {trace for _, trace, *_ in spans} == {context.trace_id}
    tasks = [span for span in spans if span[3] == context.span_id]
    assert [name for name, *_ in tasks] == ["inner"] * 4
    assert len([name for name, *_ in spans if name == "inner"]) == 8
    assert {parent for _, _, _, parent, _ in spans if parent != context.span_id} == {span for _, _, span, _, _ in tasks}
    assert [status for *_, status in tasks] == ["UNSET", "UNSET", "UNSET", "ERROR"]


def test_phases_of_tasks_are_spans_inside_theirs() -> None:
    address = free_address()
    preload = ("--preload", "tests.support.tracing:set_up")
    with start_scheduler(address), start_cluster(address, "-n", 1, *preload), Client(address) as client:
        future = client.submit(traced(tracing.give_slow), tracing.SlowToLoad())
        assert future.result(60) == 0
        spans = client.submit(tracing.finished_spans).result(60)
        times = client.submit(tracing.times_of_spans).result(60)
    assert [span[0] for span in spans] == ["waiting for a worker", "loading", "storing", "give_slow"]
    (task,) = [span for name, _, span, *_ in spans if name == "give_slow"]
    assert [parent for _, _, _, parent, _ in spans[:3]] == [task] * 3
    (waiting_from, waiting_to), (loading_from, loading_to), (storing_from, storing_to), (task_from, task_to) = times
    assert task_from == waiting_from < waiting_to == loading_from < loading_to
    assert loading_to <= storing_from < storing_to == task_to


def test_a_task_that_needs_a_result_has_a_span_of_waiting_for_it() -> None:
    address = free_address()
    preload = ("--preload", "tests.support.tracing:set_up")
    with start_scheduler(address), start_cluster(address, "-n", 1, *preload), Client(address) as client:
        assert client.get({"input": (tracing.give_late,), "output": (traced(abs), "input")}, ["output"]) == {
            "output": 1
        }
        spans = client.submit(tracing.finished_spans).result(60)
        times = client.submit(tracing.times_of_spans).result(60)
    assert spans[0][0] == "waiting for dependencies" and spans[-1][0] == "abs"
    assert spans[0][3] == spans[-1][2]
    assert times[0][0] == times[-1][0]


def test_a_failing_exporter_fails_no_task() -> None:
    address = free_address()
    preload = ("--preload", "tests.support.tracing:set_up_broken")
    with start_scheduler(address), start_cluster(address, "-n", 1, *preload), Client(address) as client:
        assert client.map(traced(abs), [-1, -2, -3]) == [1, 2, 3]


def test_without_a_span_and_without_a_provider_the_function_just_runs(client: Client) -> None:
    assert client.submit(traced(abs), -2).result(60) == 2
