"""The tasks that wait for Symphony and those that are there.

At most ``base concurrency`` tasks are in Symphony, except that a task that is nested deeper than all that run passes:
those may be waiting for it. The deepest task that runs never waits for one that may not run, so recursion ends with any
base concurrency.

A task in Symphony cannot be interrupted. One that is cancelled, or has run for too long, ends for its client at once;
its slot is free when Symphony answers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Set
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.effects import Log
from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import INLINE_LIMIT_BYTES, UPLOAD_NUMBER, ObjectKey, OutputPiece, Status, TaskColumn
from scaler_worker.core import held_tasks
from scaler_worker.core.client_output import ClientOutput
from scaler_worker.core.columns import columns_of
from scaler_worker.core.nodes import Named
from scaler_worker.core.state import AgentState
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.effects import Call, OpenSession, SendInput
from scaler_worker.symphony.core.sent import Sent, SentTasks
from scaler_worker.symphony.core.session import SessionState
from scaler_worker.symphony.core.store import MemoryStore

LOSSES_LIMIT = 20
"""A task whose session ended so often while it was there is not sent again: it may be what ends them."""

REFUSALS_LIMIT = 4
"""A task that Symphony did not take so often fails."""

DOUBT_SECONDS = 0.5
"""Seconds of doubt after Symphony says that a task failed: its session may be about to end, which is not the task's
fault."""


class Grid:
    """An ``ExecutionBackend`` whose slots are in Symphony: this host has no worker processes."""

    hosts_actors = False
    has_environments = False

    def __init__(self, worker_names: tuple[str, ...], state: AgentState, store: MemoryStore, now: float) -> None:
        self.names = worker_names
        self.client_output = ClientOutput(state)
        self._state = state
        self._store = store
        self.session = SessionState(now)
        self.sent = SentTasks(len(worker_names))
        self._number = 0
        self._losses: dict[Named, int] = {}
        self._refusals: dict[Named, int] = {}

    # ---- sending ---------------------------------------------------------------------------------------------

    def turn(self, now: float, may_start: bool) -> None:
        """There is nothing to start here but the session."""
        if not self._state.accepting:
            return
        number = self.session.take_due(now)
        if number is not None:
            self._state.outbox.add(OpenSession(number))
        while may_start and self.session.may_send(now) and self._may_pass():
            self._send(self._state.queue.take(1), now)

    def _may_pass(self) -> bool:
        """Return whether the first task of the queue, which is the deepest, may go."""
        return self._state.queue.head(self.sent.deepest if self.sent.is_full else None) is not None

    def _send(self, run: TaskRun, now: float) -> None:
        call = self._call(run)
        if call is None:
            self._end_incomplete(run)
            return
        self._number += 1
        limit = run.options.timeout_seconds
        self.sent.add(self._number, run, now + limit if limit else None)
        self._state.outbox.add(SendInput(self._number, self.session.number, call))

    def _end_incomplete(self, run: TaskRun) -> None:
        """A value of its graph that is not here any more can be made again: the node goes back."""
        keys = [slot for slot in run.slot_bytes(0) if isinstance(slot, ObjectKey)]
        if any(key.number < UPLOAD_NUMBER and self._value(key) is None for key in keys):
            self._state.given_back.append((run.session, run.first_task, run.attempt))
            self._state.given_back.extend(held_tasks.without_nodes(self._state, [run]))
        else:
            text = f"An argument of {run.function_name} did not arrive."
            self._fail_run(run, Status.OBJECT_MISSING, text.encode())

    def _call(self, run: TaskRun) -> Call | None:
        """None: something that it needs is not here any more."""
        slots = [self._value(slot) if isinstance(slot, ObjectKey) else slot for slot in run.slot_bytes(0)]
        function = self._definition(self._state.functions, run.function)
        serializer = self._definition(self._state.serializers, run.serializer) if run.serializer else None
        if function is None or (run.serializer and serializer is None):
            return None
        here = tuple(slot for slot in slots if slot is not None)
        if len(here) < len(slots):
            return None
        options = run.options
        return Call(
            function, run.function_name, serializer, here, run.keywords, run.session, run.first_task, run.attempt,
            options.depth, options.profiling, options.stream_output,
        )  # fmt: skip

    def _value(self, key: ObjectKey) -> bytes | bytearray | None:
        value = self._state.nodes.value(key)
        return self._store.content(key) if value is None else value

    def _definition(self, known: dict[bytes, Any], digest: bytes) -> bytes | bytearray | None:
        definition = known.get(digest)
        if definition is None:
            return None
        return definition.payload or self._store.content(ObjectKey(digest, 0))

    # ---- what comes back -------------------------------------------------------------------------------------

    def on_taken(self, number: int) -> None:
        """Symphony has the input."""
        self.session.accepted()
        sent = self.sent.by_number.get(number)
        if sent is not None and self._refusals:
            self._refusals.pop(sent.name, None)

    def on_refused(self, number: int, text: str, now: float) -> None:
        """Symphony did not take the input. The task is tried again, unless it was tried often enough."""
        sent = self.sent.remove(number)
        if sent is None:
            return
        name = sent.name
        self._refusals[name] = self._refusals.get(name, 0) + 1
        if self.session.refused(now):
            self.lose_session(self.session.number, f"it takes no input: {text}", now)
        if sent.is_over:
            self._refusals.pop(name, None)
        elif self._refusals[name] >= REFUSALS_LIMIT:
            self._fail(sent, f"Symphony does not take the input of {sent.run.function_name}: {text}")
        else:
            self._state.queue.push_front(sent.run)

    def on_answer(self, number: int, answer: SymphonyAnswer) -> None:
        """An execution ended. Answers to numbers that are not known here come too late: from a dead session."""
        sent = self.sent.remove(number)
        if sent is None:
            return
        self.session.proved()
        if not sent.is_over:
            self._end(sent, answer)

    def on_failure(self, number: int, text: str, now: float, report: bytes = b"") -> None:
        """Symphony or the service failed: ``text`` is a sentence for the user. It counts a moment later, unless the
        session ends before."""
        sent = self.sent.by_number.get(number)
        if sent is not None:
            sent.failure = text.replace("{task}", sent.run.function_name)
            sent.report = report
            self.sent.limit(sent, now + DOUBT_SECONDS)

    def _fail(self, sent: Sent, text: str) -> None:
        self._close(sent)
        self._fail_run(sent.run, Status.WORKER_DIED, text.encode())

    def _end(self, sent: Sent, answer: SymphonyAnswer) -> None:
        self._close(sent)
        run, status, payload = sent.run, answer.status, answer.payload
        if status == Status.SUCCESS and len(payload) > INLINE_LIMIT_BYTES:
            self._store.add_result(sent.number, payload)
            self._state.objects.add_result(sent.number, 0, ObjectKey(run.session, run.first_task))
            status, payload = Status.SUCCESS_LARGE, len(payload).to_bytes(8, "little")
        if run.options.graph:
            held_tasks.keep_values(self._state, [(run, run.first_task, int(status), payload)])
            if run.options.intermediate and status == Status.SUCCESS:
                payload = b""
        figures = answer.duration_us, answer.cpu_time_us, answer.memory_peak
        row = (run.first_task, run.attempt, int(status), payload, *figures)
        result = ResultRun(run.session, [row])
        if self._state.is_watched:
            result.set_place(NO_WORKER if sent.slot is None else min(sent.slot, NO_WORKER), array("I", [0]).tobytes())
        self._state.finished.append(result)

    def _fail_run(self, run: TaskRun, status: Status, payload: bytes) -> None:
        held_tasks.fail_run(self._state, run, status, payload)

    def _close(self, sent: Sent) -> None:
        self._losses.pop(sent.name, None)
        self._refusals.pop(sent.name, None)

    def _drop_counts(self, column: TaskColumn) -> None:
        """These tasks leave, or end while they wait."""
        for counts in (self._losses, self._refusals):
            if counts:
                ended = frozenset(column.tasks)
                for name in [name for name in counts if name[0] == column.session and name[1] in ended]:
                    del counts[name]

    def withdraw(self, count: int) -> list[TaskColumn]:
        runs = self._state.queue.withdraw(count)
        columns = columns_of(runs, held_tasks.without_nodes(self._state, runs))
        for column in columns:
            self._drop_counts(column)
        return columns

    # ---- the session -----------------------------------------------------------------------------------------

    def lose_session(self, number: int, text: str, now: float) -> None:
        """It ended, or could not be opened. All that was there and is not answered waits for the next one."""
        was_open = self.session.is_open
        if not self.session.ended(number, now):
            return
        unanswered = self.sent.remove_all()
        for sent in reversed(unanswered):
            if not sent.is_over:
                self._lose(sent)
        if was_open:
            text = f"Symphony: the session ended, {len(unanswered)} tasks without an answer wait for a new one: {text}"
        self._state.outbox.add(Log("WARNING", text))

    def _lose(self, sent: Sent) -> None:
        run = sent.run
        losses = self._losses[sent.name] = self._losses.get(sent.name, 0) + 1
        if not run.options.rerun:
            self._fail(sent, f"The Symphony session of {run.function_name} ended, and it must not run again.")
        elif losses >= LOSSES_LIMIT:
            self._fail(sent, f"The Symphony session of {run.function_name} ended {losses} times while it ran.")
        else:
            self._state.queue.push_front(run)

    # ---- ending what runs ------------------------------------------------------------------------------------

    def cancel(self, column: TaskColumn, now: float) -> None:
        held_tasks.cancel(self._state, column)
        wanted = frozenset(zip(column.tasks, column.attempts or (0,) * len(column.tasks), strict=False))
        for sent in self.sent.live():
            session, task, attempt = sent.name
            if session == column.session and ((task, attempt) in wanted or (task, 0) in wanted):
                self._give_up(sent, Status.CANCELLED, "")
        self._drop_counts(column)

    def cancel_unstarted(self, column: TaskColumn) -> TaskColumn:
        """Symphony does not say which tasks have started: all count as started."""
        return column

    def _give_up(self, sent: Sent, status: Status, text: str) -> None:
        self.sent.end(sent)
        self._close(sent)
        self._fail_run(sent.run, status, text.encode())

    def fail_running_once(self, now: float) -> None:
        for sent in list(self.sent.live()):
            if not sent.run.options.rerun:
                self._give_up(sent, Status.WORKER_DIED, held_tasks.STOPPED_TEXT)

    def next_deadline(self) -> float | None:
        times = [at for at in (self.sent.next_deadline(), self.session.next_deadline()) if at is not None]
        return min(times, default=None)

    def on_deadline(self, now: float) -> None:
        self.session.on_deadline(now)
        for sent in self.sent.take_due(now):
            if sent.failure:
                self.sent.remove(sent.number)
            if not sent.is_over:
                self._end_late(sent)

    def _end_late(self, sent: Sent) -> None:
        if sent.report:
            self._close(sent)
            self._fail_run(sent.run, Status.EXCEPTION, sent.report)
            return
        if sent.failure:
            self._fail(sent, sent.failure)
            return
        name, seconds = sent.run.function_name, sent.run.options.timeout_seconds
        self._give_up(sent, Status.TIMED_OUT, f"{name} took more than its {seconds:g} seconds.")

    # ---- reports ---------------------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        return self._state.queue.count + self._state.nodes.waiting

    @property
    def is_idle(self) -> bool:
        return not self._state.queue.count and not self._state.nodes.waiting and not self.sent.live()

    def holds(self) -> list[TaskColumn]:
        state = self._state
        waiting = columns_of([*state.queue.runs(), *state.objects.waiting_runs()], state.nodes.waiting_tasks())
        return [*waiting, *columns_of((), [sent.name for sent in self.sent.live()])]

    def hold_back_calls(self, lost: Set[ObjectKey]) -> list[TaskRun]:
        return []  # no actor is here

    def forget_objects(self, keys: Sequence[ObjectKey]) -> None:
        """Nothing to do: a task takes copies of its objects along."""

    def task_of(self, number: int, sequence: int) -> tuple[bytes, int] | None:
        sent = self.sent.by_number.get(number)
        return None if sent is None or sent.is_over else (sent.run.session, sent.run.first_task)

    def output_of(self, session: bytes, task: int, worker: str) -> list[OutputPiece]:
        """Output of services is passed on, and not kept."""
        return []

    def number_asked_for(self, session: bytes, task: int, worker: str) -> int | None:
        """None: the process of a service instance is on another host."""
        return None

    def replace_process(self, worker: str, at_once: bool) -> bool:
        """False: Symphony owns its processes."""
        return False

    def correct_counts(self) -> list[str]:
        return held_tasks.correct_counts(self._state) + self.sent.correct_counts()

    def check(self) -> None:
        self._state.queue.check()
        self._state.nodes.check()
        self.session.check()
        self.sent.check()
        assert self.session.is_open or not self.sent.by_number
