"""A worker process: runs tasks one after another in its main thread, until its agent is gone."""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import gc
import importlib
import io
import mmap
import os
import pickle
import random
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from scaler_protocol.codec import decode
from scaler_protocol.ids import digest
from scaler_protocol.messages import FunctionDefinition, ObjectKey, Tasks
from scaler_protocol.objects.errors import MissingObject
from scaler_protocol.objects.host import HostStore
from scaler_protocol.objects.layout import ObjectLayout
from scaler_protocol.objects.proxies import is_private
from scaler_protocol.shipping.modules import ShippedModules
from scaler_protocol.task_phases import offer
from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.board import BOARD_BYTES, Board
from scaler_worker.worker_process import channel, context, missing_modules
from scaler_worker.worker_process.errors import ObjectMissingError, TaskCancelled
from scaler_worker.worker_process.import_guard import interrupt_later, is_importing
from scaler_worker.worker_process.module_sets import ModuleSets
from scaler_worker.worker_process.output import Shield, TaskOutput
from scaler_worker.worker_process.preparation import IDLE_SECONDS, is_prepared, prepare
from scaler_worker.worker_process.process_environment import ProcessEnvironment
from scaler_worker.worker_process.process_title import ProcessTitle
from scaler_worker.worker_process.runner import Runner, install_parent_variable, read_parent_variable
from scaler_worker.worker_process.sampler import Sampler
from scaler_worker.worker_process.serialization import allow_keys
from scaler_worker.worker_process.stack_file import offer_stacks
from scaler_worker.worker_process.task_warnings import TaskWarnings

_START_LOOK_SECONDS = 60.0


class WorkerProcessMain:
    """Between its agent's stream and the runner."""

    def __init__(
        self, connection: StreamConnection, board: Board, news_fd: int, options: channel.WorkerProcessOptions
    ) -> None:
        self._connection = connection
        self._news_fd = news_fd
        self._options = options
        self._runner = Runner(board, self, options.loaded_objects_limit_bytes)
        self.title = ProcessTitle(options.worker_name)
        self.show_function = self.title.show
        self._definitions: dict[bytes, FunctionDefinition] = {}
        self._serializers: dict[bytes, Any] = {}
        self._module_sets = ModuleSets()
        self._process_environment = ProcessEnvironment(options.worker_name)
        self._objects: dict[ObjectKey, memoryview] = {}
        self._cluster = b""
        self._store = HostStore(lambda: self._cluster, may_start=True)
        self._collect_at = time.monotonic() + options.collect_interval_seconds
        self._ran_since_collection = False
        self._prepared = is_prepared()
        variables = {
            context.AGENT_SOCKET_VARIABLE: options.agent_socket,
            context.SCHEDULER_ADDRESS_VARIABLE: options.scheduler_address,
            context.WORKER_NAME_VARIABLE: options.worker_name,
            context.SPILL_DIRECTORY_VARIABLE: options.spill_directory,
            **options.variables,
        }
        self._environment = context.TaskEnvironment(
            variables, install_parent_variable, read_parent_variable, self._runner.note_environment
        )
        offer(self._runner.watch_phases)
        self._warnings = TaskWarnings(self._runner.note_warning, options.echoes_warnings)
        self._output = TaskOutput(self._runner.note_printed)
        self.flush_output = self._output.flush
        self.interrupt_calls = self._runner.interrupt_calls
        self.shield = Shield()
        self.is_shielded = self.shield.covers
        self._handlers: dict[bytes, Callable[[list[bytes]], None]] = {
            channel.OBJECT: self._take_object,
            channel.VALUES: self._take_values,
            channel.STORE: self._join_store,
            channel.DROP: self._drop_objects,
        }

    # ---- the loop --------------------------------------------------------------------------------------------

    def watch_output(self, descriptors: tuple[int, int, int]) -> None:
        """Replace Python's streams, and note which task has printed, as the runner's method of this name."""
        self._output.install()
        self._runner.watch_output(*descriptors)

    def run(self) -> None:
        connection, runner, handlers = self._connection, self._runner, self._handlers
        self._warnings.begin()
        connection.send([channel.READY])
        while True:
            frames = connection.receive()
            if frames is None:
                runner.tell()
                frames = self._wait_for_message()
                runner.woken()
            handle = handlers.get(frames[0])
            if handle is None:
                self._run_tasks(decode(frames).body)
            else:
                handle(frames)
            if self._ran_since_collection and time.monotonic() >= self._collect_at:
                self._collect()

    def _wait_for_message(self) -> list[bytes]:
        connection, kept = self._connection, self._runner.kept
        self.title.show("")
        while not connection.eof:
            is_busy = kept.sizes or not self._prepared
            connection.wait(IDLE_SECONDS if is_busy else self._options.collect_interval_seconds)
            frames = connection.receive()
            if frames is not None:
                return frames
            with self._runner.using:
                kept.clear()
                if not is_busy:
                    self._runner.loaded.clear()
            if not self._prepared:
                self._prepared = True
                prepare()
            if self._ran_since_collection and time.monotonic() >= self._collect_at:
                self._collect()
        os._exit(0)

    def _join_store(self, frames: list[bytes]) -> None:
        self._cluster = frames[1]

    def _drop_objects(self, frames: list[bytes]) -> None:
        for frame in frames[1:]:
            self._drop(channel.unpack_key(frame))

    def _take_values(self, frames: list[bytes]) -> None:
        """Values that nodes of graphs in the next dispatch need, and the sequence below which none is needed; or more
        such values, without a number. Tasks may follow."""
        if frames[1]:
            self._runner.forget_values(channel.unpack_number(frames[1]))
        if frames[2]:
            self._runner.take_values(decode(frames[2:4]).body.runs)
        if len(frames) > 4:
            self._run_tasks(decode(frames[4:]).body)

    def _run_tasks(self, tasks: Tasks) -> None:
        for definition in tasks.functions:
            self._definitions[definition.digest] = definition
        for definition in tasks.serializers:
            self._definitions[definition.digest] = definition
        self._ran_since_collection = True
        self._runner.run_tasks(tasks.runs)

    # ---- what the runner asks for ----------------------------------------------------------------------------

    def function(self, run: Any) -> Callable[..., Any]:
        serializer = self.serializer(run)
        self._process_environment.close()
        data = self._definition_bytes(run.function)
        if digest(data) != run.function:  # whichever client sent it
            raise ObjectMissingError("The received function does not match its digest.")
        function: Callable[..., Any] = pickle.loads(data) if serializer is None else serializer.deserialize(bytes(data))
        self._objects.pop(ObjectKey(run.function, 0), None)
        return function

    def serializer(self, run: Any) -> Any:
        if not run.serializer:
            return None
        if run.serializer not in self._serializers:
            serializer = pickle.loads(self._definition_bytes(run.serializer))
            if isinstance(serializer, ShippedModules):
                serializer = self._add_modules(run, serializer)
            self._serializers[run.serializer] = serializer
        return self._serializers[run.serializer]

    def use_modules(self, run: Any) -> None:
        """Make the modules importable that the run's client has sent, in its environment."""
        with self.shield:
            self._module_sets.use(run.serializer)
        self.serializer(run)

    def _add_modules(self, run: Any, shipped: ShippedModules) -> Any:
        """Returns the client's serializer, which may be defined in one of the modules."""
        name = run.serializer
        with self.shield:
            if shipped.environment and not run.options.actor:  # a call runs in the environment of its actor
                self._process_environment.enter(shipped.environment)
            if name not in self._module_sets:
                self._module_sets.add(name, shipped)
            self._module_sets.use(name)
        self._objects.pop(ObjectKey(name, 0), None)
        return pickle.loads(shipped.serializer) if shipped.serializer else None

    def object(self, key: ObjectKey) -> memoryview:
        """Its bytes, for one task alone to change."""
        kept = self._objects.get(key)
        if kept is not None:
            return memoryview(bytearray(kept))
        try:
            return self._store.require(key)
        except MissingObject as error:
            raise ObjectMissingError(f"An argument that travels by reference is missing: {error}") from None

    def shared_object(self, key: ObjectKey) -> memoryview:
        """Its bytes, which no task may change."""
        kept = self._objects.get(key)
        return (self.object(key) if kept is None else kept).toreadonly()

    def unmap_unused(self) -> None:
        """Unmap objects kept for later tasks, so that they do not count as memory of the next task."""
        self._store.unmap_unused()

    def notify(self) -> None:
        if self._connection.wants_write:
            self._connection.flush()
        os.eventfd_write(self._news_fd, 1)

    def keep_large(self, key: ObjectKey, sequence: int, payload: bytes | ObjectLayout) -> tuple[bytes, bytes | None]:
        """The reference to a large result for its record, and its bytes if they are not in the host's store but on
        their way to the agent. Raises StoreFull."""
        place = self._store.put(key, payload)
        if place is not None:
            return channel.pack_number(place.size) + place.store, None
        data = payload if isinstance(payload, bytes) else payload.to_bytes()
        self._send_large(sequence, data)
        return channel.pack_number(len(data)), data

    def _send_large(self, sequence: int, data: bytes) -> None:
        fd = os.memfd_create("scaler-result", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(fd, "wb", buffering=0, closefd=False) as file:
                _write_all(file, data)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, channel.RESULT_SEALS)
            self._connection.send([channel.LARGE, channel.pack_number(sequence), channel.pack_number(len(data))], [fd])
        finally:
            os.close(fd)
        while self._connection.wants_write and not self._connection.eof:
            self.wait(0.01)

    def wait(self, seconds: float) -> None:
        """Wait for a message of the agent, at most this long."""
        if self._connection.eof:
            os._exit(0)
        self._connection.wait(seconds)

    def send_warnings(self, sequence: int) -> None:
        number = channel.pack_number(sequence)
        self._connection.send([channel.WARNED, number, self._warnings.take(), self._warnings.take_log()])
        self._flush()

    def _flush(self) -> None:
        """All of it is with the agent before the task counts as finished."""
        while self._connection.wants_write:
            self.wait(0.01)

    def stream_output(self, whether: bool) -> None:
        """Note whether the output of the tasks that follow goes to their client."""
        self._warnings.is_streamed = whether

    def report_error(self, text: str) -> None:
        """Print the exception that is being handled: it belongs to no task."""
        print(f"{text}\n{traceback.format_exc()}", file=sys.stderr, flush=True)

    def advise(self, error: BaseException) -> None:
        """Add what the user can do to the failure of a task."""
        missing_modules.advise(error, self._options.worker_name)

    def memory_peak(self, reset: bool) -> int:
        """Bytes at most resident since the last reset."""
        try:
            if reset:
                with open("/proc/self/clear_refs", "w") as file:
                    file.write("5")
                return 0
            with open("/proc/self/status") as file:
                peak = next(line for line in file if line.startswith("VmHWM"))
            return int(peak.split()[1]) * 1024
        except (OSError, StopIteration):
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def restore_environment(self) -> None:
        """A task has changed what the next one needs to be there."""
        self._environment.restore()

    def leave_fork(self) -> None:
        """A task forked and its child came back into this loop, which is the parent's alone."""
        os._exit(0)

    def mark_fork(self) -> None:
        self._runner.forked = True

    # ---- objects ---------------------------------------------------------------------------------------------

    def _take_object(self, frames: list[bytes]) -> None:
        key, size = channel.unpack_key(frames[1]), channel.unpack_number(frames[2])
        fd = self._connection.received_fds.popleft()
        try:
            memory = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
            self._objects[key] = memoryview(memory)
        finally:
            os.close(fd)

    def _drop(self, key: ObjectKey) -> None:
        self._objects.pop(key, None)
        with self._runner.using:
            self._runner.kept.drop(key)
            self._runner.loaded.drop(key)
        if key.number == 0 and key.owner in self._definitions:
            del self._definitions[key.owner]
            self._serializers.pop(key.owner, None)
            self._module_sets.drop(key.owner)
            self._runner.forget_function(key.owner)

    def _definition_bytes(self, name: bytes) -> bytes | memoryview:
        definition = self._definitions.get(name)
        if definition is not None and definition.payload:
            return definition.payload
        try:
            return self._objects[ObjectKey(name, 0)]
        except KeyError:
            raise ObjectMissingError("The function was not received.") from None

    # ---- memory ----------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        self._collect_at = time.monotonic() + self._options.collect_interval_seconds
        self._ran_since_collection = False
        gc.collect()
        if _resident_bytes() > self._options.trim_threshold_bytes:
            ctypes.CDLL(None).malloc_trim(0)


def run_worker_process(
    options: channel.WorkerProcessOptions,
    connection: StreamConnection,
    board_fd: int,
    fault_fd: int,
    news_fd: int,
    output_descriptors: tuple[int, int, int],
) -> None:
    """Never returns. The calling process is a fresh fork whose parent is the agent. ``output_descriptors``: as those of
    ``Runner.watch_output``."""
    faulthandler.enable(file=fault_fd, all_threads=True)
    memory = mmap.mmap(board_fd, BOARD_BYTES)
    os.close(board_fd)
    board = Board(memory)
    _reseed()
    allow_keys(is_private(options.scheduler_address))
    process = WorkerProcessMain(connection, board, news_fd, options)
    process.watch_output(output_descriptors)
    os.register_at_fork(after_in_child=process.mark_fork)
    _install_interrupt(board, process)
    Sampler(process.title).offer()
    _wait_for_start(connection)
    if options.preload:
        preload(options.preload, connection)
    process.run()


def _wait_for_start(connection: StreamConnection) -> None:
    """Wait until the agent knows this process. One that it does not know, since the zygote died before it could tell,
    finds the stream closed instead."""
    while (frames := connection.receive()) is None:
        if connection.eof:
            os._exit(0)
        connection.wait(_START_LOOK_SECONDS)
    assert frames == [channel.START]


def preload(target: str, connection: StreamConnection) -> None:
    """``module:function``, called once in each worker process."""
    try:
        module_name, _, function_name = target.partition(":")
        module = importlib.import_module(module_name)
        if function_name:
            getattr(module, function_name)()
    except BaseException as error:
        text = f"--preload {target}: {type(error).__name__}: {error}"
        connection.send([channel.FAILED, text.encode(errors="replace")])
        os._exit(1)


def _reseed() -> None:
    """Forks would otherwise all draw the same numbers."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _install_interrupt(board: Board, process: WorkerProcessMain) -> None:
    shield, main_thread = process.shield, threading.get_ident()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if shield.covers(main_thread):
            shield.pending = True
        elif board.interrupted():
            if is_importing(frame):
                interrupt_later()
                return
            raise TaskCancelled("the task was cancelled")
        elif process.interrupt_calls():
            interrupt_later()

    signal.signal(channel.INTERRUPT_SIGNAL, on_interrupt)
    offer_stacks()


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE
