from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.map_loads cimport MapLoad, MapTable
from scaler_scheduler.core.pages cimport PAGE_BITS, PAGE_SIZE, Page, PageBox, next_attempt
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.fair_shares cimport Share
from scaler_scheduler.core.states cimport CANCELLED, ENDED, STATES, SUCCESS_LARGE
from scaler_scheduler.core.totals cimport Totals

cdef enum:
    RECORD_BYTES = 640  # of a run's record and its columns' object
    MAP_BYTES = 320  # of a map's load and its place
    MAP_RUN_TASKS = 100  # looking at the run of a map takes as long as at so many tasks

cdef class TaskColumns:
    cdef readonly bytes session
    cdef public Share share
    cdef Totals totals
    cdef dict pages
    cdef list records
    cdef list free_records
    cdef dict with_uploads  # of the records, those of runs that need objects, by place
    cdef readonly MapTable maps
    cdef Page* last_page
    cdef uint64_t last_number
    cdef uint64_t newest
    cdef int64_t counts[STATES]
    cdef readonly int64_t finished
    cdef readonly int64_t failed
    cdef readonly int64_t canceled
    cdef readonly uint64_t next_task
    cdef int64_t message_bytes
    cdef int64_t graph_bytes
    cdef int64_t live_records
    cdef Recorder events
    cdef readonly uint32_t number
    cdef uint32_t least_attempt  # of executions to come: agents may still speak of earlier ones after a restart

    cdef Page* make(self, uint64_t task) except NULL
    cdef tell_submitted(self, RunRecord record)
    cdef drop_page(self, uint64_t number)
    cdef list all_tasks(self)
    cpdef bint append(self, RunRecord record, int state) except -1
    cdef count_tasks(self, RunRecord record, int64_t* unfinished, int64_t* running)
    cdef keep(self, RunRecord record)
    cdef part(self, Page* page, int offset, RunRecord own)
    cdef forget(self, RunRecord record)
    cdef int64_t count_queued(self, uint64_t first, uint64_t stop) except -1

    cdef inline Page* find(self, uint64_t task) except? NULL:
        cdef uint64_t number = task >> PAGE_BITS
        cdef PageBox box
        if self.last_page != NULL and number == self.last_number:
            return self.last_page
        box = <PageBox> self.pages.get(number)
        if box is None:
            return NULL
        self.last_page = box.page
        self.last_number = number
        return box.page

    cdef inline RunRecord record_at(self, Page* page, int offset):
        return <RunRecord> self.records[page.run[offset]]

    cdef inline void raise_attempt(self, Page* page, int offset) noexcept:
        """The next execution of the task is another attempt."""
        page.attempt[offset] = max(next_attempt(page.attempt[offset]), self.least_attempt)

    cdef inline void move(self, Page* page, int offset, int state) noexcept:
        self.counts[page.state[offset]] -= 1
        page.state[offset] = state
        self.counts[state] += 1

    cdef inline void count_failed(self, bint is_cancelled, MapLoad load) noexcept:
        if is_cancelled:
            self.canceled += 1
        else:
            self.failed += 1
        if load is not None:
            load.failed += 1
            load.canceled += is_cancelled

    cdef inline close(self, Page* page, uint64_t task, int status, RunRecord record):
        """A task leaves the columns with ``status``. Monitors know it, or are told by the caller; so is its graph."""
        cdef int offset = task & (PAGE_SIZE - 1)
        self.counts[page.state[offset]] -= 1
        page.state[offset] = ENDED
        page.live -= 1
        self.finished += 1
        self.totals.unfinished -= 1
        self.totals.outcomes[status & 15] += 1
        record.function.unfinished -= 1
        record.function.outcomes[status & 15] += 1
        if status > SUCCESS_LARGE:
            self.count_failed(status == CANCELLED, record.map)
        record.remaining -= 1
        if record.remaining == 0:
            self.forget(record)
        if page.live == 0 and (task >> PAGE_BITS) != self.newest:
            self.drop_page(task >> PAGE_BITS)
