"""The zygote: one thread, all imports done, forks a worker process in milliseconds.

A process is forked twice, so that the process between the two ends and the agent, who adopts orphans, becomes the
parent: it learns each worker process's exit code and memory itself, and the death of the zygote costs no running task.
"""

from __future__ import annotations

import errno
import gc
import os
import pickle
import select
import signal
import socket
import struct
import sys
import time

from scaler_protocol.command import restore_environment
from scaler_protocol.command.descriptors import limit_descriptors
from scaler_protocol.command.inherited import restore_signals
from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.system import die_with_parent
from scaler_worker.worker_process import channel
from scaler_worker.worker_process.main import run_worker_process
from scaler_worker.worker_process.preparation import IDLE_SECONDS, prepare

REPARENT_TIMEOUT_SECONDS = 10.0
_PID = struct.Struct("<q")
_DESCRIPTORS = 7
"""A process that lacks descriptors receives fewer with a request."""


def serve(control: socket.socket) -> None:
    """Fork a worker process per request until the agent is gone."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    prepared = False
    while True:
        if not prepared and not poll.poll(IDLE_SECONDS * 1000):
            prepared = True
            prepare()
        data, fds, _, _ = socket.recv_fds(control, 65536, 8)
        if not data:
            return
        options: channel.WorkerProcessOptions = pickle.loads(data)
        if options.is_spare and not prepared:  # it is to run tasks of tasks, which is what clients are for
            prepared = True
            prepare()
        pid = _fork_twice(control, options, fds) if len(fds) == _DESCRIPTORS else -errno.EMFILE
        for fd in fds:
            os.close(fd)
        control.send(pickle.dumps((options.number, pid)))


def _fork_twice(control: socket.socket, options: channel.WorkerProcessOptions, fds: list[int]) -> int:
    """The process id of the worker process, which by now is the agent's child. If it could not be forked, the negative
    error number; 0: the process between died."""
    try:
        reader, writer = os.pipe()
    except OSError as error:
        return _answer_of(error)
    try:
        between = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return _answer_of(error)
    if between == 0:
        _fork_worker_process(control, options, fds, reader, writer)
    os.close(writer)
    os.waitpid(between, 0)
    answer = os.read(reader, _PID.size)
    os.close(reader)
    return int(_PID.unpack(answer)[0]) if answer else 0


def _fork_worker_process(
    control: socket.socket, options: channel.WorkerProcessOptions, fds: list[int], reader: int, writer: int
) -> None:
    """Fork in the process between, which ends in any case."""
    try:
        between = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            pid = _answer_of(error)
        if pid == 0:
            os.close(reader)
            os.close(writer)
            _become_worker_process(control, options, fds, between)
        os.write(writer, _PID.pack(pid))
    finally:
        os._exit(0)


def _answer_of(error: OSError) -> int:
    return -(error.errno or 0)


def _become_worker_process(
    control: socket.socket, options: channel.WorkerProcessOptions, fds: list[int], between: int
) -> None:
    """Never returns."""
    try:
        control.close()
        for fd in fds:  # received ones are inheritable: a program that a task starts must not hold them
            os.set_inheritable(fd, False)
        _wait_for_parent(options.agent_pid, between)
        die_with_parent(options.agent_pid)
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stream_fd, board_fd, stdout_fd, stderr_fd, unread_fd, fault_fd, news_fd = fds
        os.dup2(stdout_fd, 1)
        os.dup2(stderr_fd, 2)
        connection = StreamConnection(socket.socket(fileno=stream_fd))
        run_worker_process(options, connection, board_fd, fault_fd, news_fd, (stdout_fd, stderr_fd, unread_fd))
    except BaseException as error:
        _say_last_words(error)
    finally:
        os._exit(1)


def _wait_for_parent(agent_pid: int, between: int) -> None:
    """Wait until the process between has ended and the agent is the parent. Another parent: the agent has ended."""
    deadline = time.monotonic() + REPARENT_TIMEOUT_SECONDS
    while (parent := os.getppid()) != agent_pid:
        if parent != between or time.monotonic() > deadline:
            os._exit(1)
        time.sleep(0.0001)


def _say_last_words(error: BaseException) -> None:
    import traceback

    traceback.print_exception(error)
    sys.stderr.flush()


def main() -> None:
    restore_environment()
    restore_signals()
    control = socket.socket(fileno=int(sys.argv[1]))
    die_with_parent(int(sys.argv[2]))
    limit_descriptors(int(sys.argv[3]))
    os.set_inheritable(control.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.argv = [""]
    gc.collect()
    gc.freeze()
    serve(control)
    os._exit(0)


if __name__ == "__main__":
    main()
