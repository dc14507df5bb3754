# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The loop that runs tasks: claim, load, call, write the result. Everything here is paid once per task.

Calls of an actor that runs several at a time are claimed in order by threads, which run them. The threads share the runner
under a lock, ``using``, which they release while they run user code. Meanwhile the main thread waits for what only it does:
it handles signals, reads messages, and tells the agent of results behind which calls have started that take long. A call is
interrupted by an exception that is set for its thread. If it is still pending when the call has ended, ``meet_interruption``
raises it before other bytecode runs, so it cannot reach another call.
"""

import os
import pickle
import threading
import types
from collections import deque
from functools import partial
from pickle import loads
from queue import Empty, SimpleQueue
from sys import getallocatedblocks
from time import thread_time_ns

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport PyObject, Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen
from scaler_worker.board cimport Board, Parts, Printed
from scaler_worker.worker_process.clock cimport monotonic_ns, process_cpu_ns
from scaler_worker.worker_process.printed cimport (
    OutputDescriptors,
    mark_printed,
    scaler_buffer_lines,
    scaler_flush_stdout,
    take_printed,
)

from scaler_protocol.limits import ACTOR_CONCURRENCY_LIMIT
from scaler_protocol.messages import INLINE_LIMIT_BYTES, PRIVATE_UPLOAD_NUMBER, ObjectKey
from scaler_protocol.objects.errors import StoreFull
from scaler_protocol.objects.layout import load, load_read_only
from scaler_protocol.task_phases import TaskPhases, waits_before
from scaler_worker.worker_process.actor_instance import make_actor, method_of
from scaler_worker.worker_process.call_threads import CallThreads, meet_interruption
from scaler_worker.worker_process.cpython_internals import frame_of
from scaler_worker.worker_process.errors import (
    EnvironmentUnusableError,
    ObjectMissingError,
    TaskCancelled,
    exception_payload,
    unsendable_result,
)
from scaler_worker.worker_process.import_guard import is_importing
from scaler_worker.worker_process.kept_values import KeptValues
from scaler_worker.worker_process.loaded_objects import LoadedObjects, is_immutable
from scaler_worker.worker_process.serialization import NONE_BYTES, dumps

cdef extern from "stdlib.h":
    int putenv(char* string) nogil

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()
    int PyThreadState_SetAsyncExc(unsigned long thread, PyObject* exception)

cdef enum:
    SUCCESS = 0
    SUCCESS_LARGE = 1
    EXCEPTION = 2
    CANCELLED = 4
    DESERIALIZE_FAILED = 8
    OBJECT_MISSING = 10
    NO_WORKER = 11

cdef enum:
    CELL_DISPATCHED = 0

cdef enum:
    LOADING = 0
    CALLING = 1
    STORING = 2

cdef uint64_t NOTIFY_NS = 5_000_000
"""Finished results stay unmentioned no longer than this, unless a task runs for longer. Each message with results costs
all processes on its way as much time as hundreds of short tasks."""

cdef uint64_t CPU_TIME_FROM_NS = 20_000
"""The processor time of a shorter task is taken to be its duration: asking the kernel would cost more."""

cdef uint64_t PRINTED_FROM_NS = 2_000
"""A shorter task that has not used Python's streams has printed nothing: that takes as long. To ask the kernel would cost
more than the task."""

cdef uint64_t PART_FROM_NS = 20_000
"""A shorter part of a task counts as running: to report it would cost more than it says."""

cdef Py_ssize_t QUICK_BYTES = 4096
"""Maximum size of a text that takes no measurable time to serialize."""

cdef uint64_t MEMORY_PEAK_FROM_NS = 2_000_000
"""A shorter task has used little memory: a page takes its time. To reset the peak takes about ten microseconds."""

cdef uint64_t LARGE_BYTES = INLINE_LIMIT_BYTES
cdef Py_ssize_t COUNTED_FROM_BYTES = 1024 * 1024  # to count memory blocks takes longer than to load a small object
cdef uint64_t PRIVATE_NUMBER = PRIVATE_UPLOAD_NUMBER
cdef bytes NONE_PAYLOAD = NONE_BYTES
cdef object plain_dumps = pickle.dumps
cdef object GENERATOR = types.GeneratorType

# "SCALER_PARENT=" 32 hex digits ":" up to 20 digits ":" up to 10 digits ":" up to 10 digits NUL; the C environment points at it
cdef char parent_variable[128]
memcpy(parent_variable, b"SCALER_PARENT=", 15)


def install_parent_variable():
    """Put the buffer into the C environment."""
    putenv(parent_variable)


cdef dict _parents = {}  # by thread, of the calls that run in threads


def read_parent_variable():
    if _parents:  # a thread that a call has started counts as one of the oldest call
        return _parents.get(PyThread_get_thread_ident()) or next(iter(_parents.values()))
    return <bytes>(parent_variable + 14)


cdef void _write_parent(bytes prefix, uint64_t task, bytes suffix) noexcept:
    cdef char digits[24]
    cdef int at = 24
    cdef char* end
    while True:
        at -= 1
        digits[at] = 48 + <char>(task % 10)
        task = task // 10
        if task == 0:
            break
    end = parent_variable + 14
    memcpy(end, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
    end += PyBytes_GET_SIZE(prefix)
    memcpy(end, digits + at, 24 - at)
    end += 24 - at
    memcpy(end, PyBytes_AS_STRING(suffix), PyBytes_GET_SIZE(suffix) + 1)


cdef inline uint32_t part_us(uint64_t nanoseconds) noexcept:
    """0: it is too short to be reported."""
    if nanoseconds < PART_FROM_NS:
        return 0
    return <uint32_t> min(nanoseconds // 1000, <uint64_t> 0xFFFFFFFF)


@cython.final
cdef class RunUnderWay:
    """The data that the tasks of one run share, and the values of the running task."""

    cdef object run
    cdef RunUnderWay whole  # of a call that runs in a thread: its run; else None
    cdef bytes session
    cdef bytes prefix  # of SCALER_PARENT, before and after the number of the task
    cdef bytes suffix
    cdef tuple names  # the digests of function and serializer
    cdef object function  # None: it is not loaded yet
    cdef object serializer
    cdef object failure  # to load the function
    cdef object trace
    cdef object slots  # the arguments of a task, serialized
    cdef uint64_t first_task
    cdef tuple keywords
    cdef Py_ssize_t positional
    cdef bint is_plain  # positional arguments of the default serializer, and no references
    cdef bint is_node
    cdef bint shares  # values may pass from node to node without being serialized
    cdef bint is_profiled
    cdef bint is_measured
    cdef bint streams
    cdef bint reads_ahead  # calls of an actor with references: their inputs are read before they are claimed

    cdef uint64_t index
    cdef uint64_t sequence
    cdef unsigned long thread  # 0: the main thread
    cdef int stage
    cdef uint8_t status
    cdef bint is_kept
    cdef tuple arguments
    cdef dict named
    cdef list inputs  # results of other tasks that were read ahead, the last one first
    cdef object result
    cdef uint64_t started
    cdef uint64_t fetching
    cdef uint64_t loaded  # when the arguments were there; 0: not measured
    cdef uint64_t called  # when the function had returned; 0: not measured
    cdef uint64_t keeping  # a large result, after the end of the call
    cdef uint64_t ended
    cdef uint64_t duration
    cdef uint64_t cpu
    cdef uint64_t peak
    cdef bint prints
    cdef Printed printed

    def __init__(self, run):
        options = run.options
        self.run, self.session, self.first_task = run, run.session, run.first_task
        self.prefix = self.session.hex().encode() + b":"
        self.suffix = f":{run.attempt}:{options.depth}".encode()
        self.names = (run.function, run.serializer)
        self.keywords = run.keywords
        self.positional = run.arity - len(self.keywords)
        self.slots = run.slots if run.has_references else run.slot_bytes
        self.is_plain = not self.keywords and not run.serializer and not run.has_references
        self.is_node = options.graph != 0
        self.shares = self.is_node and options.shares_values and not run.serializer
        self.is_profiled, self.streams = options.profiling, options.stream_output
        self.is_measured = self.is_profiled or options.memory_bytes
        self.reads_ahead = options.actor != 0 and run.has_references

    cdef inline uint64_t task(self) noexcept:
        return self.first_task + self.index

    cdef RunUnderWay next_call(self):
        """Its next call, which has its own values and shares the function, once that is loaded."""
        cdef RunUnderWay call = RunUnderWay.__new__(RunUnderWay)
        call.whole, call.index = self, self.index
        self.index += 1
        call.run, call.session, call.first_task = self.run, self.session, self.first_task
        call.prefix, call.suffix, call.names = self.prefix, self.suffix, self.names
        call.keywords, call.positional, call.slots = self.keywords, self.positional, self.slots
        call.is_plain, call.is_node = self.is_plain, self.is_node
        call.function, call.serializer = self.function, self.serializer
        call.inputs, self.inputs = self.inputs, None
        return call

    cdef bint take_parts(self, Parts* parts) noexcept:
        """Take the parts of the duration besides running. False: nothing that is worth reporting."""
        if self.loaded == 0 and self.called == 0 and self.keeping == 0:
            return False
        cdef uint64_t loading = self.loaded - self.started if self.loaded > self.started else 0
        cdef uint64_t storing = self.ended - self.called if self.called and self.ended > self.called else self.keeping
        loading = loading - self.fetching if loading > self.fetching else 0
        if max(loading, storing, self.fetching) < PART_FROM_NS:
            return False
        parts.fetching_us = part_us(self.fetching)
        parts.loading_us = part_us(loading)
        parts.storing_us = part_us(storing)
        parts.unused = 0
        return True


cdef class Runner:
    """Runs dispatched tasks in order. ``host`` does what needs the outside: ``function(run)``, ``serializer(run)``,
    ``object(key)`` (memory of an object, for one task), ``shared_object(key)``, ``notify()``, ``keep_large(key, sequence, payload)``, ``wait(seconds)``,
    ``flush_output()``, ``memory_peak(reset)``, ``unmap_unused()``,
    ``restore_environment()``, ``send_warnings(sequence)``, ``stream_output(whether)`` (of the tasks that follow, to their client), ``advise(error)`` (a note on a failure),
    ``use_modules(run)`` (which its client has sent), ``report_error(text)`` (the exception that is being handled, which
    belongs to no task), ``show_function(name)`` (to people who look at processes), ``is_shielded(thread)`` (from
    interrupts)."""

    cdef readonly Board board
    cdef object host
    cdef uint64_t sequence
    cdef uint64_t notified_ns
    cdef uint64_t cpu_ns
    cdef uint64_t wall_since_cpu_ns
    cdef bint untold
    cdef dict own_values
    cdef dict own_sequences
    cdef dict received_values
    cdef dict _functions  # (function, serializer) by the digests of both
    cdef readonly object kept
    cdef readonly object loaded
    cdef readonly object using  # the lock of the threads that share this
    cdef object threads  # for the calls of an actor that runs several at a time; None: there are none
    cdef dict _calls  # threads, by the sequences of the calls that may be interrupted
    cdef set _interrupted  # threads for which an exception was set while they ran the call that they run
    cdef object _unclaimed  # runs of calls for the threads, each with the index of its next call
    cdef object _summons  # an item ends the rest of the main thread
    cdef bint _rests  # the main thread waits for a summons
    cdef public bint forked
    cdef bint environment_changed
    cdef bint has_warned
    cdef bint has_printed
    cdef bint streams  # the output of the tasks of the current run goes to their client
    cdef OutputDescriptors output
    cdef object environ
    cdef public object actor  # the instance to which this process is dedicated
    cdef RunUnderWay _current
    cdef object _watcher  # of the phases of the task under way; None: there is none
    cdef bytes _modules  # the serializer of the last run, which names the modules that are importable
    cdef uint64_t _lacking_since  # since when the next call lacks an input; 0: it does not
    cdef public uint64_t patience_ns  # how long a call waits for the agent to learn that its input is lost

    def __init__(self, Board board, host, uint64_t loaded_limit_bytes=0):
        self.board = board
        self.host = host
        self.notified_ns = monotonic_ns()
        self.own_values = {}
        self.own_sequences = {}
        self.received_values = {}
        self._functions = {}
        self.kept = KeptValues()
        self.loaded = LoadedObjects(loaded_limit_bytes)
        self.using = threading.Lock()
        self._calls, self._interrupted = {}, set()
        self._unclaimed = deque()
        self._summons = SimpleQueue()
        self.environ = os.environ
        self._modules = b""
        self.patience_ns = 5_000_000_000  # the agent usually needs milliseconds
        self.output.stdout = self.output.stderr = self.output.unread = -1

    def watch_output(self, int stdout, int stderr, int unread):
        """Note from now on which task has printed. ``stdout`` and ``stderr`` are the writing ends of pipes, ``unread``
        an epoll descriptor that contains the reading ends."""
        self.output.stdout, self.output.stderr, self.output.unread = stdout, stderr, unread
        scaler_buffer_lines()  # not whole blocks, as C does where stdout is not a terminal

    def watch_phases(self, function, when_stored):
        """Answer ``task_phases.watch``. Calls that run in threads are not watched."""
        cdef RunUnderWay current = self._current
        if current is None or current.stage != CALLING or current.function is not function or _parents:
            return None
        self._watcher = when_stored
        submitted, ready = waits_before(current.started, current.run.options, current.run.attempt)
        return TaskPhases(submitted, ready, current.started, current.fetching, max(current.started, current.loaded))

    def note_environment(self):
        """Note that the environment that tasks need was, or may have been, changed."""
        self.environment_changed = True

    def note_warning(self):
        """The task under way has raised a warning: it goes to the client."""
        self.has_warned = True

    def note_printed(self):
        """The task under way has written to one of Python's streams."""
        self.has_printed = True

    def forget_values(self, uint64_t watermark):
        """A new dispatch: its nodes need no value of a task whose sequence is below ``watermark``."""
        self.received_values.clear()
        cdef list old = []
        for key, sequence in self.own_sequences.items():
            if <uint64_t> sequence >= watermark:
                break
            old.append(key)
        for key in old:
            del self.own_sequences[key]
            del self.own_values[key]

    def forget_function(self, bytes digest):
        """A function or a serializer is needed no more."""
        if digest == self._modules:
            self._modules = b""
        self._functions = {names: pair for names, pair in self._functions.items() if digest not in names}

    def take_values(self, list runs):
        """Values of nodes, made elsewhere."""
        for run in runs:
            session = run.session
            for index in range(run.count):
                self.received_values[session, run.task(index)] = run.payload_copy(index)

    def run_tasks(self, list runs):
        """Run all that was not withdrawn; what it finished is told at the latest 5 ms later or when a task ends."""
        if self.threads is not None:
            self._start_calls(runs)
            return
        for run in runs:
            self._run(run)

    cdef _run(self, run):
        cdef RunUnderWay current = RunUnderWay(run)
        cdef uint64_t index, count = run.count
        self.host.show_function(run.function_name, run.session)
        if current.streams != self.streams:
            self.streams = current.streams
            self.host.stream_output(self.streams)
        self.cpu_ns = process_cpu_ns()
        self.wall_since_cpu_ns = 0
        if os.environ is not self.environ:
            self._restore_environment()
        self._current = current
        for index in range(count):
            current.index = index
            if self._claim(current):
                self._run_one(current)
        self._current = None

    cdef bint _claim(self, RunUnderWay current) except -1:
        """False: the agent has taken this task back."""
        while current.reads_ahead and not self._read_ahead(current):
            self._wait_for_agent()
        if self.board.lease_ended(monotonic_ns()):
            self._wait_for_lease()
        return self._claim_next(current)

    cdef bint _claim_next(self, RunUnderWay current) except -1:
        current.sequence = self.sequence
        self.sequence += 1
        return self.board.claim(current.sequence)

    cdef bint _read_ahead(self, RunUnderWay current) except -1:
        """Read the results of other tasks that the next call needs. False: one of them is missing. If it is lost with
        the host's store, the agent takes the call back, because it is not claimed, and repeats it when the result was
        made again."""
        current.inputs = None
        if self.board.cell(self.sequence) == CELL_DISPATCHED:
            try:
                current.inputs = self._inputs(current)
            except ObjectMissingError:
                return self._has_lacked_for_long()
            except Exception:
                pass  # the call fails with it when it loads its arguments
        self._lacking_since = 0
        return True

    cdef list _inputs(self, RunUnderWay current):
        cdef list inputs = []
        for slot in current.slots(current.index):
            if type(slot) is ObjectKey and not slot[1] >> 63:
                inputs.append(self._object(current, slot))
        inputs.reverse()
        return inputs

    cdef bint _has_lacked_for_long(self) except -1:
        """True: the agent knows of no loss, so the call may fail."""
        cdef uint64_t now = monotonic_ns()
        if self._lacking_since == 0:
            self._lacking_since = now
        if now - self._lacking_since < self.patience_ns:
            return False
        self._lacking_since = 0
        return True

    cdef _wait_for_agent(self):
        self.tell()
        self.host.wait(0.01)

    cdef _run_one(self, RunUnderWay current):
        self._prepare(current)
        current.started = monotonic_ns()
        self.board.begin(current.sequence, current.started)  # from here on the task may be interrupted
        payload = self._execute(current)
        self.board.finish()  # from here on it may not
        if self.forked:
            self.host.leave_fork()
        current.ended = monotonic_ns()
        if not current.is_plain and self.loaded.has_news:
            self.loaded.settle()
        current.is_kept = (
            current.shares and current.status == SUCCESS
            and self.kept.add_array(ObjectKey(current.session, current.task()), current.result)
        )
        current.result = current.arguments = current.named = None
        self._account(current)
        current.prints = (current.duration >= PRINTED_FROM_NS or self.has_printed) and self._take_printed(current)
        self._store_result(current, payload)
        if current.prints:
            mark_printed(self.board, &current.printed)
        self.has_warned = False
        parent_variable[14] = 0
        if self._is_news(current.ended):
            self._notify(current.ended)
        if self._watcher is not None:
            self._tell_watcher(current)
        if current.duration >= MEMORY_PEAK_FROM_NS:
            self.host.memory_peak(True)  # if the next task dies, its certificate speaks of that task alone

    cdef _tell_watcher(self, RunUnderWay current):
        """Outside of the task: it takes none of its time, and what it prints or raises is not the task's."""
        watcher, self._watcher = self._watcher, None
        if self.untold:
            self._notify(current.ended)
        self._call_watcher(watcher, current)
        self._disown_printed()
        self.cpu_ns = process_cpu_ns()
        self.wall_since_cpu_ns = 0

    cdef _call_watcher(self, watcher, RunUnderWay current):
        cdef uint64_t called = current.called if current.called else current.ended - current.keeping
        try:
            watcher(called, current.ended)
        except Exception:
            self.host.report_error("A watcher of a task's phases failed.")

    cdef bint _take_printed(self, RunUnderWay current) except -1:
        if self.has_printed:
            self.has_printed = False
            self.host.flush_output()
        scaler_flush_stdout()
        return take_printed(self.board, &self.output, &current.printed)

    cdef _prepare(self, RunUnderWay current):
        """Everything that comes before the task's own time."""
        if self.environment_changed:
            self._restore_environment()
        _write_parent(current.prefix, current.task(), current.suffix)
        if current.is_measured:
            self.kept.clear()
            self.loaded.keep_only(() if current.is_plain else current.slots(current.index))
            self.host.unmap_unused()
        if current.is_profiled:
            self.host.memory_peak(True)

    cdef object _execute(self, RunUnderWay current):
        """Run the task. Returns the payload of its result and sets ``current.status``."""
        try:
            return self._call(current)
        except BaseException as error:
            return self._end_with(current, error)

    cdef object _end_with(self, RunUnderWay current, error):
        """The task has raised this. Returns its payload and sets its status."""
        if self._is_interrupted(current):  # whatever user code has made of that
            current.status = CANCELLED
            return b""
        if isinstance(error, TaskCancelled):
            if current.is_node and current.stage == LOADING:
                current.status = CANCELLED
                return b""
            current.status, payload = _failure(error, _status_of(error, current.stage))  # user code has raised it
        elif isinstance(error, ObjectMissingError):
            current.status, payload = _failure(error, OBJECT_MISSING if current.stage == LOADING else EXCEPTION)
        elif isinstance(error, EnvironmentUnusableError):
            current.status, payload = _failure(error, NO_WORKER)
        else:
            payload = self._fail(current, error)
        return payload

    cdef bint _is_interrupted(self, RunUnderWay current) except -1:
        return self.board.is_ending(current.sequence) if current.thread else self.board.interrupted()

    cdef object _fail(self, RunUnderWay current, error):
        if current.function is None and current.failure is None:
            current.failure, current.trace = error, error.__traceback__
            self.host.advise(error)
        elif current.function is not None and current.stage != STORING:
            self.host.advise(error)
        if current.stage == STORING:
            name = current.run.function_name
            current.status, payload = _unsendable(error, name, current.result, current.serializer is None)
        else:
            current.status, payload = _failure(error, _status_of(error, current.stage))
        return payload

    cdef object _call(self, RunUnderWay current):
        """Load, call, serialize."""
        current.status, current.stage = SUCCESS, LOADING
        current.fetching = current.loaded = current.called = current.keeping = 0
        if current.function is None:
            self._load_function(current)
        if current.is_plain:
            current.arguments = _load_plain(current.slots(current.index))
            if not _are_quick(current.arguments):
                current.loaded = monotonic_ns()
            current.stage = CALLING
            current.result = current.function(*current.arguments)
        else:
            self._load(current, current.slots(current.index))
            current.loaded = monotonic_ns()
            current.stage = CALLING
            if current.named is None:
                current.result = current.function(*current.arguments)
            else:
                current.result = current.function(*current.arguments, **current.named)
        if not _is_quick(current.result):
            current.called = monotonic_ns()
        current.arguments = current.named = None
        current.stage = STORING
        if current.shares and type(current.result) is GENERATOR:  # Dask's functions may return one: it cannot be sent
            current.result = iter(list(current.result))
        if current.serializer is not None:
            return <bytes?> current.serializer.serialize(current.result)
        return _dump(current.result)

    cdef _load_function(self, RunUnderWay current):
        """Once per run. What fails once fails for every task of the run."""
        if current.failure is not None:
            raise current.failure.with_traceback(current.trace)
        if current.names[1] != self._modules:
            self.host.use_modules(current.run)
            self._modules = current.names[1]
        known = self._functions.get(current.names)
        if known is None:
            serializer = self.host.serializer(current.run)
            known = self.host.function(current.run), serializer
            self._functions[current.names] = known
            self.cpu_ns = process_cpu_ns()
            self.wall_since_cpu_ns = 0
            current.started = monotonic_ns()
        current.function, current.serializer = known
        if current.run.options.actor:
            current.function = method_of(self.actor, known[0])
        elif current.run.options.hosts_actor:
            current.function = partial(make_actor, self, known[0])
            count = min(current.run.options.max_concurrency, ACTOR_CONCURRENCY_LIMIT)
            self.threads = CallThreads(count, self.using, self._take_call, self._run_call) if count > 1 else None

    cdef _account(self, RunUnderWay current):
        """Return how long the task took, and of what."""
        current.duration = current.ended - current.started
        current.cpu = current.duration
        if current.duration >= CPU_TIME_FROM_NS:
            current.cpu = self._cpu_time(current.duration)
        else:
            self.wall_since_cpu_ns += current.duration
        current.peak = self.host.memory_peak(False) if current.is_profiled else 0
        if self.has_warned:
            self.host.send_warnings(current.sequence)

    cdef _store_result(self, RunUnderWay current, payload):
        if current.status == SUCCESS and len(payload) > LARGE_BYTES:
            self._store_large(current, payload)
            return
        if current.is_node and current.status == SUCCESS:
            self._keep_own(current, payload)
        self._store(current, current.status, payload)

    cdef _restore_environment(self):
        self.environment_changed = False
        self.host.restore_environment()

    cdef bint _is_news(self, uint64_t now) noexcept:
        """Return whether the agent must be told of results: it was last told of some, or took some, too long ago."""
        return now > max(self.notified_ns, self.board.harvested_ns()) + NOTIFY_NS

    cdef _notify(self, uint64_t now):
        self.notified_ns = now
        self.untold = False
        self.host.notify()

    def tell(self):
        """Nothing is left to run: what the agent has not been told it is told now."""
        if self.untold:
            self._notify(monotonic_ns())

    def woken(self):
        """A wait for tasks is over. The text that was written meanwhile belongs to none of them."""
        self._disown_printed()
        self.notified_ns = monotonic_ns()

    cdef _disown_printed(self):
        cdef Printed printed
        if self.has_printed:
            self.has_printed = False
            self.host.flush_output()
        if take_printed(self.board, &self.output, &printed):
            mark_printed(self.board, &printed)

    cdef uint64_t _cpu_time(self, uint64_t duration):
        """Return the processor time since the last reading, without what short tasks used meanwhile."""
        cdef uint64_t now = process_cpu_ns()
        cdef uint64_t used = now - self.cpu_ns
        used = used - self.wall_since_cpu_ns if used > self.wall_since_cpu_ns else 0
        self.cpu_ns = now
        self.wall_since_cpu_ns = 0
        return used

    cdef _load(self, RunUnderWay current, list slots):
        """The arguments of a task that has references, keyword arguments or a serializer of its own."""
        cdef list values = []
        cdef object serializer = current.serializer
        for slot in slots:
            if type(slot) is not ObjectKey:
                values.append(loads(slot) if serializer is None else serializer.deserialize(bytes(slot)))
            elif slot[1] >> 63:
                values.append(self._uploaded(current, slot))
            else:
                values.append(self._value(current, slot))
        if current.keywords:
            current.named = dict(zip(current.keywords, values[current.positional:]))
            del values[current.positional:]
        current.arguments = tuple(values)

    cdef object _uploaded(self, RunUnderWay current, key):
        """An object from a client. Tasks share it if it was sent for that, or if it cannot be changed and is used more
        than once."""
        cdef object serializer = current.serializer
        cdef bint is_shared = <uint64_t> key[1] < PRIVATE_NUMBER
        cdef bint is_counted
        cdef uint64_t started
        known = self.loaded.find(key, current.names[1])
        if known is not None:
            return known.value
        started = monotonic_ns()
        data = self.host.shared_object(key) if is_shared else self.host.object(key)
        current.fetching += monotonic_ns() - started
        is_counted = len(data) >= COUNTED_FROM_BYTES
        blocks = getallocatedblocks() if is_counted else 0
        if serializer is not None:
            value = serializer.deserialize(bytes(data))
        else:
            value = load_read_only(data) if is_shared else load(data)
        if is_shared or (self.loaded.was_seen(key) and is_immutable(value)):
            blocks = getallocatedblocks() - blocks if is_counted else 0
            self.loaded.add(key, current.names[1], value, len(data), blocks)
        return value

    cdef object _value(self, RunUnderWay current, key):
        """The value of a graph's node, or of another task."""
        if current.shares:
            value = self.kept.array(key)
            if value is not None:
                return value
        cdef uint64_t started = monotonic_ns()
        data = current.inputs.pop() if current.inputs else self._object(current, key)
        current.fetching += monotonic_ns() - started
        return load(data) if current.serializer is None else current.serializer.deserialize(bytes(data))

    cdef object _object(self, RunUnderWay current, key):
        """A value that was made here, that came with the tasks, or that is in memory shared with the agent."""
        value = self.own_values.get(key)
        if value is None:
            value = self.received_values.get(key)
        if value is None:
            value = self.kept.copy(key)
        if value is None:
            try:
                value = self.host.object(key)
            except ObjectMissingError:
                if not current.is_node:
                    raise
                raise TaskCancelled("an input has failed") from None  # the agent gives this node back
        return value

    cdef _keep_own(self, RunUnderWay current, bytes payload):
        """Nodes that come right behind may need it."""
        named = (current.session, current.task())
        self.own_sequences.pop(named, None)
        self.own_sequences[named] = current.sequence
        self.own_values[named] = payload

    cdef _store_large(self, RunUnderWay current, payload):
        cdef bytes record, rest
        cdef uint64_t started
        key = ObjectKey(current.session, current.task())
        started = monotonic_ns()
        try:
            record, rest = self.host.keep_large(key, current.sequence, payload)
        except Exception as error:
            status, record = _failure(error, EXCEPTION)
            self._store(current, status, record)
            return
        if current.is_node and rest is not None:
            self._keep_own(current, rest)
        elif current.is_node and not current.is_kept:
            self.kept.add_copy(key, payload)
        current.keeping = monotonic_ns() - started
        current.duration += current.keeping
        current.ended += current.keeping
        self._store(current, SUCCESS_LARGE, record)

    cdef _store(self, RunUnderWay current, uint8_t status, bytes payload):
        """Write the result to the board."""
        cdef uint64_t size = PyBytes_GET_SIZE(payload)
        cdef Parts parts
        if not self.board.has_room(size):
            self._wait_for_room(size)
        self.board.append(
            current.sequence, status, PyBytes_AS_STRING(payload), size, current.duration, current.cpu, current.peak,
            current.ended, self.has_warned, &parts if current.take_parts(&parts) else NULL, &current.printed if current.prints else NULL,
        )
        self.untold = True

    cdef _wait_for_room(self, uint64_t size):
        """The agent is behind: tell it and wait."""
        self._notify(monotonic_ns())
        while not self.board.has_room(size):
            self.host.wait(0.0005)

    # ---- calls in threads ----------------------------------------------------------------------------------------

    cdef _start_calls(self, list runs):
        """Return when all calls have started or were withdrawn."""
        with self.using:
            self._unclaimed.extend([RunUnderWay(run) for run in runs])
        while self._rest():
            if self.board.lease_ended(monotonic_ns()):
                self._wait_for_lease()
            elif self._lacking_since:
                self._wait_for_agent()

    cdef bint _rest(self) except -1:
        """Let threads take calls until something needs the main thread. False: no call is left."""
        with self.using:
            if not self._unclaimed:
                return False
            self.threads.wake()
            self._rests = True
            timeout = NOTIFY_NS / 1e9 if self.untold else None
        try:
            self._summons.get(timeout=timeout)
        except Empty:
            with self.using:
                self.tell()
        self._rests = False
        return True

    cdef _summon(self):
        """Under the lock: let the main thread look."""
        if self._rests:
            self._rests = False
            self._summons.put(None)

    def _take_call(self):
        """Under the lock: claim the next call. None: there is none, or none may start now."""
        cdef RunUnderWay run, call
        while self._unclaimed and not self.board.lease_ended(monotonic_ns()):
            run = self._unclaimed[0]
            if run.reads_ahead and not self._read_ahead(run):
                break
            if run.index == 0:
                self.host.show_function(run.run.function_name, run.session)
            call = run.next_call()
            if run.index == <uint64_t> run.run.count:
                self._unclaimed.popleft()
            if self._claim_next(call):
                if self._unclaimed:
                    self.threads.wake()
                else:
                    self._summon()
                return call
        self._summon()
        return None

    def _run_call(self, RunUnderWay call):
        """Run a claimed call, in a thread."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef bytes payload_if_cancelled = b""
        call.thread, call.status, call.started = thread, CANCELLED, monotonic_ns()
        _parents[thread] = call.prefix + b"%d" % call.task() + call.suffix
        cpu = thread_time_ns()
        payload = payload_if_cancelled
        self._calls[call.sequence] = thread  # from here on it may be interrupted
        try:
            if not self.board.is_ending(call.sequence):
                payload = self._execute_call(call)
        except TaskCancelled:  # it has come while a failure was written down
            call.status, payload = CANCELLED, payload_if_cancelled
        del self._calls[call.sequence]  # from here on it may not
        if thread in self._interrupted:
            self._interrupted.remove(thread)
            try:
                meet_interruption()
            except TaskCancelled:
                pass
        if self.forked:
            self.host.leave_fork()
        call.ended, call.cpu = monotonic_ns(), thread_time_ns() - cpu
        call.duration = call.ended - call.started
        call.result = call.arguments = call.named = None
        del _parents[thread]
        with self.using:
            self._end_call(call, payload)

    cdef object _execute_call(self, RunUnderWay call):
        try:
            return self._call_in_thread(call)
        except BaseException as error:
            return self._end_with(call, error)

    cdef object _call_in_thread(self, RunUnderWay call):
        """Like ``_call``."""
        call.status, call.stage = SUCCESS, LOADING
        with self.using:
            if self.environment_changed or os.environ is not self.environ:
                self._restore_environment()
            if call.function is None or call.names[1] != self._modules:
                self._load_function(call)
                call.whole.function, call.whole.serializer = call.function, call.serializer
            if not call.is_plain:
                self._load(call, call.slots(call.index))
        if call.is_plain:
            call.arguments = _load_plain(call.slots(call.index))
        call.loaded = monotonic_ns()
        call.stage = CALLING
        call.result = call.function(*call.arguments, **(call.named or {}))
        call.called = monotonic_ns()
        call.arguments = call.named = None
        call.stage = STORING
        return _dump(call.result) if call.serializer is None else <bytes?> call.serializer.serialize(call.result)

    cdef _end_call(self, RunUnderWay call, payload):
        if self.loaded.has_news:
            self.loaded.settle()
        if self.has_warned:
            self.host.send_warnings(call.sequence)
        was_untold = self.untold
        self._store_result(call, payload)
        self.has_warned = False
        if not self._unclaimed or self._is_news(call.ended):
            self._notify(call.ended)
        elif not was_untold:
            self._summon()

    def interrupt_calls(self):
        """Interrupt the calls that the agent wants ended. Returns whether to try again, because one of them imports a
        module, or has the modules of its client put in place."""
        cdef bint is_delayed = False
        for sequence, thread in list(self._calls.items()):
            if not self.board.is_ending(sequence):
                continue
            if is_importing(frame_of(thread)) or self.host.is_shielded(thread):
                is_delayed = True
            elif self._calls.get(sequence) == thread:  # it has not ended meanwhile
                self._interrupted.add(thread)
                PyThreadState_SetAsyncExc(thread, <PyObject*> TaskCancelled)
        return is_delayed

    cdef _wait_for_lease(self):
        """The agent has not heard the scheduler for a while: the tasks may already be another agent's."""
        self.tell()
        while self.board.lease_ended(monotonic_ns()):
            self.host.wait(0.01)


cdef tuple _load_plain(list slots):
    cdef Py_ssize_t count = len(slots), index
    cdef tuple arguments = PyTuple_New(count)
    cdef object value
    for index in range(count):
        value = None
        Py_INCREF(value)
        PyTuple_SET_ITEM(arguments, index, value)
    for index in range(count):
        value = loads(slots[index])
        Py_INCREF(value)
        PyTuple_SET_ITEM(arguments, index, value)
    return arguments


cdef inline bint _is_quick(object value):
    """Return whether loading it from its pickle, or pickling it, takes no measurable time."""
    cdef object kind
    if value is None:
        return True
    kind = type(value)
    if kind is int or kind is float or kind is bool:
        return True
    return (kind is str or kind is bytes) and len(value) <= QUICK_BYTES


cdef bint _are_quick(tuple values):
    for value in values:
        if not _is_quick(value):
            return False
    return True


cdef object _dump(object result):
    """Bytes, or a Layout of what is large."""
    cdef object kind
    if result is None:
        return NONE_PAYLOAD
    kind = type(result)
    if kind is int or kind is float or kind is str or kind is bytes or kind is bool:
        return plain_dumps(result, -1)
    return dumps(result)


cdef int _status_of(error, int stage):
    """Return the status. That this host has no room for an argument says nothing against the argument."""
    if stage == LOADING and not isinstance(error, StoreFull):
        return DESERIALIZE_FAILED
    return EXCEPTION


cdef _failure(error, int status):
    """Status and payload; a cancellation that arrives while the failure is written down is the agent's to repeat."""
    if status == OBJECT_MISSING or status == NO_WORKER:
        return status, str(error).encode(errors="replace")
    try:
        return exception_payload(error, status)
    except TaskCancelled:
        return CANCELLED, b""


cdef _unsendable(error, str function_name, result, bint is_default):
    """Like ``_failure``, for a result that could not be serialized."""
    try:
        return exception_payload(unsendable_result(error, function_name, result, is_default), EXCEPTION)
    except TaskCancelled:
        return CANCELLED, b""
