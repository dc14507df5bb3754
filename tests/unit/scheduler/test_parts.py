"""Where the time of the tasks of a function goes, as the scheduler adds it up."""

from __future__ import annotations

import struct

import pytest

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import Goodbye, Results, Status, Tasks
from scaler_protocol.monitor.messages import FunctionStatus
from scaler_protocol.monitor.parts import TimeParts, parts_of_function, parts_text
from tests.unit.scheduler.playbook import Peer, Playbook, definition, results, run
from tests.unit.scheduler.test_graphs import chain


def function_of(book: Playbook) -> FunctionStatus:
    (function,) = book.core.snapshot(book.now).functions
    return function


def timed(client: Peer, durations_us: list[int], parts: bytes) -> Results:
    rows = [(1 + row, 1, Status.SUCCESS, b"r", duration, duration, 0) for row, duration in enumerate(durations_us)]
    made = ResultRun(client.session, rows)
    made.set_parts(parts)
    return Results([made])


def test_parts_of_durations_are_added_up_and_not_sent_to_clients() -> None:
    book = Playbook()
    agent, client = book.agent(slots=8), book.client("one")
    client.says(Tasks([run(client, 1, 3)], [definition()]))
    parts = struct.pack("<8I", 0, 100_000, 200_000, 0, 2, 0, 300_000, 400_000)
    said = agent.says(timed(client, [1_000_000] * 3, parts))
    function = function_of(book)
    assert (function.fetching_seconds, function.loading_seconds, function.storing_seconds) == (0.1, 0.5, 0.4)
    assert function.running_seconds == pytest.approx(2.0)
    (results_to_client,) = [body for name, body in said if name == client.name and isinstance(body, Results)]
    assert all(each.parts is None for each in results_to_client.runs)
    client.says(Goodbye())
    assert function_of(book).loading_seconds == 0.5


def test_durations_of_functions_are_those_of_running() -> None:
    book = Playbook()
    agent, client = book.agent(slots=8), book.client("one")
    client.says(Tasks([run(client, 1, 3)], [definition()]))
    parts = struct.pack("<8I", 0, 0, 1_990_000, 0, 2, 0, 0, 3_995_000)
    agent.says(timed(client, [2_000_000, 10_000, 4_000_000], parts))
    function = function_of(book)
    assert function.longest_seconds == pytest.approx(0.01) and function.p95_seconds <= 0.01
    assert function.duration_seconds == pytest.approx(6.01) and function.executions == 3


def test_parts_that_are_longer_than_the_whole_do_not_count() -> None:
    book = Playbook()
    agent, client = book.agent(slots=8), book.client("one")
    client.says(Tasks([run(client, 1, 3)], [definition()]))
    parts = struct.pack(
        "<12I", 0, 4_000_000_000, 0, 0, 1, 2**32 - 1, 2**32 - 1, 2**32 - 1, 2, 400_000, 300_000, 300_000
    )
    agent.says(timed(client, [1_000_000] * 3, parts))
    function = function_of(book)
    assert (function.fetching_seconds, function.loading_seconds, function.storing_seconds) == (0.4, 0.3, 0.3)
    assert function.running_seconds == pytest.approx(2.0) and function.longest_seconds == pytest.approx(1.0)


def test_parts_of_results_that_do_not_count_are_left_out() -> None:
    book = Playbook()
    agent, client = book.agent(slots=8), book.client("one")
    client.says(Tasks([run(client, 1, 1)], [definition()]))
    rows = [(task, 1, Status.SUCCESS, b"r", 1_000_000, 1, 0) for task in (99, 1, 98)]
    made = ResultRun(client.session, rows)
    made.set_parts(struct.pack("<12I", 0, 0, 7_000, 0, 1, 0, 300_000, 0, 2, 0, 9_000, 0))
    agent.says(Results([made]))
    function = function_of(book)
    assert function.loading_seconds == pytest.approx(0.3) and function.longest_seconds == pytest.approx(0.7)


def test_waiting_for_a_worker_ends_when_the_task_starts() -> None:
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    client.says(Tasks([run(client, 1, 2)], [definition()]))
    book.now += 5.0
    agent.says(results(client, 1, 2, duration_us=2_000_000))
    function = function_of(book)
    assert function.waiting_seconds == pytest.approx(6.0) and function.dependencies_seconds == 0
    assert sum(function.wait_counts) == 2 and function.duration_seconds == 4


def test_a_node_waits_for_its_inputs_first() -> None:
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    for message in chain(client, 2):
        client.says(message)
    book.now += 3.0
    agent.says(results(client, 1, duration_us=1_000_000))
    book.now += 4.0
    agent.says(results(client, 2, duration_us=1_500_000))
    function = function_of(book)
    assert function.dependencies_seconds == pytest.approx(3.0, abs=0.01)
    assert function.waiting_seconds == pytest.approx(2.0 + 2.5, abs=0.01)


def test_later_attempts_do_not_count_as_waiting() -> None:
    book = Playbook()
    agent, client = book.agent(slots=4), book.client("one")
    client.says(Tasks([run(client, 1, 1, retries=1)], [definition()]))
    agent.says(results(client, (1, 1, Status.EXCEPTION, b"")))
    book.now += 60.0
    agent.says(results(client, (1, 2, Status.SUCCESS, b"r")))
    function = function_of(book)
    assert function.executions == 2 and sum(function.wait_counts) == 1 and function.waiting_seconds < 1


def test_the_text_names_what_takes_time() -> None:
    assert parts_text(TimeParts()) == ""
    assert parts_text(TimeParts(waiting=2, running=7.99, loading=0.01)) == "running 80%, waiting 20%"
    function = FunctionStatus(b"", "f", duration_seconds=4, loading_seconds=1, storing_seconds=1, waiting_seconds=4)
    assert parts_text(parts_of_function(function)) == "waiting 50%, running 25%, loading 12%, storing 12%"
