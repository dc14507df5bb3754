"""Samples where the task of this process is, for profiles.

A thread looks at the stack of the main thread, in regular intervals, while the agent wants it. It takes the GIL for a
few microseconds; while C code holds the GIL, it waits, and then counts the whole time for that call. The thread is
started by a signal, which runs in the main thread, and ends when the agent no longer wants samples. It pauses while the
task forks, because Python warns of forks in processes with several threads.

The memory file that both share begins with the interval in microseconds (written by the agent; 0: no samples), a
number that is odd while the profile is being written, and the size of the profile, as three unsigned integers of 64
bits. The profile follows, as JSON. It is cumulative, and written once a second.
"""

from __future__ import annotations

import _thread
import os
import signal
import struct
import threading
import time
from types import CodeType, FrameType

from scaler_protocol.profile import DEPTH_LIMIT, FRAME_LIMIT, PROCESS_NODES_LIMIT, ProfileTree
from scaler_worker.worker_process import channel, cpython_internals
from scaler_worker.worker_process.process_title import ProcessTitle

HEADER = struct.Struct("<QQQ")
WRITE_SECONDS = 1.0

_OWN_FILE = os.sep + os.path.join("worker_process", "main.py")
_OUTSIDE = "(arguments and results)"
"""The frame for time outside of the function: loading arguments, storing results."""

_CODES_LIMIT = 20_000
_PAUSE_SECONDS = 0.5


class Sampler:
    """``title``: knows the function of the task under way, and its client."""

    def __init__(self, title: ProcessTitle) -> None:
        self._title = title
        self._descriptor = os.memfd_create(channel.PROFILE_FILE, os.MFD_CLOEXEC)
        os.ftruncate(self._descriptor, HEADER.size)
        self._tree = ProfileTree(PROCESS_NODES_LIMIT)
        self._names: dict[int, tuple[CodeType, str]] = {}
        self._written = 0
        self._wake = _thread.allocate_lock()
        self._wake.acquire()
        self._running = _thread.allocate_lock()  # held while the thread samples
        self._is_paused = False
        self._watches_forks = False

    def offer(self) -> None:
        """Sample from now on, whenever the agent wants it."""
        signal.signal(channel.PROFILE_SIGNAL, lambda number, frame: self._start())

    def _start(self) -> None:
        if not self._is_wanted() or not self._running.acquire(blocking=False):
            return
        if not self._watches_forks:
            self._watches_forks = True
            os.register_at_fork(before=self._pause, after_in_parent=self._resume, after_in_child=self._forget)
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # there can be no further thread: there are no samples
            self._running.release()

    def _pause(self) -> None:
        self._is_paused = True
        if self._running.locked():
            if self._wake.locked():
                self._wake.release()
            if self._running.acquire(timeout=_PAUSE_SECONDS):
                self._running.release()

    def _resume(self) -> None:
        self._is_paused = False
        self._start()

    def _forget(self) -> None:
        self._running = _thread.allocate_lock()  # the thread is the parent's
        if self._descriptor >= 0:  # it belongs to the parent; a child of this child has none
            os.close(self._descriptor)
            self._descriptor = -1

    def _is_wanted(self) -> bool:
        return self._interval_seconds() > 0 and not self._is_paused

    def _interval_seconds(self) -> float:
        if self._descriptor < 0:
            return 0.0
        return struct.unpack("<Q", os.pread(self._descriptor, 8, 0))[0] / 1e6

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Sample while it is wanted. The agent may want it again, and the signal have come, after the last look and
        before the lock is free; so this looks once more."""
        is_first = True
        while is_first or (self._is_wanted() and self._running.acquire(blocking=False)):
            is_first = False
            try:
                self._sample_while_wanted()
            finally:
                self._running.release()

    def _sample_while_wanted(self) -> None:
        main = threading.main_thread().ident or 0
        last = write_at = time.perf_counter()
        while self._is_wanted():
            self._wake.acquire(timeout=self._interval_seconds())
            now = time.perf_counter()
            self._sample(cpython_internals.frame_of(main), int((now - last) * 1e6))
            last = now
            if now >= write_at:
                write_at = now + WRITE_SECONDS
                self._write()
        self._write()

    def _sample(self, frame: FrameType | None, microseconds: int) -> None:
        function, client = self._title.function, self._title.client
        if not function:
            return
        calls: list[str] = []
        while frame is not None and not frame.f_code.co_filename.endswith(_OWN_FILE):
            calls.append(self._name(frame.f_code))
            frame = frame.f_back
        calls.reverse()
        self._tree.add((client.hex(), function[:FRAME_LIMIT], *(calls[:DEPTH_LIMIT] or (_OUTSIDE,))), microseconds)

    def _name(self, code: CodeType) -> str:
        known = self._names.get(id(code))
        if known is None:
            if len(self._names) >= _CODES_LIMIT:
                self._names.clear()
            file = os.sep.join(code.co_filename.rsplit(os.sep, 2)[-2:])
            name = getattr(code, "co_qualname", code.co_name)
            text = f"{name[: FRAME_LIMIT // 2]} ({file[-FRAME_LIMIT // 3 :]}:{code.co_firstlineno})"
            known = self._names[id(code)] = code, text
        return known[1]

    def _write(self) -> None:
        data = self._tree.to_json()
        self._written += 2
        os.pwrite(self._descriptor, struct.pack("<Q", self._written - 1), 8)
        os.pwrite(self._descriptor, data, HEADER.size)
        os.pwrite(self._descriptor, struct.pack("<QQ", self._written, len(data)), 8)
