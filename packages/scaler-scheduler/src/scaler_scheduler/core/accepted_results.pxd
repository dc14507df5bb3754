from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.duration_histogram cimport DurationHistogram
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.fair_shares cimport Share
from scaler_scheduler.core.states cimport EXCEPTION_NOT_SERIALIZABLE

cdef enum:
    NOT_RECORDED = 0xFF
    NO_ROW = 0x7FFFFFFF
    RUNS_AGAIN = 0x80

cdef class AcceptedResults:
    cdef object run
    cdef AgentLoad agent
    cdef Share share
    cdef RunRecord record
    cdef DurationHistogram durations
    cdef Recorder events
    cdef bint is_recording
    cdef FunctionLoad function
    cdef list segments
    cdef bytearray fates
    cdef list forwarded
    cdef list decisions
    cdef list unknown
    cdef int number
    cdef int timed
    cdef int64_t load_us
    cdef int64_t moving_us
    cdef double total_us
    cdef double measured_us
    cdef uint64_t cpu_us
    cdef int64_t since_us  # since the task could run, in its first attempt
    cdef int64_t since_total_us  # of the first attempts
    cdef int64_t first_attempts
    cdef double dependencies_us
    cdef list parts  # (row, fetching, loading, storing), the last row first; None: there are none
    cdef int64_t part_row  # the next row that has parts, or NO_ROW

    cdef begin(self, RunRecord record, int64_t row)
    cdef settle_load(self)
    cdef settle_waits(self)
    cdef uint64_t running_us(self, int64_t row, uint64_t duration_us) except? 0xFFFFFFFF
    cdef leave_out(self, int64_t row)
    cdef decide(self, int64_t row, uint64_t task, int action)
    cdef record_as(self, int64_t row, int fate)
    cdef outcome(self, uint32_t table)

    cdef inline int count(
        self, int64_t row, uint32_t estimate_us, int64_t moving_us, int status, uint32_t attempt, uint64_t duration_us,
        uint64_t cpu_us,
    ) except -1:
        """The agent no longer has the task of a row, which belongs to the current record."""
        self.number += 1
        self.load_us += estimate_us
        self.moving_us += moving_us
        if status <= EXCEPTION_NOT_SERIALIZABLE:
            self.measured_us += duration_us
            self.timed += 1
            self.total_us += duration_us
            self.cpu_us += cpu_us
            self.durations.add(duration_us if row < self.part_row else self.running_us(row, duration_us))
            if attempt == 1:
                self.first_attempts += 1
                self.since_total_us += self.since_us
        elif not self.record.hosts_actor:  # the share of an actor's client has paid for its calls
            self.measured_us += duration_us
        return 0

    cdef inline void count_dependencies(self, int64_t ready_us) noexcept:
        """The next row is a node that became ready ``ready_us`` ago; -1: it has no dependencies."""
        cdef int64_t entered_us = <int64_t> (max(0.0, self.events.now - self.record.entered_at) * 1e6)
        self.since_us = entered_us if ready_us < 0 else min(ready_us, entered_us)
        self.dependencies_us += entered_us - self.since_us


    cdef inline forward(self, int64_t row):
        if self.forwarded is not None:
            self.forwarded.append(row)
