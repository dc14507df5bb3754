# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The accounts of a run of results, row by row: which rows are forwarded or decided, what the agent has done, and what
monitors receive. The table of tasks decides about each row; this module only keeps the accounts."""

import struct

from cython cimport final
from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.fair_shares cimport Share

from scaler_scheduler.core.states import Action, ResultDecision, ResultOutcome

cdef double LONGEST_US = 31e12  # a year: what an agent may claim that a task took


@final
cdef class AcceptedResults:
    """The accounts of one run of results from ``agent``. Load and durations are collected for consecutive rows of one
    record."""

    def __init__(self, run, AgentLoad agent, Share share, Recorder events):
        self.run = run
        self.agent = agent
        self.share = share
        self.events = events
        self.is_recording = events.is_on
        self.decisions = []
        self.part_row = NO_ROW
        if run.parts is not None:
            self.parts = list(struct.iter_unpack("<4I", run.parts))
            self.parts.reverse()
            self.part_row = self.parts[len(self.parts) - 1][0]
        self.unknown = []
        if self.is_recording:
            self.segments = []

    cdef begin(self, RunRecord record, int64_t row):
        """The rows from ``row`` on belong to another record."""
        if self.is_recording and record.function is not self.function:
            self.function = record.function
            self.segments.append((row if self.segments else 0, record.function.named(self.events)))
        self.settle_load()
        self.record, self.durations = record, record.function.durations
        self.since_us = <int64_t> (max(0.0, self.events.now - record.entered_at) * 1e6)

    cdef settle_load(self):
        """Take what was counted off the agent's load, and let the function and the client's share learn from the
        durations."""
        if self.number == 0:
            return
        self.agent.give_back(self.record, self.number, self.load_us, self.moving_us)
        self.share.settle(self.load_us, min(self.measured_us, self.number * LONGEST_US))
        if self.timed:
            self.record.function.observe(self.total_us, self.timed, self.cpu_us)
            self.settle_waits()
        self.number = self.timed = 0
        self.load_us = self.moving_us = 0
        self.total_us = self.measured_us = self.dependencies_us = 0.0
        self.cpu_us = self.since_total_us = self.first_attempts = 0

    cdef settle_waits(self):
        """Tasks whose results came together have waited equally long, about."""
        cdef FunctionLoad function = self.record.function
        cdef double wait_us
        function.dependencies_us += self.dependencies_us
        if self.first_attempts == 0:
            return
        wait_us = <double> self.since_total_us / self.first_attempts - self.total_us / self.timed
        wait_us = max(wait_us, 0.0)
        function.waiting_us += wait_us * self.first_attempts
        function.waits.add_many(<uint64_t> wait_us, self.first_attempts)

    cdef uint64_t running_us(self, int64_t row, uint64_t duration_us) except? 0xFFFFFFFF:
        """Count the parts of the duration of a row, which belongs to the current record. Returns what is left: the time
        in which it was running. Parts that are longer than the whole do not count."""
        cdef uint64_t left_us = duration_us
        while self.part_row <= row:
            place, fetching, loading, storing = self.parts.pop()
            self.part_row = self.parts[len(self.parts) - 1][0] if self.parts else NO_ROW
            if place == row and fetching + loading + storing <= left_us:
                self.record.function.fetching_us += fetching
                self.record.function.loading_us += loading
                self.record.function.storing_us += storing
                left_us -= fetching + loading + storing
        return left_us

    cdef leave_out(self, int64_t row):
        """A row is not forwarded; all rows before the first such row are."""
        if self.forwarded is None:
            self.forwarded = list(range(row))

    cdef decide(self, int64_t row, uint64_t task, int action):
        self.decisions.append(ResultDecision(row, task, Action(action)))

    cdef record_as(self, int64_t row, int fate):
        """Monitors are told something else than the status of the row."""
        if not self.is_recording:
            return
        if self.fates is None:
            self.fates = bytearray(self.run.status_column)
        self.fates[row] = fate

    cdef outcome(self, uint32_t table):
        """None if all rows count and may be forwarded as they are."""
        self.settle_load()
        if self.segments:
            self.events.results(self.run, table, self.agent.index, self.segments, self.fates)
        if self.parts is not None:
            self.run.forget_parts()
        if self.forwarded is None and not self.decisions:
            return None
        return ResultOutcome(self.forwarded, self.decisions, self.unknown)
