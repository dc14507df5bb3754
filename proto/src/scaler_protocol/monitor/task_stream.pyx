# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bars of a task stream, as many as pixels can show.

One pass over the log in the order of ends. Each row has one open pixel that takes in tasks narrower than a pixel; when
a task lies beyond it, it becomes a bar, or makes the bar before it longer when that shows the same.
"""

from cpython.array cimport array, clone, resize_smart
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy

from scaler_protocol.monitor.task_log cimport Run, TaskLog, TaskPage

from scaler_protocol.monitor.task_log import NO_WORKER

SUCCEEDED, FAILED, CANCELED = 0, 1, 2

cdef enum:
    SUCCEEDED_CLASS = 0
    FAILED_CLASS = 1
    CANCELED_CLASS = 2
    STATUS_SUCCESS_LARGE = 1
    STATUS_CANCELLED = 4
    AGAIN_FLAG = 0x80
    NO_BAR = -1

cdef uint32_t NO_ROW = 0xFFFFFFFF  # also the worker of which nothing is known


cdef struct Pixel:
    int64_t place  # -1: none is open
    double busy
    uint64_t longest_us
    uint64_t serial
    uint32_t function
    uint32_t count
    uint8_t status


cdef struct RowState:
    Pixel pixel
    int64_t last_bar  # a merged one, that may grow; NO_BAR: none
    double latest_x0  # of its bars
    uint32_t emitted


cdef struct Place:
    float x0
    float x1
    Py_ssize_t place


cdef int compare_places(const void* one, const void* other) noexcept nogil:
    """By start; of bars that start together the longest comes first, then the one that came first."""
    cdef const Place* a = <const Place*> one
    cdef const Place* b = <const Place*> other
    if a.x0 != b.x0:
        return -1 if a.x0 < b.x0 else 1
    if a.x1 != b.x1:
        return -1 if a.x1 > b.x1 else 1
    return -1 if a.place < b.place else 1


cdef array room(code, Py_ssize_t size):
    return clone(array(code), size, False)


cdef int move_items(array column, Place* places, Py_ssize_t count) except -1:
    """Put the items of a column in the order of their places."""
    cdef array before = clone(column, count, False)
    cdef size_t size = column.itemsize
    cdef Py_ssize_t index
    memcpy(before.data.as_chars, column.data.as_chars, count * size)
    for index in range(count):
        memcpy(column.data.as_chars + index * size, before.data.as_chars + places[index].place * size, size)
    return 0


cdef class Bars:
    cdef array row_array
    cdef array x0_array
    cdef array x1_array
    cdef array function_array
    cdef array status_array
    cdef array count_array
    cdef array busy_array
    cdef array serial_array
    cdef Py_ssize_t used
    cdef Py_ssize_t size
    cdef readonly uint64_t tasks

    def __cinit__(self, size=0):
        """Room for ``size`` bars; memory that is not used is never touched."""
        self.row_array, self.function_array, self.count_array = room("I", size), room("I", size), room("I", size)
        self.x0_array, self.x1_array, self.busy_array = room("f", size), room("f", size), room("f", size)
        self.status_array, self.serial_array = room("B", size), room("Q", size)
        self.size = size

    def __len__(self):
        return self.used

    cdef int grow(self) except -1:
        self.size = max(1024, 2 * self.size)
        for column in self._arrays():
            resize_smart(column, self.size)
        return 0

    cdef int trim(self) except -1:
        for column in self._arrays():
            resize_smart(column, self.used)
        return 0

    def _arrays(self):
        return (
            self.row_array, self.x0_array, self.x1_array, self.function_array, self.status_array, self.count_array,
            self.busy_array, self.serial_array,
        )

    cdef int64_t add(
        self, uint32_t row, double x0, double x1, uint32_t function, uint8_t status, uint32_t count, double busy,
        uint64_t serial,
    ) except -2:
        cdef Py_ssize_t place = self.used
        if place == self.size:
            self.grow()
        self.row_array.data.as_uints[place] = row
        self.x0_array.data.as_floats[place] = <float> x0
        self.x1_array.data.as_floats[place] = <float> x1
        self.function_array.data.as_uints[place] = function
        self.status_array.data.as_uchars[place] = status
        self.count_array.data.as_uints[place] = count
        self.busy_array.data.as_floats[place] = <float> min(1.0, busy)
        (<uint64_t*> self.serial_array.data.as_voidptr)[place] = serial
        self.used = place + 1
        return place

    cdef int arrange(self) except -1:
        """Put the bars in the order of their starts."""
        cdef Place* places = <Place*> malloc(max(1, self.used) * sizeof(Place))
        cdef Py_ssize_t index
        if places == NULL:
            raise MemoryError()
        for index in range(self.used):
            places[index].x0 = self.x0_array.data.as_floats[index]
            places[index].x1 = self.x1_array.data.as_floats[index]
            places[index].place = index
        qsort(places, self.used, sizeof(Place), compare_places)
        try:
            for column in self._arrays():
                move_items(column, places, self.used)
        finally:
            free(places)
        return 0

    def wide(self, double least_pixels, Py_ssize_t limit):
        cdef list found = []
        cdef Py_ssize_t place
        cdef float* x0 = self.x0_array.data.as_floats
        cdef float* x1 = self.x1_array.data.as_floats
        for place in range(self.used):
            if self.count_array.data.as_uints[place] == 1 and x1[place] - x0[place] >= least_pixels:
                found.append(place)
                if len(found) == limit:
                    break
        return found

    @property
    def rows(self):
        return memoryview(self.row_array)

    @property
    def x0(self):
        return memoryview(self.x0_array)

    @property
    def x1(self):
        return memoryview(self.x1_array)

    @property
    def functions(self):
        return memoryview(self.function_array)

    @property
    def statuses(self):
        return memoryview(self.status_array)

    @property
    def counts(self):
        return memoryview(self.count_array)

    @property
    def busy(self):
        return memoryview(self.busy_array)

    @property
    def serials(self):
        return memoryview(self.serial_array)


def bars(TaskLog log, start_us, stop_us, width, workers):
    cdef Painter painter = Painter(start_us, stop_us, width, workers, len(log))
    cdef uint64_t serial = log.first
    cdef TaskPage page
    for page in log.held:
        if page.latest_end_us >= painter.start_us and page.earliest_start_us < painter.stop_us:
            painter.take(page, serial)
        serial += page.count
    return painter.finish()


cdef class Painter:
    cdef Bars out
    cdef int64_t start_us
    cdef int64_t stop_us
    cdef uint32_t width
    cdef double scale  # pixels per microsecond
    cdef uint32_t row_count
    cdef RowState* rows
    cdef array row_of_worker  # NO_ROW: not shown
    cdef uint32_t worker_limit
    cdef uint32_t unknown_row
    cdef bint has_enclosed  # a bar started before another one of its row that ended earlier

    def __cinit__(self, start_us, stop_us, width, workers, most_bars):
        self.start_us = start_us
        self.stop_us = max(stop_us, start_us + 1)
        self.width = max(1, width)
        self.scale = <double> self.width / <double> (self.stop_us - self.start_us)
        self.row_count = len(workers)
        self.out = Bars(min(most_bars, 2 * self.width * self.row_count) + 1)
        self.rows = <RowState*> calloc(max(1, self.row_count), sizeof(RowState))
        if self.rows == NULL:
            raise MemoryError()
        self.place_rows(workers)

    def __dealloc__(self):
        free(self.rows)

    cdef int place_rows(self, workers) except -1:
        cdef uint32_t row = 0
        known = [worker for worker in workers if worker != NO_WORKER]
        self.worker_limit = max(known, default=-1) + 1
        self.row_of_worker = array("I", [NO_ROW]) * max(1, self.worker_limit)
        self.unknown_row = NO_ROW
        for worker in workers:
            if worker == NO_WORKER:
                self.unknown_row = row
            else:
                self.row_of_worker[worker] = row
            self.rows[row].pixel.place = -1
            self.rows[row].last_bar = NO_BAR
            row += 1
        return 0

    cdef int take(self, TaskPage page, uint64_t first_serial) except -1:
        cdef uint32_t at = 0
        cdef uint32_t number, row
        cdef Run* run
        for number in range(page.run_count):
            run = &page.runs[number]
            row = self.row_of(page.workers[run.start])
            if row == NO_ROW or not self.sees(run.earliest_start_us, run.latest_end_us):
                self.take_rows(page, at, run.start, first_serial)
            elif self.is_in_one_pixel(run):
                self.take_rows(page, at, run.start, first_serial)
                self.take_run(page, run, row, first_serial)
            else:
                continue  # one by one, with those that follow
            at = run.start + run.count
        self.take_rows(page, at, page.count, first_serial)
        return 0

    cdef int take_rows(self, TaskPage page, uint32_t start, uint32_t stop, uint64_t first_serial) except -1:
        cdef uint32_t index, row
        cdef int64_t end, begin
        cdef uint64_t taken = 0
        for index in range(start, stop):
            row = self.row_of(page.workers[index])
            end = page.ended[index]
            begin = end - <int64_t> page.durations[index]
            if row == NO_ROW or not self.sees(begin, end):
                continue
            taken += 1
            self.paint(row, begin, end, page, index, first_serial + index)
        self.out.tasks += taken
        return 0

    cdef int take_run(self, TaskPage page, Run* run, uint32_t row, uint64_t first_serial) except -1:
        """Equivalent to taking its rows one by one."""
        cdef Pixel* pixel = self.open_pixel(row, self.place_of(run.earliest_start_us))
        add_to(
            pixel, run.count, run.busy_us * self.scale, run.longest_us, page.functions[run.start],
            class_of(page.statuses[run.start]), first_serial + run.longest_row,
        )
        self.out.tasks += run.count
        return 0

    cdef inline uint32_t row_of(self, uint32_t worker) noexcept:
        if worker < self.worker_limit:
            return self.row_of_worker.data.as_uints[worker]
        return self.unknown_row if worker == NO_ROW else NO_ROW

    cdef inline bint sees(self, int64_t begin, int64_t end) noexcept:
        return end >= self.start_us and begin < self.stop_us

    cdef inline int64_t place_of(self, int64_t moment) noexcept:
        """The pixel; one outside when it is not seen."""
        return <int64_t> ((moment - self.start_us) * self.scale)

    cdef inline bint is_in_one_pixel(self, Run* run) noexcept:
        return (
            run.earliest_start_us >= self.start_us and run.latest_end_us < self.stop_us
            and (run.latest_end_us - run.earliest_start_us) * self.scale < 1.0
            and self.place_of(run.earliest_start_us) == self.place_of(run.latest_end_us)
        )

    cdef inline int paint(
        self, uint32_t row, int64_t begin, int64_t end, TaskPage page, uint32_t index, uint64_t serial
    ) except -1:
        cdef RowState* state = &self.rows[row]
        cdef double x0 = (begin - self.start_us) * self.scale
        cdef double x1 = (end - self.start_us) * self.scale
        cdef int64_t place
        if x1 - x0 >= 1.0 and state.emitted < 2 * self.width:
            self.close_pixel(row, state)
            self.note_start(state, max(0.0, x0))
            self.out.add(
                row, max(0.0, x0), min(<double> self.width, x1), page.functions[index], class_of(page.statuses[index]),
                1, 1.0, serial,
            )
            state.emitted += 1
            state.last_bar = NO_BAR
            return 0
        place = <int64_t> min(self.width - 1.0, max(0.0, 0.5 * (x0 + x1)))
        add_to(
            self.open_pixel(row, place), 1, x1 - x0, page.durations[index], page.functions[index],
            class_of(page.statuses[index]), serial,
        )
        return 0

    cdef inline Pixel* open_pixel(self, uint32_t row, int64_t place) except NULL:
        cdef RowState* state = &self.rows[row]
        if place != state.pixel.place:
            self.close_pixel(row, state)
            state.pixel.place = place
        return &state.pixel

    cdef int close_pixel(self, uint32_t row, RowState* state) except -1:
        """The open pixel becomes a bar, or a part of the one before."""
        cdef Pixel* pixel = &state.pixel
        if pixel.place < 0:
            return 0
        if not self.lengthen(state):
            self.note_start(state, pixel.place)
            state.last_bar = self.out.add(
                row, pixel.place, pixel.place + 1, pixel.function, pixel.status, pixel.count, pixel.busy, pixel.serial
            )
            state.emitted += 1
        pixel.place = -1
        pixel.busy = 0.0
        pixel.longest_us = 0
        pixel.count = 0
        pixel.status = SUCCEEDED_CLASS
        return 0

    cdef inline void note_start(self, RowState* state, double x0) noexcept:
        self.has_enclosed |= x0 < state.latest_x0
        state.latest_x0 = max(x0, state.latest_x0)

    cdef inline bint lengthen(self, RowState* state) noexcept:
        cdef Bars out = self.out
        cdef Pixel* pixel = &state.pixel
        cdef int64_t last = state.last_bar
        cdef double span
        cdef float* x1
        if last == NO_BAR:
            return False
        x1 = out.x1_array.data.as_floats
        full = state.emitted >= 2 * self.width
        if not full and (
            <int64_t> x1[last] != pixel.place
            or out.function_array.data.as_uints[last] != pixel.function
            or out.status_array.data.as_uchars[last] != pixel.status
        ):
            return False
        span = x1[last] - out.x0_array.data.as_floats[last]
        out.busy_array.data.as_floats[last] = <float> (
            (out.busy_array.data.as_floats[last] * span + min(1.0, pixel.busy)) / (span + 1)
        )
        x1[last] = <float> max(<double> x1[last], <double> pixel.place + 1)
        out.count_array.data.as_uints[last] += pixel.count
        return True

    cdef Bars finish(self):
        cdef uint32_t row
        for row in range(self.row_count):
            self.close_pixel(row, &self.rows[row])
        self.out.trim()
        if self.has_enclosed:
            self.out.arrange()
        return self.out


cdef inline void add_to(
    Pixel* pixel, uint32_t count, double busy, uint64_t longest_us, uint32_t function, uint8_t status, uint64_t serial
) noexcept nogil:
    """Tasks that are alike; the longest of them, and the last of several, has this serial number."""
    pixel.count += count
    pixel.busy += busy
    if longest_us >= pixel.longest_us:
        pixel.longest_us = longest_us
        pixel.function = function
        pixel.serial = serial
    if worse(status, pixel.status):
        pixel.status = status


cdef inline uint8_t class_of(uint8_t status) noexcept nogil:
    status &= ~AGAIN_FLAG
    if status <= STATUS_SUCCESS_LARGE:
        return SUCCEEDED_CLASS
    return CANCELED_CLASS if status == STATUS_CANCELLED else FAILED_CLASS


cdef inline bint worse(uint8_t one, uint8_t other) noexcept nogil:
    """Failures are worse than cancels, cancels than successes."""
    return other != FAILED_CLASS and one > other or one == FAILED_CLASS
