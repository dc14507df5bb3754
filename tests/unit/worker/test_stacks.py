"""An agent is asked where a task is."""

from __future__ import annotations

from scaler_protocol.messages import StackReply, StackRequest
from scaler_worker.board import STARTED_CELL
from scaler_worker.core.effects import ReadStack
from scaler_worker.core.stack_text import STACK_LIMIT, shown_stack
from tests.unit.worker.playbook import CLIENT, Stage, run_of

WRITTEN = """Thread 0x01 (most recent call first):
  File "/site/scaler_worker/worker_process/output.py", line 5 in write

Current thread 0x02 (most recent call first):
  File "/home/user/price.py", line 5 in price
  File "/site/scaler_worker/worker_process/main.py", line 88 in run
  File "<frozen runpy>", line 88 in _run_code
"""


def asked(stage: Stage, request: StackRequest) -> list[ReadStack | StackReply]:
    """What follows from a request."""
    stage.effects.clear()
    stage.say(request)
    effects = [each for each in stage.effects if isinstance(each, ReadStack)]
    return [*effects, *stage.bodies(StackReply)]


def test_the_process_of_a_task_is_read() -> None:
    stage = Stage(2)
    stage.give(run_of(1, first=1))
    (number,) = [each.number for each in stage.core.slots.processes.values() if each.busy]
    memory = stage.processes[number].memory
    memory[4096] = STARTED_CELL
    memoryview(memory).cast("Q")[64 // 8] = 1  # as a worker process notes the task under way on its board
    assert asked(stage, StackRequest(3, CLIENT, 1)) == [ReadStack(3, number)]
    stage.core.on_stack(3, WRITTEN, stage.now)
    stage.turn()
    (reply,) = stage.bodies(StackReply)
    assert reply.is_found and reply.text.splitlines()[1:] == ['  File "/home/user/price.py", line 5 in price']


def test_a_busy_worker_is_found_by_its_name() -> None:
    stage = Stage(1)
    stage.give(run_of(1, first=1))
    (process,) = stage.core.slots.processes.values()
    assert asked(stage, StackRequest(3, CLIENT, 0, process.name)) == [ReadStack(3, process.number)]


def test_an_idle_worker_has_no_stack() -> None:
    stage = Stage(1)
    (process,) = stage.core.slots.processes.values()
    (reply,) = asked(stage, StackRequest(3, CLIENT, 0, process.name))
    assert reply == StackReply(3, False, "Cannot show the stack: the worker has no task.")


def test_a_task_that_is_not_here() -> None:
    (reply,) = asked(Stage(1), StackRequest(3, CLIENT, 9))
    assert reply == StackReply(3, False, "Cannot show the stack: the task waits on its host, or has just ended.")


def test_a_process_that_does_not_answer() -> None:
    stage = Stage(1)
    stage.core.on_stack(3, None, stage.now)
    stage.turn()
    (reply,) = stage.bodies(StackReply)
    assert not reply.is_found and "did not answer" in reply.text


def test_frames_of_the_worker_are_left_out() -> None:
    assert shown_stack(WRITTEN) == (
        'Current thread 0x02 (most recent call first):\n  File "/home/user/price.py", line 5 in price'
    )
    assert shown_stack("") == "The task is not running Python code at the moment."


def test_a_very_long_stack_keeps_its_ends() -> None:
    shown = shown_stack("Thread\n" + "".join(f"  File {number}\n" for number in range(100_000)))
    assert "  File 0\n" in shown and shown.endswith("  File 99999") and "characters are left out" in shown
    assert len(shown) < STACK_LIMIT + 100


def test_anything_else_in_the_file_is_harmless() -> None:
    assert shown_stack("Thread\n  File \x1b[2J\0größe") == "Thread\n  File ?[2J?gr??e"
