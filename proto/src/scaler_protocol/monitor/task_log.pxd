from cpython.array cimport array
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cpdef enum:
    PAGE_ROWS = 65536

cdef enum:
    LEAST_RUN_ROWS = 16
    MOST_RUN_ROWS = 256


cdef struct Rows:
    # Of an ENDED record; NULL: a column that it does not have.
    const uint64_t* tasks
    const uint64_t* durations
    const uint32_t* attempts
    const uint8_t* statuses
    const uint32_t* functions
    const uint32_t* ages
    const uint16_t* workers
    const uint32_t* indices  # of the model, by the number of the worker
    uint32_t known_workers
    uint32_t session
    uint32_t function
    uint32_t worker
    int64_t time_us


cdef struct Stretch:
    # Of a RAN record: tasks in a row that ended alike.
    uint64_t first
    const uint8_t* durations
    const uint8_t* ages
    bint short  # columns of 16 bits, not 32
    uint32_t attempt
    uint8_t status
    uint32_t session
    uint32_t function
    uint32_t worker
    int64_t time_us


cdef struct Run:
    # Rows of a page that are alike in worker, function and status, added up: code that draws them into one pixel
    # need not look at each.
    uint32_t start
    uint32_t count
    uint32_t longest_row
    uint64_t longest_us
    uint64_t busy_us
    int64_t earliest_start_us
    int64_t latest_end_us


cdef class TaskPage:
    cdef readonly uint32_t count
    cdef readonly int64_t earliest_start_us
    cdef readonly int64_t latest_end_us
    cdef array task_array
    cdef array ended_array
    cdef array duration_array
    cdef array session_array
    cdef array function_array
    cdef array worker_array
    cdef array attempt_array
    cdef array status_array
    cdef uint64_t* tasks
    cdef int64_t* ended
    cdef uint64_t* durations
    cdef uint32_t* sessions
    cdef uint32_t* functions
    cdef uint32_t* workers
    cdef uint32_t* attempts
    cdef uint8_t* statuses
    cdef uint64_t* others  # the microseconds of durations that were not running; NULL: none
    cdef Run* runs  # in the order of their rows; not every row is in one
    cdef uint32_t run_count
    cdef uint32_t run_room

    cdef void put(
        self, uint64_t task, int64_t ended_us, uint64_t duration_us, uint32_t session, uint32_t function,
        uint32_t worker, uint32_t attempt, uint8_t status,
    ) noexcept
    cdef uint32_t take(self, Rows* rows, uint32_t start, uint32_t count) noexcept
    cdef uint32_t take_stretch(self, Stretch* stretch, uint32_t start, uint32_t count) noexcept
    cdef void add_runs(self, uint32_t start, uint32_t count) noexcept
    cdef Run* new_run(self) noexcept
    cdef uint64_t running(self, uint64_t row) noexcept
    cdef int set_other(self, uint64_t row, uint64_t other_us) except -1


cdef class TaskLog:
    cdef readonly uint64_t capacity
    cdef readonly uint64_t total
    cdef readonly uint64_t ended
    cdef readonly uint64_t first
    cdef list held
    cdef TaskPage open_page
    cdef uint64_t parts_first  # the rows from here on may get parts
    cdef uint64_t parts_total  # how many had come when the last parts did
    cdef int64_t parts_steps  # rows that may still be looked at for them

    cdef TaskPage room(self)
    cdef int64_t serial_before(self, uint64_t stop, uint32_t session, uint64_t task, uint32_t attempt)
