# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The queues of tasks that no agent has yet. See priority_queues.pyi for the contract."""

from collections import deque

from cython cimport final
from libc.stdint cimport int64_t, uint64_t


@final
cdef class ClientQueue:
    """The ranges of queued tasks that one client has at one priority, oldest first."""

    def __init__(self, client, table):
        self.client = client
        self.table = table
        self.ranges = deque()

    cdef push(self, uint64_t first, uint64_t stop, bint front):
        if front and stop == self.first and self.first < self.stop:
            self.first = first
        elif front:
            if self.first < self.stop:
                self.ranges.appendleft((self.first, self.stop))
            self.first = first
            self.stop = stop
        elif self.first == self.stop:
            self.first = first
            self.stop = stop
        elif self.stop == first and not self.ranges:
            self.stop = stop
        else:
            self.ranges.append((first, stop))

    cdef bint advance(self) except -1:
        """Make the next range the current one if the current one is used up. False if there is none."""
        if self.first < self.stop:
            return True
        if not self.ranges:
            return False
        self.first, self.stop = self.ranges.popleft()
        return True


@final
cdef class PriorityQueue:
    """The clients that have queued tasks of one priority, in turn."""

    def __init__(self, int priority):
        self.priority = priority
        self.rotation = deque()
        self.clients = {}

    cdef push(self, client, table, uint64_t first, uint64_t stop, bint front):
        cdef ClientQueue queue = <ClientQueue> self.clients.get(table)
        if queue is None:
            queue = self.clients[table] = ClientQueue(client, table)
            self.rotation.append(queue)
        queue.push(first, stop, front)

    cdef drop_first(self):
        """Remove the client whose turn it is: it has nothing queued here."""
        cdef ClientQueue queue = <ClientQueue> self.rotation.popleft()
        del self.clients[queue.table]


@final
cdef class QueueClass:
    """The tasks that need the same capabilities and have the same depth, highest priority first. ``demand`` is a
    tuple of (name, amount)."""

    def __init__(self, tuple demand, int depth):
        self.demand = demand
        self.depth = depth
        self.served = {}
        self.reserving = []
        self.by_priority = []
        self.heap = []
        self.candidates = {}

    @property
    def priority(self):
        return (<PriorityQueue> self.by_priority[0]).priority if self.by_priority else 0

    cpdef push(self, client, table, int priority, uint64_t first, uint64_t stop, bint front=False):
        """Queue the tasks first .. stop - 1 of the table, which have just become QUEUED."""
        self.queue_of(priority).push(client, table, first, stop, front)
        self.count += stop - first

    cdef put_back(self, client, table, int priority, uint64_t task):
        """A task of this class that was reserved for one agent waits for any agent, before the others."""
        self.queue_of(priority).push(client, table, task, task + 1, True)

    cdef PriorityQueue queue_of(self, int priority):
        cdef PriorityQueue of_priority
        cdef int index = 0
        for of_priority in self.by_priority:
            if of_priority.priority == priority:
                return of_priority
            if of_priority.priority < priority:
                break
            index += 1
        of_priority = PriorityQueue(priority)
        self.by_priority.insert(index, of_priority)
        return of_priority

    def empty(self):
        """Forget what is queued."""
        self.by_priority = []
        self.reserving = []
        self.count = 0

    def take_reserving(self):
        """Return the agents for which something was reserved since the last call."""
        reserving, self.reserving = self.reserving, []
        return reserving
