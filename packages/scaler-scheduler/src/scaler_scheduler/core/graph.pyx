# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The shape of a graph: who needs whose result, with counters. See graph.pyi for the contract; what the counters mean
for the state of a task is in node_table.pyx."""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef enum:
    GAP_LIMIT = 1 << 22

cdef class Graph:
    def __init__(self, uint64_t base, uint64_t last):
        self.base = base
        self.last = last

    def __dealloc__(self):
        free(self.nodes)
        free(self.edges)

    cdef bint admits(self, uint64_t first, uint64_t stop) noexcept:
        """Whether these tasks may be next: in order, inside the graph, and not so far away that room for what is
        between would be a way to fill the memory."""
        return self.base + self.count <= first < stop <= self.last + 1 and first - self.base - self.count <= GAP_LIMIT

    cdef int extend(self, uint64_t stop) except -1:
        """Room for the nodes of all tasks below ``stop``; those between are absent."""
        cdef size_t wanted = stop - self.base
        cdef size_t room
        cdef Node* nodes
        if wanted > self.node_room:
            room = max(wanted, min(self.last + 1 - self.base, 2 * self.node_room))
            nodes = <Node*> realloc(self.nodes, room * sizeof(Node))
            if nodes == NULL:
                raise MemoryError
            self.nodes = nodes
            self.node_room = room
        memset(self.nodes + self.count, 0, (wanted - self.count) * sizeof(Node))
        self.count = <uint32_t> wanted
        return 0

    cdef int add_edge(self, uint32_t input, uint32_t dependant) except -1:
        """The edges of one dependant are added one after another."""
        cdef Node* node = &self.nodes[dependant]
        cdef Edge* edges
        cdef size_t room
        if self.edge_count == self.edge_room:
            room = max(<size_t> 16, self.edge_room + self.edge_room // 2)
            edges = <Edge*> realloc(self.edges, room * sizeof(Edge))
            if edges == NULL:
                raise MemoryError
            self.edges = edges
            self.edge_room = room
        if node.inputs == 0:
            node.first_input = self.edge_count
        node.inputs += 1
        self.edges[self.edge_count].input = input
        self.edges[self.edge_count].dependant = dependant
        self.edges[self.edge_count].next = self.nodes[input].head
        self.edge_count += 1
        self.nodes[input].head = self.edge_count
        return 0

    def describe(self, uint64_t task):
        """(pending, open, uses, delivered) of a task; for tests and explanations."""
        cdef Node* node = &self.nodes[task - self.base]
        return node.pending, node.open, node.uses, bool(node.delivered)

    def inputs(self, uint64_t task):
        """The tasks whose results a task needs, one entry for each slot."""
        cdef Node* node = &self.nodes[task - self.base]
        cdef uint32_t at
        return [self.base + self.edges[at].input for at in range(node.first_input, node.first_input + node.inputs)]
