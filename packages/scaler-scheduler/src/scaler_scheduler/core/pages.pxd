from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    PAGE_BITS = 12
    PAGE_SIZE = 4096

cdef enum:
    NO_AGENT = 0xFFFFFFFF
    OUT_OF_PATIENCE = 0xFFFFFFFE  # queued, and has waited long enough for the agents that have its bytes

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
