# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A run that a client sent, kept until its last task has ended. See run_records.pyi for the contract."""

from dataclasses import replace

from cython cimport final
from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.map_loads cimport MapLoad
from scaler_scheduler.core.priority_queues cimport QueueClass

cdef enum:
    DEPTH_LIMIT = 4095
    NUMBER_LIMIT = 0x7FFFFFFF


@final
cdef class MessageMemory:
    def __init__(self, int64_t size_bytes):
        self.size_bytes = size_bytes


@final
cdef class RunRecord:
    """A run that a client sent, kept until its last task has ended."""

    def __init__(
        self, run, FunctionLoad function not None, QueueClass queue not None, MessageMemory memory not None
    ):
        options = run.options
        self.intermediate = options.intermediate
        self.run = run
        self.first = run.first_task
        self.stop = self.first + <uint64_t> run.count
        self.remaining = run.count
        self.function = function
        self.depth = min(max(options.depth, 0), DEPTH_LIMIT)
        self.priority = max(-NUMBER_LIMIT, min(options.priority, NUMBER_LIMIT))
        self.retries = min(options.retries, NUMBER_LIMIT)
        self.hosts_actor = options.hosts_actor
        self.is_call = options.actor != 0
        self.slots = 0 if self.is_call else 1
        self.rerun = options.rerun and not self.is_call and (not self.hosts_actor or self.retries > 0)
        self.demand = queue.demand
        self.queue = queue
        self.memory = memory
        self.submitted_at = options.submitted_at
        self.has_uploads = run.has_references and (not options.graph or len(run.uploads()) > 0)

    def join_map(self, MapLoad load not None):
        self.map = load

    cdef bint set_priority(self, int64_t priority) except -1:
        """Set the priority of all tasks of the run that are still to be assigned, here and at their agents. Returns
        whether it has changed."""
        if self.priority == priority:
            return False
        self.priority = <int> max(-NUMBER_LIMIT, min(priority, NUMBER_LIMIT))
        self.run = self.run.with_options(replace(self.run.options, priority=self.priority))
        return True

    cdef RunRecord deeper(self, uint64_t task, QueueClass queue):
        """Return a record of one of its tasks, as deep as this class."""
        run = self.run.slice(task - self.first, task + 1 - self.first)
        run = run.with_options(replace(run.options, depth=queue.depth))
        cdef RunRecord own = RunRecord(run, self.function, queue, self.memory)
        own.graph = self.graph
        return own

    def piece(self, uint64_t first, uint64_t stop, uint32_t attempt):
        run = self.run
        if first != self.first or stop != self.stop:
            run = run.slice(first - self.first, stop - self.first)
        return run if run.attempt == attempt else run.with_attempt(attempt)


cdef extend(list ranges, RunRecord record, uint64_t task):
    """Add a task to a list of [record, first, stop], joining neighbours of one run."""
    cdef list last
    if ranges:
        last = <list> ranges[len(ranges) - 1]
        if last[0] is record and last[2] == task:
            last[2] = task + 1
            return
    ranges.append([record, task, task + 1])
