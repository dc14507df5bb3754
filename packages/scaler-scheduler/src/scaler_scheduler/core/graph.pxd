from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    BLOCK_BITS = 8
    BLOCK_SIZE = 256
    TICKS_PER_SECOND = 10_000

cdef struct Node:
    uint32_t pending
    uint32_t open
    uint32_t uses
    uint32_t first_input
    uint32_t inputs
    uint32_t head
    uint32_t kib
    uint32_t ready_ticks
    uint8_t present
    uint8_t delivered
    uint8_t released
    uint8_t started

cdef struct Edge:
    uint32_t input
    uint32_t dependant
    uint32_t next

cdef class Graph:
    cdef readonly uint64_t base
    cdef readonly uint64_t last
    cdef readonly uint32_t count
    cdef readonly uint32_t edge_count
    cdef readonly int64_t absent
    cdef readonly int64_t size_bytes
    cdef public bint is_closed
    cdef public int64_t targets
    cdef public int64_t live
    cdef public int64_t failed
    cdef bint must_sweep
    cdef bint is_finishing
    cdef bint is_held
    cdef bint has_once
    cdef readonly bint has_large
    cdef bint lacks_values
    cdef bint grows
    cdef Node** blocks
    cdef uint32_t block_room
    cdef Edge* edges
    cdef size_t edge_room

    cdef bint admits(self, uint64_t first, uint64_t stop) noexcept
    cdef int extend(self, uint64_t first, uint64_t stop) except -1
    cdef int make_blocks(self, uint32_t first, uint32_t stop) except -1
    cdef int add_edge(self, uint32_t input, uint32_t dependant) except -1
    cdef uint32_t next_present(self, uint32_t index) noexcept
    cdef uint32_t present_before(self, uint32_t index) noexcept

    cdef inline void note_ready(self, Node* node, double now) noexcept:
        """All inputs of a node are there."""
        node.ready_ticks = <uint32_t> (<uint64_t> (now * TICKS_PER_SECOND))

    cdef inline int64_t waited_us(self, uint64_t task, double now) noexcept:
        """Return the microseconds since a present node became ready, up to five days; -1: it has no inputs."""
        cdef Node* node = self.at(task - self.base)
        if node.inputs == 0:
            return -1
        return (<uint32_t> (<uint64_t> (now * TICKS_PER_SECOND)) - node.ready_ticks) * <int64_t> (
            1_000_000 // TICKS_PER_SECOND
        )

    cdef inline Node* at(self, uint64_t index) noexcept:
        """A node that is present."""
        return &self.blocks[index >> BLOCK_BITS][index & (BLOCK_SIZE - 1)]

    cdef inline bint has(self, uint64_t task) noexcept:
        """Return whether a task is a node that is present."""
        cdef uint64_t index = task - self.base
        return index < self.count and self.blocks[index >> BLOCK_BITS] != NULL and self.at(index).present
