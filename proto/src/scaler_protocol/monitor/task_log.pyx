# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The tasks that have ended, the newest ones, as columns in pages.

Pages never move, so that their columns can be handed out without copying; the oldest page goes when there are enough.
"""

from cpython.array cimport array, clone
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from scaler_protocol.steps cimport STEPS_HEAD, is_whole, unpack_steps

NO_WORKER = 0xFFFFFFFF
NOT_ENDED = 255

cdef enum:
    UNKNOWN = 0xFFFF  # in a column of workers
    AGAIN_FLAG = 0x80
    NUMBER_COLUMN = 9
    LOOKS_LIMIT = 64  # at each row, for one message with parts

cdef uint64_t LONGEST_US = 10**15  # some thirty years: whatever a record says, sums of times have room in 64 bits

_COLUMNS = {
    "task": 0, "ended_us": 1, "duration_us": 2, "session": 3, "function": 4, "worker": 5, "attempt": 6, "status": 7,
}
_SORTED = {**_COLUMNS, "running_us": 8}
cdef object MODEL_Q = array("Q")
cdef object MODEL_I64 = array("q")
cdef object MODEL_I = array("I")
cdef object MODEL_B = array("B")


cdef inline uint32_t worker_of(Rows* rows, uint32_t row) noexcept nogil:
    if rows.workers != NULL and rows.workers[row] < rows.known_workers:
        return rows.indices[rows.workers[row]]
    return rows.worker


cdef inline uint64_t value_in(const uint8_t* column, bint short, uint32_t row) noexcept nogil:
    return (<const uint16_t*> column)[row] if short else (<const uint32_t*> column)[row]


cdef class TaskPage:
    def __cinit__(self):
        self.task_array = clone(MODEL_Q, PAGE_ROWS, False)
        self.ended_array = clone(MODEL_I64, PAGE_ROWS, False)
        self.duration_array = clone(MODEL_Q, PAGE_ROWS, False)
        self.session_array = clone(MODEL_I, PAGE_ROWS, False)
        self.function_array = clone(MODEL_I, PAGE_ROWS, False)
        self.worker_array = clone(MODEL_I, PAGE_ROWS, False)
        self.attempt_array = clone(MODEL_I, PAGE_ROWS, False)
        self.status_array = clone(MODEL_B, PAGE_ROWS, False)
        self.tasks = <uint64_t*> self.task_array.data.as_voidptr
        self.ended = <int64_t*> self.ended_array.data.as_voidptr
        self.durations = <uint64_t*> self.duration_array.data.as_voidptr
        self.sessions = <uint32_t*> self.session_array.data.as_voidptr
        self.functions = <uint32_t*> self.function_array.data.as_voidptr
        self.workers = <uint32_t*> self.worker_array.data.as_voidptr
        self.attempts = <uint32_t*> self.attempt_array.data.as_voidptr
        self.statuses = <uint8_t*> self.status_array.data.as_voidptr
        self.earliest_start_us = 0x7FFFFFFFFFFFFFFF
        self.latest_end_us = -0x7FFFFFFFFFFFFFFF

    def __dealloc__(self):
        free(self.runs)
        free(self.others)

    cdef void put(
        self, uint64_t task, int64_t ended_us, uint64_t duration_us, uint32_t session, uint32_t function,
        uint32_t worker, uint32_t attempt, uint8_t status,
    ) noexcept:
        cdef uint32_t row = self.count
        cdef int64_t start
        duration_us = min(duration_us, LONGEST_US)
        start = ended_us - <int64_t> duration_us
        self.tasks[row] = task
        self.ended[row] = ended_us
        self.durations[row] = duration_us
        self.sessions[row] = session
        self.functions[row] = function
        self.workers[row] = worker
        self.attempts[row] = attempt
        self.statuses[row] = status
        if start < self.earliest_start_us:
            self.earliest_start_us = start
        if ended_us > self.latest_end_us:
            self.latest_end_us = ended_us
        self.count = row + 1

    cdef uint32_t take(self, Rows* rows, uint32_t start, uint32_t count) noexcept:
        """Take as many of these rows as there is room for; return their number."""
        cdef uint32_t at = self.count
        cdef uint32_t index
        cdef int64_t begin
        count = min(count, PAGE_ROWS - at)
        memcpy(self.tasks + at, rows.tasks + start, 8 * count)
        memcpy(self.durations + at, rows.durations + start, 8 * count)
        memcpy(self.attempts + at, rows.attempts + start, 4 * count)
        memcpy(self.statuses + at, rows.statuses + start, count)
        if rows.functions != NULL:
            memcpy(self.functions + at, rows.functions + start, 4 * count)
        for index in range(count):
            self.sessions[at + index] = rows.session
            self.ended[at + index] = rows.time_us - (rows.ages[start + index] if rows.ages != NULL else 0)
            self.durations[at + index] = min(self.durations[at + index], LONGEST_US)
            begin = self.ended[at + index] - <int64_t> self.durations[at + index]
            self.earliest_start_us = min(self.earliest_start_us, begin)
            self.latest_end_us = max(self.latest_end_us, self.ended[at + index])
            self.workers[at + index] = worker_of(rows, start + index)
            if rows.functions == NULL:
                self.functions[at + index] = rows.function
        self.count = at + count
        return count

    cdef uint32_t take_stretch(self, Stretch* stretch, uint32_t start, uint32_t count) noexcept:
        """The same for tasks in a row that ended alike."""
        cdef uint32_t at = self.count
        cdef uint32_t index
        cdef uint64_t duration
        cdef int64_t end
        count = min(count, PAGE_ROWS - at)
        for index in range(count):
            duration = value_in(stretch.durations, stretch.short, start + index)
            end = stretch.time_us - <int64_t> value_in(stretch.ages, stretch.short, start + index)
            self.tasks[at + index] = stretch.first + start + index
            self.durations[at + index] = duration
            self.ended[at + index] = end
            self.earliest_start_us = min(self.earliest_start_us, end - <int64_t> duration)
            self.latest_end_us = max(self.latest_end_us, end)
            self.sessions[at + index] = stretch.session
            self.functions[at + index] = stretch.function
            self.workers[at + index] = stretch.worker
            self.attempts[at + index] = stretch.attempt
        memset(self.statuses + at, stretch.status, count)
        self.count = at + count
        self.add_runs(at, count)
        return count

    cdef void add_runs(self, uint32_t start, uint32_t count) noexcept:
        """These rows are alike. Without memory for it they are in no run."""
        cdef uint32_t stop = start + count
        cdef uint32_t row, rows
        cdef Run* run
        while stop - start >= LEAST_RUN_ROWS:
            rows = min(stop - start, <uint32_t> MOST_RUN_ROWS)
            run = self.new_run()
            if run == NULL:
                return
            run.start, run.count, run.longest_row = start, rows, start
            run.busy_us = 0
            run.earliest_start_us, run.latest_end_us = self.ended[start], self.ended[start]
            for row in range(start, start + rows):
                run.busy_us += self.durations[row]
                run.earliest_start_us = min(run.earliest_start_us, self.ended[row] - <int64_t> self.durations[row])
                run.latest_end_us = max(run.latest_end_us, self.ended[row])
                if self.durations[row] >= self.durations[run.longest_row]:
                    run.longest_row = row
            run.longest_us = self.durations[run.longest_row]
            start += rows

    cdef Run* new_run(self) noexcept:
        """NULL: there is no memory."""
        cdef Run* runs = self.runs
        if self.run_count == self.run_room:
            runs = <Run*> realloc(self.runs, 2 * (self.run_room + 32) * sizeof(Run))
            if runs == NULL:
                return NULL
            self.runs = runs
            self.run_room = 2 * (self.run_room + 32)
        self.run_count += 1
        return &runs[self.run_count - 1]

    cdef uint64_t running(self, uint64_t row) noexcept:
        return self.durations[row] - (0 if self.others == NULL else self.others[row])

    cdef int set_other(self, uint64_t row, uint64_t other_us) except -1:
        if self.others == NULL:
            self.others = <uint64_t*> calloc(PAGE_ROWS, sizeof(uint64_t))
            if self.others == NULL:
                raise MemoryError()
        self.others[row] = other_us
        return 0

    def column(self, name):
        return memoryview(self._arrays()[_COLUMNS[name]])[: self.count]

    def _arrays(self):
        return (
            self.task_array, self.ended_array, self.duration_array, self.session_array, self.function_array,
            self.worker_array, self.attempt_array, self.status_array,
        )


cdef class TaskLog:
    def __init__(self, capacity=1_000_000):
        self.capacity = max(1, capacity)
        self.clear()

    def __len__(self):
        return self.total - self.first

    def clear(self):
        self.total = self.ended = self.first = 0
        self.parts_first = self.parts_total = self.parts_steps = 0
        self.open_page = TaskPage()
        self.held = [self.open_page]

    cdef TaskPage room(self):
        """A page with room for one more."""
        if self.open_page.count < PAGE_ROWS:
            return self.open_page
        if self.total - self.first - PAGE_ROWS >= self.capacity:
            del self.held[0]
            self.first += PAGE_ROWS
        self.open_page = TaskPage()
        self.held.append(self.open_page)
        return self.open_page

    def append(self, task, ended_us, duration_us, session, function, worker, attempt=1, status=0):
        self.room().put(task, ended_us, duration_us, session, function, worker, attempt, status)
        self.total += 1
        self.ended += not status & AGAIN_FLAG

    def extend(self, uint32_t session, uint32_t function, uint32_t worker, uint64_t time_us, columns, indices):
        cdef Rows rows
        cdef const uint64_t[::1] tasks = columns.tasks
        cdef const uint64_t[::1] durations = columns.durations
        cdef const uint32_t[::1] attempts = columns.attempts
        cdef const uint8_t[::1] statuses = columns.statuses
        cdef const uint32_t[::1] functions = columns.functions
        cdef const uint32_t[::1] ages = columns.ages
        cdef const uint16_t[::1] workers = columns.workers
        cdef const uint32_t[::1] known = indices
        cdef uint32_t count = <uint32_t> tasks.shape[0]
        cdef uint32_t done = 0
        cdef uint32_t part
        if not count:
            return
        rows.tasks, rows.durations, rows.attempts, rows.statuses = &tasks[0], &durations[0], &attempts[0], &statuses[0]
        rows.functions = &functions[0] if functions is not None else NULL
        rows.ages = &ages[0] if ages is not None else NULL
        rows.workers = &workers[0] if workers is not None else NULL
        rows.known_workers = <uint32_t> known.shape[0]
        rows.indices = &known[0] if rows.known_workers else NULL
        rows.session, rows.function, rows.worker, rows.time_us = session, function, worker, <int64_t> time_us
        for part in range(count):
            self.ended += not statuses[part] & AGAIN_FLAG
        while done < count:
            part = self.room().take(&rows, done, count - done)
            self.total += part
            done += part

    def extend_stretch(self, uint32_t session, uint32_t function, uint32_t worker, uint64_t time_us, uint64_t first,
                       uint32_t attempt, uint8_t status, uint32_t count, bint short, const uint8_t[::1] columns):
        cdef Stretch stretch
        cdef uint64_t size = count * <uint64_t> (2 if short else 4)
        cdef uint32_t done = 0, part
        if <uint64_t> columns.shape[0] < 2 * size:
            raise ValueError("The columns are cut off.")
        if not count:
            return
        stretch.first, stretch.durations, stretch.ages = first, &columns[0], &columns[size]
        stretch.short, stretch.attempt, stretch.status = short, attempt, status
        stretch.session, stretch.function, stretch.worker = session, function, worker
        stretch.time_us = <int64_t> time_us
        if not status & AGAIN_FLAG:
            self.ended += count
        while done < count:
            part = self.room().take_stretch(&stretch, done, count - done)
            self.total += part
            done += part

    def extend_steps(self, uint32_t session, uint32_t function, uint32_t worker, uint64_t time_us, uint64_t first,
                     uint32_t attempt, uint8_t status, uint32_t count, const uint8_t[::1] steps):
        cdef uint64_t size = steps.shape[0]
        cdef array columns
        if size < STEPS_HEAD or not is_whole(&steps[0], size, count):
            raise ValueError("The steps are cut off.")
        columns = clone(MODEL_I, 2 * <Py_ssize_t> count, False)
        if not unpack_steps(&steps[0], size, count, columns.data.as_uints, columns.data.as_uints + count):
            raise ValueError("Steps that cannot be.")
        self.extend_stretch(
            session, function, worker, time_us, first, attempt, status, count, False, memoryview(columns).cast("B")
        )

    def place_parts(self, uint32_t session, list rows):
        cdef list placed = []
        cdef TaskPage page
        cdef int64_t found
        cdef uint64_t place, other_us
        cdef uint64_t stop = self.total
        if self.parts_total != self.total:
            self.parts_first, self.parts_total = self.parts_total, self.total
            self.parts_steps = LOOKS_LIMIT * <int64_t> (self.total - max(self.parts_first, self.first))
        for row in reversed(rows):
            found = self.serial_before(stop, session, row[0], row[1])
            if found < 0:
                continue
            stop = found
            place = found - self.first
            page = self.held[place // PAGE_ROWS]
            other_us = <uint64_t> row[2] + <uint64_t> row[3] + <uint64_t> row[4]
            if other_us <= page.durations[place % PAGE_ROWS]:
                page.set_other(place % PAGE_ROWS, other_us)
                placed.append(row)
        placed.reverse()
        return placed

    cdef int64_t serial_before(self, uint64_t stop, uint32_t session, uint64_t task, uint32_t attempt):
        """The last of the rows that may get parts, before ``stop``, that is this execution; -1: there is none, or too
        many rows have been looked at."""
        cdef TaskPage page = None
        cdef uint64_t serial = stop, least = max(self.parts_first, self.first)
        cdef uint64_t row
        while serial > least and self.parts_steps > 0:
            serial -= 1
            self.parts_steps -= 1
            row = (serial - self.first) % PAGE_ROWS
            if page is None or row == PAGE_ROWS - 1:
                page = self.held[(serial - self.first) // PAGE_ROWS]
            if page.tasks[row] == task and page.attempts[row] == attempt and page.sessions[row] == session:
                return serial
        return -1

    def running_us(self, serial):
        cdef uint64_t place = serial - self.first
        return (<TaskPage> self.held[place // PAGE_ROWS]).running(place % PAGE_ROWS)

    def endings(self, uint32_t session, uint64_t first_task, uint64_t count):
        cdef bytearray found = bytearray(b"\xff") * count
        cdef uint8_t[:] view = found
        cdef TaskPage page
        cdef uint32_t row
        cdef uint64_t place
        for page in self.held:
            for row in range(page.count):
                place = page.tasks[row] - first_task
                if place < count and page.sessions[row] == session and not page.statuses[row] & AGAIN_FLAG:
                    view[place] = page.statuses[row]
        return found

    def pages(self):
        return list(self.held)

    def row(self, serial):
        cdef uint64_t place
        cdef TaskPage page
        cdef uint32_t row
        if not self.first <= serial < self.total:
            return None
        place = serial - self.first
        page = self.held[place // PAGE_ROWS]
        row = place % PAGE_ROWS
        return (
            page.tasks[row], page.ended[row], page.durations[row], page.sessions[row], page.functions[row],
            page.workers[row], page.attempts[row], page.statuses[row],
        )

    def query(self, sessions=None, functions=None, workers=None, statuses=None, task=None, any_of=False,
              sort="ended_us", ranks=None, first_ranked=0, descending=True, offset=0, limit=100, numbered=None,
              sort_numbers=None):
        cdef Filter wanted = Filter(sessions, functions, workers, statuses, task, any_of, numbered)
        if sort == "ended_us":
            return self._in_order(wanted, descending, offset, limit)
        if sort == "number":
            return self._sorted(wanted, NUMBER_COLUMN, None, 0, descending, offset, limit, sort_numbers)
        return self._sorted(wanted, _SORTED[sort], ranks, first_ranked, descending, offset, limit, None)

    def _in_order(self, Filter wanted, bint descending, uint64_t offset, uint64_t limit):
        """The rows in the order in which they came, or the other way round."""
        cdef list found = []
        cdef uint64_t matching = 0
        cdef int64_t position, row, count
        cdef TaskPage page
        for position in range(len(self.held)):
            if descending:
                position = len(self.held) - 1 - position
            page = self.held[position]
            count = page.count
            if wanted.everything and (matching + count <= offset or matching >= offset + limit):
                matching += count
                continue
            for row in range(count):
                if descending:
                    row = count - 1 - row
                if wanted.everything or wanted.takes(page, row):
                    if offset <= matching < offset + limit:
                        found.append(self.first + position * PAGE_ROWS + row)
                    matching += 1
        return found, matching

    def _sorted(self, Filter wanted, int column, const int64_t[::1] ranks, int64_t first_ranked, bint descending,
                uint64_t offset, uint64_t limit, TaskNumbers numbers):
        """The same by another column: a heap keeps the best ``offset + limit`` rows."""
        cdef uint64_t room = min(offset + limit, <uint64_t> len(self))
        cdef Heap heap = Heap(room)
        cdef uint64_t matching = 0
        cdef int64_t position, row
        cdef int64_t value
        cdef int64_t known = 0 if ranks is None else ranks.shape[0]
        cdef bint ranked = ranks is not None
        cdef TaskPage page
        for position in range(len(self.held)):
            page = self.held[position]
            for row in range(page.count):
                if wanted.everything or wanted.takes(page, row):
                    if column == NUMBER_COLUMN:
                        value = numbers.find(page.sessions[row], page.tasks[row])
                    else:
                        value = value_of(page, column, row)
                    if ranked:
                        value -= first_ranked
                        value = ranks[value] if 0 <= value < known else -1
                    heap.offer(value if descending else ~value, self.first + position * PAGE_ROWS + row)
                    matching += 1
        return heap.ordered()[offset : offset + limit], matching


def extent(const uint16_t[:] workers):
    """The highest number in a column of workers (-1: it names none), and whether some are unknown."""
    cdef int found = -1
    cdef bint some_unknown = False
    cdef Py_ssize_t index
    for index in range(workers.shape[0]):
        if workers[index] == UNKNOWN:
            some_unknown = True
        elif <int> workers[index] > found:
            found = workers[index]
    return found, some_unknown


cdef inline int64_t value_of(TaskPage page, int column, int64_t row) noexcept:
    if column == 0:
        return <int64_t> page.tasks[row]
    if column == 1:
        return page.ended[row]
    if column == 2:
        return <int64_t> page.durations[row]
    if column == 3:
        return page.sessions[row]
    if column == 4:
        return page.functions[row]
    if column == 5:
        return page.workers[row]
    if column == 6:
        return page.attempts[row]
    if column == 8:
        return <int64_t> page.running(row)
    return page.statuses[row]


cdef struct NumberedRanges:
    # Of one session. The columns belong to arrays that TaskNumbers keeps.
    uint32_t session
    uint64_t count
    const uint64_t* firsts  # NULL: the slot is free
    const uint64_t* stops
    const int64_t* numbers


cdef class TaskNumbers:
    """See task_log.pyi. The sessions are in a hash table with open addressing, at most half of which is used."""

    cdef list kept
    cdef NumberedRanges* slots
    cdef uint64_t mask
    cdef uint64_t used
    cdef NumberedRanges* last  # the slot that was looked up last, full or free
    cdef uint32_t last_session

    def __cinit__(self):
        self.kept = []
        self.make_slots(16)

    def __dealloc__(self):
        free(self.slots)

    def add(self, uint32_t session, firsts, stops, numbers):
        cdef const uint64_t[::1] first_column = firsts
        cdef const uint64_t[::1] stop_column = stops
        cdef const int64_t[::1] number_column = numbers
        cdef NumberedRanges* slot
        if not len(firsts) == len(stops) == len(numbers):
            raise ValueError("The columns differ in length.")
        if not len(firsts):
            return
        if 2 * self.used > self.mask:
            self.enlarge()
        slot = self.slot_of(session)
        self.used += slot.firsts == NULL
        self.kept.append((memoryview(firsts), memoryview(stops), memoryview(numbers)))
        slot.session, slot.count = session, first_column.shape[0]
        slot.firsts, slot.stops, slot.numbers = &first_column[0], &stop_column[0], &number_column[0]
        self.last = NULL

    cdef int make_slots(self, uint64_t count) except -1:
        cdef NumberedRanges* made = <NumberedRanges*> calloc(count, sizeof(NumberedRanges))
        if made == NULL:
            raise MemoryError()
        self.slots, self.mask = made, count - 1
        return 0

    cdef int enlarge(self) except -1:
        cdef NumberedRanges* before = self.slots
        cdef uint64_t index, count = self.mask + 1
        self.make_slots(2 * count)
        for index in range(count):
            if before[index].firsts != NULL:
                self.slot_of(before[index].session)[0] = before[index]
        free(before)
        return 0

    cdef inline NumberedRanges* slot_of(self, uint32_t session) noexcept:
        """The slot of a session, or the free one where it belongs."""
        cdef uint64_t place = (session * <uint64_t> 0x9E3779B97F4A7C15) >> 32 & self.mask
        while self.slots[place].firsts != NULL and self.slots[place].session != session:
            place = place + 1 & self.mask
        return &self.slots[place]

    cdef inline int64_t find(self, uint32_t session, uint64_t task) noexcept:
        """The number of a task, or -1 if it has none."""
        cdef uint64_t low = 0, high, middle
        if self.last == NULL or self.last_session != session:
            self.last, self.last_session = self.slot_of(session), session
        high = self.last.count
        while low < high:
            middle = (low + high) // 2
            if self.last.firsts[middle] <= task:
                low = middle + 1
            else:
                high = middle
        return self.last.numbers[low - 1] if low and task < self.last.stops[low - 1] else -1


cdef class Filter:
    """The condition that selects rows. Sets of indices are tables of flags."""

    cdef bytes session_flags
    cdef bytes function_flags
    cdef bytes worker_flags
    cdef bytes status_flags
    cdef uint64_t task
    cdef bint has_task
    cdef bint any_of
    cdef bint everything
    cdef TaskNumbers numbered

    def __init__(self, sessions, functions, workers, statuses, task, any_of, numbered):
        self.numbered = numbered
        self.session_flags = flags_of(sessions)
        self.function_flags = flags_of(functions)
        self.worker_flags = flags_of(workers)
        self.status_flags = flags_of(statuses)
        self.has_task = task is not None
        self.task = task if task is not None else 0
        self.any_of = any_of
        self.everything = not self.has_task and numbered is None and (
            self.session_flags is None and self.function_flags is None and self.worker_flags is None
            and self.status_flags is None
        )

    cdef inline bint takes(self, TaskPage page, int64_t row):
        cdef int wanted = 0
        cdef int met = 0
        if self.session_flags is not None:
            wanted += 1
            met += is_set(self.session_flags, page.sessions[row])
        if self.function_flags is not None:
            wanted += 1
            met += is_set(self.function_flags, page.functions[row])
        if self.worker_flags is not None:
            wanted += 1
            met += is_set(self.worker_flags, page.workers[row])
        if self.status_flags is not None:
            wanted += 1
            met += is_set(self.status_flags, page.statuses[row])
        if self.has_task:
            wanted += 1
            met += page.tasks[row] == self.task
        if self.numbered is not None:
            wanted += 1
            met += self.numbered.find(page.sessions[row], page.tasks[row]) >= 0
        return met > 0 if self.any_of else met == wanted


cdef bytes flags_of(indices):
    """A byte for each index up to the largest; the last one stands for NO_WORKER."""
    if indices is None:
        return None
    known = [index for index in indices if index != NO_WORKER]
    flags = bytearray(max(known, default=-1) + 2)
    for index in known:
        flags[index] = 1
    flags[len(flags) - 1] = len(known) != len(indices)
    return bytes(flags)


cdef inline bint is_set(bytes flags, uint32_t index) noexcept:
    cdef const uint8_t* start = flags
    cdef Py_ssize_t size = len(flags)
    if index == 0xFFFFFFFFU:
        return start[size - 1]
    return <Py_ssize_t> index < size - 1 and start[index]


cdef struct Entry:
    int64_t value
    uint64_t serial


cdef inline bint before(Entry one, Entry other) noexcept nogil:
    """Return whether ``one`` is the worse: smaller, or equal and older."""
    return one.value < other.value or (one.value == other.value and one.serial < other.serial)


cdef class Heap:
    """The largest ``room`` entries of many, the smallest of them on top."""

    cdef Entry* entries
    cdef uint64_t room
    cdef uint64_t used

    def __cinit__(self, uint64_t room):
        self.entries = <Entry*> malloc(max(1, room) * sizeof(Entry))
        if self.entries == NULL:
            raise MemoryError()
        self.room = room

    def __dealloc__(self):
        free(self.entries)

    cdef void offer(self, int64_t value, uint64_t serial) noexcept:
        cdef Entry entry
        entry.value = value
        entry.serial = serial
        if self.used < self.room:
            self.entries[self.used] = entry
            self.used += 1
            self.rise(self.used - 1)
        elif self.room and before(self.entries[0], entry):
            self.entries[0] = entry
            self.sink(0)

    cdef void rise(self, uint64_t place) noexcept:
        cdef uint64_t parent
        while place:
            parent = (place - 1) // 2
            if not before(self.entries[place], self.entries[parent]):
                return
            self.entries[place], self.entries[parent] = self.entries[parent], self.entries[place]
            place = parent

    cdef void sink(self, uint64_t place) noexcept:
        cdef uint64_t child
        while 2 * place + 1 < self.used:
            child = 2 * place + 1
            if child + 1 < self.used and before(self.entries[child + 1], self.entries[child]):
                child += 1
            if not before(self.entries[child], self.entries[place]):
                return
            self.entries[place], self.entries[child] = self.entries[child], self.entries[place]
            place = child

    def ordered(self):
        """All serial numbers, best first."""
        pairs = [(self.entries[place].value, self.entries[place].serial) for place in range(self.used)]
        return [serial for _, serial in sorted(pairs, reverse=True)]
