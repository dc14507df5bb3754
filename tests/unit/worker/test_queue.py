"""The host's queue: order, slicing, taking out."""

from __future__ import annotations

import random

from scaler_protocol.messages import TaskOptions
from scaler_worker.core.queue import TaskQueue
from tests.unit.worker.playbook import CLIENT, run_of


def tasks(queue: TaskQueue) -> list[int]:
    return [run.first_task + index for run in queue.runs() for index in range(run.count)]


def test_first_come_first_served() -> None:
    queue = TaskQueue()
    queue.push(run_of(3, first=0))
    queue.push(run_of(3, first=10))
    assert [queue.take(2).first_task, queue.take(9).first_task, queue.take(9).first_task] == [0, 2, 10]
    assert queue.count == 0 and queue.head() is None


def test_deeper_then_higher_priority() -> None:
    queue = TaskQueue()
    queue.push(run_of(1, first=0))
    queue.push(run_of(1, first=1, options=TaskOptions(priority=5)))
    queue.push(run_of(1, first=2, options=TaskOptions(depth=1)))
    assert tasks(queue) == [2, 1, 0]
    assert queue.head(0) is not None and queue.head(1) is None


def test_what_was_taken_out_goes_back_to_the_front() -> None:
    queue = TaskQueue()
    queue.push(run_of(4))
    queue.push_front(queue.take(2))
    assert tasks(queue) == [0, 1, 2, 3]


def test_withdrawing_takes_what_would_run_last() -> None:
    queue = TaskQueue()
    queue.push(run_of(4, first=0, options=TaskOptions(priority=1)))
    queue.push(run_of(4, first=10))
    taken = queue.withdraw(5)
    assert [(run.first_task, run.count) for run in taken] == [(10, 4), (3, 1)]
    assert tasks(queue) == [0, 1, 2]
    queue.check()


def test_removing_names_what_was_there() -> None:
    queue = TaskQueue()
    queue.push(run_of(5, attempt=2))
    queue.push(run_of(5, session=b"D" * 16))
    assert queue.remove(CLIENT, {(0, 0), (1, 7), (2, 2), (3, 0), (99, 0)}) == [(0, 2), (2, 2), (3, 2)]
    assert queue.count == 7
    queue.check()


def test_nothing_is_lost_whatever_happens() -> None:
    chooser = random.Random(11)
    queue, here, next_task = TaskQueue(), set(), 0
    for _ in range(500):
        match chooser.randrange(4):
            case 0:
                count = chooser.randrange(1, 9)
                queue.push(run_of(count, first=next_task, options=TaskOptions(depth=chooser.randrange(3))))
                here.update(range(next_task, next_task + count))
                next_task += count
            case 1 if queue.count:
                run = queue.take(chooser.randrange(1, 5))
                here.difference_update(range(run.first_task, run.first_task + run.count))
            case 2:
                for run in queue.withdraw(chooser.randrange(4)):
                    here.difference_update(range(run.first_task, run.first_task + run.count))
            case 3:
                wanted = {chooser.randrange(max(1, next_task)) for _ in range(3)}
                removed = {task for task, _ in queue.remove(CLIENT, {(task, 0) for task in wanted})}
                assert removed == wanted & here
                here -= removed
        queue.check()
        assert sorted(tasks(queue)) == sorted(here)
