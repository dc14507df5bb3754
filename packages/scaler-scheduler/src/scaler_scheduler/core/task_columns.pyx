# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The columns of a client's tasks. See task_columns.pyi for the contract."""

from itertools import islice
from operator import attrgetter

from scaler_scheduler.core.task_facts import TaskFacts

from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint64_t
from scaler_scheduler.core.map_loads cimport MapLoad, MapTable
from scaler_scheduler.core.pages cimport NO_AGENT, PAGE_BITS, PAGE_SIZE, Page, PageBox
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.fair_shares cimport Shares
from scaler_scheduler.core.states cimport ASSIGNED, CANCELLING, DONE_LARGE, ENDED, QUEUED, STATES
from scaler_scheduler.core.totals cimport Totals

first_of = attrgetter("first")


cdef int queued_among(const uint8_t* states, int count) noexcept nogil:
    """A loop that compilers turn into a few instructions for many states at once."""
    cdef int index, number = 0
    for index in range(count):
        number += states[index] == QUEUED
    return number


cdef void count_among(const uint8_t* states, int count, int64_t* unfinished, int64_t* running) noexcept nogil:
    cdef int index, left = 0, under_way = 0
    for index in range(count):
        left += states[index] != ENDED and states[index] != DONE_LARGE
        under_way += states[index] == ASSIGNED or states[index] == CANCELLING
    unfinished[0] += left
    running[0] += under_way


@final
cdef class TaskColumns:
    def __init__(self, bytes session, Totals totals):
        self.events = totals.events
        self.number = totals.events.new_table()
        self.session = session
        self.share = Shares().join("")
        self.totals = totals
        self.pages = {}
        self.records = []
        self.free_records = []
        self.with_uploads = {}
        self.maps = MapTable()
        self.last_page = NULL
        self.newest = 0
        self.next_task = 0
        self.finished = self.failed = self.canceled = 0
        for state in range(STATES):
            self.counts[state] = 0

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
        return TaskFacts(
            page.state[offset], page.attempt[offset], page.agent[offset], page.deaths[offset], page.losses[offset],
            self.record_at(page, offset),
        )

    def record(self, uint64_t task):
        cdef Page* page = self.find(task)
        if page == NULL or page.state[task & (PAGE_SIZE - 1)] == ENDED:
            raise KeyError(task)
        return self.record_at(page, task & (PAGE_SIZE - 1))

    @property
    def held_bytes(self):
        return (
            self.message_bytes + self.graph_bytes + self.live_records * RECORD_BYTES + len(self.pages) * sizeof(Page)
            + len(self.maps.live) * MAP_BYTES
        )

    def queues(self):
        """The queue classes of its unfinished tasks."""
        cdef RunRecord record
        cdef dict found = {}
        for record in self.records:
            if record is not None:
                found[record.queue] = None
        return found

    def state(self, uint64_t task):
        cdef Page* page = self.find(task)
        return ENDED if page == NULL else page.state[task & (PAGE_SIZE - 1)]

    cpdef bint append(self, RunRecord record, int state) except -1:
        """Enter a run's tasks in ``state``. False, and nothing changed: not all of their numbers are new."""
        cdef uint64_t task
        cdef Page* page
        cdef int offset
        if record.first < self.next_task:
            return False
        self.keep(record)
        self.next_task = record.stop
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
        self.totals.unfinished += record.stop - record.first
        record.function.unfinished += record.stop - record.first
        record.session = self.number
        record.entered_at = self.events.now
        if self.events.is_on:
            self.tell_submitted(record)
        return True

    def leave(self):
        self.totals.unfinished -= self.unfinished

    cdef tell_submitted(self, RunRecord record):
        self.events.submitted(
            record.entered_at, self.number, record.function.named(self.events), record.first, record.stop,
            record.run.options, mean_argument_bytes(record.run),
        )

    def count_maps(self, list loads, int64_t room):
        cdef MapLoad load
        cdef RunRecord record
        cdef int64_t count
        cdef Py_ssize_t place
        for load in loads:
            load.looked_at = load.unfinished = load.running = 0
        for place in range(len(self.records)):
            if room <= 0:
                break
            room -= 1
            record = <RunRecord> self.records[place]
            if record is None or record.map is None:
                continue
            load, count = record.map, <int64_t> (record.stop - record.first)
            load.looked_at += count
            room -= MAP_RUN_TASKS
            if count <= room:
                room -= count
                self.count_tasks(record, &load.unfinished, &load.running)
            else:
                load.unfinished += record.remaining
        return [(load.unfinished + load.live_tasks - load.looked_at, load.running) for load in loads], max(room, 0)

    cdef count_tasks(self, RunRecord record, int64_t* unfinished, int64_t* running):
        cdef uint64_t begin = record.first, end
        cdef Page* page
        while begin < record.stop:
            end = min(record.stop, (begin | (PAGE_SIZE - 1)) + 1)
            page = self.find(begin)
            if page != NULL:
                count_among(&page.state[begin & (PAGE_SIZE - 1)], <int> (end - begin), unfinished, running)
            begin = end

    def count_calls(self, dict counted, int64_t room):
        cdef RunRecord record
        cdef int64_t unfinished, running
        cdef Py_ssize_t place
        cdef list found
        for place in range(len(self.records)):
            if room <= 0:
                break
            room -= 1
            record = <RunRecord> self.records[place]
            if record is None or not record.is_call:
                continue
            room -= <int64_t> (record.stop - record.first)
            unfinished = running = 0
            self.count_tasks(record, &unfinished, &running)
            found = counted.setdefault(record.queue, [0, 0])
            found[0] += unfinished
            found[1] += running
        return max(room, 0)

    def runs_with_uploads(self, Py_ssize_t limit):
        return list(islice(self.with_uploads.values(), limit))

    def tell_all_submitted(self, int64_t limit, uint64_t names_limit_bytes):
        cdef RunRecord record
        cdef int64_t told = 0
        if self.live_records > limit:
            return 0
        for record in sorted([record for record in self.records if record is not None], key=first_of):
            if self.events.named_bytes >= names_limit_bytes:
                break
            self.tell_submitted(record)
            told += 1
        return told

    cdef keep(self, RunRecord record):
        """Give the record its place, and count its memory."""
        if self.free_records:
            record.index = self.free_records.pop()
            self.records[record.index] = record
        else:
            record.index = len(self.records)
            self.records.append(record)
        self.live_records += 1
        if record.has_uploads:
            self.with_uploads[record.index] = record
        record.memory.records += 1
        if record.memory.records == 1:
            self.message_bytes += record.memory.size_bytes
        if record.map is not None:
            self.maps.begin(record.map, <int64_t> (record.stop - record.first))

    cdef part(self, Page* page, int offset, RunRecord own):
        """Move one task from the record of its run to a record of its own."""
        cdef RunRecord record = self.record_at(page, offset)
        own.session, own.entered_at = record.session, record.entered_at
        self.keep(own)
        page.run[offset] = own.index
        record.remaining -= 1
        if record.remaining == 0:
            self.forget(record)

    cdef forget(self, RunRecord record):
        """All its tasks have ended."""
        self.records[record.index] = None
        self.free_records.append(record.index)
        self.live_records -= 1
        if record.has_uploads:
            del self.with_uploads[record.index]
        record.memory.records -= 1
        if record.memory.records == 0:
            self.message_bytes -= record.memory.size_bytes
        if record.map is not None:
            self.maps.end(record.map, <int64_t> (record.stop - record.first))

    def queued_between(self, uint64_t first, uint64_t stop):
        return self.count_queued(first, stop)

    cdef int64_t count_queued(self, uint64_t first, uint64_t stop) except -1:
        cdef uint64_t begin = first, end
        cdef int64_t number = 0
        cdef Page* page
        while begin < stop:
            end = min(stop, (begin | (PAGE_SIZE - 1)) + 1)
            page = self.find(begin)
            if page != NULL:
                number += queued_among(&page.state[begin & (PAGE_SIZE - 1)], <int> (end - begin))
            begin = end
        return number


cdef uint32_t mean_argument_bytes(run) except? 0:
    """The size of the arguments that came with each task of a run, on average, rounded up."""
    cdef uint64_t size = run.payload_bytes, count = run.count
    return <uint32_t> ((size + count - 1) // count)
