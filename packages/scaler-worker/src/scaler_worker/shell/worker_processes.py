"""The processes that run tasks, as the agent holds them: streams, boards, deaths."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from scaler_protocol.command.descriptors import descriptor_limit, is_lack_of_descriptors, require_descriptors
from scaler_protocol.command.exit_descriptor import open_exit_descriptor
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.remedies import with_remedy
from scaler_protocol.messages import ObjectKey
from scaler_worker.board import Board
from scaler_worker.shell.resources import out_of_memory_kills
from scaler_worker.shell.store import MemoryFileStore
from scaler_worker.shell.worker_process import ProcessState, WorkerProcessHandle, prepare
from scaler_worker.shell.zygote import Zygote
from scaler_worker.worker_process import channel
from scaler_worker.worker_process.channel import ChannelError

DEAF_SECONDS = 1.0
"""Period in which a worker process is checked whose stream has ended, until it ends itself."""

MESSAGES_AT_ONCE = 256
READ_BYTES = 64 * 1024
READS_AT_ONCE = 16
"""Then others are heard: a task may write without end."""

RECEIVED_FDS_LIMIT = 256
SPARE_DESCRIPTORS = 24
"""No process is started ahead of need unless so many more descriptors are left: for its own, for clients inside of
tasks, for objects."""


class WorkerProcessEvents(Protocol):
    """Events of worker processes."""

    def started(self, number: int, board: Board, pid: int) -> None:
        """The process exists."""

    def not_started(self, number: int, text: str) -> None:
        """It could not be started; ``text`` says why."""

    def not_forked(self, number: int) -> None:
        """The zygote ended before it forked the process."""

    def ready(self, number: int) -> None:
        """It can run tasks."""

    def failed(self, text: str) -> None:
        """It cannot prepare itself, and no other process could."""

    def news(self, number: int) -> None:
        """There are results on its board."""

    def died(self, number: int, certificate: dict[str, Any]) -> None: ...
    def written(self, number: int, stream: int, data: bytes) -> None:
        """Its tasks have written this to one of its streams. ``printed`` follows, unless a harvest has caused this."""

    def printed(self, number: int) -> bool:
        """Pass on what was read from its tasks. False: read no more from it for now."""

    def warned(self, number: int, sequence: int, data: bytes, log: bytes) -> None:
        """A task has raised warnings."""

    def has_task(self, number: int, sequence: int) -> bool:
        """Return whether the task with this sequence is still expected to end."""


class WorkerProcesses:
    """Carries out effects on worker processes and reports what happens to them. An error while one process is read
    costs that process alone."""

    def __init__(
        self,
        loop: GuardedLoop,
        zygote: Zygote,
        options: Callable[[int, str], channel.WorkerProcessOptions],
        agent: WorkerProcessEvents,
    ) -> None:
        self._loop = loop
        self._options = options
        self._agent = agent
        self._host = socket.gethostname()
        self.store = MemoryFileStore(self._drain_by_number)
        self._cluster = b""
        self.processes: dict[int, WorkerProcessHandle] = {}
        self._unread: dict[int, WorkerProcessHandle] = {}
        """Worker processes whose tasks print too much: their output is not read."""
        self._zygote = zygote
        zygote.attach(loop, self._on_forked, self._on_lost)
        self._out_of_memory_kills = out_of_memory_kills()

    # ---- starting --------------------------------------------------------------------------------------------

    def start(self, number: int, name: str) -> None:
        options = self._options(number, name)
        try:
            if options.is_spare:
                require_descriptors(SPARE_DESCRIPTORS, "start a worker process")
            process = prepare(number)
        except OSError as error:
            self._agent.not_started(number, _why(error))
            return
        self.processes[number] = process
        self._zygote.fork(options, [*process.child_fds, process.fault_fd, process.news_fd])

    def _on_lost(self, numbers: list[int]) -> None:
        """The zygote died over these."""
        for number in numbers:
            process = self.processes.get(number)
            if process is not None and not process.is_forked:
                self._close(process)
                self._agent.not_forked(number)

    def _on_forked(self, number: int, pid: int) -> None:
        """``pid``: if the zygote could not fork, the negative error number. 0: the process between died; to a signal
        that means our own group."""
        process = self.processes.get(number)
        if process is None or process.is_forked:
            return
        process.close_child_fds()
        if pid <= 0:
            self._give_up(process, _why_not_forked(-pid))
            return
        process.pid = pid
        try:
            process.exit_fd = open_exit_descriptor(pid)
        except ProcessLookupError:
            self._give_up(process, "it ended at once")
        except OSError as error:
            self._end(process)
            self._give_up(process, _why(error))
        else:
            self._begin(process)

    def _give_up(self, process: WorkerProcessHandle, text: str) -> None:
        self._close(process)
        self._agent.not_started(process.number, text)

    def _begin(self, process: WorkerProcessHandle) -> None:
        process.state = ProcessState.FORKED
        self._watch(process)
        self.send(process.number, [channel.START])
        if self._cluster:
            self.send(process.number, [channel.STORE, self._cluster])
        self._agent.started(process.number, process.board, process.pid)
        if process.killed:
            self.kill(process.number)

    def _watch(self, process: WorkerProcessHandle) -> None:
        self._loop.add_reader(process.exit_fd, self._on_exit, process)
        self._loop.add_reader(process.connection.fd, self._charge, process, self._on_readable)
        self._loop.add_prompt_reader(process.news_fd, partial(self._on_news, process))
        self._watch_output(process)

    # ---- what goes wrong -------------------------------------------------------------------------------------

    def _charge(self, process: WorkerProcessHandle, hear: Callable[[WorkerProcessHandle], None]) -> None:
        try:
            hear(process)
        except MemoryError as error:
            self._loop.failed(f"Killing worker process {process.pid}: what it said is lost.", error)
            self._end_unheard(process, "The agent has no memory left to read what its worker processes say.")
        except Exception as error:
            self._distrust(process, error)

    def _distrust(self, process: WorkerProcessHandle, error: Exception) -> None:
        """It said what cannot be, or what cannot be understood: it is ended, and nothing more is heard from it."""
        if not process.is_forked or process.reason:
            return
        reason = f"A task has written to descriptors that belong to its worker: {error}."
        trace = None if isinstance(error, ChannelError) else error
        logging.error(f"Killing worker process {process.pid}. {reason}", exc_info=trace)
        self._end_unheard(process, reason)

    def _end_unheard(self, process: WorkerProcessHandle, reason: str) -> None:
        if not process.is_forked or process.reason:
            return
        process.reason = reason
        self._loop.remove_reader(process.connection.fd)
        self._ignore_output(process)
        self.kill(process.number)

    # ---- talking ---------------------------------------------------------------------------------------------

    def send(self, number: int, frames: Sequence[bytes], fds: Sequence[int] = ()) -> None:
        process = self.processes.get(number)
        if process is None:
            return
        process.connection.send(frames, fds)
        if process.connection.wants_write and not process.watches_write:
            process.watches_write = True
            self._loop.add_writer(process.connection.fd, self._on_writable, process)

    def send_object(self, number: int, key: ObjectKey) -> None:
        size = self.store.size(key)
        if size is not None:
            frames = [channel.OBJECT, channel.pack_key(key), channel.pack_number(size)]
            self.send(number, frames, [self.store.fd(key)])

    def join_store(self, cluster: bytes) -> None:
        """All worker processes are told by which name the host's store is found."""
        self._cluster = cluster
        for process in list(self.processes.values()):
            if process.is_forked:
                self.send(process.number, [channel.STORE, cluster])

    def drop_objects(self, number: int, keys: list[ObjectKey]) -> None:
        for start in range(0, len(keys), 32):
            self.send(number, [channel.DROP, *map(channel.pack_key, keys[start : start + 32])])

    def _on_writable(self, process: WorkerProcessHandle) -> None:
        if process.connection.flush() or process.connection.eof:
            process.watches_write = False
            self._loop.remove_writer(process.connection.fd)

    def _on_news(self, process: WorkerProcessHandle) -> None:
        try:
            os.eventfd_read(process.news_fd)
        except BlockingIOError:
            return  # a task has read it
        self._agent.news(process.number)

    def _on_readable(self, process: WorkerProcessHandle) -> None:
        is_drained = self._drain(process)
        if process.connection.eof:
            self._on_stream_end(process)
        elif not is_drained:
            self._loop.call_soon(self._read_rest, process)

    def _on_stream_end(self, process: WorkerProcessHandle) -> None:
        self._loop.remove_reader(process.connection.fd)
        if process.connection.broken:
            raise ChannelError("it sent data that is not a message")
        self._loop.call_later(DEAF_SECONDS, self._end_deaf, process)

    def _end_deaf(self, process: WorkerProcessHandle) -> None:
        """Its stream has ended and it has not. A task that closed every descriptor still leaves its result on the
        board; one that executed another program in its place never gives one."""
        if not process.is_forked or process.killed:
            return
        if process.maps_board:
            self._loop.call_later(DEAF_SECONDS, self._end_deaf, process)
            return
        logging.warning(f"Worker process {process.pid} has executed another program: killing it")
        self.kill(process.number)

    def _read_rest(self, process: WorkerProcessHandle) -> None:
        """Continue later: messages that have been read and not handled cause no further event."""
        if process.is_forked and not process.reason:
            self._charge(process, self._on_readable)

    def _drain(self, process: WorkerProcessHandle) -> bool:
        """Take what it has sent. False: there may be more."""
        for _ in range(MESSAGES_AT_ONCE):
            frames = process.connection.receive()
            if frames is None:
                return True
            self._handle(process, channel.read_from_worker_process(frames))
            if len(process.connection.received_fds) > RECEIVED_FDS_LIMIT:
                raise ChannelError("it sent more descriptors than its messages need")
        return False

    def _drain_by_number(self, number: int) -> None:
        process = self.processes.get(number)
        if process is not None and not process.reason:
            self._charge(process, self._drain_wholly)

    def _drain_wholly(self, process: WorkerProcessHandle) -> None:
        while not self._drain(process):
            pass

    def _handle(self, process: WorkerProcessHandle, said: object) -> None:
        if isinstance(said, channel.Large):
            self._take_large(process, said)
        elif isinstance(said, channel.Warned):
            self._agent.warned(process.number, said.sequence, said.data, said.log)
        elif process.ready:
            raise ChannelError("it reported its start twice")
        elif isinstance(said, channel.Ready):
            process.ready = True
            if not process.has_ended:
                self._agent.ready(process.number)
        elif isinstance(said, channel.PreparationFailed):
            self._agent.failed(said.text)

    def _take_large(self, process: WorkerProcessHandle, large: channel.Large) -> None:
        if not process.connection.received_fds:
            raise ChannelError("a large result came without its descriptor")
        fd = process.connection.received_fds.popleft()
        if not self._agent.has_task(process.number, large.sequence):
            os.close(fd)  # of a task that was interrupted meanwhile, or of none
            return
        self.store.add_result(process.number, large.sequence, fd, large.size)

    # ---- signals ---------------------------------------------------------------------------------------------

    def signal(self, number: int, signal_number: int) -> None:
        process = self.processes.get(number)
        if process is not None and process.is_forked:
            try:
                os.kill(process.pid, signal_number)  # still its own number: reaping also removes it from here
            except ProcessLookupError:
                pass

    def kill(self, number: int) -> None:
        """Kill the process and the processes that its task started in its group."""
        process = self.processes.get(number)
        if process is None:
            return
        process.killed = True
        self.signal(number, signal.SIGKILL)

    # ---- deaths ----------------------------------------------------------------------------------------------

    def _on_exit(self, process: WorkerProcessHandle) -> None:
        try:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        except ChildProcessError:
            self._bury(process, None)
            return
        if pid:
            self._bury(process, (status, usage.ru_maxrss * 1024))

    def _bury(self, process: WorkerProcessHandle, outcome: tuple[int, int] | None) -> None:
        process.has_ended = True
        self._drain_by_number(process.number)
        for stream in process.output_fds:
            self._read_output(process, stream)
        certificate = self._certificate(process, outcome)
        self._kill_group(process.pid)
        try:
            self._agent.died(process.number, certificate)
        finally:
            self._close(process)

    def _certificate(self, process: WorkerProcessHandle, outcome: tuple[int, int] | None) -> dict[str, Any]:
        status, peak = outcome if outcome is not None else (0, 0)
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        kills = out_of_memory_kills()
        starved = number == signal.SIGKILL and not process.killed and kills > self._out_of_memory_kills
        self._out_of_memory_kills = kills
        return {
            "host": self._host,
            "pid": process.pid,
            "signal": _signal_name(number),
            "exit_code": os.WEXITSTATUS(status) if outcome is not None and os.WIFEXITED(status) else None,
            "out_of_memory": starved,
            "peak_memory": peak,
            "stack": process.stack,
            "stderr": process.last_lines,
            **({"reason": process.reason} if process.reason else {}),
        }

    def _kill_group(self, pid: int) -> None:
        """A worker process leads a group: what its tasks started and left there ends with it."""
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def reap_orphans(self) -> None:
        """Processes that tasks started and that outlived their worker process are this process's children now."""
        known = {process.pid for process in self.processes.values()} | {self._zygote.pid}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in known:
                return
            os.waitpid(found.si_pid, os.WNOHANG)

    def _close(self, process: WorkerProcessHandle) -> None:
        self.processes.pop(process.number, None)
        self._unread.pop(process.number, None)
        self.store.forget_results(process.number)
        self._loop.remove_prompt_reader(process.news_fd)
        self._ignore_output(process)
        for fd in (process.exit_fd, process.connection.fd):
            if fd >= 0:
                self._loop.remove_reader(fd)
        if process.watches_write:
            self._loop.remove_writer(process.connection.fd)
        process.close()

    def close(self) -> None:
        """End all of them, and the zygote."""
        self._zygote.close()
        for process in list(self.processes.values()):
            if process.is_forked:
                self._end(process)
            self._close(process)
        self.reap_orphans()

    def _end(self, process: WorkerProcessHandle) -> None:
        for call in (lambda: os.kill(process.pid, signal.SIGKILL), lambda: os.killpg(process.pid, signal.SIGKILL)):
            try:
                call()
            except (ProcessLookupError, PermissionError):
                pass
        try:
            os.waitpid(process.pid, 0)
        except ChildProcessError:
            pass

    # ---- output ----------------------------------------------------------------------------------------------

    def _watch_output(self, process: WorkerProcessHandle) -> None:
        for stream, descriptor in process.output_fds.items():
            self._loop.add_reader(descriptor, self._charge, process, partial(self._on_output, stream))

    def _ignore_output(self, process: WorkerProcessHandle) -> None:
        for descriptor in process.output_fds.values():
            self._loop.remove_reader(descriptor)

    def _on_output(self, stream: int, process: WorkerProcessHandle) -> None:
        if not self._read_output(process, stream):
            self._loop.remove_reader(process.output_fds[stream])
        if not self._agent.printed(process.number):
            self._unread[process.number] = process
            self._ignore_output(process)

    def read_on(self) -> None:
        """Output is taken again: listen to those whose tasks printed too much."""
        unread, self._unread = self._unread, {}
        for process in unread.values():
            self._watch_output(process)

    def read_written(self, number: int) -> None:
        """Read what this process has written so far; more than a pipe holds may come meanwhile, and is left there."""
        process = self.processes.get(number)
        if process is not None and process.is_forked:
            for stream in process.output_fds:
                self._read_output(process, stream)

    def _read_output(self, process: WorkerProcessHandle, stream: int) -> bool:
        """False: its end is closed."""
        for _ in range(READS_AT_ONCE):
            try:
                data = process.read_output(stream, READ_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self._agent.written(process.number, stream, data)
        return True


def _why_not_forked(error_number: int) -> str:
    error = OSError(error_number, os.strerror(error_number))
    if is_lack_of_descriptors(error):
        return _why(error)
    return "the system allows no more processes (ulimit -u), or has no memory for one"


def _why(error: OSError) -> str:
    if is_lack_of_descriptors(error):
        limit = descriptor_limit()
        return f"{os.strerror(errno.EMFILE)}: the limit of this agent is {limit}, raise it with ulimit -n"
    return with_remedy(error, "this agent")


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
