cimport cython
from cpython.array cimport array
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef class DispatchedRun:
    cdef readonly object run
    cdef readonly bytes session
    cdef readonly uint64_t first_sequence
    cdef readonly uint64_t count
    cdef readonly uint64_t first_task
    cdef readonly uint32_t attempt
    cdef readonly bint is_node
    cdef readonly bint is_intermediate
    cdef public uint64_t unfinished

cdef struct Parts:  # of a duration, microseconds; the rest is running
    uint32_t fetching_us
    uint32_t loading_us
    uint32_t storing_us
    uint32_t unused

cdef struct Printed:  # where the text of a task begins and ends, in bytes from the start of the process
    uint64_t stdout_start
    uint64_t stdout_end
    uint64_t stderr_start
    uint64_t stderr_end

cdef struct Record:
    uint64_t sequence
    uint64_t duration_ns
    uint64_t cpu_ns
    uint64_t memory_peak
    uint64_t ended_ns
    uint32_t payload_bytes
    uint8_t status
    uint8_t has_more
    uint8_t has_parts
    uint8_t has_printed
    Parts parts
    Printed printed
    char* payload

@cython.final
cdef class Harvest:
    cdef readonly list runs
    cdef readonly list totals
    cdef readonly list interrupted
    cdef readonly list large
    cdef readonly list kept
    cdef readonly bint has_more
    cdef list _dispatched
    cdef uint64_t _index  # of the current entry, in _dispatched
    cdef DispatchedRun _entry  # the run to which the current result belongs
    cdef uint64_t _end_sequence  # the sequence after the current entry
    cdef uint64_t _finished  # tasks of the current entry
    cdef uint64_t _total_ns
    cdef bytes _session
    cdef object _builder  # of the result run that is being filled
    cdef object _append
    cdef array _ages  # u32, of the run that is being filled
    cdef object _parts  # of the run that is being filled, as ``ResultRun.parts``; None: there are none
    cdef object _worker
    cdef object _output  # told of tasks that have printed
    cdef bint _is_placed  # result runs name the worker and the time
    cdef uint64_t _now_ns

    cdef int begin(self, list dispatched, object worker, double now, object output) except -1
    cdef int find_entry(self, uint64_t sequence) except -1
    cdef int find_any_entry(self, uint64_t sequence) except -1
    cdef int account(self, Record* record) except -1
    cdef int add(self, Record* record) except -1
    cdef bytes take_output(self, Record* record)
    cdef int add_age(self, uint32_t age) except -1
    cdef int add_parts(self, Parts* parts) except -1
    cdef int begin_run(self) except -1
    cdef int finish_entry(self) except -1
    cdef int finish_run(self) except -1
    cdef int finish(self) except -1

cdef class Board:
    cdef object _memory
    cdef uint8_t[::1] _view
    cdef uint8_t* _base
    cdef uint8_t* _cells
    cdef uint8_t* _arena
    cdef uint64_t _arena_bytes
    cdef uint64_t _head
    cdef uint64_t _tail
    cdef uint64_t _harvested
    cdef uint64_t _next  # the sequence after all that were dispatched
    cdef uint64_t _oldest  # nothing below it is open
    cdef public object output  # told of tasks that have printed, when their results are harvested
    cdef uint64_t _read_bytes[3]  # of each stream, by the agent
    cdef uint64_t _position  # where the worker process was last seen
    cdef public bint unordered  # tasks may end in any order
    cdef uint64_t _long[400]  # calls that have started, whose cells are used again
    cdef int _long_count
    cdef list _endings  # what ``endings`` names
    cdef uint8_t _open[16384]  # by sequence, as the cells: 1 while it is open
    cdef str _broken

    cdef void find_oldest(self) noexcept
    cdef void check_order(self, uint64_t position) noexcept
    cdef bint note_long(self) noexcept
    cdef int find_long(self, uint64_t sequence) noexcept nogil
    cdef bint has_open(self, uint64_t sequence) noexcept nogil
    cdef bint take_back(self, uint64_t sequence) noexcept nogil
    cdef void break_off(self, str why)
    cdef void close(self, uint64_t sequence) noexcept nogil
    cdef int close_any(self, uint64_t sequence) except -1
    cdef int write_endings(self) except -1
    cdef int read_record(self, uint64_t head, Record* record) except -1
    cdef bint is_credible(self, Record* record) except -1
    cdef bint claim(self, uint64_t sequence) noexcept nogil
    cdef bint is_ending(self, uint64_t sequence) noexcept nogil
    cdef void begin(self, uint64_t sequence, uint64_t now_ns) noexcept nogil
    cdef uint64_t reading(self, int stream) noexcept nogil
    cdef uint64_t mark(self, int stream) noexcept nogil
    cdef void set_mark(self, int stream, uint64_t count) noexcept nogil
    cdef void finish(self) noexcept nogil
    cdef bint lease_ended(self, uint64_t now_ns) noexcept nogil
    cdef uint64_t harvested_ns(self) noexcept nogil
    cdef bint has_room(self, uint64_t payload_bytes) noexcept nogil
    cdef void append(
        self, uint64_t sequence, uint8_t status, const char* payload, uint32_t payload_bytes,
        uint64_t duration_ns, uint64_t cpu_ns, uint64_t memory_peak, uint64_t ended_ns, bint has_more, Parts* parts,
        Printed* printed
    ) noexcept nogil
