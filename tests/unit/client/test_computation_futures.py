"""Calls that are submitted one by one for the values of a graph, and end when nothing needs them any more."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from scaler.client.computation_futures import ComputationFuture
from scaler_protocol.codec import TaskRun
from tests.support.functions import fail
from tests.support.waiting import wait_until
from tests.unit.client.graph_scheduler import GraphScheduler

pytestmark = pytest.mark.timeout(60)


class SelectiveScheduler(GraphScheduler):
    """``stuck``: functions whose tasks never end."""

    stuck: tuple[Callable[..., Any], ...] = ()

    def _run_tasks(self, peer: bytes, run: TaskRun) -> None:
        if self._functions[run.function] not in self.stuck:
            super()._run_tasks(peer, run)

    def cancelled_calls(self) -> list[Any]:
        """The functions of the calls that were cancelled."""
        tasks = [(run, run.first_task + index) for run in self.runs() for index in range(run.count)]
        return [self._functions[run.function] for run, task in tasks if task in self.cancelled]


@pytest.fixture
def scheduler() -> Iterator[SelectiveScheduler]:
    with SelectiveScheduler() as running:
        yield running


GRAPH = {
    "one": (operator.neg, "input"),
    "two": (operator.pos, "input"),
    "both": (operator.add, "one", "two"),
    "left": (operator.abs, "both"),
    "deep": (operator.invert, "input"),
    "right": (operator.sub, "both", "deep"),
}


Start = Callable[..., list[ScalerFuture[Any]]]


@pytest.fixture
def given(client: Client) -> ScalerFuture[int]:
    """A future that has ended."""
    future = client.submit(operator.index, 5)
    assert future.exception(30) is None
    return future


@pytest.fixture
def start(client: Client, given: ScalerFuture[int], scheduler: SelectiveScheduler) -> Start:
    """Begin to compute keys of the graph, which need so many calls, while the scheduler runs nothing."""

    def start(calls: int, *keys: str) -> list[ScalerFuture[Any]]:
        scheduler.hold.set()
        futures = client.get({**GRAPH, "input": given}, keys, block=False)
        scheduler.wait_for_tasks(1 + calls)
        return list(futures.values())

    return start


def test_what_only_a_cancelled_target_needs_is_cancelled(start: Start, scheduler: SelectiveScheduler) -> None:
    (left,) = start(4, "left")
    assert left.cancel()
    wait_until(lambda: len(scheduler.cancelled_calls()) == 4)
    assert set(scheduler.cancelled_calls()) == {operator.abs, operator.add, operator.neg, operator.pos}


def test_what_another_target_needs_goes_on(start: Start, scheduler: SelectiveScheduler) -> None:
    left, right = start(6, "left", "right")
    assert right.cancel()
    wait_until(lambda: len(scheduler.cancelled_calls()) == 2)
    assert set(scheduler.cancelled_calls()) == {operator.sub, operator.invert}
    scheduler.hold.clear()
    assert left.result(30) == 0


def test_nothing_is_needed_when_the_last_target_is_cancelled(start: Start, scheduler: SelectiveScheduler) -> None:
    targets = start(6, "left", "right")
    for target in targets:
        target.cancel()
    wait_until(lambda: len(scheduler.cancelled_calls()) == 6)
    assert operator.index not in scheduler.cancelled_calls()  # the application has the future of the input


def test_a_target_that_another_one_needs_is_only_cancelled_itself(start: Start, scheduler: SelectiveScheduler) -> None:
    both, right = start(5, "both", "right")
    assert right.cancel()
    wait_until(lambda: len(scheduler.cancelled_calls()) == 2)
    scheduler.hold.clear()
    assert both.result(30) == 0
    assert set(scheduler.cancelled_calls()) == {operator.sub, operator.invert}


def test_calls_that_have_not_left_the_client(client: Client, scheduler: SelectiveScheduler) -> None:
    """The input is that of a graph, and what uses it waits in the client until it is there."""
    scheduler.hold.set()
    elsewhere = client.get({"zero": 0, "found": (operator.truth, "zero")}, ["found"], block=False)["found"]
    futures = client.get({**GRAPH, "input": elsewhere}, ["left", "right"], block=False)
    assert all(future.task_id == 0 for future in futures.values())
    for future in futures.values():
        assert future.cancel()
    scheduler.hold.clear()
    assert elsewhere.result(30) is False
    assert client.submit(operator.index, 7).result(30) == 7
    assert len(scheduler.runs()) == 2  # those of these two


def test_an_input_that_fails_ends_what_is_not_needed_any_more(
    client: Client, given: ScalerFuture[int], scheduler: SelectiveScheduler
) -> None:
    scheduler.stuck = (operator.neg,)
    graph = {"input": given, "bad": (fail, "input"), "slow": (operator.neg, "input")}
    future = client.get({**graph, "sum": (operator.add, "bad", "slow")}, ["sum"], block=False)["sum"]
    assert type(future.exception(30)) is ValueError
    wait_until(lambda: operator.neg in scheduler.cancelled_calls())


def test_a_computation_that_is_interrupted(
    client: Client, given: ScalerFuture[int], scheduler: SelectiveScheduler
) -> None:
    """All calls end, also those that other targets need, but not the futures that were there before."""
    scheduler.stuck = (operator.neg, operator.pos)
    graph = {"given": given, "bad": (fail, "given"), "slow": (operator.neg, "given"), "more": (operator.pos, "slow")}
    with pytest.raises(ValueError, match="no 5"):
        client.get(graph, ["bad", "more", "given"])
    wait_until(lambda: set(scheduler.cancelled_calls()) == {operator.neg, operator.pos})
    assert given.result(30) == 5


def test_nothing_is_left_of_a_computation(start: Start, scheduler: SelectiveScheduler) -> None:
    gc.collect()
    gc.disable()
    try:
        targets = start(6, "left", "right")
        targets[0].cancel()
        scheduler.hold.clear()
        assert targets.pop().result(30) == 6
        wait_until(lambda: computation_futures() == targets)
        with pytest.raises(CancelledError):
            targets.pop().result()
        wait_until(lambda: not computation_futures())
    finally:
        gc.enable()


def computation_futures() -> list[Any]:
    return [each for each in gc.get_objects() if type(each) is ComputationFuture]
