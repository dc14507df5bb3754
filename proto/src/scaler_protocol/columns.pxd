"""The elements of runs of tasks and results: columns that grow, the ends of pieces in a payload, and limits.

Inline functions only.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy

from scaler_protocol.wire cimport load32, store32, store64

cdef enum:
    ID_SIZE = 16
    REFERENCE_SIZE = 24  # of an object key in the payload: owner, number
    RESULT_COLUMNS_SIZE = 41  # of one result in all columns
    RUN_OVERHEAD = 512  # the most that a run costs in addition to its columns, payload and names
    AGE_SIZE = 4  # of one result in the column that only monitors need
    NO_WORKER = 0xFFFF
    TASK_LIMIT = 1048576
    MESSAGE_LIMIT = 1048576


cdef struct Column:
    uint8_t* data
    size_t size
    size_t capacity


cdef inline int column_grow(Column* column, size_t extra) except -1:
    cdef size_t capacity = max(column.capacity * 2, column.size + extra, 256)
    cdef uint8_t* data = <uint8_t*> realloc(column.data, capacity)
    if data == NULL:
        raise MemoryError()
    column.data = data
    column.capacity = capacity
    return 0


cdef inline uint8_t* column_extend(Column* column, size_t extra) except NULL:
    """Room for ``extra`` more bytes, which now belong to the column."""
    if column.capacity - column.size < extra or column.data == NULL:
        column_grow(column, extra)
    cdef uint8_t* place = column.data + column.size
    column.size += extra
    return place


cdef inline int column_add32(Column* column, uint32_t value) except -1:
    store32(column_extend(column, 4), value)
    return 0


cdef inline int column_add64(Column* column, uint64_t value) except -1:
    store64(column_extend(column, 8), value)
    return 0


cdef inline bytes column_bytes(Column* column):
    return PyBytes_FromStringAndSize(<char*> column.data, column.size)


cdef inline void copy_bytes(uint8_t* to, const uint8_t* source, size_t size) noexcept nogil:
    """An empty column has no memory, and C does not allow memcpy from NULL, even of nothing."""
    if size:
        memcpy(to, source, size)


cdef inline bint same_bytes(const uint8_t* one, const uint8_t* other, size_t size) noexcept nogil:
    return size == 0 or memcmp(one, other, size) == 0


cdef inline void rebase(uint8_t* to, const uint8_t* ends, uint64_t count, uint32_t start) noexcept nogil:
    """Copy an ends column so that it counts from ``start``."""
    cdef uint64_t index
    if start == 0:
        copy_bytes(to, ends, 4 * count)
        return
    for index in range(count):
        store32(to + 4 * index, load32(ends + 4 * index) - start)


cdef inline uint32_t piece_start(const uint8_t* ends, uint32_t start, uint64_t piece) noexcept nogil:
    """Return where a piece begins: at the end of the one before; the first at ``start``."""
    return load32(ends + 4 * (piece - 1)) if piece else start


cdef inline bint ends_equal(
    const uint8_t* one, uint32_t one_start, const uint8_t* other, uint32_t other_start, uint64_t count
) noexcept nogil:
    cdef uint64_t index
    for index in range(count):
        if load32(one + 4 * index) - one_start != load32(other + 4 * index) - other_start:
            return False
    return True


cdef inline bint ends_in_order(const uint8_t* ends, uint64_t count, uint64_t size) noexcept nogil:
    """Return whether the pieces follow one another and fill ``size`` bytes exactly."""
    cdef uint64_t index
    cdef uint32_t end, previous = 0
    cdef bint bad = False
    for index in range(count):
        end = load32(ends + 4 * index)
        bad |= end < previous
        previous = end
    return not bad and previous == size


cdef inline bytes checked_id(object value, str name):
    if not isinstance(value, bytes) or len(value) != ID_SIZE:
        raise ValueError(f"{name} must be {ID_SIZE} bytes, not {value!r}.")
    return value
