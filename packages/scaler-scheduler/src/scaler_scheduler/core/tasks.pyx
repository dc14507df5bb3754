# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The task tables: all work that is done once per task. See tasks.pyi for the contract and states.py for the rules."""

from collections import deque
from heapq import heappop, heappush

from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.graph cimport Edge, Graph, Node

cdef enum:
    PAGE_BITS = 12
    PAGE_SIZE = 4096
    DEPTHS = 64
    DEPTH_LIMIT = 4095
    NUMBER_LIMIT = 0x7FFFFFFF
    STATUSES = 16
    STATES = 11

cdef enum:
    ENDED = 0
    WAITING = 1
    HELD = 2
    QUEUED = 3
    ASSIGNED = 4
    CANCELLING = 5
    DONE_LARGE = 6
    DECIDING = 7
    PENDING = 8
    STORED = 9
    FREED = 10

cdef enum:
    SUCCESS = 0
    SUCCESS_LARGE = 1
    EXCEPTION = 2
    EXCEPTION_NOT_SERIALIZABLE = 3
    CANCELLED = 4
    PROCESSOR_DIED = 5
    WORKER_DIED = 9

cdef enum:
    NOT_RECORDED = 0xFF
    RUNS_AGAIN = 0x80
    NO_TASK = 0xFFFFFFFFFFFFFFFF
    GRAPH_RECORDED_NODES = 10000

cdef enum:
    NO_AGENT = 0xFFFFFFFF
    OUT_OF_PATIENCE = 0xFFFFFFFE  # queued, and has waited long enough for the agents that have its bytes
    HOLDERS_LIMIT = 64
    FETCH_US = 1000
    NEGLIGIBLE_US = 500
    UNKNOWN_DURATION_US = 5000
    HORIZON_US = 5000
    LONGEST_AHEAD_US = 10000
    CHUNK_US = 1000
    TURN = 256
    NO_BOUND = 0x7FFFFFFF

LARGE, DIED, RETRY, DISCARD, REFUSE = "large", "died", "retry", "discard", "refuse"


cdef struct Page:
    int live
    uint8_t state[PAGE_SIZE]
    uint8_t deaths[PAGE_SIZE]
    uint8_t losses[PAGE_SIZE]
    uint32_t attempt[PAGE_SIZE]
    uint32_t agent[PAGE_SIZE]
    uint32_t run[PAGE_SIZE]
    uint32_t estimate_us[PAGE_SIZE]


@final
cdef class PageBox:
    cdef Page* page
    cdef uint64_t number

    def __cinit__(self):
        self.page = <Page*> calloc(1, sizeof(Page))
        if self.page == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.page)


@final
cdef class Totals:
    cdef int64_t outcomes[STATUSES]
    cdef readonly Recorder events

    def __cinit__(self):
        self.events = Recorder()
        for index in range(STATUSES):
            self.outcomes[index] = 0

    def outcome(self, int status):
        return self.outcomes[status]


@final
cdef class FunctionLoad:
    cdef readonly bytes digest
    cdef readonly str name
    cdef public double duration_us
    cdef public int64_t samples
    cdef readonly double total_us
    cdef public int64_t unfinished
    cdef int64_t outcomes[STATUSES]
    cdef uint32_t number
    cdef uint32_t recording

    def __init__(self, bytes digest, str name):
        self.digest = digest
        self.name = name
        self.number = NO_AGENT
        for index in range(STATUSES):
            self.outcomes[index] = 0

    def outcome(self, int status):
        return self.outcomes[status]

    @property
    def finished(self):
        cdef int64_t total = 0
        for index in range(STATUSES):
            total += self.outcomes[index]
        return total

    cdef inline uint32_t named(self, Recorder events) except? 0:
        """Its number in event records, said what it means once in each recording."""
        if self.recording != events.recording:
            self.number = events.name_function(self.number, self.digest, self.name)
            self.recording = events.recording
        return self.number

    cpdef observe(self, double total_us, int64_t number):
        """Results that took ``total_us`` together arrived: recent ones count more, many at once count fully."""
        cdef double mean = total_us / number
        cdef double weight = 1.0 if self.samples == 0 else (0.9 if number >= 16 else 1.0 - 0.87 ** number)
        self.duration_us += weight * (mean - self.duration_us)
        self.total_us += total_us
        self.samples += number

    cdef uint32_t estimate(self) noexcept:
        if self.samples == 0:
            return UNKNOWN_DURATION_US
        if self.duration_us < 1.0:
            return 1
        if self.duration_us > 4.0e9:
            return 4000000000
        return <uint32_t> self.duration_us

    @property
    def estimate_us(self):
        return self.estimate()


@final
cdef class AgentLoad:
    cdef readonly uint32_t index
    cdef public int slots
    cdef public int lent
    cdef public int deepest
    cdef public int ceiling
    cdef readonly int outstanding
    cdef readonly int64_t load_us
    cdef int by_depth[DEPTHS]
    cdef public dict resources
    cdef public list deferred
    cdef public bytes session
    cdef public bytes store
    cdef public bint is_available
    cdef public double progress_at
    cdef readonly int64_t moving_us
    cdef readonly dict reserved
    cdef readonly int64_t reserved_count
    cdef readonly int64_t reserved_us
    cdef int64_t reservations

    def __init__(self, uint32_t index, int slots, int ceiling, dict resources=None):
        self.index = index
        self.session = self.store = b""
        self.reserved = {}
        self.slots = slots
        self.ceiling = ceiling
        self.deepest = -1
        self.resources = dict(resources or {})
        self.deferred = []
        for depth in range(DEPTHS):
            self.by_depth[depth] = 0

    cdef int deep(self, int depth) noexcept:
        """Tasks here that are at least so deep: shallower ones never hold deeper ones up."""
        cdef int total = 0, level
        if depth <= 0:
            return self.outstanding
        for level in range(min(depth, DEPTHS - 1), DEPTHS):
            total += self.by_depth[level]
        return total

    cdef int usable(self, int depth) noexcept:
        return self.slots + (self.lent if depth > self.deepest else 0)

    cpdef bint has_room(self, int depth) except -1:
        cdef int here = self.deep(depth)
        if here >= self.ceiling or (self.reserved_count and self.keeps_room(depth)):
            return False
        return here < self.usable(depth) or self.budget_us(depth) > 0

    @property
    def has_own(self):
        """Tasks that only it may have, or should have if it has room."""
        return self.reserved_count > 0 or len(self.deferred) > 0

    cdef bint keeps_room(self, int depth) except -1:
        """What is reserved for it comes first."""
        cdef QueueClass queue
        for queue in self.reserved:
            if queue.depth >= depth:
                return True
        return False

    cpdef int64_t queued_us(self) noexcept:
        """How long what is queued there, beside what runs, would keep all slots busy, in slot-microseconds."""
        cdef int usable = self.slots + self.lent
        if self.outstanding <= usable:
            return 0
        return self.load_us * (self.outstanding - usable) // self.outstanding

    cpdef int64_t budget_us(self, int depth) noexcept:
        cdef int here = self.deep(depth)
        cdef int usable = self.usable(depth)
        cdef int64_t horizon = <int64_t> HORIZON_US * self.slots
        if here <= usable:
            return horizon
        return horizon - self.load_us * (here - usable) // self.outstanding

    cpdef int queued(self) noexcept:
        return max(0, self.outstanding - self.slots - self.lent)

    cpdef double waiting_us(self, double now) noexcept:
        """How long a task that comes now would wait for a worker here: by estimate, or as long as nothing has ended."""
        cdef int usable = max(1, self.slots + self.lent)
        cdef int64_t here = self.outstanding + self.reserved_count
        if here < usable:
            return 0.0
        return max(
            <double> (self.load_us + self.reserved_us) * (here - usable + 1) / here / usable,
            (now - self.progress_at) * 1e6,
        )

    cdef bint can_hold(self, QueueClass source) except -1:
        """Whether it may be given such tasks, if not at once."""
        return self.is_available and self.deep(source.depth) < self.ceiling and self.fits(source.demand) > 0

    cdef reserve(self, Reservation place):
        """It will take this task when it has room, those that may wait least first."""
        self.reservations += 1
        heappush(self.reserved.setdefault(place.record.queue, []), (place.until, self.reservations, place))
        self.reserved_count += 1
        self.reserved_us += place.estimate_us
        place.mark(self.index)

    cdef Reservation pop_reserved(self, QueueClass queue):
        """The next one of a class whose task still waits for this agent, or None."""
        cdef Reservation place
        cdef list heap = self.reserved.get(queue)
        while heap:
            place = <Reservation> heappop(heap)[2]
            self.reserved_count -= 1
            self.reserved_us -= place.estimate_us
            if place.is_for(self.index):
                return place
        self.reserved.pop(queue, None)
        return None

    def end_reservations(self, double now):
        """Those that have waited until ``now`` wait among the others again. The time when the next one will have."""
        cdef QueueClass queue
        cdef list ended = []
        cdef double due = float("inf")
        for queue in list(self.reserved):
            heap = self.reserved[queue]
            while heap and heap[0][0] <= now:
                place = self.pop_reserved(queue)
                if place is not None:
                    ended.append(place)
            if heap:
                due = min(due, heap[0][0])
            else:
                self.reserved.pop(queue, None)
        for place in reversed(ended):
            (<Reservation> place).end()
        return due

    def key(self, int depth):
        """Order of preference: free slots first, then the least loaded."""
        cdef int here = self.outstanding
        return (here >= self.slots + self.lent, self.load_us / max(1, self.slots), here / max(1, self.slots))

    def fits(self, tuple demand):
        """How many more tasks that each need ``demand`` this agent has the resources for."""
        if not demand:
            return self.ceiling
        return min([self.resources.get(name, 0) // max(1, amount) for name, amount in demand])

    cdef take(self, RunRecord record, int number, int64_t load_us, int64_t moving_us=0):
        self.outstanding += number
        self.load_us += load_us
        self.moving_us += moving_us
        self.by_depth[min(record.depth, DEPTHS - 1)] += number
        for name, amount in record.demand:
            self.resources[name] = self.resources.get(name, 0) - amount * number

    cdef give_back(self, RunRecord record, int number, int64_t load_us, int64_t moving_us):
        self.outstanding -= number
        self.load_us -= load_us
        self.moving_us -= moving_us
        self.by_depth[min(record.depth, DEPTHS - 1)] -= number
        for name, amount in record.demand:
            self.resources[name] = self.resources.get(name, 0) + amount * number


@final
cdef class Reservation:
    """A queued task that only the agent that has its bytes may take, until ``until``."""
    cdef readonly double until
    cdef readonly object client
    cdef readonly TaskTable table
    cdef readonly uint64_t task
    cdef readonly RunRecord record
    cdef int64_t estimate_us

    def __init__(self, double until, client, TaskTable table, uint64_t task):
        self.until = until
        self.client = client
        self.table = table
        self.task = task
        self.record = table.record(task)
        self.estimate_us = self.record.function.estimate()

    cdef bint is_for(self, uint32_t agent) except -1:
        cdef Page* page = self.table.find(self.task)
        cdef int offset = self.task & (PAGE_SIZE - 1)
        return page != NULL and page.state[offset] == QUEUED and page.agent[offset] == agent

    cdef mark(self, uint32_t agent):
        self.table.find(self.task).agent[self.task & (PAGE_SIZE - 1)] = agent

    cdef end(self):
        """It waits for any agent, before the others of its class."""
        self.mark(OUT_OF_PATIENCE)
        self.record.queue.put_back(self.client, self.table, self.record.priority, self.task)


@final
cdef class Places:
    """Which agents there are, and where the bytes are that tasks need. ``objects``: the directory of what clients
    sent."""
    cdef readonly dict by_index
    cdef readonly dict by_session
    cdef readonly dict by_store
    cdef dict objects
    cdef public double bytes_per_us

    def __init__(self, dict objects, double bytes_per_us):
        self.objects = objects
        self.bytes_per_us = bytes_per_us
        self.by_index = {}
        self.by_session = {}
        self.by_store = {}

    def add(self, AgentLoad agent):
        self.by_index[agent.index] = self.by_session[agent.session] = agent
        if agent.store:
            self.by_store.setdefault(agent.store, []).append(agent)

    def remove(self, AgentLoad agent):
        if self.by_index.pop(agent.index, None) is None:
            return
        del self.by_session[agent.session]
        if agent.store:
            self.by_store[agent.store].remove(agent)
            if not self.by_store[agent.store]:
                del self.by_store[agent.store]

    cdef double moving_us(self, double size):
        return FETCH_US + size / self.bytes_per_us if size > 0 else 0.0


@final
cdef class Inputs:
    """The bytes that a task needs: all, and by agent those that are there or on their way there."""
    cdef double total
    cdef dict held
    cdef Places places

    def __init__(self, Places places):
        self.places = places
        self.held = {}

    cdef add_values(self, TaskTable table, Graph graph, uint64_t task):
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef uint32_t at, kib
        cdef uint64_t source
        cdef Page* page
        for at in range(node.first_input, node.first_input + node.inputs):
            kib = graph.nodes[graph.edges[at].input].kib
            source = graph.base + graph.edges[at].input
            page = table.find(source)
            if kib == 0 or page == NULL:
                continue
            self.total += 1024.0 * kib
            found = {}
            self.hold(found, page.agent[source & (PAGE_SIZE - 1)])
            for index in table.copies.get(source, ()):
                self.hold(found, index)
            self.count(found, 1024.0 * kib)

    cdef add_uploads(self, list keys):
        for key in keys:
            stored = self.places.objects.get(key)
            if stored is not None and stored.size > 0:
                self.total += <double> stored.size
                self.count(self.who_has(stored), stored.size)

    cdef dict who_has(self, stored):
        """Agents that have an object of a client; of very many only some."""
        cdef dict found = {}
        for store in stored.stores:
            for agent in self.places.by_store.get(store, ()):
                found[(<AgentLoad> agent).index] = True
        for session in stored.holders:
            agent = self.places.by_session.get(session)
            if agent is not None:
                found[(<AgentLoad> agent).index] = True
            if len(found) > HOLDERS_LIMIT:
                break
        return found

    cdef hold(self, dict found, uint32_t index):
        """It is at an agent, and in the store of its host."""
        cdef AgentLoad agent = self.places.by_index.get(index)
        if agent is None:
            return
        found[index] = True
        for other in self.places.by_store.get(agent.store, ()) if agent.store else ():
            found[(<AgentLoad> other).index] = True

    cdef count(self, dict found, double size):
        for index in found:
            self.held[index] = self.held.get(index, 0.0) + size

    cdef double missing_us(self, uint32_t agent):
        """How long an agent would have to wait for what it does not have."""
        return self.places.moving_us(self.total - <double> self.held.get(agent, 0.0))


@final
cdef class RunRecord:
    """A run that a client sent, kept until its last task has ended."""
    cdef readonly object run
    cdef readonly uint64_t first
    cdef readonly uint64_t stop
    cdef readonly int64_t remaining
    cdef readonly FunctionLoad function
    cdef readonly int depth
    cdef readonly int priority
    cdef readonly int retries
    cdef readonly bint rerun
    cdef readonly tuple demand
    cdef readonly QueueClass queue
    cdef readonly Graph graph
    cdef readonly bint intermediate
    cdef readonly bint has_uploads
    cdef bint has_moving
    cdef readonly double entered_at
    cdef uint32_t session
    cdef uint32_t index

    def __init__(self, run, FunctionLoad function, QueueClass queue):
        options = run.options
        self.intermediate = options.intermediate
        self.run = run
        self.first = run.first_task
        self.stop = self.first + <uint64_t> run.count
        self.remaining = run.count
        self.function = function
        self.depth = min(max(options.depth, 0), DEPTH_LIMIT)
        self.priority = max(-NUMBER_LIMIT, min(options.priority, NUMBER_LIMIT))
        self.retries = min(options.retries, NUMBER_LIMIT)
        self.rerun = options.rerun
        self.demand = queue.demand
        self.queue = queue
        self.has_uploads = run.has_references and (not options.graph or len(run.uploads()) > 0)

    def piece(self, uint64_t first, uint64_t stop, uint32_t attempt):
        run = self.run
        if first != self.first or stop != self.stop:
            run = run.slice(first - self.first, stop - self.first)
        return run if run.attempt == attempt else run.with_attempt(attempt)


@final
cdef class GraphNews:
    """What became of nodes of graphs while something else was handled; the core queues and tells it."""
    cdef readonly list ready
    cdef readonly dict cancels
    cdef readonly list cascaded
    cdef readonly list ended
    cdef readonly list died
    cdef readonly list delivered
    cdef readonly dict wishes

    def __init__(self):
        self.ready = []
        self.cancels = {}
        self.cascaded = []
        self.ended = []
        self.died = []
        self.delivered = []
        self.wishes = {}

    cdef tell(self, uint32_t agent, uint64_t task, uint32_t attempt):
        column = self.cancels.get(agent)
        if column is None:
            column = self.cancels[agent] = ([], [])
        (<list> column[0]).append(task)
        (<list> column[1]).append(attempt)


@final
cdef class TaskTable:
    cdef readonly bytes session
    cdef Totals totals
    cdef dict pages
    cdef list records
    cdef list free_records
    cdef Page* last_page
    cdef uint64_t last_number
    cdef uint64_t newest
    cdef int64_t counts[STATES]
    cdef readonly int64_t finished
    cdef readonly dict graphs
    cdef readonly GraphNews news
    cdef public bint prefers_holders
    cdef dict copies
    cdef dict moving
    cdef list doomed
    cdef bint is_dooming
    cdef Recorder events
    cdef readonly uint32_t number
    cdef uint64_t accepting

    def __init__(self, bytes session, Totals totals):
        self.events = totals.events
        self.number = totals.events.new_table()
        self.accepting = NO_TASK
        self.graphs = {}
        self.copies = {}
        self.moving = {}
        self.doomed = []
        self.session = session
        self.totals = totals
        self.pages = {}
        self.records = []
        self.free_records = []
        self.last_page = NULL
        self.newest = 0
        self.finished = 0
        for state in range(STATES):
            self.counts[state] = 0

    # ---- looking up -----------------------------------------------------------------------------------------------

    cdef Page* find(self, uint64_t task) except? NULL:
        cdef uint64_t number = task >> PAGE_BITS
        cdef PageBox box
        if self.last_page != NULL and number == self.last_number:
            return self.last_page
        box = <PageBox> self.pages.get(number)
        if box is None:
            return NULL
        self.last_page = box.page
        self.last_number = number
        return box.page

    cdef Page* make(self, uint64_t task) except NULL:
        cdef Page* page = self.find(task)
        cdef uint64_t number = task >> PAGE_BITS
        cdef PageBox box
        if page != NULL:
            return page
        box = PageBox()
        box.number = number
        self.pages[number] = box
        if number > self.newest:
            self.drop_page(self.newest)
            self.newest = number
        self.last_page = box.page
        self.last_number = number
        return box.page

    cdef drop_page(self, uint64_t number):
        """Free the page if nothing on it is alive."""
        cdef PageBox box = <PageBox> self.pages.get(number)
        if box is None or box.page.live:
            return
        if self.last_page == box.page:
            self.last_page = NULL
        del self.pages[number]

    cdef inline RunRecord record_at(self, Page* page, int offset):
        return <RunRecord> self.records[page.run[offset]]

    cdef inline void move(self, Page* page, int offset, int state) noexcept:
        self.counts[page.state[offset]] -= 1
        page.state[offset] = state
        self.counts[state] += 1

    cdef end(self, Page* page, uint64_t task, int status):
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.record_at(page, offset)
        if self.events.is_on and task != self.accepting and page.state[offset] != DONE_LARGE:
            self.events.ended(self.number, task, page.attempt[offset], status, record.function.named(self.events))
        self.close(page, task, status, record)

    cdef close(self, Page* page, uint64_t task, int status, RunRecord record):
        """A task has ended, and monitors know or will be told."""
        cdef int offset = task & (PAGE_SIZE - 1)
        self.counts[page.state[offset]] -= 1
        page.state[offset] = ENDED
        page.live -= 1
        self.finished += 1
        self.totals.outcomes[status & 15] += 1
        record.function.unfinished -= 1
        record.function.outcomes[status & 15] += 1
        record.remaining -= 1
        if record.remaining == 0:
            self.records[record.index] = None
            self.free_records.append(record.index)
        if page.live == 0 and (task >> PAGE_BITS) != self.newest:
            self.drop_page(task >> PAGE_BITS)
        if record.graph is not None:
            self.node_ended(record, task)

    cdef list all_tasks(self):
        """Every unfinished task; only for what happens once in a client's life."""
        cdef list found = []
        cdef PageBox box
        cdef int offset
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != ENDED:
                    found.append((number << PAGE_BITS) + offset)
        return found

    def count(self, int state):
        return self.counts[state]

    @property
    def unfinished(self):
        cdef int64_t total = 0
        for state in range(1, STATES):
            total += self.counts[state]
        return total

    def describe(self, uint64_t task):
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] == ENDED:
            return None
        return (page.state[offset], page.attempt[offset], page.agent[offset], page.deaths[offset],
                page.losses[offset], self.record_at(page, offset))

    def record(self, uint64_t task):
        return self.record_at(self.find(task), task & (PAGE_SIZE - 1))

    def state(self, uint64_t task):
        cdef Page* page = self.find(task)
        return ENDED if page == NULL else page.state[task & (PAGE_SIZE - 1)]

    # ---- coming in ------------------------------------------------------------------------------------------------

    def append(self, RunRecord record, int state):
        """Enter a run's tasks in ``state``. False, and nothing changed, when one of them is there already."""
        cdef uint64_t task
        cdef Page* page
        cdef int offset
        if not self.is_free(record.first, record.stop):
            return False
        if self.free_records:
            record.index = self.free_records.pop()
            self.records[record.index] = record
        else:
            record.index = len(self.records)
            self.records.append(record)
        page = NULL
        for task in range(record.first, record.stop):
            offset = task & (PAGE_SIZE - 1)
            if page == NULL or offset == 0:
                page = self.make(task)
            page.state[offset] = state
            page.deaths[offset] = 0
            page.losses[offset] = 0
            page.attempt[offset] = 1
            page.agent[offset] = NO_AGENT
            page.run[offset] = record.index
            page.live += 1
        self.counts[state] += record.stop - record.first
        record.function.unfinished += record.stop - record.first
        record.session = self.number
        record.entered_at = self.events.now
        if self.events.is_on:
            self.events.submitted(self.number, record.function.named(self.events), record.first, record.stop)
        return True

    cdef bint is_free(self, uint64_t first, uint64_t stop) except -1:
        cdef uint64_t task
        cdef Page* page
        cdef int offset
        for task in range(first, stop):
            page = self.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and page.state[offset] != ENDED:
                return False
            if page == NULL and offset == 0 and stop - task > PAGE_SIZE:
                continue
        return True

    def requeue(self, uint64_t task):
        """Queue a task again, with its next attempt; the record it belongs to. None: it is a node of a graph that waits
        for its inputs, or has lost them."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.record_at(page, offset)
        if record.graph is not None and not self.requeue_node(page, offset, task, record):
            return None
        self.move(page, offset, QUEUED)
        page.attempt[offset] += 1
        page.agent[offset] = NO_AGENT
        return record

    def finish(self, uint64_t task, int status):
        cdef Page* page = self.find(task)
        if page != NULL and page.state[task & (PAGE_SIZE - 1)] != ENDED:
            self.end(page, task, status)

    def died(self, uint64_t task):
        """Count one death of its own processor; how many there were."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        page.deaths[offset] += 1
        return page.deaths[offset]

    def ready(self, uint64_t first, uint64_t stop):
        """WAITING or HELD tasks of a range may be queued: (record, first, stop) of those that are still there."""
        cdef Page* page
        cdef uint64_t task
        cdef int offset
        cdef list ranges = []
        for task in range(first, stop):
            page = self.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and (page.state[offset] == WAITING or page.state[offset] == HELD):
                self.move(page, offset, QUEUED)
                extend(ranges, self.record_at(page, offset), task)
        return ranges

    # ---- results --------------------------------------------------------------------------------------------------

    def accept(self, run, AgentLoad agent):
        """Take in results from ``agent``. None: all of them count and may be forwarded as they are. Otherwise
        (indices to forward, [(index, task, what)] to be decided, indices of tasks never heard of)."""
        cdef int64_t count = run.count
        cdef const uint64_t[::1] tasks
        cdef const uint32_t[::1] attempts
        cdef const uint8_t[::1] statuses
        cdef const uint64_t[::1] durations
        cdef int64_t index, plain = 0
        cdef uint64_t task
        cdef Page* page
        cdef int offset, state, status, what
        cdef RunRecord record = None
        cdef RunRecord current = None
        cdef int group = 0, timed = 0
        cdef int64_t group_load = 0, group_moving = 0
        cdef double group_us = 0.0
        cdef list forward = None, special = [], unknown = []
        cdef Recorder events = self.events
        cdef bint recording = events.is_on
        cdef FunctionLoad function = None
        cdef list segments = []
        cdef bytearray fates = None
        tasks = run.task_column
        attempts = run.attempt_column
        statuses = run.status_column
        durations = run.duration_column
        for index in range(count):
            task = tasks[index]
            status = statuses[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            state = ENDED if page == NULL else page.state[offset]
            if state == ASSIGNED or state == CANCELLING:
                if page.attempt[offset] != attempts[index] or page.agent[offset] != agent.index:
                    what = -1
                else:
                    what = 1
            elif state == HELD and status != CANCELLED:
                what = 1
            else:
                what = -2 if state == ENDED else -1
            if what < 0:
                if forward is None:
                    forward = list(range(index))
                if what == -2:
                    unknown.append(index)
                elif status <= SUCCESS_LARGE:
                    if status == SUCCESS_LARGE and self.is_stray(page, offset, agent.index):
                        special.append((index, task, REFUSE))
                    self.refuse_value(page, offset, task, attempts[index], agent.index)
                if recording:
                    fates = with_fate(fates, statuses, index, NOT_RECORDED)
                continue
            record = self.record_at(page, offset)
            if recording and record.function is not function:
                function = record.function
                segments.append((index if segments else 0, function.named(events)))
            if state != HELD:
                if record is not current:
                    if group:
                        agent.give_back(current, group, group_load, group_moving)
                        if timed:
                            current.function.observe(group_us, timed)
                    current = record
                    group = timed = 0
                    group_load = group_moving = 0
                    group_us = 0.0
                group += 1
                group_load += page.estimate_us[offset]
                if record.has_moving:
                    group_moving += self.take_moving(task)
                if status <= EXCEPTION_NOT_SERIALIZABLE:
                    timed += 1
                    group_us += durations[index]
            if record.graph is not None:
                self.accepting = task
                if recording and state == CANCELLING and status == SUCCESS_LARGE:
                    fates = with_fate(fates, statuses, index, CANCELLED)  # it counts as no result
                if not self.accept_node(page, offset, task, status, attempts[index], record, agent, special, index, run):
                    if forward is None:
                        forward = list(range(index))
                elif forward is not None:
                    forward.append(index)
                if recording and special and special[len(special) - 1][0] == index and status > SUCCESS_LARGE:
                    fates = with_fate(fates, statuses, index, status | RUNS_AGAIN)
                continue
            if status != SUCCESS and self.decide(page, offset, state, status, record, attempts[index], agent.index):
                if status == SUCCESS_LARGE and state != CANCELLING:
                    special.append((index, task, LARGE))
                else:
                    if forward is None:
                        forward = list(range(index))
                    special.append((index, task, DISCARD if status == SUCCESS_LARGE
                                    else (DIED if status == PROCESSOR_DIED else RETRY)))
                    if recording:
                        fates = with_fate(fates, statuses, index, status | RUNS_AGAIN)
                    continue
            else:
                self.close(page, task, status, record)
            if forward is not None:
                forward.append(index)
        self.accepting = NO_TASK
        if group:
            agent.give_back(current, group, group_load, group_moving)
            if timed:
                current.function.observe(group_us, timed)
        if segments:
            events.results(run, self.number, agent.index, segments, fates)
        if forward is None and not special:
            return None
        return forward, special, unknown

    cdef bint decide(self, Page* page, int offset, int state, int status, RunRecord record, uint32_t attempt,
                     uint32_t agent) noexcept:
        """True: the row does not simply end its task; what becomes of it is decided by the core."""
        if status == SUCCESS_LARGE:
            if state == CANCELLING:
                self.move(page, offset, DECIDING)
            else:
                self.move(page, offset, DONE_LARGE)
                page.attempt[offset] = attempt
                page.agent[offset] = agent
            return True
        if state == CANCELLING:
            return False
        if status == PROCESSOR_DIED or (record.retries and (
                status == EXCEPTION or status == EXCEPTION_NOT_SERIALIZABLE)):
            page.attempt[offset] = max(page.attempt[offset], attempt)
            self.move(page, offset, DECIDING)
            return True
        return False

    # ---- agents ---------------------------------------------------------------------------------------------------

    def claim(self, tasks, attempts, AgentLoad agent):
        """``agent`` says it holds these. Returns (indices it must drop, indices never heard of)."""
        cdef list stale = [], unknown = []
        cdef Page* page
        cdef int offset, state, index
        cdef uint64_t task
        cdef RunRecord record
        for index in range(len(tasks)):
            task = tasks[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            state = ENDED if page == NULL else page.state[offset]
            if state == HELD:
                record = self.record_at(page, offset)
                self.move(page, offset, ASSIGNED)
                page.attempt[offset] = attempts[index]
                page.agent[offset] = agent.index
                page.estimate_us[offset] = record.function.estimate()
                agent.take(record, 1, page.estimate_us[offset])
                if record.graph is not None:
                    self.shift_open(record.graph, task, -1)
            elif state == ENDED:
                unknown.append(index)
            elif page.agent[offset] != agent.index or page.attempt[offset] != <uint32_t> attempts[index]:
                stale.append(index)
                if state == QUEUED:  # what is still said of that execution is not of the next one, perhaps there again
                    page.attempt[offset] = max(page.attempt[offset], <uint32_t> attempts[index] + 1)
        return stale, unknown

    def withdrawn(self, tasks, attempts, AgentLoad agent, bint was_asked=False):
        """``agent`` gave these back unstarted. Returns (ranges queued again, tasks whose cancel this answers).
        ``was_asked``: they have waited there for so long that others may have them."""
        cdef list ranges = [], cancelled = []
        cdef Page* page
        cdef int offset, index
        cdef uint64_t task
        cdef RunRecord record
        for index in range(len(tasks)):
            task = tasks[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            if not self.is_with(page, offset, agent.index):
                continue
            if len(attempts) and page.attempt[offset] != <uint32_t> attempts[index]:
                continue
            record = self.record_at(page, offset)
            agent.give_back(record, 1, page.estimate_us[offset], self.take_moving(task))
            if page.state[offset] == ASSIGNED:
                if self.requeue(task) is not None:
                    if was_asked:
                        page.agent[offset] = OUT_OF_PATIENCE
                    extend(ranges, record, task)
            else:
                self.end(page, task, CANCELLED)
                cancelled.append(task)
        return ranges, cancelled

    def short_tasks(self, uint32_t agent, double limit_us):
        """([tasks], [attempts]) that ``agent`` has, may be started twice, and are known to take no longer."""
        cdef list tasks = [], attempts = []
        cdef PageBox box
        cdef int offset
        cdef RunRecord record
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != ASSIGNED or box.page.agent[offset] != agent:
                    continue
                record = self.record_at(box.page, offset)
                if record.rerun and record.function.samples and record.function.duration_us <= limit_us:
                    tasks.append((box.number << PAGE_BITS) + offset)
                    attempts.append(box.page.attempt[offset])
        return tasks, attempts

    cdef int64_t take_moving(self, uint64_t task) except -1:
        """How long what an assigned task needs would take to move; it leaves its agent."""
        return self.moving.pop(task, 0) if self.moving else 0

    cdef bint is_with(self, Page* page, int offset, uint32_t agent) noexcept:
        if page == NULL or page.agent[offset] != agent:
            return False
        return page.state[offset] == ASSIGNED or page.state[offset] == CANCELLING

    def lose(self, uint32_t agent, bint blameless, int losses_limit, int status):
        """The agent is gone. Returns (ranges queued again, tasks ended with ``status``, tasks whose cancel this
        answers). ``blameless``: it had said goodbye, nothing of it may have been started."""
        cdef list ranges = [], died = [], cancelled = []
        cdef PageBox box
        cdef Page* page
        cdef int offset, state
        cdef uint64_t task
        cdef RunRecord record
        cdef dict shaken = {}
        cdef list fatal = []
        self.forget_copies(agent)
        for number in sorted(self.pages):
            box = <PageBox> self.pages.get(number)
            if box is None:
                continue
            page = box.page
            for offset in range(PAGE_SIZE):
                state = page.state[offset]
                if state < ASSIGNED or page.agent[offset] != agent:
                    continue
                task = (box.number << PAGE_BITS) + offset
                record = self.record_at(page, offset)
                self.take_moving(task)
                if state == STORED:
                    self.move(page, offset, FREED)
                    page.agent[offset] = NO_AGENT
                    shaken[record.graph.last] = record.graph
                    continue
                if state == CANCELLING:
                    self.end(page, task, CANCELLED)
                    cancelled.append(task)
                    continue
                if not blameless:
                    page.losses[offset] += 1
                if state == DONE_LARGE:
                    self.count_lost(record)
                if record.graph is not None:
                    shaken[record.graph.last] = record.graph
                    self.move(page, offset, PENDING)
                    page.attempt[offset] += 1
                    page.agent[offset] = NO_AGENT
                    if (not record.rerun and not (blameless and state == ASSIGNED)) or (
                            page.losses[offset] >= losses_limit):
                        fatal.append(task)
                    continue
                if (not record.rerun and not (blameless and state == ASSIGNED)) or page.losses[offset] >= losses_limit:
                    self.end(page, task, status)
                    died.append(task)
                    continue
                self.requeue(task)
                extend(ranges, record, task)
        for graph in shaken.values():
            self.settle(graph, False)
        for task in fatal:
            self.kill(task, status)
        return ranges, died, cancelled

    # ---- cancels --------------------------------------------------------------------------------------------------

    def cancel(self, tasks):
        """Returns (tasks that ended, {agent: ([tasks], [attempts])} to be told, {agent: [tasks]} whose large results
        are not wanted any more)."""
        cdef list ended = []
        cdef dict told = {}, freed = {}
        cdef Page* page
        cdef int offset, state
        cdef uint64_t task
        cdef RunRecord record
        if self.graphs:
            self.close_cancelled(tasks)
        if tasks is None:
            tasks = self.all_tasks()
        for task in tasks:
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            state = ENDED if page == NULL else page.state[offset]
            if state == ENDED or state == CANCELLING or state == STORED or state == FREED:
                continue
            if state == DONE_LARGE and self.record_at(page, offset).graph is not None:
                self.deliver_large(page, offset, task)
                continue
            if state == ASSIGNED:
                self.to_cancelling(page, offset, task)
                column = told.setdefault(page.agent[offset], ([], []))
                column[0].append(task)
                column[1].append(page.attempt[offset])
                continue
            if state == QUEUED:
                record = self.record_at(page, offset)
                record.queue.count -= 1
            if state == DONE_LARGE:
                freed.setdefault(page.agent[offset], []).append(task)
                self.count_large(self.record_at(page, offset))
            else:
                ended.append(task)
            self.end(page, task, CANCELLED)
        return ended, told, freed

    def release(self, tasks):
        """The client needs these large results no more. Returns those that nobody needs: they are to be cancelled. A
        node that is being made again, because its value was lost, may still be needed by others."""
        cdef list unneeded = []
        cdef RunRecord record
        cdef Node* node
        cdef Page* page
        cdef uint64_t task
        cdef int state
        for task in tasks:
            page = self.find(task)
            state = self.state(task)
            record = None if state == ENDED else self.record_at(page, task & (PAGE_SIZE - 1))
            if record is None or record.graph is None or state == DONE_LARGE or state == CANCELLING:
                unneeded.append(task)
                continue
            node = &record.graph.nodes[task - record.graph.base]
            if node.uses == 0:
                unneeded.append(task)
                continue
            self.deliver(record, record.graph, node)
            self.tell().delivered.append(task)
            self.finish_if_over(record.graph)
        return unneeded

    cdef count_large(self, RunRecord record):
        """A large result that is not needed any more leaves the table as if it were cancelled, but was a success."""
        self.totals.outcomes[SUCCESS_LARGE] += 1
        self.totals.outcomes[CANCELLED] -= 1
        record.function.outcomes[SUCCESS_LARGE] += 1
        record.function.outcomes[CANCELLED] -= 1

    cdef void count_lost(self, RunRecord record) noexcept:
        """A large result is lost, and will be made again: monitors have been told of a success."""
        self.totals.outcomes[SUCCESS_LARGE] += 1
        record.function.outcomes[SUCCESS_LARGE] += 1

    def abandon(self, dict loads):
        """End what agents still have, without waiting for their answers. ``loads``: by agent."""
        cdef PageBox box
        cdef Page* page
        cdef int offset
        cdef RunRecord record
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            page = box.page
            for offset in range(PAGE_SIZE):
                if page.state[offset] == ASSIGNED or page.state[offset] == CANCELLING:
                    record = self.record_at(page, offset)
                    (<AgentLoad> loads[page.agent[offset]]).give_back(
                        record, 1, page.estimate_us[offset], self.take_moving((box.number << PAGE_BITS) + offset)
                    )
                    self.end(page, (box.number << PAGE_BITS) + offset, CANCELLED)

    # ---- nodes of graphs ------------------------------------------------------------------------------------------
    #
    # An unfinished node counts in the ``uses`` of its inputs; a node whose value is somewhere (STORED, DONE_LARGE) counts
    # no more in the ``pending`` of its dependants, one that is assigned, too, no more in their ``open``. ``settle`` counts
    # anew after what is rare: a lost agent, the end of a hold.

    cdef GraphNews tell(self):
        if self.news is None:
            self.news = GraphNews()
        return self.news

    def take_news(self):
        """What became of nodes since the last call, or None; ``ready`` as [record, first, stop]."""
        cdef GraphNews news = self.news
        cdef RunRecord record
        cdef list ranges = []
        cdef Page* page
        cdef int offset
        if news is None:
            return None
        self.news = None
        news.ready.sort()
        for task in news.ready:
            page = self.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and page.state[offset] == QUEUED:
                record = self.record_at(page, offset)
                record.queue.count -= 1  # counted when it is pushed
                extend(ranges, record, task)
        news.ready = ranges
        return news

    def append_graph(self, RunRecord record, int state):
        """As ``append``, for nodes: those that miss inputs are PENDING instead of QUEUED. What may be queued is in the
        news. Returns None when the run cannot be part of its graph, else its tasks whose inputs cannot be had."""
        cdef uint32_t low = record.run.options.graph
        cdef uint64_t last = record.first + <uint32_t> (low - <uint32_t> record.first)
        cdef Graph graph = self.graphs.get(last)
        cdef uint32_t index
        cdef list broken
        if graph is None:
            graph = Graph(record.first, last)
        if not graph.admits(record.first, record.stop) or not self.append(record, state):
            return None
        self.graphs[last] = graph
        graph.extend(record.stop)
        for index in range(record.first - graph.base, record.stop - graph.base):
            graph.nodes[index].present = 1
        record.graph = graph
        graph.live += record.stop - record.first
        if not record.intermediate:
            graph.targets += record.stop - record.first
        broken = self.link(record, graph)
        if self.events.is_on:
            self.record_nodes(record, graph)
        if state == QUEUED:
            self.park(record, graph)
        else:
            graph.is_held = True
        if record.stop == graph.last + 1:
            self.close_graph(graph)
        return broken

    cdef record_nodes(self, RunRecord record, Graph graph):
        cdef object edges = b""
        if graph.last - graph.base >= GRAPH_RECORDED_NODES:
            edges = None
        elif record.run.has_references:
            edges = record.run.inputs()
        self.events.nodes(
            self.number, record.function.named(self.events), record.first, record.stop, graph.last, edges
        )

    cdef list link(self, RunRecord record, Graph graph):
        """Enter the edges of a run that has just been appended."""
        cdef const uint64_t[::1] pairs
        cdef list broken = []
        cdef int64_t at
        cdef uint64_t task, source
        cdef Page* page
        cdef Node* node
        cdef int state
        if not record.run.has_references:
            return broken
        pairs = record.run.inputs()
        for at in range(0, pairs.shape[0], 2):
            task = pairs[at]
            source = pairs[at + 1]
            state = ENDED
            if graph.base <= source < task and graph.nodes[source - graph.base].present:
                page = self.find(source)
                if page != NULL:
                    state = page.state[source & (PAGE_SIZE - 1)]
            if state == ENDED or state == CANCELLING:
                if not broken or broken[len(broken) - 1] != task:
                    broken.append(task)
                continue
            graph.add_edge(source - graph.base, task - graph.base)
            graph.nodes[source - graph.base].uses += 1
            node = &graph.nodes[task - graph.base]
            if state != STORED and state != DONE_LARGE:
                node.pending += 1
                if state != ASSIGNED:
                    node.open += 1
        return broken

    cdef park(self, RunRecord record, Graph graph):
        """Nodes just entered as QUEUED wait if inputs are missing."""
        cdef uint64_t task
        cdef Page* page
        for task in range(record.first, record.stop):
            if graph.nodes[task - graph.base].pending:
                page = self.find(task)
                self.move(page, task & (PAGE_SIZE - 1), PENDING)
            else:
                record.queue.count += 1
                self.tell().ready.append(task)

    cdef close_graph(self, Graph graph):
        """No more nodes come: what nobody needs may go."""
        if graph.is_closed:
            return
        graph.is_closed = True
        if graph.must_sweep:
            self.settle(graph, False)

    cdef close_cancelled(self, tasks):
        """A client that cancels the last node of a graph, or everything, may not have sent, and will not send, it."""
        cdef Graph graph
        for graph in list(self.graphs.values()):
            if not graph.is_closed and (tasks is None or graph.last in tasks):
                self.close_graph(graph)
                self.finish_if_over(graph)

    def end_holds(self):
        """The hold after a restart is over: nodes whose values are still needed and nowhere run again."""
        cdef Graph graph
        for graph in list(self.graphs.values()):
            if graph.is_held:
                graph.is_held = False
                graph.is_closed = True
                self.settle(graph, True)

    cdef bint accept_node(self, Page* page, int offset, uint64_t task, int status, uint32_t attempt, RunRecord record,
                          AgentLoad agent, list special, int64_t index, run) except -1:
        """One result of a node. True: it is to be forwarded."""
        cdef int state = page.state[offset]
        cdef Graph graph = record.graph
        cdef bint wanted = not record.intermediate and not graph.nodes[task - graph.base].delivered
        if state == CANCELLING:
            if status <= SUCCESS_LARGE:
                self.tell().tell(agent.index, task, attempt)
            self.end(page, task, CANCELLED if status == SUCCESS_LARGE else status)
            return wanted and status != SUCCESS_LARGE
        if status <= SUCCESS_LARGE:
            if state == HELD and wanted and status == SUCCESS and len(run.payload(index)) == 0:
                wanted = False  # the client has it, the agent keeps it for dependants
            if status == SUCCESS_LARGE and wanted:
                special.append((index, task, LARGE))
            self.note_size(graph, task, run, index if status == SUCCESS_LARGE else -1)
            self.node_done(page, task, record, attempt, agent.index, status)
            return wanted
        if self.decide(page, offset, state, status, record, attempt, agent.index):
            if state == ASSIGNED:
                self.shift_open(graph, task, 1)
            special.append((index, task, DIED if status == PROCESSOR_DIED else RETRY))
            return False
        self.end(page, task, status)
        return True

    cdef note_size(self, Graph graph, uint64_t task, run, int64_t index):
        """How large a value is: row ``index`` of ``run`` says it, -1: small."""
        cdef uint32_t kib = 0
        if index >= 0:
            graph.has_large = True
            kib = <uint32_t> min(0xFFFFFFFF, (int.from_bytes(run.payload(index)[:8], "little") + 1023) // 1024)
        graph.nodes[task - graph.base].kib = kib

    cdef bint is_stray(self, Page* page, int offset, uint32_t agent) except -1:
        """Whether a large result that does not count is of no use at its agent, and no other of that task is there."""
        return page.agent[offset] != agent and self.record_at(page, offset).graph is None

    cdef refuse_value(self, Page* page, int offset, uint64_t task, uint32_t attempt, uint32_t agent):
        """An agent has finished an attempt that does not count: it need not keep the value."""
        if page == NULL or page.state[offset] == ENDED or self.record_at(page, offset).graph is None:
            return
        if page.agent[offset] == agent and page.attempt[offset] == attempt and (
                page.state[offset] == STORED or page.state[offset] == DONE_LARGE):
            return
        self.tell().tell(agent, task, attempt)

    cdef node_done(self, Page* page, uint64_t task, RunRecord record, uint32_t attempt, uint32_t agent, int status):
        """Its value is at an agent, for its dependants and, when large, for the client."""
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef bint was_held = page.state[offset] == HELD
        page.attempt[offset] = attempt
        page.agent[offset] = agent
        if status == SUCCESS_LARGE and not record.intermediate and not node.delivered:
            self.move(page, offset, DONE_LARGE)
        else:
            self.move(page, offset, STORED)
            self.count_done(record, status)
            self.deliver(record, graph, node)
        self.wake_dependants(graph, node, was_held)
        self.leave_inputs(graph, node)
        if node.uses == 0:
            self.drop_value(graph, self.find(task), task)
        self.finish_if_over(graph)

    cdef void count_done(self, RunRecord record, int status) noexcept:
        self.finished += 1
        self.totals.outcomes[status & 15] += 1
        record.function.unfinished -= 1
        record.function.outcomes[status & 15] += 1

    cdef void deliver(self, RunRecord record, Graph graph, Node* node) noexcept:
        if not record.intermediate and not node.delivered:
            node.delivered = 1
            graph.targets -= 1

    cdef deliver_large(self, Page* page, int offset, uint64_t task):
        """The client needs a large result no more; others may."""
        cdef RunRecord record = self.record_at(page, offset)
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        self.move(page, offset, STORED)
        self.count_done(record, SUCCESS_LARGE)
        self.deliver(record, graph, node)
        self.tell().delivered.append(task)
        if node.uses == 0:
            self.drop_value(graph, page, task)
        self.finish_if_over(graph)

    cdef wake_dependants(self, Graph graph, Node* node, bint was_open):
        cdef uint32_t at = node.head
        cdef Node* dependant
        while at:
            dependant = &graph.nodes[graph.edges[at - 1].dependant]
            dependant.pending -= 1
            if was_open:
                dependant.open -= 1
            if dependant.pending == 0:
                self.wake(graph, graph.base + graph.edges[at - 1].dependant)
            at = graph.edges[at - 1].next

    cdef wake(self, Graph graph, uint64_t task):
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != PENDING:
            return
        self.to_queued(page, offset, task)
        if self.prefers_holders:
            self.wish(graph, task)

    cdef to_queued(self, Page* page, int offset, uint64_t task):
        cdef RunRecord record = self.record_at(page, offset)
        self.move(page, offset, QUEUED)
        record.queue.count += 1
        self.tell().ready.append(task)

    cdef wish(self, Graph graph, uint64_t task):
        """The agent that holds most bytes of the inputs of a ready node, or most of small ones, may have it first."""
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef dict held = {}
        cdef Page* page
        cdef uint32_t at, agent
        cdef uint64_t source
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.base + graph.edges[at].input
            page = self.find(source)
            agent = page.agent[source & (PAGE_SIZE - 1)]
            held[agent] = held.get(agent, 0) + 1 + (<int64_t> graph.nodes[graph.edges[at].input].kib << 10)
        if held:
            best = max(held, key=held.get)
            self.tell().wishes.setdefault(best, []).append(task)

    cdef void shift_open(self, Graph graph, uint64_t task, int change) noexcept:
        cdef uint32_t at = graph.nodes[task - graph.base].head
        while at:
            graph.nodes[graph.edges[at - 1].dependant].open += change
            at = graph.edges[at - 1].next

    cdef leave_inputs(self, Graph graph, Node* node):
        """It needs its inputs no more."""
        cdef uint32_t at, source
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.edges[at].input
            graph.nodes[source].uses -= 1
            if graph.nodes[source].uses == 0:
                self.drop_value(graph, self.find(graph.base + source), graph.base + source)

    cdef drop_value(self, Graph graph, Page* page, uint64_t task):
        """No dependant needs its value: the agents that have it are told, once no more dependants can come."""
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != STORED:
            return
        if not graph.is_closed:
            graph.must_sweep = True
            return
        self.tell().tell(page.agent[offset], task, page.attempt[offset])
        self.free_copies(task)
        self.move(page, offset, FREED)
        page.agent[offset] = NO_AGENT

    cdef free_copies(self, uint64_t task):
        for agent in self.copies.pop(task, ()) if self.copies else ():
            self.tell().tell(agent, task, 0)

    cdef node_ended(self, RunRecord record, uint64_t task):
        """It ended without a value: so do all that need it."""
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef uint32_t at = node.head
        self.free_copies(task)
        self.deliver(record, graph, node)
        self.leave_inputs(graph, node)
        while at:
            self.doomed.append(graph.base + graph.edges[at - 1].dependant)
            at = graph.edges[at - 1].next
        self.left_graph(graph)
        if not self.is_dooming:
            self.end_doomed()
        self.finish_if_over(graph)

    cdef left_graph(self, Graph graph):
        graph.live -= 1
        if graph.live == 0:
            self.graphs.pop(graph.last, None)

    cdef end_doomed(self):
        self.is_dooming = True
        while self.doomed:
            self.doom(self.doomed.pop())
        self.is_dooming = False

    cdef doom(self, uint64_t task):
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef RunRecord record
        cdef uint32_t at
        if state == ASSIGNED:
            record = self.record_at(page, offset)
            self.tell().tell(page.agent[offset], task, page.attempt[offset])
            self.tell().cascaded.append(task)
            self.to_cancelling(page, offset, task)
            at = record.graph.nodes[task - record.graph.base].head
            while at:
                self.doomed.append(record.graph.base + record.graph.edges[at - 1].dependant)
                at = record.graph.edges[at - 1].next
        elif state == PENDING or state == QUEUED or state == HELD or state == WAITING:
            record = self.record_at(page, offset)
            if state == QUEUED:
                record.queue.count -= 1
            if not record.intermediate:
                self.tell().ended.append(task)
            self.end(page, task, CANCELLED)

    cdef to_cancelling(self, Page* page, int offset, uint64_t task):
        cdef RunRecord record = self.record_at(page, offset)
        self.move(page, offset, CANCELLING)
        if record.graph is not None:
            self.shift_open(record.graph, task, 1)

    cdef kill(self, uint64_t task, int status):
        """An unfinished node ends with ``status``, which is in the news."""
        cdef RunRecord record
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] == ENDED:
            return
        record = self.record_at(page, offset)
        if page.state[offset] == QUEUED:
            record.queue.count -= 1
        self.tell().died.append((task, status))
        self.end(page, task, status)

    def break_off(self, tasks, int status):
        """Nodes whose inputs cannot be had end."""
        for task in tasks:
            self.kill(task, status)

    cdef bint requeue_node(self, Page* page, int offset, uint64_t task, RunRecord record) except -1:
        """True: it may be queued. Otherwise it waits for its inputs, or ends because one of them ended."""
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef uint32_t at
        if page.state[offset] == ASSIGNED:
            self.shift_open(graph, task, 1)
        if not node.pending:
            return True
        page.attempt[offset] += 1
        page.agent[offset] = NO_AGENT
        self.move(page, offset, PENDING)
        for at in range(node.first_input, node.first_input + node.inputs):
            if self.state(graph.base + graph.edges[at].input) == ENDED:
                self.doom(task)
                break
        return False

    cdef finish_if_over(self, Graph graph):
        """All results for the client have reached it, or never will: nothing of the graph is needed any more."""
        cdef uint32_t index
        cdef uint64_t task
        cdef Page* page
        if graph.targets or not graph.is_closed or graph.is_finishing or graph.live == 0:
            return
        graph.is_finishing = True
        for index in range(graph.count):
            task = graph.base + index
            page = self.find(task)
            if graph.nodes[index].present and page != NULL:
                self.finish_node(graph, page, task)
        graph.is_finishing = False

    cdef finish_node(self, Graph graph, Page* page, uint64_t task):
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = page.state[offset]
        if state == STORED:
            self.drop_value(graph, page, task)
            state = FREED
        if state == FREED:
            self.discard(page, task)
        elif state != ENDED and state != CANCELLING and state != DECIDING:
            self.doom(task)

    cdef discard(self, Page* page, uint64_t task):
        """A node whose value was made and is not needed leaves the table."""
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.record_at(page, offset)
        self.free_copies(task)
        if record.graph.has_large and not record.intermediate:
            self.tell().delivered.append(task)
        self.move(page, offset, ENDED)
        page.live -= 1
        record.remaining -= 1
        if record.remaining == 0:
            self.records[record.index] = None
            self.free_records.append(record.index)
        if page.live == 0 and (task >> PAGE_BITS) != self.newest:
            self.drop_page(task >> PAGE_BITS)
        self.left_graph(record.graph)

    def settle(self, Graph graph, bint release):
        """Count a graph anew, from its states: values that are needed and nowhere are made again, and nodes that
        nobody needs do not run. ``release``: those HELD may run."""
        cdef list fatal = [], broken = []
        cdef uint32_t index
        graph.must_sweep = False
        for index in range(graph.count):
            graph.nodes[index].pending = graph.nodes[index].open = graph.nodes[index].uses = 0
        for index in range(graph.count, 0, -1):
            if graph.nodes[index - 1].present:
                self.settle_need(graph, index - 1, release, fatal)
        for index in range(graph.count):
            if graph.nodes[index].present:
                self.settle_wait(graph, index, broken)
        for task in fatal:
            self.kill(task, WORKER_DIED)
        for task in broken:
            self.doom(task)
        self.finish_if_over(graph)

    cdef settle_need(self, Graph graph, uint32_t index, bint release, list fatal):
        """Later nodes have been settled: decide whether this one must run, and whether its value is needed."""
        cdef uint64_t task = graph.base + index
        cdef Node* node = &graph.nodes[index]
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef RunRecord record
        cdef bint needed
        cdef uint32_t at
        if state == ENDED or state == DONE_LARGE:
            return
        if state == STORED:
            if node.uses == 0:
                self.drop_value(graph, page, task)
            return
        record = self.record_at(page, offset)
        needed = node.uses > 0 or not (record.intermediate or node.delivered)
        if state == FREED:
            if not needed:
                return
            self.move(page, offset, PENDING)
            page.attempt[offset] += 1
            record.function.unfinished += 1
            if not record.rerun:
                fatal.append(task)
        elif state == PENDING or state == QUEUED or (state == HELD and release):
            needed = needed or not graph.is_closed
            if state == QUEUED and not needed:
                record.queue.count -= 1
            if not needed:
                record.function.unfinished -= 1
            if not needed or state == HELD:
                self.move(page, offset, PENDING if needed else FREED)
            if not needed:
                return
        for at in range(node.first_input, node.first_input + node.inputs):
            graph.nodes[graph.edges[at].input].uses += 1

    cdef settle_wait(self, Graph graph, uint32_t index, list broken):
        """Count what an unfinished node waits for."""
        cdef RunRecord record
        cdef uint64_t task = graph.base + index
        cdef Node* node = &graph.nodes[index]
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef int there
        cdef uint32_t at
        if state == ENDED or state == STORED or state == DONE_LARGE or state == FREED:
            return
        for at in range(node.first_input, node.first_input + node.inputs):
            there = self.state(graph.base + graph.edges[at].input)
            if there != STORED and there != DONE_LARGE:
                node.pending += 1
                if there != ASSIGNED:
                    node.open += 1
            if there == ENDED and (state == PENDING or state == QUEUED or state == HELD):
                broken.append(task)
        if state == PENDING and node.pending == 0:
            self.to_queued(page, offset, task)
        elif state == QUEUED and node.pending:
            record = self.record_at(page, offset)
            record.queue.count -= 1
            self.move(page, offset, PENDING)

    def count_nodes(self, Graph graph):
        """How many nodes there are, and how many wait for inputs, are ready, run, are done, failed or were cancelled."""
        cdef int64_t waiting = 0, ready = 0, running = 0, done = 0, failed = 0, nodes = 0
        cdef uint32_t index
        cdef int state
        cdef Page* page
        for index in range(graph.count):
            if not graph.nodes[index].present:
                continue
            nodes += 1
            page = self.find(graph.base + index)
            state = ENDED if page == NULL else page.state[(graph.base + index) & (PAGE_SIZE - 1)]
            if state == STORED or state == FREED or state == DONE_LARGE:
                done += 1
            elif state == ASSIGNED or state == CANCELLING:
                running += 1
            elif state == QUEUED:
                ready += 1
            elif state == ENDED:
                failed += 1
            else:
                waiting += 1
        return nodes, waiting, ready, running, done, failed

    cdef int64_t count_queued(self, uint64_t first, uint64_t stop) except -1:
        cdef uint64_t task
        cdef int64_t number = 0
        cdef Page* page = NULL
        for task in range(first, stop):
            if page == NULL or (task & (PAGE_SIZE - 1)) == 0:
                page = self.find(task)
            if page != NULL and page.state[task & (PAGE_SIZE - 1)] == QUEUED:
                number += 1
        return number

    def value_holder(self, uint64_t task):
        """The agent that has the value of a node, or None."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or (page.state[offset] != STORED and page.state[offset] != DONE_LARGE):
            return None
        return page.agent[offset]

    def note_copy(self, uint64_t task, uint32_t agent):
        """Another agent asked for the value: it, too, is told when nobody needs it any more."""
        agents = self.copies.setdefault(task, [])
        if agent not in agents:
            agents.append(agent)

    def copies_of(self, uint64_t task):
        """The agents that have asked for the value, and may have it by now."""
        return tuple(self.copies.get(task, ()))

    cdef forget_copies(self, uint32_t agent):
        for task in list(self.copies):
            self.copies[task] = [each for each in self.copies[task] if each != agent]
            if not self.copies[task]:
                del self.copies[task]

    def lose_value(self, uint64_t task, uint32_t agent, int losses_limit):
        """The agent that should have a value does not: it is made again if it is needed. "requeue": for the client,
        the caller queues the task; "waits": for the client, it runs when it can; "died": it must not, or has been lost
        too often; None: the client has no part in it."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        if page == NULL or page.agent[offset] != agent:
            return None
        if page.state[offset] == STORED:
            self.move(page, offset, FREED)
            page.agent[offset] = NO_AGENT
            self.settle(self.record_at(page, offset).graph, False)
            return None
        if page.state[offset] != DONE_LARGE:
            return None
        record = self.record_at(page, offset)
        page.losses[offset] += 1
        if not record.rerun or page.losses[offset] >= losses_limit:
            return DIED
        self.count_lost(record)
        if record.graph is None:
            return "requeue"
        self.move(page, offset, PENDING)
        page.attempt[offset] += 1
        page.agent[offset] = NO_AGENT
        self.settle(record.graph, False)
        return "waits"

    cdef bint inputs_are_at(self, Graph graph, uint64_t task, uint32_t agent) except -1:
        """Whether all that a node still waits for is at work at one agent."""
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef uint32_t at
        cdef uint64_t source
        cdef Page* page
        cdef int offset, state
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.base + graph.edges[at].input
            page = self.find(source)
            offset = source & (PAGE_SIZE - 1)
            state = ENDED if page == NULL else page.state[offset]
            if state != STORED and state != DONE_LARGE and (state != ASSIGNED or page.agent[offset] != agent):
                return False
        return True

    cdef check_graph(self, Graph graph):
        cdef uint32_t index, at
        cdef Node* node
        cdef int state, there
        live = targets = 0
        uses = {}
        for index in range(graph.count, 0, -1):
            node = &graph.nodes[index - 1]
            state = self.state(graph.base + index - 1) if node.present else ENDED
            task = graph.base + index - 1
            if state != ENDED:
                live += 1
                assert self.record(task).graph is graph, task
                assert node.uses == uses.get(index - 1, 0), (task, state, node.uses, uses.get(index - 1, 0))
                targets += not self.record(task).intermediate and not node.delivered
            if state == ENDED or state == STORED or state == DONE_LARGE or state == FREED:
                continue
            pending = still_open = 0
            for at in range(node.first_input, node.first_input + node.inputs):
                uses[graph.edges[at].input] = uses.get(graph.edges[at].input, 0) + 1
                there = self.state(graph.base + graph.edges[at].input)
                assert state == CANCELLING or (there != ENDED and there != FREED), (task, state, there)
                pending += there != STORED and there != DONE_LARGE
                still_open += there != STORED and there != DONE_LARGE and there != ASSIGNED
            if state != CANCELLING:
                assert (node.pending, node.open) == (pending, still_open), (task, node.pending, node.open)
            assert state != QUEUED or not pending, task
            assert state != PENDING or pending, task
        assert (live, targets) == (graph.live, graph.targets), (live, graph.live, targets, graph.targets)
        assert live and (targets or not graph.is_closed or self.count(CANCELLING)), "a graph outlived its targets"

    def check(self):
        """Assert that counters agree with the columns."""
        cdef int64_t seen[STATES]
        cdef PageBox box
        cdef int offset
        cdef int64_t live
        for state in range(STATES):
            seen[state] = 0
        left = {}
        for number in self.pages:
            box = <PageBox> self.pages[number]
            live = 0
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != ENDED:
                    live += 1
                    seen[box.page.state[offset]] += 1
                    left[box.page.run[offset]] = left.get(box.page.run[offset], 0) + 1
            assert live == box.page.live, (number, live, box.page.live)
        for state in range(1, STATES):
            assert seen[state] == self.counts[state], (state, seen[state], self.counts[state])
        assert seen[DECIDING] == 0
        for graph in self.graphs.values():
            self.check_graph(graph)
        for index, record in enumerate(self.records):
            assert (record.remaining if record is not None else 0) == left.get(index, 0), index
        for task in self.moving:
            assert self.state(task) == ASSIGNED or self.state(task) == CANCELLING, task

    def queued_by_class(self):
        """{queue class: number of queued tasks}, counted from the columns; for ``check``."""
        cdef PageBox box
        cdef int offset
        found = {}
        for number in self.pages:
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] == QUEUED:
                    queue = self.record_at(box.page, offset).queue
                    found[queue] = found.get(queue, 0) + 1
        return found

    def assigned_by_agent(self):
        """{agent: tasks with it}, counted from the columns; for ``check``."""
        cdef PageBox box
        cdef int offset
        found = {}
        for number in self.pages:
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] == ASSIGNED or box.page.state[offset] == CANCELLING:
                    found[box.page.agent[offset]] = found.get(box.page.agent[offset], 0) + 1
        return found


cdef add_waiting(dict found, client, RunRecord record, int64_t number, uint64_t task):
    cdef tuple key = (client, record.function)
    cdef list entry = <list> found.get(key)
    if entry is None:
        found[key] = [number, record.entered_at, task, record]
        return
    entry[0] += number
    if record.entered_at < entry[1]:
        entry[1], entry[2] = record.entered_at, task


cdef bytearray with_fate(bytearray fates, const uint8_t[::1] statuses, int64_t index, int fate):
    """What is to be recorded as the statuses of a run, one of them changed."""
    if fates is None:
        fates = bytearray(statuses)
    fates[index] = fate
    return fates


cdef extend(list ranges, RunRecord record, uint64_t task):
    """Add a task to a list of [record, first, stop], joining neighbours of one run."""
    cdef list last
    if ranges:
        last = <list> ranges[len(ranges) - 1]
        if last[0] is record and last[2] == task:
            last[2] = task + 1
            return
    ranges.append([record, task, task + 1])


# ---- the run queue ------------------------------------------------------------------------------------------------


@final
cdef class ClientQueue:
    """The ranges of one client at one level, oldest first."""
    cdef readonly TaskTable table
    cdef public bint listed
    cdef object client
    cdef object ranges
    cdef uint64_t first
    cdef uint64_t stop

    def __init__(self, client, TaskTable table):
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
    cdef readonly int priority
    cdef object rotation
    cdef dict clients

    def __init__(self, int priority):
        self.priority = priority
        self.rotation = deque()
        self.clients = {}

    cdef push(self, client, TaskTable table, uint64_t first, uint64_t stop, bint front):
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


@final
cdef class QueueClass:
    """The tasks that need the same capabilities and have the same depth, highest priority first. ``demand`` is a
    tuple of (name, amount)."""
    cdef readonly tuple demand
    cdef readonly int depth
    cdef public int64_t count
    cdef list levels
    cdef public list heap
    cdef public dict candidates
    cdef readonly Places places
    cdef public dict served
    cdef readonly list reserving

    def __init__(self, tuple demand, int depth, Places places):
        self.demand = demand
        self.depth = depth
        self.places = places
        self.served = {}
        self.reserving = []
        self.levels = []
        self.heap = []
        self.candidates = {}

    @property
    def priority(self):
        return (<Level> self.levels[0]).priority if self.levels else 0

    def push(self, client, TaskTable table, int priority, uint64_t first, uint64_t stop, bint front=False):
        """Tasks first .. stop - 1 of the table, all QUEUED just now, wait here."""
        self.level(priority).push(client, table, first, stop, front)
        self.count += stop - first

    cdef put_back(self, client, TaskTable table, int priority, uint64_t task):
        """A task of this class that waited for a certain agent waits for any, before the others."""
        self.level(priority).push(client, table, task, task + 1, True)

    def take_reserving(self):
        """The agents for which something was reserved since the last call."""
        reserving, self.reserving = self.reserving, []
        return reserving

    def waiting(self, int64_t limit):
        """({(client, function): [how many, since when, one of them, its run]}, how many tasks were not looked at)."""
        cdef dict found = {}
        cdef Level level
        cdef ClientQueue queue
        cdef int64_t seen = 0
        for level in self.levels:
            for queue in level.rotation:
                for first, stop in [(queue.first, queue.stop), *queue.ranges]:
                    if limit > 0:
                        seen += self.look_at(queue, first, stop, found, &limit)
        return found, max(0, self.count - seen)

    cdef int64_t look_at(
        self, ClientQueue queue, uint64_t first, uint64_t stop, dict found, int64_t* limit
    ) except -1:
        """Adds what waits in a range to ``found``, of at most ``limit`` runs; how many tasks that are."""
        cdef TaskTable table = queue.table
        cdef uint64_t task = first, end
        cdef int64_t number, seen = 0
        cdef RunRecord record
        cdef Page* page
        while task < stop and limit[0] > 0:
            page = table.find(task)
            if page == NULL:
                task = (task | (PAGE_SIZE - 1)) + 1
                continue
            if page.state[task & (PAGE_SIZE - 1)] != QUEUED:
                task += 1
                continue
            record = table.record_at(page, task & (PAGE_SIZE - 1))
            end = min(stop, record.stop)
            number = table.count_queued(task, end)
            add_waiting(found, queue.client, record, number, task)
            seen += number
            limit[0] -= 1
            task = end
        return seen

    cdef Level level(self, int priority):
        cdef Level level
        cdef int index = 0
        for level in self.levels:
            if level.priority == priority:
                return level
            if level.priority < priority:
                break
            index += 1
        level = Level(priority)
        self.levels.insert(index, level)
        return level

    def take(self, AgentLoad agent, int64_t share):
        """Assign tasks to ``agent`` until it is full, or has ``share`` of them that last a while. Returns task runs
        ready to be sent, and whether the agent may take more."""
        cdef Takings takings = Takings(agent, self, share)
        cdef Level level
        cdef int index = 0
        if self.count == 0:
            self.levels.clear()
            return [], True
        while index < len(self.levels) and not takings.full:
            level = <Level> self.levels[index]
            self.take_level(level, takings)
            if not level.rotation:
                del self.levels[index]
            else:
                index += 1
        takings.extend_fragments()
        return takings.pieces(), not takings.agent_full

    cdef take_level(self, Level level, Takings takings):
        cdef ClientQueue queue
        cdef int idle = 0
        while level.rotation and idle < len(level.rotation) and not takings.full:
            queue = <ClientQueue> level.rotation[0]
            if queue.client.is_paused:
                level.rotation.rotate(-1)
                idle += 1
                continue
            idle = 0
            if not queue.advance():
                level.drop_first()
                continue
            takings.take(queue, TURN if len(level.rotation) > 1 else NO_BOUND)
            level.rotation.rotate(-1)


@final
cdef class Takings:
    """What one agent is given in one go."""
    cdef AgentLoad agent
    cdef QueueClass source
    cdef list runs
    cdef int64_t share
    cdef int64_t free
    cdef int64_t room
    cdef int64_t budget_us
    cdef int64_t taken
    cdef int64_t taken_us
    cdef int64_t turn
    cdef bint full
    cdef bint agent_full
    cdef bint was_idle
    cdef list fresh
    cdef Recorder events

    def __init__(self, AgentLoad agent, QueueClass source, int64_t share):
        self.fresh = []
        cdef int here = agent.deep(source.depth)
        self.agent = agent
        self.source = source
        self.runs = []
        self.share = share
        self.free = max(0, agent.usable(source.depth) - here)
        self.room = min(agent.ceiling - here, agent.fits(source.demand))
        self.budget_us = agent.budget_us(source.depth)
        self.full = self.agent_full = self.room <= 0
        self.was_idle = agent.outstanding < agent.slots + agent.lent

    cdef give(self, TaskTable table, RunRecord record, uint64_t first, uint64_t stop, uint32_t attempt):
        cdef list last
        self.events = table.events
        if self.was_idle:  # nothing has waited there until now
            self.agent.progress_at = max(self.agent.progress_at, table.events.now)
        if self.runs:
            last = <list> self.runs[len(self.runs) - 1]
            if last[0] is record and last[2] == first and last[3] == attempt:
                last[2] = stop
                return
        self.runs.append([record, first, stop, attempt])

    cdef list pieces(self):
        cdef RunRecord record
        cdef Recorder events = self.events
        cdef list found = []
        for record, first, stop, attempt in self.runs:
            found.append(record.piece(first, stop, attempt))
            if events.is_on:
                events.handed(record.session, record.function.named(events), self.agent.index, first, stop, attempt)
        return found

    cdef take(self, ClientQueue queue, int64_t turn):
        """Take from the front of the current range, one run after another, for at most one turn."""
        self.turn = turn
        while queue.first < queue.stop and not self.full and self.turn > 0:
            self.take_run(queue)

    cdef take_run(self, ClientQueue queue):
        cdef TaskTable table = queue.table
        cdef uint64_t task = queue.first, start
        cdef Page* page = table.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef uint32_t attempt, estimate, run
        cdef RunRecord record
        cdef int64_t number = 0
        if page == NULL or page.state[offset] != QUEUED:
            queue.first += 1
            return
        record = table.record_at(page, offset)
        if self.has_weight(record):
            self.take_large(queue, table, page, record)
            return
        attempt = page.attempt[offset]
        run = page.run[offset]
        estimate = record.function.estimate()
        start = task
        while task < queue.stop and self.admit(estimate):
            page.state[offset] = ASSIGNED
            page.agent[offset] = self.agent.index
            page.estimate_us[offset] = estimate
            number += 1
            task += 1
            offset = task & (PAGE_SIZE - 1)
            if offset == 0:
                page = table.find(task)
            if (page == NULL or page.state[offset] != QUEUED or page.run[offset] != run
                    or page.attempt[offset] != attempt):
                break
        queue.first = task
        if number:
            table.counts[QUEUED] -= number
            table.counts[ASSIGNED] += number
            self.source.count -= number
            self.agent.take(record, number, number * estimate)
            self.give(table, record, start, task, attempt)
            if record.graph is not None:
                self.follow(table, record.graph, start, task)

    cdef inline bint has_weight(self, RunRecord record) except -1:
        """Whether it matters where tasks of a run are put, since they may need many bytes."""
        if not record.has_uploads and (record.graph is None or not record.graph.has_large):
            return False
        return len(self.source.served) > 1

    cdef Inputs inputs_of(self, TaskTable table, RunRecord record, uint64_t task):
        cdef Inputs inputs = Inputs(self.source.places)
        if record.graph is not None and record.graph.has_large:
            inputs.add_values(table, record.graph, task)
        if record.has_uploads:
            inputs.add_uploads(record.run.slice(task - record.first, task - record.first + 1).uploads())
        return inputs

    cdef take_large(self, ClientQueue queue, TaskTable table, Page* page, RunRecord record):
        """One task whose bytes count: it comes to this agent, or is reserved for another one that has them."""
        cdef uint64_t task = queue.first
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef uint32_t estimate = record.function.estimate()
        cdef Inputs inputs
        cdef AgentLoad other
        cdef double now = table.events.now
        if not self.may_admit(estimate):
            return
        queue.first += 1
        inputs = self.inputs_of(table, record, task)
        other = self.better(inputs, page.agent[offset] == OUT_OF_PATIENCE, now)
        if other is not None:
            other.reserve(
                Reservation(now + inputs.missing_us(self.agent.index) / 1e6, queue.client, table, task)
            )
            self.source.reserving.append(other)
            return
        self.admit(estimate)
        self.assign(table, page, task, record, inputs)
        self.give(table, record, task, task + 1, page.attempt[offset])
        if record.graph is not None:
            self.follow(table, record.graph, task, task + 1)

    cdef AgentLoad better(self, Inputs inputs, bint is_urgent, double now):
        """The agent where a task would start earliest, unless it is this one: its bytes are there, and its turn comes
        sooner than they could come here. ``is_urgent``: only one where it starts at once."""
        cdef AgentLoad found = None, other
        cdef double waiting_us, us, least_us
        if inputs.missing_us(self.agent.index) == 0.0:
            return None
        least_us = self.agent.waiting_us(now) + inputs.missing_us(self.agent.index) - NEGLIGIBLE_US
        for index in inputs.held:
            other = self.source.served.get(index)
            if other is None or other is self.agent or not other.can_hold(self.source):
                continue
            waiting_us = other.waiting_us(now)
            us = waiting_us + inputs.missing_us(other.index)
            if us < least_us and not (is_urgent and waiting_us > 0):
                found = other
                least_us = us
        return found

    cdef inline bint may_wait(self, uint32_t estimate) noexcept:
        """Beside what runs. The last one may be a little longer than what is left of the horizon: else a worker whose
        tasks are just as long as that would have none ahead and stand still for every round trip."""
        return self.budget_us >= estimate or (self.budget_us > 0 and estimate <= LONGEST_AHEAD_US)

    cdef inline bint may_admit(self, uint32_t estimate) noexcept:
        if self.turn <= 0:
            return False
        if self.taken >= self.share and self.taken_us >= CHUNK_US and self.room > 0:
            self.full = True
            return False
        if self.room <= 0 or not (self.free > 0 or self.may_wait(estimate)):
            self.full = self.agent_full = True
            return False
        return True

    cdef inline bint admit(self, uint32_t estimate) noexcept:
        if not self.may_admit(estimate):
            return False
        if self.free > 0:
            self.free -= 1
        else:
            self.budget_us -= estimate
        self.room -= 1
        self.turn -= 1
        self.taken += 1
        self.taken_us += estimate
        return True

    # ---- fragments of graphs: what waits only for tasks of this agent goes with them -------------------------------

    cdef follow(self, TaskTable table, Graph graph, uint64_t first, uint64_t stop):
        """These nodes are assigned: note which of their dependants no other agent has a part in."""
        cdef uint64_t task
        cdef uint32_t at
        cdef Node* dependant
        cdef list tasks = None
        for task in range(first, stop):
            at = graph.nodes[task - graph.base].head
            while at:
                dependant = &graph.nodes[graph.edges[at - 1].dependant]
                dependant.open -= 1
                if dependant.open == 0:
                    if tasks is None:
                        tasks = []
                        self.fresh.append((table, tasks))
                    tasks.append(graph.base + graph.edges[at - 1].dependant)
                at = graph.edges[at - 1].next

    cdef extend_fragments(self):
        cdef list tasks
        while self.fresh:
            table, tasks = self.fresh.pop()
            tasks.sort()
            self.extend_round(table, tasks)

    cdef extend_round(self, TaskTable table, list tasks):
        """Assign those of ``tasks`` that may come along; neighbours go as one run."""
        cdef int64_t index, count = len(tasks)
        cdef uint64_t task, first = 0, stop = 0
        cdef RunRecord record, current = None
        cdef uint32_t attempt = 0
        cdef Page* page
        cdef int offset
        for index in range(count):
            task = tasks[index]
            page = self.candidate(table, task)
            if page == NULL:
                continue
            offset = task & (PAGE_SIZE - 1)
            record = table.record_at(page, offset)
            if not self.admit_more(record.function.estimate()):
                self.agent.deferred.extend([(table, each) for each in tasks[index:]])
                break
            if record is not current or task != stop or page.attempt[offset] != attempt:
                self.send_fragment(table, current, first, stop, attempt)
                current, first, attempt = record, task, page.attempt[offset]
            self.assign(table, page, task, record)
            stop = task + 1
        self.send_fragment(table, current, first, stop, attempt)

    cdef Page* candidate(self, TaskTable table, uint64_t task) except? NULL:
        cdef Page* page = table.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        if page == NULL or (page.state[offset] != PENDING and page.state[offset] != QUEUED):
            return NULL
        record = table.record_at(page, offset)
        if record.queue is not self.source or record.graph is None:
            return NULL
        if page.state[offset] == PENDING and not table.inputs_are_at(record.graph, task, self.agent.index):
            return NULL
        if page.state[offset] == PENDING and self.has_weight(record) and self.is_far(table, record, task):
            return NULL
        return page

    cdef bint is_far(self, TaskTable table, RunRecord record, uint64_t task) except -1:
        """Whether much of what it needs is elsewhere: who gets it is decided when it is ready."""
        return self.inputs_of(table, record, task).missing_us(self.agent.index) > 0.0

    cdef assign(self, TaskTable table, Page* page, uint64_t task, RunRecord record, Inputs inputs=None):
        """``inputs``: if they are known already."""
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef uint32_t estimate = record.function.estimate()
        cdef int64_t moving_us = 0
        if inputs is None and self.has_weight(record):
            inputs = self.inputs_of(table, record, task)
        if inputs is not None:
            record.has_moving = True
            moving_us = <int64_t> self.source.places.moving_us(inputs.total)
        if page.state[offset] == QUEUED:
            self.source.count -= 1
        table.move(page, offset, ASSIGNED)
        page.agent[offset] = self.agent.index
        page.estimate_us[offset] = estimate
        if moving_us:
            table.moving[task] = moving_us
        self.agent.take(record, 1, estimate, moving_us)

    cdef take_reserved(self):
        """Assign what is reserved for the agent, as far as it has room."""
        cdef Reservation place = self.agent.pop_reserved(self.source)
        cdef Page* page
        cdef int offset
        while place is not None:
            if not self.admit(place.record.function.estimate()):
                self.agent.reserve(place)
                return
            page = place.table.find(place.task)
            offset = place.task & (PAGE_SIZE - 1)
            self.assign(place.table, page, place.task, place.record)
            self.give(place.table, place.record, place.task, place.task + 1, page.attempt[offset])
            if place.record.graph is not None:
                self.follow(place.table, place.record.graph, place.task, place.task + 1)
            place = self.agent.pop_reserved(self.source)

    cdef send_fragment(self, TaskTable table, RunRecord record, uint64_t first, uint64_t stop, uint32_t attempt):
        if record is not None:
            self.give(table, record, first, stop, attempt)
            self.follow(table, record.graph, first, stop)

    cdef bint admit_more(self, uint32_t estimate) noexcept:
        if self.room <= 0:
            return False
        if self.free > 0:
            self.free -= 1
        elif self.may_wait(estimate):
            self.budget_us -= estimate
        else:
            return False
        self.room -= 1
        return True


def take_reserved(AgentLoad agent):
    """Assign the tasks that are reserved for ``agent``, as far as it has room: deeper ones first. Returns task runs
    ready to be sent."""
    cdef QueueClass queue
    cdef Takings takings
    cdef list runs = []
    for queue in sorted(agent.reserved, key=depth_of, reverse=True):
        takings = Takings(agent, queue, NO_BOUND)
        takings.turn = NO_BOUND
        takings.take_reserved()
        takings.extend_fragments()
        runs.extend(takings.pieces())
    return runs


def depth_of(QueueClass queue):
    return queue.depth


def take_deferred(AgentLoad agent):
    """Assign the nodes that wanted to go to ``agent`` when it had no room, and those whose inputs it holds. Returns
    task runs ready to be sent."""
    cdef list waiting = agent.deferred, tasks, others
    cdef TaskTable table
    cdef QueueClass queue
    cdef Takings takings
    cdef list runs = []
    agent.deferred = []
    while waiting:
        table, queue, tasks, others = None, None, [], []
        for entry in waiting:
            source = queue_of(entry[0], entry[1])
            if source is None:
                continue
            if table is None:
                table, queue = entry[0], source
            if entry[0] is table and source is queue:
                tasks.append(entry[1])
            else:
                others.append(entry)
        if table is not None:
            takings = Takings(agent, queue, 0)
            takings.fresh.append((table, tasks))
            takings.extend_fragments()
            runs.extend(takings.pieces())
        waiting = others
    return runs


cdef queue_of(TaskTable table, uint64_t task):
    cdef Page* page = table.find(task)
    cdef int offset = task & (PAGE_SIZE - 1)
    if page == NULL or (page.state[offset] != PENDING and page.state[offset] != QUEUED):
        return None
    return table.record_at(page, offset).queue
