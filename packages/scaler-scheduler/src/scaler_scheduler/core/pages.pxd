from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    PAGE_BITS = 10
    PAGE_SIZE = 1024

cdef enum:
    NO_AGENT = 0xFFFFFFFF
    OUT_OF_PATIENCE = 0xFFFFFFFE  # queued, and has waited long enough for the agents that have its bytes

cdef enum:
    ATTEMPT_LIMIT = 0x7FFFFFFF
    CREDIBLE_ATTEMPT = 1000000  # no claim of a single agent makes the numbers of all tasks reach the limit

cdef inline uint32_t next_attempt(uint32_t attempt) noexcept:
    """Return the attempt after one that an agent may have made up: it neither ends at 0 nor begins again there."""
    return attempt + 1 if attempt < ATTEMPT_LIMIT else ATTEMPT_LIMIT

cdef inline uint32_t plausible(uint32_t attempt) noexcept:
    """The attempt that an agent reports after a restart, limited to the range of attempts."""
    return min(max(attempt, 1), ATTEMPT_LIMIT)

cdef struct Page:
    int live
    uint8_t state[PAGE_SIZE]
    uint8_t deaths[PAGE_SIZE]
    uint8_t losses[PAGE_SIZE]
    uint32_t attempt[PAGE_SIZE]
    uint32_t agent[PAGE_SIZE]
    uint32_t run[PAGE_SIZE]
    uint32_t estimate_us[PAGE_SIZE]

cdef class PageBox:
    cdef Page* page
    cdef uint64_t number
