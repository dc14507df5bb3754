"""The worker processes of one host and what they run.

A process holds, besides its current task, about five milliseconds of work and at least one task more, so that it never
waits for its agent. That costs nothing: what has not started can be taken back through the board, for another process
that has nothing to do, for another agent, or because it was cancelled.

At most ``slots`` processes run tasks; each one whose task is blocked (it waits for tasks of its own) lends its slot to
tasks that are deeper than any blocked one. A task that waits for a lock may wait for one of any depth, so when nothing
runs any more and some task waits for a lock, a lent slot takes whatever is next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.effects import Log
from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import Blocked, ObjectKey, OutputPiece, Status, TaskColumn
from scaler_worker.board import DISPATCHED, Board, DispatchedRun, Harvest
from scaler_worker.core import held_tasks, work_stealing
from scaler_worker.core.actor_processes import ActorProcesses
from scaler_worker.core.columns import columns_of, joined
from scaler_worker.core.dispatch_contents import DispatchContents
from scaler_worker.core.durations import Durations
from scaler_worker.core.effects import DropObjects, Kill, Resume, Suspend
from scaler_worker.core.environment_processes import EnvironmentProcesses
from scaler_worker.core.host_output import HostOutput
from scaler_worker.core.hot_path import SlotsHotPath
from scaler_worker.core.memory_pressure import largest_above_share, share_bytes
from scaler_worker.core.nodes import Named
from scaler_worker.core.objects import Row
from scaler_worker.core.prefetch import Prefetcher
from scaler_worker.core.roster import Roster
from scaler_worker.core.running_tasks import RunningTasks
from scaler_worker.core.stand_ins import stand_ins
from scaler_worker.core.starts import Starts
from scaler_worker.core.state import AgentState
from scaler_worker.core.task_timeouts import CANCELLED, MEMORY_OF_HOST, Timeouts
from scaler_worker.core.worker_process import WorkerProcess

POLL_SECONDS = 0.005


class Slots:
    """An ``ExecutionBackend``, and the ``SlotsRules`` of its hot path."""

    hosts_actors = True
    has_environments = True

    def __init__(
        self,
        agent_name: str,
        worker_names: tuple[str, ...],
        state: AgentState,
        *,
        task_timeout_seconds: float = 0.0,
        process_limit: int = 0,
        fixed_slots: bool = False,
        suspends: bool = False,
        max_tasks_per_worker: int = 0,
        recycle_memory_threshold_bytes: int = 0,
        echo_streamed_output: bool = True,
        read_output: Callable[[int], None] = lambda number: None,
    ) -> None:
        """``suspends``: worker processes with blocked tasks are stopped while others use all slots. A worker process is
        replaced when it was given ``max_tasks_per_worker`` tasks, or uses more than ``recycle_memory_threshold_bytes``;
        0: never. ``read_output``: as for ``HostOutput``."""
        self.names = worker_names
        self.output = HostOutput(state, echo_streamed_output, read_output)
        self.client_output = self.output.to_clients
        self._state = state
        self._roster, self.durations = Roster(len(worker_names)), Durations()
        self.processes = self._roster.processes
        self._prefetcher = Prefetcher(
            self._roster, state.queue, self.durations, state.nodes, DispatchContents(state), state.outbox
        )
        self._starts = Starts(
            agent_name, worker_names, self._roster, state.outbox, process_limit, fixed_slots, max_tasks_per_worker
        )
        self._recycle_memory_threshold_bytes = recycle_memory_threshold_bytes
        self.running_tasks = RunningTasks(self._roster)
        self.timeouts = Timeouts(self._roster, state.outbox, task_timeout_seconds)
        self._hot_path = SlotsHotPath(
            state, self._roster, self.durations, self._prefetcher, self._starts, self.timeouts, self, suspends
        )  # fmt: skip
        self.turn, self.next_deadline = self._hot_path.turn, self._hot_path.next_deadline
        self.harvest, self.harvest_number = self._hot_path.harvest, self._hot_path.harvest_number
        self.on_news = self._hot_path.on_news
        self._actor_processes = ActorProcesses(
            state, self._roster, self._prefetcher, self.end_worker_process, self._place_of
        )
        self._prefetcher.dedicate = self._actor_processes.dedicate
        self._environment_processes = EnvironmentProcesses(
            state, self._roster, self._prefetcher, self._starts, self.end_worker_process
        )
        self.fill_environments = self._environment_processes.fill
        self.hold_back_calls = self._actor_processes.hold_back
        self.serve_actors, self.take_constructed = self._actor_processes.serve, self._actor_processes.take_constructed
        self._arriving: set[tuple[int, int]] = set()  # process, sequence: large results that were harvested last
        self._ended_for_memory: dict[int, str] = {}  # processes without a task, and why

    # ---- worker processes come and go ------------------------------------------------------------------------------

    def on_started(self, number: int, board: Board, pid: int) -> None:
        """The process exists; it is not ready yet."""
        process = self.processes.get(number)
        if process is not None:
            board.set_lease(self._hot_path.lease_told)
            if process.fork(board, pid):
                self.output.on_started(process)
            self._starts.is_forked()

    def on_ready(self, number: int, now: float) -> None:
        process = self.processes.get(number)
        if process is not None and process.make_ready():
            process.idle_since = now
            self._roster.sort(process)
            self._starts.is_ready()

    def on_not_started(self, number: int, text: str, now: float) -> None:
        """There is no process."""
        process = self._roster.remove(number)
        if process is not None:
            self._starts.fill_slot(process.slot)
            self._starts.not_started(process, text, now)

    def on_not_forked(self, number: int) -> None:
        """There is no process, because the zygote ended before it forked. Another one can be requested at once."""
        process = self._roster.remove(number)
        if process is not None:
            self._starts.fill_slot(process.slot)

    def on_died(self, number: int, certificate: dict[str, Any], now: float) -> None:
        """The process has ended. Tasks that it finished count, the running task ends as PROCESSOR_DIED, and the others
        wait for another worker process."""
        process = self.processes.pop(number, None)
        reason = self._ended_for_memory.pop(number, "")
        if process is None:
            return
        if reason:
            certificate = {**certificate, "reason": reason}
        is_failure = not process.ready
        if process.board is not None:
            is_failure |= process.busy and process.board.position == 0
            self.harvest(process, now)
            self.output.on_died(process)
            if process.board.broken is not None:
                certificate = {**certificate, "reason": _broken_text(process.board.broken)}
            self._bury(process, certificate, now)
        self._actor_processes.on_died(process, certificate, now)
        self._roster.forget(process)
        if is_failure and not process.dying:
            self._starts.failed(certificate, now)
        self._starts.fill_slot(process.slot)

    def _bury(self, process: WorkerProcess, certificate: dict[str, Any], now: float) -> None:
        """Tasks start and end in their order, so the oldest one that has not ended is the only one that can have
        started, whatever user code has written to the cells of the others."""
        waiting: list[tuple[DispatchedRun, int]] = []
        is_broken = process.board is not None and process.board.broken is not None
        for place, (entry, sequence, cell) in enumerate(process.open_sequences()):
            is_marked = cell != DISPATCHED or (is_broken and place == 0)
            may_have_started = place == 0 or process.is_dedicated or sequence in process.ending
            if entry.run.options.actor or (is_marked and may_have_started):
                self._fail_dead(process, entry, sequence, certificate, now)
            else:
                waiting.append((entry, sequence))
        self._put_back(reversed(waiting))
        process.dispatched.clear()
        self._state.nodes.forget_worker_process(process.number)

    def _fail_dead(
        self, process: WorkerProcess, entry: DispatchedRun, sequence: int, certificate: dict[str, Any], now: float
    ) -> None:
        ending, place = process.ending.get(sequence), self._place_of(process)
        board = process.board
        duration_us = int(1e6 * max(0.0, now - board.started)) if board and board.running == sequence else 0
        if ending is not None:
            self._end_row(entry, sequence, ending.reason, duration_us, place)
            return
        named = {**certificate, "task": entry.run.function_name}
        self._add_row(entry, sequence, Status.PROCESSOR_DIED, json.dumps(named).encode(), duration_us, place)

    def end_worker_process(self, number: int) -> None:
        """Kill a worker process, which cannot do what it was asked to do."""
        process = self.processes.get(number)
        if process is not None and process.end():
            self._roster.sort(process)
            self._state.outbox.add(Kill(number))

    def end_broken(self, process: WorkerProcess) -> None:
        """End a process that wrote impossible values to its board: none of its messages can be relied on."""
        assert process.board is not None
        if not process.dying:
            text = _broken_text(process.board.broken or "")
            self._state.outbox.add(Log("ERROR", f"{process.name}: {text} Its process {process.pid} is killed."))
        self.end_worker_process(process.number)

    def end_worn(self) -> None:
        """End the processes that are being replaced and that hold no task any more."""
        for number in list(self._roster.worn):
            self.end_worker_process(number)

    def on_memory_measured(self, resident_bytes: Mapping[int, int]) -> None:
        """``resident_bytes``: of worker processes, by process id. Those that use too much are given nothing more."""
        if not self._recycle_memory_threshold_bytes:
            return
        for process in self.processes.values():
            size = resident_bytes.get(process.pid, 0)
            if size > self._recycle_memory_threshold_bytes and process.ready and not process.is_worn:
                text = f"{process.name} uses {size // 2**20} MiB: its process is replaced when its task has ended"
                self._state.outbox.add(Log("INFO", text))
                self._wear_out(process)

    def start_missing(self, now: float) -> None:
        if not self._starts.start_missing(self._eligible_count(), now):
            self._fail_for_process_limit()

    def _fail_for_process_limit(self) -> None:
        """Every process is blocked and no more may be started: nothing would ever go on."""
        limit, trouble = self._starts.process_limit, self._starts.trouble
        why = f"no more can be started ({trouble})" if trouble else f"that is its limit ({limit})"
        text = (
            f"Nested tasks block all processes of this host, which are {len(self.processes)}, and {why}. "
            "Nest less deeply, or use more hosts."
            if self.processes
            else f"No worker process can be started on this host ({trouble}). Its log says since when."
        )
        held_tasks.fail_run(self._state, self._state.queue.take(1), Status.NO_WORKER, text.encode())

    def _eligible_count(self) -> int:
        """Return how many tasks may start on an idle worker process."""
        depth = self._roster.depth_to_start()
        if self._roster.is_stuck and len(self.processes) >= self._starts.process_limit:
            depth = self._roster.deepest_blocked  # a task that may start only because others wait for locks can wait
        return self._state.queue.count if self._state.queue.head(depth) is not None else 0

    def note_lent(self) -> None:
        """Tell the scheduler when slots were lent or are no longer lent, or when tasks here can use none as they wait
        for packages: then it may send others."""
        waiting = self._state.packages.waiting
        any_depth = self._roster.is_stuck or waiting > 0
        blocked = self._roster.blocked
        lent = len(blocked) + waiting, self._roster.deepest_blocked, any_depth, self._roster.blocked_actors
        if lent != self._state.lent:
            self._state.lent = lent
            self._state.unsent.append(Blocked(*lent))

    def set_lease(self, until: float) -> None:
        """Worker processes start nothing after this. It moves with every message, so it is told in steps."""
        for process in self.processes.values():
            if process.board is not None:
                process.board.set_lease(until)

    def forget_objects(self, keys: Sequence[ObjectKey]) -> None:
        """Worker processes may forget them."""
        for process in self.processes.values():
            gone = [key for key in keys if key in process.objects or key.owner in process.functions]
            if gone:
                process.objects.difference_update(gone)
                process.functions.difference_update(key.owner for key in gone if key.number == 0)
                self._state.outbox.add(DropObjects(process.number, gone))

    # ---- taking back -----------------------------------------------------------------------------------------

    def watch_full(self, now: float) -> None:
        """Some processes hold more than their running task: steal for idle ones, and look for results."""
        if self._roster.idle and not self._state.queue.count:
            self._steal(now)
        self._plan_poll(now)

    def _steal(self, now: float) -> None:
        """Worker processes have nothing to do and nothing waits: take back half of what the fullest one holds."""
        victim = work_stealing.victim(self._roster, self._prefetcher, now)
        if victim is not None:
            self.take_back(victim, victim.unfinished() // 2)
            if self._roster.in_environments:
                self.fill_environments(now)
            else:
                self._prefetcher.fill_idle()

    def take_back(self, process: WorkerProcess, limit: int) -> int:
        """Queue again up to ``limit`` tasks that the process has not started, newest first. Returns how many."""
        taken = self._reclaim(process, limit)
        self._put_back(taken)
        return len(taken)

    def _reclaim(self, process: WorkerProcess, limit: int) -> list[tuple[DispatchedRun, int]]:
        assert process.board is not None
        taken: list[tuple[DispatchedRun, int]] = []
        for entry in () if process.is_dedicated else reversed(process.dispatched):
            if len(taken) >= limit:
                break
            start = max(entry.first_sequence, process.board.harvested)
            sequences = process.board.withdraw_newest(start, entry.end_sequence, limit - len(taken))
            entry.unfinished -= len(sequences)
            taken.extend((entry, sequence) for sequence in sequences)
        self._roster.settle(process)
        return taken

    def _put_back(self, newest_first: Iterable[tuple[DispatchedRun, int]]) -> None:
        """Put tasks back to the front of the queue, in their order."""
        for run in joined(newest_first):
            for ready in self._nodes_put_back(run) if run.options.graph else (run,):
                self._state.queue.push_front(ready)

    def _nodes_put_back(self, run: TaskRun) -> list[TaskRun]:
        ready, back = self._state.nodes.put_back(run)
        self._state.given_back.extend(back)
        return ready[::-1]

    def withdraw(self, count: int) -> list[TaskColumn]:
        """Up to ``count`` tasks that never started and will not start here."""
        runs = self._state.queue.withdraw(count)
        count -= sum(run.count for run in runs)
        for process in sorted(self.processes.values(), key=self._prefetcher.work_of, reverse=True):
            if count <= 0:
                break
            if process.board is not None:
                taken = joined(self._reclaim(process, count))
                count -= sum(run.count for run in taken)
                runs.extend(taken)
        return columns_of(runs, held_tasks.without_nodes(self._state, runs))

    def cancel(self, column: TaskColumn, now: float) -> None:
        """Each task ends as cancelled unless it ends otherwise first."""
        wanted = held_tasks.cancel(self._state, column)
        for process in list(self._roster.busy.values()) if wanted else ():
            if process.busy:
                self._cancel_handed(process, column.session, wanted, now)
        for task, attempt in wanted if self._state.actors else ():
            self._actor_processes.cancel(column.session, task, attempt, now)

    def cancel_unstarted(self, column: TaskColumn) -> TaskColumn:
        """Returns the tasks that have started or are not here."""
        wanted = held_tasks.cancel(self._state, column)
        for process in list(self._roster.busy.values()) if wanted else ():
            if process.busy:
                self._take_back_handed(process, column.session, wanted)
        return TaskColumn(column.session, tuple(task for task, _ in wanted), tuple(attempt for _, attempt in wanted))

    def _take_back_handed(self, process: WorkerProcess, session: bytes, wanted: dict[tuple[int, int], None]) -> None:
        assert process.board is not None
        for task, attempt in list(wanted):
            found = process.find(session, task, attempt)
            if found is not None and process.board.withdraw(found[1]):
                self._end_withdrawn(process, *found)
                del wanted[task, attempt]
        self._roster.settle(process)

    def _cancel_handed(
        self, process: WorkerProcess, session: bytes, tasks: Iterable[tuple[int, int]], now: float
    ) -> None:
        assert process.board is not None
        for task, attempt in tasks:
            found = process.find(session, task, attempt)
            if found is None:
                continue
            entry, sequence = found
            if process.board.withdraw(sequence):
                self._end_withdrawn(process, entry, sequence)
            else:
                self.timeouts.end(process, sequence, CANCELLED, now)
        self._roster.settle(process)

    def _end_withdrawn(self, process: WorkerProcess, entry: DispatchedRun, sequence: int) -> None:
        """The process will not start this task."""
        entry.unfinished -= 1
        self._end_row(entry, sequence, CANCELLED, 0)
        self._actor_processes.on_withdrawn(process)

    def fail_running_once(self, now: float) -> None:
        """See ``ExecutionBackend``. Actors fail with their agent, and all their calls."""
        for process in list(self._roster.busy.values()):
            self.harvest(process, now)
            for entry, sequence, cell in process.open_sequences() if process.board is not None else ():
                options = entry.run.options
                if cell != DISPATCHED and not (options.rerun or options.hosts_actor or options.actor):
                    text = held_tasks.STOPPED_TEXT.encode()
                    self._add_row(entry, sequence, Status.WORKER_DIED, text, 0, self._place_of(process))

    def end_by_number(self, number: int, reason: str, now: float) -> None:
        """End whatever this worker process runs."""
        process = self.processes.get(number)
        if process is not None and process.board is not None and process.board.running is not None:
            self.timeouts.end(process, process.board.running, reason, now)

    def on_host_memory_exhausted(self, used_bytes: Mapping[int, int], limit_bytes: int, now: float) -> None:
        """End the task of the process that exceeds its share most, unless one is ending already. A process without a
        task, which is idle or has an actor at rest, is killed."""
        share = share_bytes(limit_bytes, len(self.names))
        endings = (ending for process in self.processes.values() for ending in process.ending.values())
        number = largest_above_share(used_bytes, share)
        if number is None or self._ended_for_memory or any(ending.reason == MEMORY_OF_HOST for ending in endings):
            return
        process = self.processes[number]
        what = "the task of " if process.busy else "the actor of " if process.is_dedicated else "the idle "
        text = (
            f"The memory of this host is nearly exhausted: {what}worker process {process.pid} is ended. It uses "
            f"{used_bytes[number] >> 20} MiB; the share of a worker is {share >> 20} MiB."
        )
        self._state.outbox.add(Log("WARNING", text))
        if process.busy:
            self.end_by_number(number, MEMORY_OF_HOST, now)
        else:
            self._ended_for_memory[number] = text
            self.end_worker_process(number)

    # ---- results ---------------------------------------------------------------------------------------------

    def take_others(self, process: WorkerProcess, harvest: Harvest) -> None:
        """Everything but small results of tasks that are not nodes of graphs."""
        if harvest.large:
            self._take_large(process, harvest)
        if harvest.interrupted:
            self._take_interrupted(process, harvest)
        if harvest.kept:
            held_tasks.keep_values(self._state, harvest.kept)

    def worker_index(self, process: WorkerProcess) -> int:
        """The worker that results name; beyond the workers, a process that runs nested tasks."""
        return min(process.place, NO_WORKER)

    def _place_of(self, process: WorkerProcess) -> int | None:
        return self.worker_index(process) if self._state.is_watched else None

    def _take_large(self, process: WorkerProcess, harvest: Harvest) -> None:
        rows = _large_rows(harvest.runs)
        self._arriving = {(process.number, sequence) for _, sequence in harvest.large}
        for entry, sequence in harvest.large:
            key = ObjectKey(entry.session, entry.first_task + sequence - entry.first_sequence)
            row = None if entry.is_node else rows.get(key)
            self._state.objects.add_result(process.number, sequence, key, row)
            for run in self._state.objects.take_made(key) if self._state.objects.is_awaited(key) else ():
                held_tasks.objects_here(self._state, run)
            if entry.is_node and self._state.objects.is_stored(key):
                process.objects.add(key)  # it may keep it until a DROP message

    def _take_interrupted(self, process: WorkerProcess, harvest: Harvest) -> None:
        for entry, sequence, duration in harvest.interrupted:
            ending = process.ending.get(sequence)
            if ending is None and entry.is_node:
                self._give_back(entry, sequence)
            else:
                reason = ending.reason if ending else CANCELLED
                self._end_row(entry, sequence, reason, duration, self._place_of(process))

    def forget_ended(self, process: WorkerProcess) -> None:
        board = process.board
        assert board is not None
        process.ending = {each: ending for each, ending in process.ending.items() if board.is_open(each)}
        if process.blocked_sequence is not None and not board.is_open(process.blocked_sequence):
            self._block(process, self._task_to_block(process) if board.unordered else None)

    def _give_back(self, entry: DispatchedRun, sequence: int) -> None:
        """A node that a worker process could not run: an input of it has failed, or was freed meanwhile."""
        task = entry.first_task + sequence - entry.first_sequence
        self._state.given_back.append((entry.session, task, entry.attempt))
        self._state.given_back.extend(self._state.nodes.gone(entry.session, (task,)))

    # ---- output ----------------------------------------------------------------------------------------------

    def on_printed(self, number: int, now: float) -> None:
        """Pass on the text of this process that was read."""
        self.output.settle(number, partial(self.harvest_number, number, now), now)
        self._plan_sending_output()

    def _plan_sending_output(self) -> None:
        due_at, poll_at = self.output.to_monitors.due_at, self._hot_path.poll_at
        if due_at is not None and (poll_at is None or due_at < poll_at):
            self._hot_path.poll_at = due_at

    def output_of(self, session: bytes, task: int, worker: str) -> list[OutputPiece]:
        """Return what the task, or else the worker, has printed."""
        kept = self.output.kept
        return kept.of_worker(worker) if worker else kept.of_task(session, task)

    # ---- results made here -----------------------------------------------------------------------------------

    def _end_row(
        self, entry: DispatchedRun, sequence: int, reason: str, duration_us: int, place: int | None = None
    ) -> None:
        status, text = self.timeouts.outcome(entry.run, reason)
        self._add_row(entry, sequence, status, text.encode(), duration_us, place)

    def _add_row(
        self, entry: DispatchedRun, sequence: int, status: int, payload: bytes, duration_us: int, place: int | None
    ) -> None:
        task = entry.first_task + sequence - entry.first_sequence
        if entry.is_node:
            self._state.given_back.extend(self._state.nodes.gone(entry.session, (task,)))
        self._state.rows.add(entry.session, task, entry.attempt, status, payload, duration_us, place)

    # ---- blocked tasks ---------------------------------------------------------------------------------------

    def block(self, number: int, *, for_a_lock: bool = False) -> bool:
        """Lend the slot of the task that this process runs: it waits for tasks of its own or, with ``for_a_lock``, for
        a lock. Return False if the process runs no task."""
        process = self.processes.get(number)
        if process is None or process.board is None:
            return False
        task = self._task_to_block(process)
        if task is None:
            return False
        if process.blocked_sequence == task[1] and process.waits_for_lock == for_a_lock:
            return True
        process.waits_for_lock = for_a_lock
        self._block(process, task)
        self.take_back(process, process.unfinished())  # counts it as blocked, too
        return True

    def _task_to_block(self, process: WorkerProcess) -> tuple[DispatchedRun, int] | None:
        """The task that runs. Of several calls of an actor, which share a slot, it is one of the least depth: then the
        tasks that any of them waits for may start."""
        board = process.board
        if board is None or not board.unordered:
            sequence = board.running if board is not None else None
            entry = process.entry_of(sequence) if sequence is not None else None
            return (entry, sequence) if entry is not None and sequence is not None else None
        started = [(entry, sequence) for entry, sequence, cell in process.open_sequences() if cell != DISPATCHED]
        return min(started, key=lambda each: each[0].run.options.depth, default=None)

    def _block(self, process: WorkerProcess, task: tuple[DispatchedRun, int] | None) -> None:
        process.blocked_sequence = None if task is None else task[1]
        process.blocked_depth = 0 if task is None else task[0].run.options.depth

    def unblock(self, number: int) -> None:
        process = self.processes.get(number)
        if process is not None:
            process.blocked_sequence = None
            self._roster.sort(process)

    def suspend_blocked(self) -> None:
        """A blocked parent stands still while others use all slots. One that waits for a lock does not:
        it may get the lock at any time, and others would wait for it. Nor does an actor that runs several calls: the
        others go on."""
        full = len(self._roster.busy) - len(self._roster.blocked) >= self._roster.slots
        for process in self.processes.values():
            may_stand = process.blocked and not process.waits_for_lock and not process.ending
            wanted = may_stand and full and process.board is not None and not process.board.unordered
            if wanted != process.suspended:
                process.suspended = wanted
                self._state.outbox.add(Suspend(process.number) if wanted else Resume(process.number))

    # ---- time ------------------------------------------------------------------------------------------------

    def deadline_with_starts(self, first: float | None) -> float | None:
        """Return the deadline while worker processes must be started or retired."""
        times = self._starts.deadlines(self._state.accepting) + self._environment_processes.deadlines()
        if first is not None:
            times.append(first)
        return min(times, default=None)

    def on_deadline(self, now: float) -> None:
        limits_at = self.timeouts.next_at
        if limits_at is not None and now >= limits_at:
            self.timeouts.enforce(now)
        if self._hot_path.poll_at is not None and now >= self._hot_path.poll_at:
            self._hot_path.poll_at = None
            for process in list(self._roster.busy.values()):
                self.harvest(process, now)
            self._send_output(now)
        self._starts.retire(now)
        self._environment_processes.retire(now)

    def _send_output(self, now: float) -> None:
        due_at = self.output.to_monitors.due_at
        if due_at is not None and now >= due_at:
            self.output.to_monitors.send()
        self._plan_sending_output()

    def _plan_poll(self, now: float) -> None:
        """A process tells of its results when it runs out of tasks, or when a task ends five milliseconds after the
        last news or harvest. So finished results can only hide behind a task that started since the last look."""
        if self._hot_path.poll_at is not None and self._hot_path.poll_at <= now + POLL_SECONDS:
            return
        for process in self._roster.full.values():
            assert process.board is not None
            position = process.board.position
            if position != process.polled_position:
                process.polled_position = position
                self._hot_path.poll_at = now + POLL_SECONDS

    # ---- reports ---------------------------------------------------------------------------------------------

    def stand_ins(self) -> dict[int, list[int]]:
        """Process ids of spare worker processes, by the slot of the worker to which they belong."""
        return stand_ins(self._roster)

    @property
    def queued(self) -> int:
        return (
            self._state.queue.count
            + self._state.nodes.waiting
            + sum(each.unfinished() - 1 for each in self._roster.busy.values() if not each.is_dedicated)
        )

    @property
    def is_idle(self) -> bool:
        return not self._state.queue.count and not self._roster.busy and not self._state.nodes.waiting

    def holds(self) -> list[TaskColumn]:
        """Everything that is queued or running here."""
        named: list[Named] = list(self._state.nodes.waiting_tasks())
        for process in self.processes.values():
            for entry, sequence, _ in process.open_sequences() if process.board is not None else ():
                task = entry.first_task + sequence - entry.first_sequence
                named.append((entry.session, task, entry.attempt))
        waiting = [*self._state.queue.runs(), *self._state.objects.waiting_runs(), *self._state.actors.runs()]
        return columns_of(waiting, [*named, *self._state.actors.live()])

    def has_task(self, number: int, sequence: int) -> bool:
        """Return whether the process holds a task of this sequence that has not ended, or whose large result is
        awaited: the records of several are read from the board before the first of their results is read from the
        stream."""
        if (number, sequence) in self._arriving:
            return True
        process = self.processes.get(number)
        return process is not None and process.board is not None and process.board.is_open(sequence)

    def task_of(self, number: int, sequence: int) -> tuple[bytes, int] | None:
        process = self.processes.get(number)
        entry = process.entry_of(sequence) if process is not None else None
        return (entry.session, entry.first_task + sequence - entry.first_sequence) if entry else None

    def number_running(self, session: bytes, task: int, attempt: int) -> int | None:
        """The worker process that runs this task."""
        for process in self.processes.values():
            if self._has_started(process, session, task, attempt):
                return process.number
        return None

    def _has_started(self, process: WorkerProcess, session: bytes, task: int, attempt: int) -> bool:
        found = process.find(session, task, attempt) if process.busy else None
        return found is not None and process.board is not None and process.board.is_started(found[1])

    def replace_process(self, worker: str, at_once: bool) -> bool:
        found = [each for each in self.processes.values() if each.name == worker and not each.dying]
        for process in found:
            if at_once:
                self.end_worker_process(process.number)
            elif process.ready and not process.is_worn:
                self._wear_out(process)
        return bool(found)

    def _wear_out(self, process: WorkerProcess) -> None:
        """It is given nothing more, and ends when its task has ended."""
        process.is_worn = True
        self._roster.sort(process)
        self.take_back(process, process.unfinished())

    def number_asked_for(self, session: bytes, task: int, worker: str) -> int | None:
        """The busy process of this worker, or the one that runs this task."""
        for process in self._roster.busy.values():
            if process.name == worker if worker else self._runs(process, session, task):
                return process.number
        return None

    def _runs(self, process: WorkerProcess, session: bytes, task: int) -> bool:
        if process.actor is not None and process.actor.name[:2] == (session, task):
            return True
        if process.board is not None and process.board.unordered:
            return self._has_started(process, session, task, 0)
        sequence = process.board.running if process.board is not None else None
        return sequence is not None and self.task_of(process.number, sequence) == (session, task)

    def memory_limits(self) -> list[tuple[int, int, int]]:
        """(worker process, process id, bytes) of running tasks whose memory is limited."""
        limits = []
        for process in self.processes.values():
            sequence = process.board.running if process.busy and process.board is not None else None
            entry = process.entry_of(sequence) if sequence is not None else None
            if entry is not None and entry.run.options.memory_bytes:
                limits.append((process.number, process.pid, entry.run.options.memory_bytes))
        return limits

    def correct_counts(self) -> list[str]:
        return held_tasks.correct_counts(self._state) + self._roster.correct_groups()

    def check(self) -> None:
        self._state.queue.check()
        self._state.nodes.check()
        self._roster.check()


def _broken_text(why: str) -> str:
    return f"A task has overwritten the memory that its worker shares with the agent: {why}."


def _large_rows(runs: list[ResultRun]) -> dict[ObjectKey, Row]:
    """The rows of large results, by object."""
    return {
        ObjectKey(run.session, row[0]): (*row[:3], bytes(row[3]), *row[4:])
        for run in runs
        for row in run.rows()
        if row[2] == Status.SUCCESS_LARGE
    }
