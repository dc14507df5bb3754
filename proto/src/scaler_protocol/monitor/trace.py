"""A window of time as a trace in Chrome's format, which Perfetto and ``chrome://tracing`` open.

A process is an agent, a thread a worker, a slice the execution of a task. Executions whose worker is not known may
overlap, which slices of a thread cannot: they get as many threads as are needed. The time in which tasks waited is in a
process for each client.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scaler_protocol.limits import NO_WORKER
from scaler_protocol.monitor.activity import WorkerName
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.parts import TimeParts, parts_of_task
from scaler_protocol.monitor.records import AGAIN
from scaler_protocol.monitor.rows import ending_name, short_id
from scaler_protocol.monitor.running import RunningTaskRow
from scaler_protocol.monitor.trace_waits import TaskWait, TaskWaits

if TYPE_CHECKING:
    from scaler_protocol.monitor.task_log import LogRow

_SUCCESSES = (0, 1)
_CANCELLED = 4
_LANES_LIMIT = 1000
"""Threads for executions whose worker is not known; further ones share the last one."""

_MICROSECONDS = 1e6


class TraceBuilder:
    """The text of a trace, in pieces. ``start`` and ``stop``: unix seconds. ``take`` may be called again and again
    while a model reads a recording: each task that it has kept is written once."""

    def __init__(self, start: float, stop: float) -> None:
        self.slices = 0
        self._start_us, self._stop_us = int(start * _MICROSECONDS), int(stop * _MICROSECONDS)
        self._log: object = None
        self._next = 0
        self._processes: dict[tuple[str, str], int] = {}
        self._threads: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._lanes: dict[tuple[str, str, str], list[int]] = {}
        self._waits = TaskWaits()
        self._is_empty = True

    def head(self) -> str:
        return '{"displayTimeUnit": "ms", "traceEvents": ['

    def take(self, model: Model) -> Iterator[str]:
        """The tasks that have ended since the last call and overlap the window."""
        if model.log is not self._log:
            self._log, self._next, self._waits = model.log, 0, TaskWaits()
        log = model.log
        self._waits.follow(model)
        self._next = max(self._next, log.first)
        while self._next < log.total:
            row = log.row(self._next)
            self._next += 1
            if row is None:
                continue
            self._waits.note_end(row)
            if row[1] >= self._start_us and row[1] - row[2] < self._stop_us:
                wait = self._waits.of(model, row)
                event = self._execution(model, row, wait)
                yield self._piece(event)
                for part in _parts(event, parts_of_task(model.activity.times, row)):
                    yield self._piece(part)
                if wait is not None:
                    yield from map(self._piece, self._waiting(model, row, wait))

    def take_running(self, model: Model) -> Iterator[str]:
        """The tasks that run, at the last snapshot, which is when their slices end."""
        if model.snapshot is None:
            return
        until = int(model.snapshot.time * _MICROSECONDS)
        for running in model.running.values():
            began = int(running.started * _MICROSECONDS)
            if began < self._stop_us and until >= self._start_us:
                yield self._piece(self._running(running, began, max(0, until - began)))

    def tail(self) -> Iterator[str]:
        """The names of all agents and workers, and the end."""
        for (host, agent), process in self._processes.items():
            yield self._piece(_named("process_name", process, 0, f"{agent} on {host}" if agent else host))
        for (_, _, worker), (process, thread) in self._threads.items():
            yield self._piece(_named("thread_name", process, thread, worker or "unknown worker"))
        yield "\n]}\n"

    def _piece(self, event: dict[str, Any]) -> str:
        separator, self._is_empty = "\n" if self._is_empty else ",\n", False
        return separator + json.dumps(event)

    def _waiting(self, model: Model, row: LogRow, wait: TaskWait) -> Iterator[dict[str, Any]]:
        """Slices of what a task waited for, in a process of its client; none if too many wait there."""
        lane = self._waits.lane(row[3], wait)
        if lane is None:
            return
        client = short_id(model.activity.session_of(row[3]))
        process, thread = self._place(f"client {client}: tasks that wait", "", f"waiting {lane + 1}")
        arguments = {"task": row[0], "function": model.activity.function_name(row[4])}
        spans = (
            ("waiting for dependencies", wait.arrived_us, wait.ready_us),
            ("waiting for a worker", wait.ready_us, wait.started_us),
        )
        for name, began_us, ended_us in spans:
            if ended_us > began_us:
                yield {
                    "name": name, "cat": "waiting", "ph": "X", "ts": began_us, "dur": ended_us - began_us,
                    "pid": process, "tid": thread, "args": arguments,
                }  # fmt: skip

    def _execution(self, model: Model, row: LogRow, wait: TaskWait | None) -> dict[str, Any]:
        task, ended_us, duration_us, session, function, worker, attempt, status = row
        known = model.activity.worker_of(worker)
        arguments = {
            "task": task,
            "client": short_id(model.activity.session_of(session)),
            "status": ending_name(status),
            "attempt": attempt,
            "dependencies_seconds": (wait.ready_us - wait.arrived_us) / _MICROSECONDS if wait is not None else 0.0,
            "waiting_seconds": (wait.started_us - wait.ready_us) / _MICROSECONDS if wait is not None else 0.0,
        }
        event = self._slice(
            model.activity.function_name(function), known, ended_us - duration_us, duration_us, arguments
        )
        if status & ~AGAIN not in _SUCCESSES:
            event["cname"] = "grey" if status & ~AGAIN == _CANCELLED else "terrible"
        return event

    def _running(self, running: RunningTaskRow, began_us: int, duration_us: int) -> dict[str, Any]:
        task = running.task
        number = task.worker if task.worker < NO_WORKER else None
        worker = WorkerName(running.agent.host, running.agent.name, running.worker, number)
        arguments = {"task": task.task, "client": short_id(task.session), "status": "running", "attempt": task.attempt}
        return self._slice(task.function, worker, began_us, duration_us, arguments)

    def _slice(
        self, name: str, worker: WorkerName, began_us: int, duration_us: int, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        self.slices += 1
        process, thread = self._thread(worker, began_us, began_us + duration_us)
        return {
            "name": name or "?", "cat": "task", "ph": "X", "ts": began_us, "dur": duration_us, "pid": process,
            "tid": thread, "args": arguments,
        }  # fmt: skip

    def _thread(self, worker: WorkerName, began_us: int, ended_us: int) -> tuple[int, int]:
        name = worker.name
        if worker.number is None:
            lane = self._lane((worker.host, worker.agent, name), began_us, ended_us)
            name = f"other processes {lane + 1}"
        return self._place(worker.host, worker.agent, name)

    def _place(self, host: str, agent: str, name: str) -> tuple[int, int]:
        """The numbers of a process and a thread, made when the thread is new."""
        key = (host, agent, name)
        if key not in self._threads:
            process = self._processes.setdefault(key[:2], len(self._processes) + 1)
            self._threads[key] = (process, len(self._threads) + 1)
        return self._threads[key]

    def _lane(self, key: tuple[str, str, str], began_us: int, ended_us: int) -> int:
        """The first one that is free. Tasks come in the order in which they ended, so a lane may have a later one."""
        lanes = self._lanes.setdefault(key, [])
        for lane, busy_until in enumerate(lanes):
            if busy_until <= began_us:
                lanes[lane] = ended_us
                return lane
        if len(lanes) < _LANES_LIMIT:
            lanes.append(ended_us)
        return len(lanes) - 1


def _parts(execution: dict[str, Any], parts: TimeParts) -> Iterator[dict[str, Any]]:
    """Slices inside that of an execution, if it was not only running."""
    at = execution["ts"]
    if not parts.fetching + parts.loading + parts.storing:
        return
    for name in ("fetching", "loading", "running", "storing"):
        duration = int(getattr(parts, name) * _MICROSECONDS)
        if duration:
            yield {**execution, "name": name, "cat": "part", "ts": at, "dur": duration, "args": {}}
        at += duration


def pieces_of(builder: TraceBuilder, model: Model) -> Iterator[str]:
    """The whole text, of what a model has kept."""
    yield builder.head()
    yield from builder.take(model)
    yield from builder.take_running(model)
    yield from builder.tail()


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
