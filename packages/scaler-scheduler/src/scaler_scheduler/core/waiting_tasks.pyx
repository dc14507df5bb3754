# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tasks that wait, for monitors. See waiting_tasks.pyi for the contract."""

from libc.stdint cimport int64_t, uint64_t
from scaler_scheduler.core.pages cimport PAGE_SIZE, Page
from scaler_scheduler.core.priority_queues cimport ClientQueue, PriorityQueue, QueueClass
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.states cimport HELD, PENDING, QUEUED, WAITING
from scaler_scheduler.core.task_columns cimport TaskColumns

cdef enum:
    TASKS_PER_STEP = 64  # whose states are read in about the time in which a run is looked at


def waiting_tasks(QueueClass queue, int64_t limit, int64_t reserved):
    cdef dict found = {}
    cdef PriorityQueue of_priority
    cdef ClientQueue of_client
    cdef int64_t seen = 0
    cdef bint all_wait = all_are_queued(queue, limit, reserved)
    for of_priority in queue.by_priority:
        for of_client in of_priority.queues:
            seen += add_range(of_client, of_client.first, of_client.stop, all_wait, found, &limit)
            for first, stop in of_client.ranges:
                if limit <= 0:
                    break
                seen += add_range(of_client, first, stop, all_wait, found, &limit)
    return found, max(0, queue.count - seen)


cdef bint all_are_queued(QueueClass queue, int64_t limit, int64_t reserved) except -1:
    """Return whether every task in the ranges is still queued. False, too, if there are more than ``limit`` ranges."""
    cdef PriorityQueue of_priority
    cdef ClientQueue of_client
    cdef int64_t span = 0
    for of_priority in queue.by_priority:
        for of_client in of_priority.queues:
            span += of_client.stop - of_client.first
            limit -= len(of_client.ranges)
            if limit < 0:
                return False
            for first, stop in of_client.ranges:
                span += stop - first
    return span + reserved == queue.count


cdef int64_t add_range(
    ClientQueue queue, uint64_t first, uint64_t stop, bint all_wait, dict found, int64_t* limit
) except -1:
    """Add the queued tasks of a range to ``found``, from at most ``limit`` runs, and return how many they are.
    ``all_wait``: every task in the range is queued, so their states need not be read."""
    cdef TaskColumns columns = queue.table.columns
    cdef uint64_t task = first, end
    cdef int64_t number, seen = 0
    cdef RunRecord record
    cdef Page* page
    while task < stop and limit[0] > 0:
        page = columns.find(task)
        if page == NULL:
            task = (task | (PAGE_SIZE - 1)) + 1
            continue
        if page.state[task & (PAGE_SIZE - 1)] != QUEUED:
            task += 1
            continue
        record = columns.record_at(page, task & (PAGE_SIZE - 1))
        end = min(stop, record.stop)
        number = <int64_t> (end - task) if all_wait else columns.count_queued(task, end)
        add_waiting(found, queue.client, record, number, task)
        seen += number
        limit[0] -= 1
        task = end
    return seen


cdef add_waiting(dict found, place, RunRecord record, int64_t number, uint64_t task):
    """``place``: what the tasks have in common, apart from their function."""
    cdef tuple key = (place, record.function)
    cdef list entry = <list> found.get(key)
    if entry is None:
        found[key] = [number, record.entered_at, task, record, record.priority, record.priority]
        return
    entry[0] += number
    if record.entered_at < entry[1]:
        entry[1], entry[2], entry[3] = record.entered_at, task, record
    if record.priority < entry[4]:
        entry[4] = record.priority
    elif record.priority > entry[5]:
        entry[5] = record.priority


def tasks_outside_queues(TaskColumns columns, int64_t limit):
    cdef dict found = {}, left = {state: columns.counts[state] for state in (PENDING, HELD, WAITING)}
    cdef RunRecord record
    cdef int64_t number
    cdef uint64_t example = 0
    cdef int state
    for record in columns.records:
        if limit <= 0 or not any(left.values()):
            break
        limit -= 1
        if record is None:
            continue
        for state in left:
            if left[state] and (state != PENDING or record.graph is not None or record.has_uploads):
                number = count_in(columns, record, state, &example)
                limit -= <int64_t> (record.stop - record.first) // TASKS_PER_STEP
                left[state] -= number
                if number:
                    add_waiting(found, state, record, number, example)
    return found, {state: number for state, number in left.items() if number}, limit


cdef int64_t count_in(TaskColumns columns, RunRecord record, int state, uint64_t* example) except -1:
    """Return how many tasks of a run are in this state; ``example`` is the first of them."""
    cdef uint64_t task
    cdef int64_t number = 0
    cdef Page* page = columns.find(record.first)
    for task in range(record.first, record.stop):
        if task & (PAGE_SIZE - 1) == 0:
            page = columns.find(task)
        if page != NULL and page.state[task & (PAGE_SIZE - 1)] == state:
            if number == 0:
                example[0] = task
            number += 1
    return number
