from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from scaler_protocol.result_run cimport ResultRun

cdef struct Header:  # of an event record; see records.py
    uint16_t kind
    uint16_t flags
    uint32_t count
    uint32_t size
    uint32_t session
    uint64_t time
    uint64_t first
    uint32_t agent
    uint32_t function
    uint32_t attempt
    uint32_t worker

cdef class RingWriter:
    cdef object memory
    cdef uint8_t[::1] view
    cdef uint8_t* base
    cdef uint64_t capacity
    cdef uint64_t head
    cdef uint64_t tail
    cdef uint64_t pending
    cdef uint64_t missed
    cdef readonly uint64_t recorded
    cdef readonly uint64_t dropped

    cdef Header* begin(self, uint64_t size) noexcept nogil
    cdef void commit(self) noexcept nogil
    cdef uint8_t* place(self, uint64_t size) noexcept nogil
    cdef void begin_anew(self) noexcept nogil
    cdef void skip(self, uint64_t offset, uint64_t rest) noexcept nogil
    cdef void note_gap(self) noexcept nogil
    cdef bint write_ran(self, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, uint32_t function)
    cdef bint write_stepped(self, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, uint32_t function)
    cdef bint write_columns_of(
        self, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, list segments, bytearray fates
    )

cdef class RingReader:
    cdef object memory
    cdef uint8_t[::1] view
    cdef uint8_t* base
    cdef uint64_t capacity
    cdef readonly uint64_t read
    cdef readonly uint64_t dropped
