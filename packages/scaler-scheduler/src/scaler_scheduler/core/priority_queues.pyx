# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The queues of tasks that no agent has yet. See priority_queues.pyi for the contract."""

from collections import deque

from cython cimport final
from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint64_t
from scaler_scheduler.core.fair_shares cimport Share, Shares

cdef double NEVER = -INFINITY
cdef int64_t HIGHEST_RANK = 0x7FFFFFFF


@final
cdef class ClientQueue:
    """The ranges of queued tasks that one client has at one priority, oldest first. ``rank`` is the priority, raised
    by a step for each period that the client has waited ``since`` its last turn."""

    def __init__(self, client, table, int priority):
        self.client = client
        self.table = table
        self.share = table.columns.share
        self.priority = self.rank = priority
        self.since = NEVER
        self.ranges = deque()

    cdef bint precedes(self, ClientQueue other) except -1:
        if self.rank != other.rank:
            return self.rank > other.rank
        if self.share is other.share:
            return self.last_turn < other.last_turn
        return self.share.is_before(other.share)

    cdef bint is_empty(self) except -1:
        return self.first == self.stop and not self.ranges

    cdef bint has(self, uint64_t task) except -1:
        if self.first <= task < self.stop:
            return True
        return any([first <= task < stop for first, stop in self.ranges])

    cdef int64_t count_before(self, uint64_t task) except -1:
        """Return how many tasks of the ranges are served before ``task``: all of them if it is not here."""
        cdef int64_t count = 0
        for first, stop in [(self.first, self.stop), *self.ranges]:
            if first <= task < stop:
                return count + self.table.columns.queued_between(first, task)
            count += self.table.columns.queued_between(first, stop)
        return count

    cdef begin_turn(self):
        self.share.begin_turn()

    cdef end_turn(self, double now, double aging_seconds):
        """The client was given something. It keeps the rank that it has reached until nothing of it is queued here."""
        cdef Shares shares = self.share.group.shares
        shares.turns += 1
        self.last_turn = shares.turns
        self.since = now - <double> (self.rank - self.priority) * aging_seconds

    cdef push_front(self, uint64_t first, uint64_t stop):
        if self.first < self.stop and self.first == stop:
            self.first = first
            return
        if self.first < self.stop:
            self.ranges.appendleft((self.first, self.stop))
        self.first = first
        self.stop = stop

    cdef push(self, uint64_t first, uint64_t stop):
        if self.first == self.stop:
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

    cdef sort(self):
        """Sort the ranges by number: in the order of submission, whatever was queued again."""
        cdef list ranges = sorted([(self.first, self.stop), *self.ranges])
        self.ranges = deque(ranges)
        self.first = self.stop = 0


@final
cdef class PriorityQueue:
    """The clients that have queued tasks of one priority."""

    def __init__(self, int priority):
        self.priority = priority
        self.queues = []
        self.clients = {}

    cdef ClientQueue awake_queue_of(self, client, table):
        """The queue of a client that gets tasks here, which is active from now on."""
        cdef ClientQueue queue = <ClientQueue> self.clients.get(table)
        if queue is None:
            queue = ClientQueue(client, table, self.priority)
            self.wake(queue)
            self.clients[table] = queue
            self.queues.append(queue)
        elif queue.is_empty():
            self.wake(queue)
        return queue

    cdef wake(self, ClientQueue queue):
        """The client has become active here: what it did not use while it was away is not made up for."""
        cdef Share share = queue.share, other
        cdef ClientQueue each
        cdef double group_us = INFINITY, us = INFINITY
        queue.since = NEVER
        for each in self.queues:
            other = each.share
            if each is queue or each.was_blocked or each.is_empty():
                continue
            group_us = min(group_us, other.group.virtual_us)
            if other.group is share.group:
                us = min(us, other.virtual_us)
        share.lift(share.group.virtual_us if us != INFINITY else group_us, us)

    cdef ClientQueue next_queue(self, double now, double aging_seconds):
        """The client whose turn it is. None: those that are here must not be served now, or there are none."""
        cdef ClientQueue queue, found = None
        cdef list ended = None
        for queue in self.queues:
            if not queue.advance():
                ended = [queue] if ended is None else [*ended, queue]
                continue
            if aging_seconds > 0.0:
                self.age(queue, now, aging_seconds)
            if (found is None or queue.precedes(found)) and self.may_serve(queue):
                if found is None or queue.precedes(found):  # it may just have been lifted
                    found = queue
        if ended is not None:
            for queue in ended:
                self.drop(queue)
        if found is not None:
            found.is_alone = len(self.queues) == 1
        return found

    cdef bint may_serve(self, ClientQueue queue) except -1:
        if queue.client.is_paused or queue.share.group.is_full():
            queue.was_blocked = True
            return False
        if queue.was_blocked:
            queue.was_blocked = False
            self.wake(queue)
        return True

    cdef age(self, ClientQueue queue, double now, double aging_seconds):
        if queue.since == NEVER:
            queue.since = now
        queue.rank = min(HIGHEST_RANK, queue.priority + <int64_t> min(1e9, max(0.0, now - queue.since) / aging_seconds))

    cdef drop(self, ClientQueue queue):
        """The client has nothing queued here."""
        self.queues.remove(queue)
        del self.clients[queue.table]


@final
cdef class QueueClass:
    """The tasks that need the same capabilities and have the same depth, highest priority first. ``demand`` is a
    tuple of (name, amount). ``admitted``: the sessions of the agents that may be given them, None: all."""

    def __init__(self, tuple demand, int depth, dict admitted=None):
        self.demand = demand
        self.depth = depth
        self.admitted = admitted
        self.served = {}
        self.reserving = []
        self.by_priority = []
        self.heap = []
        self.candidates = {}

    @property
    def priority(self):
        return (<PriorityQueue> self.by_priority[0]).priority if self.by_priority else 0

    cpdef push(self, client, table, int priority, uint64_t first, uint64_t stop):
        """Queue the tasks first .. stop - 1 of the table, which have just become QUEUED."""
        self.queue_of(priority).awake_queue_of(client, table).push(first, stop)
        self.count += stop - first

    cpdef push_front(self, client, table, int priority, uint64_t first, uint64_t stop):
        self.queue_of(priority).awake_queue_of(client, table).push_front(first, stop)
        self.count += stop - first

    cdef put_back(self, client, table, int priority, uint64_t task):
        """A task of this class that was reserved for one agent waits for any agent, before the others."""
        self.queue_of(priority).awake_queue_of(client, table).push_front(task, task + 1)

    cdef ClientQueue next_queue(self, double now, double aging_seconds):
        """The client whose turn it is: one of the highest rank, then by share. None: none of those that are here may be
        served now."""
        cdef PriorityQueue of_priority
        cdef ClientQueue queue, found = None
        cdef int index = 0
        while index < len(self.by_priority):
            of_priority = <PriorityQueue> self.by_priority[index]
            queue = of_priority.next_queue(now, aging_seconds)
            if not of_priority.queues:
                del self.by_priority[index]
                continue
            index += 1
            if queue is not None and (found is None or queue.precedes(found)):
                found = queue
            if found is not None and aging_seconds <= 0.0:
                break
        return found

    cdef bint is_eligible(self) except -1:
        """Return whether a client that may be served now has tasks here."""
        cdef PriorityQueue of_priority
        cdef ClientQueue queue
        for of_priority in self.by_priority:
            for queue in of_priority.queues:
                if not (queue.is_empty() or queue.client.is_paused or queue.share.group.is_full()):
                    return True
        return False

    def ahead_of(self, table, uint64_t task):
        """Return how many tasks of a table, and which other clients, are served before a task, if nothing changes."""
        cdef PriorityQueue of_priority
        cdef ClientQueue queue, own = None
        cdef list higher = [], same = []
        cdef int64_t count = 0
        for of_priority in self.by_priority:
            own = <ClientQueue> of_priority.clients.get(table)
            same = [queue for queue in of_priority.queues if not queue.is_empty() and queue is not own]
            if own is not None and own.has(task):
                break
            higher += same
            if own is not None:
                count += own.count_before(task)
        else:
            return 0, []
        count += own.count_before(task)
        same = [queue for queue in same if (<ClientQueue> queue).precedes(own)]
        return count, list({queue.client: None for queue in (*higher, *same) if queue.table is not table})

    def count_ranges(self, table):
        cdef PriorityQueue of_priority
        cdef ClientQueue own
        cdef int64_t count = 0
        for of_priority in self.by_priority:
            own = <ClientQueue> of_priority.clients.get(table)
            count += len(of_priority.queues) + (0 if own is None else len(own.ranges))
        return count

    def move_share(self, table):
        """The client of a table belongs to another share."""
        cdef PriorityQueue of_priority
        for of_priority in self.by_priority:
            if table in of_priority.clients:
                (<ClientQueue> of_priority.clients[table]).share = table.columns.share

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

    cdef list take_queues(self):
        """Remove the clients that may be served, with all that they have queued here."""
        cdef PriorityQueue of_priority
        cdef ClientQueue queue
        cdef list taken = []
        for of_priority in self.by_priority:
            for queue in list(of_priority.queues):
                if not queue.client.is_paused and not queue.client.holds.has_tasks:
                    of_priority.drop(queue)
                    taken.append(queue)
        self.by_priority = [of_priority for of_priority in self.by_priority if of_priority.queues]
        return taken

    def take_ranges(self):
        """Remove everything that is queued. Returns (client, first, stop) of ranges, in which some tasks may not be
        queued any more."""
        cdef PriorityQueue of_priority
        cdef ClientQueue queue
        cdef list taken = []
        for of_priority in self.by_priority:
            for queue in of_priority.queues:
                taken.extend([(queue.client, *each) for each in ((queue.first, queue.stop), *queue.ranges)])
        self.empty()
        return taken

    def empty(self):
        """Forget what is queued."""
        self.by_priority = []
        self.reserving = []
        self.count = 0

    def take_reserving(self):
        """Return the agents for which something was reserved since the last call."""
        reserving, self.reserving = self.reserving, []
        return reserving
