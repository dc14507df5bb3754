# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Nodes of graphs on this host: all that is done once per node. See nodes.pyi for the contract."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from scaler_protocol.codec import ResultRun, ResultRunBuilder
from scaler_protocol.messages import ObjectKey

Named = tuple[bytes, int, int]

UNKNOWN_SIZE = bytes(8)

cdef enum:
    WAITING = 0
    READY = 1
    DISPATCHED = 2
    DONE = 3
    FETCHING = 4
    GONE = 5  # ended or left without a value
    FREED = 6  # its value is not kept any more

cdef enum:
    SUCCESS = 0
    SUCCESS_LARGE = 1


cdef class Node:
    cdef readonly bytes session
    cdef readonly uint64_t task
    cdef readonly uint32_t attempt
    cdef readonly object run
    cdef readonly int64_t index
    cdef readonly int state
    cdef int pending
    cdef int open
    cdef bint lacks_objects
    cdef readonly bint is_large
    cdef readonly bint is_copy
    cdef int64_t at
    cdef list inputs
    cdef list dependants
    cdef readonly object value

    def __init__(self, bytes session, uint64_t task):
        self.session = session
        self.task = task
        self.at = -1

    cdef stand_for(self, run, int64_t index):
        self.run = run
        self.index = index
        self.attempt = run.attempt
        self.state = WAITING
        self.value = None
        self.is_copy = self.is_large = False


cdef int count_inputs(Node node, int* pending, int* still_open) except -1:
    """Count the values and objects that the node waits for, and how many of these nothing here makes now."""
    cdef Node source
    cdef int missing = node.lacks_objects, unmade = 0
    for source in node.inputs or ():
        missing += source.state != DONE and source.state != FREED
        unmade += source.state != DONE and source.state != DISPATCHED and source.state != FREED
    pending[0], still_open[0] = missing, unmade
    return 0


cdef class Nodes:
    cdef dict tables
    cdef dict deferred
    cdef public int64_t waiting

    def __init__(self):
        self.tables = {}
        self.deferred = {}
        self.waiting = 0

    def __bool__(self):
        return len(self.tables) > 0

    def __len__(self):
        return sum([len(table) for table in self.tables.values()])

    def __contains__(self, bytes session):
        return session in self.tables

    def forget_worker_process(self, int64_t number):
        self.deferred.pop(number, None)

    cdef Node find(self, bytes session, uint64_t task):
        cdef dict table = self.tables.get(session)
        return None if table is None else table.get(task)

    # ---- coming in -----------------------------------------------------------------------------------------------

    def add(self, run, bint lacks_objects):
        """See nodes.pyi."""
        cdef list freed = [], back = []
        cdef bytes session = run.session
        cdef uint64_t task, first = run.first_task
        cdef int64_t index, count = run.count
        cdef list fetch = []
        cdef list made = []
        cdef Node node
        table = self.tables.get(session)
        if table is None:
            table = self.tables[session] = {}
        for index in range(count):
            task = first + index
            node = (<dict> table).get(task)
            if node is None or node.state != FETCHING:  # what was to be fetched may be made here now
                if node is not None and node.state == DONE:
                    self.release(<dict> table, node, freed)
                elif node is not None and node.state == WAITING:
                    self.remove(node, back)
                node = Node(session, task)
                (<dict> table)[task] = node
            node.stand_for(run, index)
            if lacks_objects:
                node.lacks_objects = True
                node.pending += 1
            made.append(node)
        self.tables[session] = table  # which may have become empty meanwhile
        self.waiting += count
        if run.has_references:
            self.link(<dict> table, made, run, fetch)
        return self.made_ready(made), fetch, freed, [each for each in back if not first <= each[1] < first + count]

    cdef link(self, dict table, list made, run, list fetch):
        cdef const uint64_t[::1] pairs = run.inputs()
        cdef uint64_t first = run.first_task
        cdef Node node, source
        cdef int64_t at
        for at in range(0, pairs.shape[0], 2):
            node = <Node> made[pairs[at] - first]
            source = table.get(pairs[at + 1])
            if source is None:
                source = Node(node.session, pairs[at + 1])
                source.state = FETCHING
                source.is_copy = True
                table[pairs[at + 1]] = source
                fetch.append(ObjectKey(node.session, pairs[at + 1]))
            if node.inputs is None:
                node.inputs = []
            node.inputs.append(source)
            if source.state != DONE:
                if source.dependants is None:
                    source.dependants = []
                source.dependants.append(node)
                node.pending += 1
                if source.state != DISPATCHED:
                    node.open += 1

    def keep(self, keys):
        """See nodes.pyi."""
        cdef list here = [], fetch = []
        cdef Node node
        for key in keys:
            node = self.find(key.owner, key.number)
            if node is None:
                node = Node(key.owner, key.number)
                node.state = FETCHING
                node.is_copy = True
                self.tables.setdefault(key.owner, {})[key.number] = node
                fetch.append(key)
            elif node.state == DONE:
                here.append(key)
        return here, fetch

    cdef list made_ready(self, list nodes):
        """Return the runs of ``nodes`` that wait for nothing and may be queued; neighbours as one run."""
        cdef list runs = []
        cdef Node node
        cdef object run = None
        cdef int64_t start = 0, stop = 0
        for node in nodes:
            if node.state != WAITING or node.pending:
                continue
            node.state = READY
            self.waiting -= 1
            if node.run is not run or node.index != stop:
                if run is not None:
                    runs.append(piece(run, start, stop))
                run = node.run
                start = node.index
            stop = node.index + 1
        if run is not None:
            runs.append(piece(run, start, stop))
        return runs

    def objects_here(self, run):
        """The objects that these tasks lacked are here; the runs that may be queued."""
        cdef list nodes = []
        cdef Node node
        cdef uint64_t task
        for task in range(run.first_task, run.first_task + run.count):
            node = self.find(run.session, task)
            if node is not None and node.lacks_objects:
                node.lacks_objects = False
                node.pending -= 1
                nodes.append(node)
        return self.made_ready(nodes)

    # ---- to a process ------------------------------------------------------------------------------------------

    def fragments(self, int64_t number, list runs, double seconds, int64_t room, estimate):
        """``runs`` go to worker process ``number``. Returns what may go right behind them, because all it waits for is
        there, for about ``seconds`` and at most ``room`` tasks; ``estimate(function)`` is a task's seconds or None."""
        cdef list fresh = self.deferred.pop(number, [])
        cdef list found = []
        cdef list candidates
        cdef double each = 0.0
        cdef bint is_known = False
        cdef Node node
        cdef object function = None, run
        cdef int64_t index, count
        for run in runs:
            if run.options.graph:
                self.dispatch(number, run, fresh)
        while fresh:
            candidates = fresh
            fresh = []
            if len(candidates) > 1:
                candidates.sort(key=task_of)
            count = len(candidates)
            for index in range(count):
                node = <Node> candidates[index]
                if not self.may_follow(node, number):
                    continue
                if node.run.function is not function:
                    function = node.run.function
                    known = estimate(function)
                    is_known = known is not None
                    each = known if is_known else seconds
                if seconds <= 0.0 or room <= 0:
                    self.deferred.setdefault(number, []).extend(candidates[index:])
                    break
                seconds -= each
                room -= 1
                self.waiting -= 1
                if found and (<list> found[len(found) - 1])[0] is node.run and (
                        (<list> found[len(found) - 1])[2] == node.index):
                    (<list> found[len(found) - 1])[2] = node.index + 1
                else:
                    found.append([node.run, node.index, node.index + 1])
                self.dispatch_node(number, node, fresh)
        return [piece(run, start, stop) for run, start, stop in found]

    cdef dispatch(self, int64_t number, run, list fresh):
        cdef Node node
        cdef uint64_t task
        for task in range(run.first_task, run.first_task + run.count):
            node = self.find(run.session, task)
            if node is not None and node.state == READY:
                self.dispatch_node(number, node, fresh)

    cdef dispatch_node(self, int64_t number, Node node, list fresh):
        cdef Node dependant
        node.state = DISPATCHED
        node.at = number
        if node.dependants is not None:
            for dependant in node.dependants:
                dependant.open -= 1
                if dependant.open == 0 and dependant.state == WAITING:
                    fresh.append(dependant)

    cdef bint may_follow(self, Node node, int64_t number):
        cdef Node source
        if node.state != WAITING or node.lacks_objects:
            return False
        for source in node.inputs:
            if source.state != DONE and (source.state != DISPATCHED or source.at != number):
                return False
        return True

    def values(self, list runs):
        """The values that a worker process needs for ``runs``: (result runs with small values, keys of large ones)."""
        cdef dict builders = {}
        cdef dict seen = {}
        cdef list large = []
        cdef Node node, source
        cdef uint64_t task
        for run in runs:
            if not run.has_references or not run.options.graph:
                continue
            for task in range(run.first_task, run.first_task + run.count):
                node = self.find(run.session, task)
                if node is None or node.inputs is None:
                    continue
                for source in node.inputs:
                    if source.state != DONE or source in seen:
                        continue
                    seen[source] = True
                    if source.is_large:
                        large.append(ObjectKey(source.session, source.task))
                    elif source.value is not None:
                        builder = builders.get(source.session)
                        if builder is None:
                            builder = builders[source.session] = ResultRunBuilder(source.session)
                        builder.append(source.task, source.attempt, 0, source.value, 0, 0, 0)
        return [builder.build() for builder in builders.values()], large

    # ---- how tasks end -------------------------------------------------------------------------------------------

    def harvested(self, list kept):
        """Rows (run, task, status, payload) of nodes that processes finished. Returns runs that may be queued and
        (session, task, attempt) of nodes that cannot run here, because an input of theirs failed."""
        cdef list woken = [], back = []
        cdef Node node
        for run, task, status, payload in kept:
            node = self.find(run.session, task)
            if node is None or node.attempt != <uint32_t> run.attempt:
                continue
            if status <= SUCCESS_LARGE:
                self.finish(node, payload, status == SUCCESS_LARGE, woken)
            else:
                self.remove(node, back)
        if len(woken) > 1:
            woken.sort(key=task_of)
        return self.made_ready(woken), back

    def arrived(self, key):
        """A value that was fetched is in the store; the runs that may be queued. None: no node waits for it."""
        cdef Node node = self.find(key[0], key[1])
        cdef list woken = []
        if node is None or node.state != FETCHING:
            return None
        self.finish(node, None, True, woken)
        woken.sort(key=task_of)
        return self.made_ready(woken)

    cdef finish(self, Node node, payload, bint is_large, list woken):
        cdef Node dependant
        cdef bint was_open = node.state != DISPATCHED
        if node.state == WAITING:  # it came again while its first run was at a worker process
            self.waiting -= 1
        node.state = DONE
        node.is_large = is_large
        node.value = payload
        node.run = None
        node.inputs = None
        if node.dependants is None:
            return
        for dependant in node.dependants:
            dependant.pending -= 1
            if was_open:
                dependant.open -= 1
            if dependant.pending == 0 and dependant.state == WAITING:
                woken.append(dependant)
        node.dependants = None

    cdef remove(self, Node node, list back):
        """Its attempt here ended without a value. Nodes that wait here for it cannot run and are added to ``back``."""
        cdef list stack = [node]
        cdef Node dependant
        cdef dict table = self.tables.get(node.session)
        while stack:
            node = <Node> stack.pop()
            if node.state == WAITING:
                self.waiting -= 1
            node.state = GONE
            if table is not None and table.get(node.task) is node:
                del table[node.task]
                if not table:
                    del self.tables[node.session]
            for dependant in node.dependants or ():
                if dependant.state == WAITING:
                    stack.append(dependant)
                    back.append((dependant.session, dependant.task, dependant.attempt))
            node.inputs = node.dependants = None

    def gone(self, bytes session, tasks):
        """These ended without a value, or left this host. Returns what waited here for them, which must leave too."""
        cdef list back = []
        cdef Node node
        for task in tasks:
            node = self.find(session, task)
            if node is not None and node.state != DONE:
                self.remove(node, back)
        return back

    def missing(self, key):
        """See nodes.pyi."""
        cdef list back = []
        cdef Node node = self.find(key.owner, key.number)
        if node is not None and node.state == FETCHING:
            self.remove(node, back)
        return back

    def put_back(self, run):
        """A worker process gave these back unstarted: (runs to be queued, what cannot run here any more)."""
        cdef list nodes = [], back = []
        cdef Node node, dependant, source
        cdef uint64_t task
        cdef bint is_stranded
        for task in range(run.first_task, run.first_task + run.count):
            node = self.find(run.session, task)
            if node is None or node.state != DISPATCHED:
                continue
            node.state = WAITING
            node.at = -1
            self.waiting += 1
            is_stranded = False
            for source in node.inputs or ():
                is_stranded = is_stranded or source.state == GONE
            for dependant in node.dependants or ():
                dependant.open += 1
            if is_stranded:
                back.append((node.session, node.task, node.attempt))
                self.remove(node, back)
            else:
                nodes.append(node)
        return self.made_ready(nodes), back

    def cancel(self, bytes session, tasks, attempts):
        """Stop what waits, free what is held. Returns (tasks and attempts that waited, tasks and attempts that are
        somewhere else, keys of large values that are free, what waited for the cancelled ones and must leave)."""
        cdef list waited = [], elsewhere = [], large = [], back = [], ended = []
        cdef dict table = self.tables.get(session)
        cdef Node node
        for task, attempt in zip(tasks, attempts):
            node = None if table is None else table.get(task)
            if node is None:
                elsewhere.append((task, attempt))
            elif node.state == FETCHING:
                large.append(ObjectKey(node.session, node.task))
                ended.append(node)
            elif node.state == DONE:
                if not attempt or node.is_copy or node.attempt == <uint32_t> attempt:
                    self.release(table, node, large)
            elif attempt and node.attempt != <uint32_t> attempt:
                continue
            elif node.state == WAITING and not node.lacks_objects:
                waited.append((node.task, node.attempt))
                ended.append(node)
            else:
                elsewhere.append((task, attempt))
        if table is not None and not table:
            self.tables.pop(session, None)
        for node in ended:
            if node.state != GONE:
                self.remove(node, back)
        named = set(waited)
        return waited, elsewhere, large, [each for each in back if (each[1], each[2]) not in named]

    cdef release(self, dict table, Node node, list large):
        if node.is_large:
            large.append(ObjectKey(node.session, node.task))
        node.state = FREED
        node.value = None
        node.dependants = None
        del table[node.task]

    # ---- reports -------------------------------------------------------------------------------------------------

    def value(self, key):
        """A small value, or None."""
        cdef Node node = self.find(key[0], key[1])
        return node.value if node is not None and node.state == DONE and not node.is_large else None

    def waiting_tasks(self):
        """(session, task, attempt) of all that waits for values."""
        cdef Node node
        return [
            (node.session, node.task, node.attempt)
            for table in self.tables.values()
            for node in (<dict> table).values()
            if node.state == WAITING
        ]

    def take_waiting(self):
        """All that waits for values leaves; (session, task, attempt) of each."""
        cdef list found = self.waiting_tasks()
        cdef Node node
        for session, task, _ in found:
            node = self.find(session, task)
            if node is not None:
                self.remove(node, [])
        return found

    def held_runs(self):
        """A row for every value held here: without payload, or for a large one with what stands for it."""
        cdef list runs = []
        cdef Node node
        for session, table in self.tables.items():
            rows = [
                (node.task, node.attempt, SUCCESS_LARGE, node.value or UNKNOWN_SIZE, 0, 0, 0)
                if node.is_large else (node.task, node.attempt, SUCCESS, b"", 0, 0, 0)
                for node in (<dict> table).values()
                if node.state == DONE
            ]
            if rows:
                runs.append(ResultRun(session, rows))
        return runs

    def wrong_counts(self):
        cdef Node node
        cdef int pending = 0, still_open = 0
        cdef list wrong = []
        cdef list waiting = self.nodes_in(WAITING)
        for node in waiting + self.nodes_in(READY):
            count_inputs(node, &pending, &still_open)
            if node.pending != pending or node.open != still_open:
                noted = f"{node.pending} inputs ({node.open})"
                wrong.append(f"node {node.task} waits for {noted}, {pending} ({still_open}) counted")
            if node.state == WAITING and pending == 0:
                wrong.append(f"node {node.task} waits, but nothing is missing")
        if self.waiting != len(waiting):
            wrong.append(f"{self.waiting} nodes wait, {len(waiting)} counted")
        return wrong

    def correct_counts(self):
        cdef Node node
        cdef list wrong = self.wrong_counts()
        if not wrong:
            return wrong, []
        cdef list waiting = self.nodes_in(WAITING)
        for node in waiting + self.nodes_in(READY):
            count_inputs(node, &node.pending, &node.open)
        self.waiting = len(waiting)
        return wrong, self.made_ready([node for node in waiting if (<Node> node).pending == 0])

    cdef list nodes_in(self, int state):
        nodes = [each for table in self.tables.values() for each in (<dict> table).values()]
        return [each for each in nodes if (<Node> each).state == state]

    def check(self):
        cdef Node node, source
        wrong = self.wrong_counts()
        assert not wrong, wrong
        for table in self.tables.values():
            assert table
            for task, each in (<dict> table).items():
                node = each
                assert node.task == task and node.state != GONE, (task, node.state)
                if node.state == WAITING or node.state == READY:
                    for source in node.inputs or ():
                        assert source.state != GONE, task


def task_of(Node node):
    return node.task


cdef piece(run, int64_t start, int64_t stop):
    return run if start == 0 and stop == run.count else run.slice(start, stop)
