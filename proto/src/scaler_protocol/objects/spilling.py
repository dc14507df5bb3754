"""Spilling: objects on disk, in one file without a name, so that nothing is left whichever process dies.

A thread of its own moves the bytes. The caller knows where there is room in the file.
"""

from __future__ import annotations

import errno
import os
import queue
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.objects.core.space import Extent, pages
from scaler_protocol.objects.free_ranges import FreeRanges
from scaler_protocol.objects.memory import punch

_PIECE_BYTES = 8 * 1024 * 1024
_MEASURE_SECONDS = 10.0
_DEFAULT_DIRECTORY = "/var/tmp"  # unlike /tmp it is hardly ever memory


@dataclass(frozen=True, slots=True)
class Done:
    number: int
    is_spill: bool
    error: str  # empty: none
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    is_spill: bool
    extent: Extent
    size: int
    fd: int  # of the file
    place: int
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class _Measurement:
    directory: str


class Disk:
    """``segment_fd`` tells the descriptor of a segment. ``fd`` is readable when ``take_done`` has something."""

    def __init__(self, segment_fd: Callable[[int], int]) -> None:
        self._segment_fd = segment_fd
        self._directory = default_directory()
        self._file: int | None = None
        self._places: dict[int, tuple[int, int]] = {}  # by number: offset and size in the file
        self._checksums: dict[int, int] = {}
        self._free_ranges = FreeRanges()
        self._file_directory = ""
        self._jobs: queue.SimpleQueue[_Job | _Measurement | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.space = (0, 0)
        """Bytes that are free for this user, and in all, in the file system of the directory; 0: not known."""

        self._measured_at = float("-inf")

    def use_directory(self, directory: str) -> None:
        """Use another directory as soon as nothing is in a file elsewhere."""
        self._directory = directory

    def measure(self) -> None:
        """Keep ``space`` up to date. The thread looks, because a file system on the network may not answer."""
        now = time.monotonic()
        if now < self._measured_at + _MEASURE_SECONDS:
            return
        self._measured_at = now
        if self._start_thread() is None:
            self._jobs.put(_Measurement(self._directory))

    def spill(self, number: int, extent: Extent, size: int) -> None:
        try:
            fd = self._open()
        except OSError as error:
            self._finish(Done(number, True, f"{self._directory}: {error.strerror}"))
            return
        place = self._free_ranges.take(pages(size))
        self._places[number] = (place, pages(size))
        self._submit(_Job(number, True, extent, size, fd, place))

    def load(self, number: int, extent: Extent, size: int) -> None:
        assert self._file is not None
        place = self._places[number][0]
        self._submit(_Job(number, False, extent, size, self._file, place, self._checksums[number]))

    def remove(self, number: int) -> None:
        """It is not being moved."""
        place, size = self._places.pop(number)
        self._checksums.pop(number, None)
        self._free_ranges.give_back(place, size)
        try:
            punch(self._file or 0, place, size)
        except OSError:
            pass  # not every file system can; the room is used again

    def take_done(self) -> list[Done]:
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass
        done = []
        while not self._done.empty():
            each = self._done.get()
            done.append(each)
            if each.is_spill and each.error and each.number in self._places:
                self.remove(each.number)
            elif each.is_spill and not each.error:
                self._checksums[each.number] = each.checksum
        return done

    def close(self) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()

    # ---- the file ------------------------------------------------------------------------------------------------

    def _open(self) -> int:
        if self._file is not None and not self._places and self._file_directory != self._directory:
            os.close(self._file)
            self._file, self._free_ranges = None, FreeRanges()
        if self._file is None:
            self._file = _nameless_file(self._directory)
            self._file_directory = self._directory
        return self._file

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _submit(self, job: _Job) -> None:
        error = self._start_thread()
        if error is None:
            self._jobs.put(job)
        else:
            self._finish(Done(job.number, job.is_spill, error))

    def _start_thread(self) -> str | None:
        """Start the thread unless it runs. Returns why it cannot be started, or None."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="scaler-disk", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                return lack_of_thread(error)
            self._thread = thread
        return None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, _Measurement):
                self.space = space_of(job.directory)
                continue
            try:
                self._finish(Done(job.number, job.is_spill, "", self._move(job)))
            except OSError as error:
                self._finish(Done(job.number, job.is_spill, f"{self._directory}: {error.strerror}"))
            except Exception as error:  # peers that wait for the bytes get an answer in any case
                self._finish(Done(job.number, job.is_spill, f"{type(error).__name__}: {error}"))

    def _move(self, job: _Job) -> int:
        """The checksum of its bytes. Raises OSError."""
        memory = self._segment_fd(job.extent.segment)
        if job.is_spill:
            return _copy(memory, job.extent.offset, job.fd, job.place, job.size)
        checksum = _copy(job.fd, job.place, memory, job.extent.offset, job.size)
        if checksum != job.checksum:
            raise OSError(errno.EIO, "the file was changed")
        return checksum

    def _finish(self, done: Done) -> None:
        self._done.put(done)
        os.eventfd_write(self.fd, 1)


def default_directory() -> str:
    return _DEFAULT_DIRECTORY if os.access(_DEFAULT_DIRECTORY, os.W_OK) else tempfile.gettempdir()


def space_of(directory: str) -> tuple[int, int]:
    """Like ``Disk.space``, of the nearest directory above that exists; nothing if it cannot be written to."""
    for folder in (Path(directory), *Path(directory).absolute().parents):
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except OSError:
            break
        if not os.access(folder, os.W_OK):
            break
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return 0, 0


def _nameless_file(directory: str) -> int:
    """Private, and gone with its last descriptor."""
    Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        fd, path = tempfile.mkstemp(prefix="scaler-objects-", dir=directory)  # not every file system knows O_TMPFILE
        os.unlink(path)
        return fd


def _copy(source: int, source_offset: int, target: int, target_offset: int, size: int) -> int:
    """The checksum of what was copied."""
    moved = checksum = 0
    room = memoryview(bytearray(min(max(size, 1), _PIECE_BYTES)))
    while moved < size:
        count = os.preadv(source, [room[: size - moved]], source_offset + moved)
        if not count:
            raise OSError(errno.EIO, "the file is too short")
        checksum = zlib.crc32(room[:count], checksum)
        written = 0
        while written < count:
            written += os.pwrite(target, room[written:count], target_offset + moved + written)
        moved += count
    if not size:
        os.pwrite(target, b"\0", target_offset)
    return checksum
