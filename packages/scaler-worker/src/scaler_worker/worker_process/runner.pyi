"""The loop that runs tasks (contract; the code is in runner.pyx)."""

import threading
from collections.abc import Callable
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.task_phases import TaskPhases, WhenStored
from scaler_worker.board import Board
from scaler_worker.worker_process.kept_values import KeptValues
from scaler_worker.worker_process.loaded_objects import LoadedObjects

def install_parent_variable() -> None:
    """Put SCALER_PARENT, which names the task under way, into the C environment."""

def read_parent_variable() -> bytes: ...

class Runner:
    """Runs dispatched tasks in order; ``host`` does what needs the outside."""

    board: Board
    forked: bool
    kept: KeptValues
    loaded: LoadedObjects
    using: threading.Lock
    """Held by a thread that uses ``kept`` or ``loaded``, if several calls of an actor run in threads."""

    def __init__(self, board: Board, host: Any, loaded_limit_bytes: int = 0) -> None: ...
    def run_tasks(self, runs: list[TaskRun]) -> None: ...
    def interrupt_calls(self) -> bool:
        """Interrupt the calls of an actor, in their threads, that the agent wants ended. Returns whether to try again,
        because one of them imports a module."""

    def forget_values(self, watermark: int) -> None: ...
    def forget_function(self, digest: bytes) -> None:
        """A function or a serializer is needed no more: the host is asked for it when it is needed again."""

    def take_values(self, runs: list[ResultRun]) -> None: ...
    def note_environment(self) -> None:
        """Note that a task changed the environment that tasks need: it is restored before the next one."""

    def watch_output(self, stdout: int, stderr: int, unread: int) -> None:
        """Note from now on which task has printed. ``stdout`` and ``stderr`` are the writing ends of pipes, ``unread``
        an epoll descriptor that contains the reading ends."""

    def watch_phases(self, function: Callable[..., Any], when_stored: WhenStored) -> TaskPhases | None:
        """Answer ``task_phases.watch``. Calls of an actor that run in threads are not watched."""

    def note_printed(self) -> None:
        """The task under way has written to one of Python's streams."""

    def note_warning(self) -> None:
        """The task under way has raised a warning."""

    def tell(self) -> None: ...
    def woken(self) -> None: ...
