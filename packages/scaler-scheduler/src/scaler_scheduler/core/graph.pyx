# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The shape of a graph: who needs whose result, with counters. See graph.pyi for the contract; what the counters mean
for the state of a task is in node_table.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

cdef enum:
    ABSENT_LIMIT = 1 << 22


cdef class Graph:
    def __init__(self, uint64_t base, uint64_t last):
        self.base = base
        self.last = last

    def __dealloc__(self):
        cdef uint32_t block
        for block in range(self.block_room):
            free(self.blocks[block])
        free(self.blocks)
        free(self.edges)

    cdef bint admits(self, uint64_t first, uint64_t stop) noexcept:
        """Return whether these tasks may be next: in order and inside the graph. All its gaps together are bounded,
        since a graph is searched from end to end."""
        if not self.base + self.count <= first < stop <= self.last + 1:
            return False
        return <int64_t> (first - self.base - self.count) + self.absent <= ABSENT_LIMIT

    cdef int extend(self, uint64_t first, uint64_t stop) except -1:
        """Nodes ``first`` to ``stop`` - 1 are present from now on; ``admits`` said that they may come."""
        cdef uint32_t index, begin = <uint32_t> (first - self.base), end = <uint32_t> (stop - self.base)
        self.make_blocks(begin, end)
        for index in range(begin, end):
            self.at(index).present = 1
        self.absent += begin - self.count
        self.count = end
        return 0

    cdef int make_blocks(self, uint32_t first, uint32_t stop) except -1:
        """Memory for these nodes. Blocks between them and the earlier ones, where no node is, stay NULL."""
        cdef uint32_t wanted = ((stop - 1) >> BLOCK_BITS) + 1, block
        cdef uint32_t room
        cdef uint64_t most = self.last + 1 - self.base, size
        cdef Node** blocks
        if wanted > self.block_room:
            room = <uint32_t> max(wanted, min((most + BLOCK_SIZE - 1) >> BLOCK_BITS, 2 * <uint64_t> self.block_room))
            blocks = <Node**> realloc(self.blocks, room * sizeof(Node*))
            if blocks == NULL:
                raise MemoryError
            memset(blocks + self.block_room, 0, (room - self.block_room) * sizeof(Node*))
            self.size_bytes += (room - self.block_room) * sizeof(Node*)
            self.blocks = blocks
            self.block_room = room
        for block in range(first >> BLOCK_BITS, wanted):
            if self.blocks[block] == NULL:
                size = min(<uint64_t> BLOCK_SIZE, most - (<uint64_t> block << BLOCK_BITS))
                self.blocks[block] = <Node*> calloc(size, sizeof(Node))
                if self.blocks[block] == NULL:
                    raise MemoryError
                self.size_bytes += size * sizeof(Node)
        return 0

    cdef uint32_t next_present(self, uint32_t index) noexcept:
        """The first node from ``index`` on; ``count``: there is none."""
        while index < self.count:
            if self.blocks[index >> BLOCK_BITS] == NULL:
                index = (index | (BLOCK_SIZE - 1)) + 1
            elif self.at(index).present:
                return index
            else:
                index += 1
        return self.count

    cdef uint32_t present_before(self, uint32_t index) noexcept:
        """The last node before ``index``; ``count``: there is none."""
        while index:
            index -= 1
            if self.blocks[index >> BLOCK_BITS] == NULL:
                index &= ~<uint32_t> (BLOCK_SIZE - 1)
            elif self.at(index).present:
                return index
        return self.count

    cdef int add_edge(self, uint32_t input, uint32_t dependant) except -1:
        """The edges of one dependant are added one after another."""
        cdef Node* node = self.at(dependant)
        cdef Edge* edges
        cdef size_t room
        if self.edge_count == self.edge_room:
            room = max(<size_t> 16, self.edge_room + self.edge_room // 2)
            edges = <Edge*> realloc(self.edges, room * sizeof(Edge))
            if edges == NULL:
                raise MemoryError
            self.size_bytes += (room - self.edge_room) * sizeof(Edge)
            self.edges = edges
            self.edge_room = room
        if node.inputs == 0:
            node.first_input = self.edge_count
        node.inputs += 1
        self.edges[self.edge_count].input = input
        self.edges[self.edge_count].dependant = dependant
        self.edges[self.edge_count].next = self.at(input).head
        self.edge_count += 1
        self.at(input).head = self.edge_count
        return 0

    def describe(self, uint64_t task):
        """(pending, open, uses, delivered) of a task; for tests and explanations."""
        if not self.has(task):
            raise KeyError(task)
        cdef Node* node = self.at(task - self.base)
        return node.pending, node.open, node.uses, bool(node.delivered)

    def inputs(self, uint64_t task):
        """The tasks whose results a task needs, one entry for each slot."""
        if not self.has(task):
            raise KeyError(task)
        cdef Node* node = self.at(task - self.base)
        cdef uint32_t at
        return [self.base + self.edges[at].input for at in range(node.first_input, node.first_input + node.inputs)]
