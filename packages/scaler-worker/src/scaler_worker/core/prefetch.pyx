# cython: language_level=3, cdivision=True
"""Prefetch: each worker process gets its tasks a little ahead of need. See prefetch.pyi for the contract."""

from libc.stdint cimport int64_t, uint64_t
from scaler_worker.board cimport DispatchedRun
from scaler_worker.core.durations cimport Durations
from scaler_worker.core.outbox cimport Outbox
from scaler_worker.core.worker_process cimport WorkerProcess
from scaler_worker.core.queue cimport TaskQueue
from scaler_worker.core.roster cimport Roster

from scaler_protocol.messages import Tasks
from scaler_worker.core.dispatch import DispatchTasks

DISPATCH_SECONDS = 0.005
LEAST_DISPATCH_SECONDS = 0.0002

cdef double _dispatch_seconds = DISPATCH_SECONDS
cdef double _least_seconds = LEAST_DISPATCH_SECONDS
cdef int64_t DISPATCH_LIMIT = 4096


cdef class Prefetcher:
    def __init__(self, Roster roster, TaskQueue queue, Durations durations, nodes, contents, Outbox outbox):
        self._roster = roster
        self._queue = queue
        self._durations = durations
        self._nodes = nodes
        self._contents = contents
        self._outbox = outbox
        self._estimate = durations.estimate
        self.broken = []

    cpdef object fill(self):
        if self._queue.count and self._roster.idle:
            self.fill_idle()
        if self._roster.busy and (self._queue.count or self._nodes.waiting):
            self.fill_busy()

    cpdef object fill_idle(self):
        cdef list idle
        cdef Py_ssize_t position, count
        if not self.may_start():
            return
        idle = sorted(self._roster.idle)  # lowest first: the others leave room for other users of the host
        count = len(idle)
        for position in range(count):
            if self._queue.first(-1).options.hosts_actor:
                self.make_actor(self._roster.idle[idle[position]])
            else:
                self.dispatch(self._roster.idle[idle[position]], self._roster.depth_needed(1), count - position)
            if not self.may_start():
                return

    cdef bint may_start(self) except -1:
        """Return whether a task may go to an idle worker process."""
        return (
            self._queue.count > 0
            and self._roster.has_capacity()
            and self._queue.first(self._roster.depth_needed(1)) is not None
        )

    cdef object fill_busy(self):
        cdef Roster roster = self._roster
        cdef int64_t depth = roster.depth_needed(0)
        cdef WorkerProcess process
        cdef list short
        cdef Py_ssize_t position
        if len(roster.busy) > roster.slots + len(roster.blocked) or self._queue.first(depth) is None:
            return
        short = []
        for process in list(roster.short_of_work.values()):
            if self.is_short(process):
                short.append(process)
            else:
                del roster.short_of_work[process.number]
        for position in range(len(short)):
            self.dispatch(short[position], depth, len(short) - position)

    cpdef bint is_short(self, WorkerProcess process) except -1:
        """It would soon have nothing to run after its current task."""
        return process.unfinished() < 2 or self.work_of(process) < _dispatch_seconds

    cpdef double work_of(self, WorkerProcess process) except? -1:
        cdef DispatchedRun entry
        cdef double seconds = 0.0
        for entry in process.dispatched:
            seconds += entry.unfinished * max(self._durations.known(entry.run.function), 0.0)
        return seconds

    cpdef object dispatch(self, WorkerProcess process, int64_t depth, int64_t sharers, str environment=None):
        """About five milliseconds of tasks, no more than a fair share of what waits."""
        cdef TaskQueue queue = self._queue
        cdef list runs = []
        cdef double seconds = 0.0, estimate
        cdef int64_t count = process.board.room(), taken
        cdef int64_t share = (queue.count + sharers - 1) // sharers
        if process.task_limit:
            count = min(count, <int64_t> (process.task_limit - process.next_sequence))
        while seconds < _dispatch_seconds and count > 0 and queue.count:
            head = queue.first(depth) if environment is None else queue.first_in(environment, depth)
            if head is None or head.options.hosts_actor:  # an actor needs an idle process
                break
            estimate = self._durations.known(head.function)
            taken = min(count, self.batch(head, estimate, share, _dispatch_seconds - seconds))
            run = queue.take(taken) if environment is None else queue.take_in(environment, taken)
            runs.append(run)
            taken = run.count
            count -= taken
            share = max(1, share - taken)
            seconds += _dispatch_seconds if estimate < 0 else taken * estimate
        if self._nodes:
            runs += self._nodes.fragments(
                process.number, runs, _dispatch_seconds - seconds, count, self._estimate
            )
        if runs:
            self.give(process, runs)
        elif count == 0 and process.board.broken is not None:
            self.broken.append(process)

    cpdef object make_actor(self, WorkerProcess process, str environment=None):
        run = self._queue.take(1) if environment is None else self._queue.take_in(environment, 1)
        self.dedicate(process, run)
        self.give(process, [run])

    cdef int64_t batch(self, object head, double estimate, int64_t share, double budget) except -1:
        """Return how many tasks of this function; -1 stands for an unknown duration."""
        if estimate < 0:
            return 1
        if head.options.graph:  # what needs its result can follow it only on the same worker process
            share = DISPATCH_LIMIT
        share = max(share, <int64_t> (_least_seconds / estimate))
        return max(1, min(<int64_t> (budget / estimate), share, DISPATCH_LIMIT))

    cpdef object give(self, WorkerProcess process, list runs):
        cdef int64_t count
        if process.environment is None:
            process.environment = self._queue.environment_of(runs[0])
        if not process.dispatched:
            process.polled_position = -1
        for run in runs:
            count = run.count
            process.board.dispatch(process.next_sequence, count)
            process.dispatched.append(DispatchedRun(run, process.next_sequence))
            process.next_sequence += count
            if run.options.timeout_seconds:
                self.has_timed = True
        if process.task_limit and process.next_sequence >= process.task_limit:
            process.is_worn = True
        self._roster.sort(process)
        if len(runs) == 1 and not self._nodes and is_plain(run) and run.function in process.functions:
            self._outbox.add(DispatchTasks(process.number, Tasks(runs)))
        else:
            self._outbox.extend(self._contents.of(process, runs))


cdef bint is_plain(object run) except -1:
    """It needs its function and nothing else."""
    return not run.serializer and not run.has_references
