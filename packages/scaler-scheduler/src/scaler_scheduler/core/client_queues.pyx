# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Ranges of queued tasks by client, and clients in turn. See client_queues.pyi for the contract."""

from collections import deque

from cython cimport final
from libc.stdint cimport uint64_t
from scaler_scheduler.core.task_columns cimport TaskColumns


@final
cdef class ClientQueue:
    """The ranges of one client at one level, oldest first."""

    def __init__(self, client, TaskColumns table):
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
        """Make the next range current if this one is used up. False: nothing left."""
        if self.first < self.stop:
            return True
        if not self.ranges:
            return False
        self.first, self.stop = self.ranges.popleft()
        return True


@final
cdef class Level:
    """All clients that have tasks of one priority, in turn."""

    def __init__(self, int priority):
        self.priority = priority
        self.rotation = deque()
        self.clients = {}

    cdef push(self, client, TaskColumns table, uint64_t first, uint64_t stop, bint front):
        cdef ClientQueue queue = <ClientQueue> self.clients.get(table.session)
        if queue is None or queue.table is not table:  # a session that begins anew has a new table
            queue = self.clients[table.session] = ClientQueue(client, table)
            self.rotation.append(queue)
        queue.push(first, stop, front)

    cdef drop_first(self):
        """The queue whose turn it is has nothing any more."""
        cdef ClientQueue queue = <ClientQueue> self.rotation.popleft()
        if self.clients.get(queue.table.session) is queue:
            del self.clients[queue.table.session]
