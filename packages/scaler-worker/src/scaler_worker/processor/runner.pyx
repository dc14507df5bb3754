# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The loop that runs tasks: claim, load, call, write the result. Everything here is paid once per task."""

import os
import pickle
import types
from pickle import loads

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen
from scaler_worker.board cimport Board, monotonic_ns, process_cpu_ns

from scaler_protocol.messages import INLINE_LIMIT_BYTES, ObjectKey
from scaler_protocol.objects.errors import StoreFull
from scaler_protocol.objects.layout import load
from scaler_worker.processor.errors import ObjectMissing, TaskCancelled, exception_payload, unsendable_result
from scaler_worker.processor.kept import KeptValues
from scaler_worker.processor.serialization import NONE_BYTES, dumps

cdef extern from "stdlib.h":
    int putenv(char* string) nogil

cdef enum:
    SUCCESS = 0
    SUCCESS_LARGE = 1
    EXCEPTION = 2
    CANCELLED = 4
    DESERIALIZE_FAILED = 8
    OBJECT_MISSING = 10

cdef enum:
    LOADING = 0
    CALLING = 1
    STORING = 2

cdef uint64_t NOTIFY_NS = 2_000_000
"""Finished results stay unmentioned no longer than this, unless a task runs for longer."""

cdef uint64_t CPU_TIME_FROM_NS = 20_000
"""The processor time of a shorter task is taken to be its duration: asking the kernel would cost more."""

cdef uint64_t LARGE_BYTES = INLINE_LIMIT_BYTES
cdef bytes NONE_PAYLOAD = NONE_BYTES
cdef object plain_dumps = pickle.dumps
cdef object GENERATOR = types.GeneratorType

# "SCALER_PARENT=" 32 hex digits ":" up to 20 digits ":" up to 10 digits ":" up to 10 digits NUL; the C environment points at it
cdef char parent_variable[128]
memcpy(parent_variable, b"SCALER_PARENT=", 15)


def install_parent_variable():
    """Put the buffer into the C environment."""
    putenv(parent_variable)


def read_parent_variable():
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


cdef class Runner:
    """Runs handed-over tasks in order. ``host`` does what needs the outside: ``function(run)``, ``serializer(run)``,
    ``object(key)`` (memory of an object), ``notify()``, ``keep_large(key, sequence, payload)``, ``wait(seconds)``,
    ``begin_output(run, sequence)`` and ``end_output()``, ``memory_peak(reset)``, ``unmap_unused()``,
    ``restore_environment()``, ``send_warnings(sequence)``."""

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
    cdef public bint forked
    cdef bint environment_changed
    cdef bint has_warned
    cdef object environ

    def __init__(self, Board board, host):
        self.board = board
        self.host = host
        self.notified_ns = monotonic_ns()
        self.own_values = {}
        self.own_sequences = {}
        self.received_values = {}
        self._functions = {}
        self.kept = KeptValues()
        self.environ = os.environ

    def note_environment(self):
        """What tasks need in it was changed, or may have been."""
        self.environment_changed = True

    def note_warning(self):
        """The task under way has raised a warning: it goes to the client."""
        self.has_warned = True

    def forget_values(self, uint64_t watermark):
        """A new hand-over: its nodes need no value of a task whose sequence is below ``watermark``."""
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
        self._functions = {names: pair for names, pair in self._functions.items() if digest not in names}

    def take_values(self, list runs):
        """Values of nodes, made elsewhere."""
        for run in runs:
            session = run.session
            for index in range(run.count):
                self.received_values[session, run.task(index)] = run.payload_copy(index)

    def run_tasks(self, list runs):
        """Run all that was not withdrawn; what it finished is told at the latest 2 ms later or when a task ends."""
        for run in runs:
            self._run(run)

    cdef _run(self, run):
        cdef Board board = self.board
        cdef uint64_t count = run.count
        cdef uint64_t index, sequence, started, ended, duration, cpu, peak
        cdef uint64_t first_task = run.first_task
        cdef tuple keywords = run.keywords
        cdef Py_ssize_t positional = run.arity - len(keywords)
        cdef bytes prefix = run.session.hex().encode() + b":"
        cdef bytes suffix = f":{run.attempt}:{run.options.depth}".encode()
        cdef object function = None, serializer = None, failure = None, trace = None, options = run.options
        cdef object result, named
        cdef tuple arguments
        cdef object slots = run.slots if run.has_references else run.slot_bytes
        cdef object host = self.host
        cdef bint profiling = options.profiling, output = options.stream_output
        cdef bint measured = profiling or options.memory_bytes
        cdef bint references = run.has_references
        cdef bint is_node = options.graph != 0
        cdef bint shares = is_node and options.shares_values and not run.serializer
        cdef bytes session = run.session
        cdef bint plain, is_kept
        cdef object payload
        cdef uint8_t status
        cdef int stage
        cdef tuple names = (run.function, run.serializer)
        cdef object known
        plain = not keywords and not run.serializer and not references
        self.cpu_ns = process_cpu_ns()
        self.wall_since_cpu_ns = 0
        if os.environ is not self.environ:
            self._restore_environment()
        for index in range(count):
            sequence = self.sequence
            self.sequence += 1
            if board.lease_ended(monotonic_ns()):
                self._wait_for_lease()
            if not board.claim(sequence):
                continue
            if self.environment_changed:
                self._restore_environment()
            _write_parent(prefix, first_task + index, suffix)
            if measured:
                self.kept.clear()
                host.unmap_unused()
            if profiling:
                host.memory_peak(True)
            if output:
                host.begin_output(run, sequence)
            stage = LOADING
            status = SUCCESS
            started = monotonic_ns()
            board.begin(sequence, started)  # from here on the task may be interrupted
            try:
                if function is None:
                    if failure is not None:
                        raise failure.with_traceback(trace)
                    known = self._functions.get(names)
                    if known is None:
                        serializer = host.serializer(run)
                        function = host.function(run)
                        self._functions[names] = function, serializer
                        self.cpu_ns = process_cpu_ns()
                        self.wall_since_cpu_ns = 0
                        started = monotonic_ns()
                    else:
                        function, serializer = known
                if plain:
                    arguments = _load_plain(slots(index))
                    stage = CALLING
                    result = function(*arguments)
                else:
                    arguments, named = self._load(slots(index), positional, keywords, serializer, shares)
                    stage = CALLING
                    result = function(*arguments) if named is None else function(*arguments, **named)
                arguments = named = None
                stage = STORING
                if shares and type(result) is GENERATOR:  # Dask's functions may give one: it cannot leave its process
                    result = iter(list(result))
                if serializer is not None:
                    payload = <bytes?> serializer.serialize(result)
                else:
                    payload = _dump(result)
            except TaskCancelled as error:
                if board.interrupted() or (is_node and stage == LOADING):
                    status, payload = CANCELLED, b""
                else:  # user code has raised it by itself: nobody cancelled anything
                    status, payload = _failure(error, _status_of(error, stage))
            except ObjectMissing as error:
                status, payload = _failure(error, OBJECT_MISSING if stage == LOADING else EXCEPTION)
            except BaseException as error:
                if function is None and failure is None:
                    failure, trace = error, error.__traceback__
                if stage == STORING:
                    status, payload = _unsendable(error, run.function_name, result, serializer is None)
                else:
                    status, payload = _failure(error, _status_of(error, stage))
            board.finish()  # from here on it may not
            if self.forked:
                host.leave_fork()
            ended = monotonic_ns()
            is_kept = (
                shares and status == SUCCESS and self.kept.add_array(ObjectKey(session, first_task + index), result)
            )
            result = arguments = named = None
            duration = ended - started
            cpu = duration
            if duration >= CPU_TIME_FROM_NS:
                cpu = self._cpu_time(duration)
            else:
                self.wall_since_cpu_ns += duration
            peak = host.memory_peak(False) if profiling else 0
            if output:
                host.end_output()
            if self.has_warned:
                host.send_warnings(sequence)
            if status == SUCCESS and len(payload) > LARGE_BYTES:
                self._store_large(run, index, sequence, payload, duration, cpu, peak, ended, is_node, is_kept)
                payload = None
            else:
                if is_node and status == SUCCESS:
                    self._keep_own(session, first_task + index, sequence, payload)
                self._store(sequence, status, payload, duration, cpu, peak, ended)
            self.has_warned = False
            parent_variable[14] = 0
            if ended - self.notified_ns > NOTIFY_NS:
                self._notify(ended)

    cdef _restore_environment(self):
        self.environment_changed = False
        self.host.restore_environment()

    cdef _notify(self, uint64_t now):
        self.notified_ns = now
        self.untold = False
        self.host.notify()

    def tell(self):
        """Nothing is left to run: what the agent has not been told it is told now."""
        if self.untold:
            self._notify(monotonic_ns())

    def woken(self):
        """A wait for tasks is over."""
        self.notified_ns = monotonic_ns()

    cdef uint64_t _cpu_time(self, uint64_t duration):
        """Since the last reading, without what short tasks used meanwhile."""
        cdef uint64_t now = process_cpu_ns()
        cdef uint64_t used = now - self.cpu_ns
        used = used - self.wall_since_cpu_ns if used > self.wall_since_cpu_ns else 0
        self.cpu_ns = now
        self.wall_since_cpu_ns = 0
        return used

    cdef tuple _load(self, list slots, Py_ssize_t positional, tuple keywords, object serializer, bint shares):
        cdef list values = []
        for slot in slots:
            if type(slot) is ObjectKey:
                if shares:
                    value = self.kept.array(slot)
                    if value is not None:
                        values.append(value)
                        continue
                slot = self._object(slot)
                values.append(load(slot) if serializer is None else serializer.deserialize(bytes(slot)))
            else:
                values.append(loads(slot) if serializer is None else serializer.deserialize(bytes(slot)))
        if not keywords:
            return tuple(values), None
        return tuple(values[:positional]), dict(zip(keywords, values[positional:]))

    cdef object _object(self, key):
        """A value that was made here, that came with the tasks, or that is in memory shared with the agent."""
        value = self.own_values.get(key)
        if value is None:
            value = self.received_values.get(key)
        if value is None:
            value = self.kept.copy(key)
        if value is None:
            try:
                value = self.host.object(key)
            except ObjectMissing:
                if key[1] >> 63:
                    raise
                raise TaskCancelled("an input has failed") from None  # the agent gives this task back
        return value

    cdef _keep_own(self, bytes session, uint64_t task, uint64_t sequence, bytes payload):
        """Nodes that come right behind may need it."""
        named = (session, task)
        self.own_sequences.pop(named, None)
        self.own_sequences[named] = sequence
        self.own_values[named] = payload

    cdef _store_large(self, run, uint64_t index, uint64_t sequence, payload, uint64_t duration, uint64_t cpu,
                      uint64_t peak, uint64_t ended, bint is_node, bint is_kept):
        cdef bytes record, rest
        key = ObjectKey(run.session, run.first_task + index)
        try:
            record, rest = self.host.keep_large(key, sequence, payload)
        except Exception as error:
            status, record = _failure(error, EXCEPTION)
            self._store(sequence, status, record, duration, cpu, peak, ended)
            return
        if is_node and rest is not None:
            self._keep_own(run.session, run.first_task + index, sequence, rest)
        elif is_node and not is_kept:
            self.kept.add_copy(key, payload)
        self._store(sequence, SUCCESS_LARGE, record, duration, cpu, peak, ended)

    cdef _store(
        self, uint64_t sequence, uint8_t status, bytes payload, uint64_t duration, uint64_t cpu, uint64_t peak,
        uint64_t ended,
    ):
        cdef uint64_t size = PyBytes_GET_SIZE(payload)
        if not self.board.has_room(size):
            self._wait_for_room(size)
        self.board.append(
            sequence, status, PyBytes_AS_STRING(payload), size, duration, cpu, peak, ended, self.has_warned
        )
        self.untold = True

    cdef _wait_for_room(self, uint64_t size):
        """The agent is behind: tell it and wait."""
        self._notify(monotonic_ns())
        while not self.board.has_room(size):
            self.host.wait(0.0005)

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
    """That this host has no room for an argument says nothing against the argument."""
    if stage == LOADING and not isinstance(error, StoreFull):
        return DESERIALIZE_FAILED
    return EXCEPTION


cdef _failure(error, int status):
    """Status and payload; a cancellation that arrives while the failure is written down is the agent's to repeat."""
    if status == OBJECT_MISSING:
        return status, str(error).encode(errors="replace")
    try:
        return exception_payload(error, status)
    except TaskCancelled:
        return CANCELLED, b""


cdef _unsendable(error, str function_name, result, bint is_default):
    """As ``_failure``, of a result that could not be serialized."""
    try:
        return exception_payload(unsendable_result(error, function_name, result, is_default), EXCEPTION)
    except TaskCancelled:
        return CANCELLED, b""
