# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Durations and ends of tasks of a row. See steps.pyi for the contract and the layout."""

from cpython.array cimport array, clone
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from scaler_protocol.wire cimport load32, load64, store32

cdef enum:
    ESCAPE = 0xFF
    LONGEST = 0xFFFFFFFF
    ROWS_PER_EXCEPTION = 8  # with more exceptions it is hardly smaller than ages

cdef object MODEL = array("I")


cdef bytes pack_steps(const uint8_t* durations, const uint8_t* ages, uint64_t count):
    """Pack columns of u64 and u32. None when they cannot be packed, or hardly become smaller."""
    cdef int64_t exceptions = exceptions_among(durations, ages, count)
    cdef bytes packed
    if count < STEPS_ROWS or exceptions < 0 or exceptions * ROWS_PER_EXCEPTION > <int64_t> count:
        return None
    packed = PyBytes_FromStringAndSize(NULL, STEPS_HEAD + 2 * count + 4 * exceptions)
    fill(<uint8_t*> PyBytes_AS_STRING(packed), <uint32_t> exceptions, durations, ages, count)
    return packed


cdef int64_t exceptions_among(const uint8_t* durations, const uint8_t* ages, uint64_t count) noexcept nogil:
    """-1: one took too long, or ended before the one before it."""
    cdef uint64_t row, duration
    cdef uint32_t age, before = load32(ages) if count else 0
    cdef int64_t found = 0
    for row in range(count):
        duration, age = load64(durations + 8 * row), load32(ages + 4 * row)
        if duration > LONGEST or age > before:
            return -1
        found += (duration >= ESCAPE) + (before - age >= ESCAPE)
        before = age
    return found


cdef void fill(
    uint8_t* to, uint32_t exceptions, const uint8_t* durations, const uint8_t* ages, uint64_t count
) noexcept nogil:
    cdef uint8_t* short_durations = to + STEPS_HEAD
    cdef uint8_t* steps = short_durations + count
    cdef uint8_t* exception = steps + count
    cdef uint64_t row
    cdef uint32_t age, before = load32(ages)
    store32(to, before)
    store32(to + 4, exceptions)
    for row in range(count):
        age = load32(ages + 4 * row)
        put(short_durations + row, &exception, <uint32_t> load64(durations + 8 * row))
        put(steps + row, &exception, before - age)
        before = age


cdef inline void put(uint8_t* to, uint8_t** exception, uint32_t value) noexcept nogil:
    if value < ESCAPE:
        to[0] = <uint8_t> value
        return
    to[0] = ESCAPE
    store32(exception[0], value)
    exception[0] += 4


cdef bint is_whole(const uint8_t* data, uint64_t size, uint64_t count) noexcept nogil:
    """Return whether ``size`` bytes hold all that they say of ``count`` tasks."""
    return size >= STEPS_HEAD + 2 * count and size - STEPS_HEAD - 2 * count >= 4 * <uint64_t> load32(data + 4)


cdef bint unpack_steps(
    const uint8_t* data, uint64_t size, uint64_t count, uint32_t* durations, uint32_t* ages
) noexcept nogil:
    """Into columns with room for ``count`` values each. False: these bytes cannot be, and nothing is said of the rest."""
    cdef const uint8_t* short_durations = data + STEPS_HEAD
    cdef const uint8_t* steps = short_durations + count
    cdef const uint8_t* exception = steps + count
    cdef const uint8_t* stop
    cdef uint64_t row
    cdef uint32_t age, step
    if not is_whole(data, size, count):
        return False
    stop = exception + 4 * <uint64_t> load32(data + 4)
    age = load32(data)
    for row in range(count):
        if exception + 4 * ((short_durations[row] == ESCAPE) + (steps[row] == ESCAPE)) > stop:
            return False
        durations[row] = taken(short_durations[row], &exception)
        step = taken(steps[row], &exception)
        if step > age:
            return False
        age -= step
        ages[row] = age
    return True


cdef inline uint32_t taken(uint8_t value, const uint8_t** exception) noexcept nogil:
    cdef uint32_t found
    if value != ESCAPE:
        return value
    found = load32(exception[0])
    exception[0] += 4
    return found


def spelled_out(const uint8_t[::1] data, uint64_t count):
    cdef uint64_t size = data.shape[0]
    cdef array durations, ages
    if size < STEPS_HEAD or not is_whole(&data[0], size, count):
        raise ValueError("Durations and steps are truncated.")
    durations, ages = clone(MODEL, count, False), clone(MODEL, count, False)
    if not unpack_steps(&data[0], size, count, durations.data.as_uints, ages.data.as_uints):
        raise ValueError("Durations and steps are invalid.")
    return durations, ages
